"""Loading models of Hugging Face without waiting for a hub out of reach, and errors explained."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic

from taxtune.errors import ModelError, TaxtuneError

__all__ = ["explain_load_error", "is_out_of_reach", "look_for_hub", "not_here", "quiet_progress"]

# Seconds that the hub may take for each step of an answer.
_STEP = 1.0
# Seconds that it may take in all, with the look-up of its name, which takes no time limit.
_WHOLE = 2.0
# Seconds for which the finding holds.
_HOLDS = 60.0
# Classes of errors of a library that could not reach the hub.
_UNREACHABLE = (
    "LocalEntryNotFoundError",
    "OfflineModeIsEnabled",
    "ConnectionError",
    "ConnectError",
)


class _Hub:
    """Whether the hub was found out of reach, and until when that holds."""

    out_of_reach = False
    until = 0.0


def look_for_hub() -> None:
    """Sets Hugging Face's client offline while the hub cannot be reached.

    Call it before anything is loaded by name.

    Without a network the client tries for half a minute, also where the model is in its cache.
    Offline it loads what is there at once, and what is not fails at once.
    """
    from huggingface_hub import constants

    if monotonic() < _Hub.until or (constants.HF_HUB_OFFLINE and not _Hub.out_of_reach):
        return
    answers: list[bool] = []

    def ask() -> None:
        answers.append(_answers(constants.ENDPOINT))

    thread = Thread(target=ask, name="taxtune-hub", daemon=True)
    thread.start()
    thread.join(_WHOLE)
    _Hub.out_of_reach = answers != [True]
    _Hub.until = monotonic() + _HOLDS
    constants.HF_HUB_OFFLINE = _Hub.out_of_reach


def _answers(address: str) -> bool:
    """Tells whether anything answers at an address, also through a proxy.

    Any status counts as an answer.
    """
    request = urllib.request.Request(address, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_STEP):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None)
        return isinstance(reason, ssl.SSLError)  # a server whose certificate is disputed


def not_here(name: str, what: str) -> ModelError:
    """Returns the error of a part of a checkpoint that is neither here nor within reach.

    Args:
        name: The checkpoint.
        what: The part: "configuration", "weights".
    """
    from huggingface_hub import constants

    lacking = f"The model {name!r} is" if what == "configuration" else f"The {what} of {name!r} are"
    is_chosen = constants.HF_HUB_OFFLINE and not _Hub.out_of_reach
    why = "HF_HUB_OFFLINE is set" if is_chosen else f"{constants.ENDPOINT} cannot be reached"
    return ModelError(
        f"{lacking} not on this machine, and {why}.",
        remedy=f"Run `hf download {name}` while online, or give the folder of a copy.",
    )


def explain_load_error(name: str, error: BaseException, what: str) -> TaxtuneError:
    """Makes the error of a part of a checkpoint that could not be loaded, with what to do.

    Args:
        name: What to call the checkpoint: the Hugging Face name, or the folder's.
        error: What the library raised.
        what: "configuration", "tokenizer", "processor" or "weights".
    """
    names, text, first = _causes(error)
    if "GatedRepoError" in names or "gated repo" in text:
        return ModelError(
            f"The model {name!r} can be downloaded only after its licence has been accepted.",
            remedy=f"Accept it at https://huggingface.co/{name} and run `hf auth login`.",
        )
    if "RevisionNotFoundError" in names or "is not a valid git identifier" in text:
        return ModelError(
            f"The model {name!r} does not have this revision.", remedy="Check `revision`."
        )
    if "RepositoryNotFoundError" in names or "is not a valid model identifier" in text:
        return ModelError(
            f"There is no model {name!r} on Hugging Face, or it is private.",
            remedy="Check the name; for a private model run `hf auth login`.",
        )
    if "trust_remote_code" in text:
        return ModelError(
            f"The model {name!r} brings code of its own, which is not run.",
            remedy="Use a model whose parts are those of transformers and sentence-transformers.",
        )
    if is_out_of_reach(error):
        return not_here(name, what)
    return ModelError(
        f"The {what} of {name!r} cannot be loaded: {first}",
        remedy="A missing package, an older transformers or an incomplete download may be the "
        "cause.",
    )


def is_out_of_reach(error: BaseException) -> bool:
    """Tells whether an error means that a file of Hugging Face is out of reach and not here."""
    names, text, _ = _causes(error)
    hints = ("couldn't connect", "offline mode", "name resolution")
    return not names.isdisjoint(_UNREACHABLE) or any(hint in text for hint in hints)


def _causes(error: BaseException) -> tuple[set[str], str, str]:
    """Returns the classes of an error and its causes, all their texts, and the telling line."""
    chain = [error]
    while len(chain) < 10:
        cause = chain[-1].__cause__ or chain[-1].__context__
        if cause is None:
            break
        chain.append(cause)
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    telling = next((link for link in chain if isinstance(link, ImportError)), error)
    lines = [line.strip() for line in str(telling).splitlines() if line.strip()]
    first = lines[0] if lines else type(telling).__name__
    return names, " ".join(map(str, chain)).lower(), first


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Keeps transformers from drawing progress bars."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
