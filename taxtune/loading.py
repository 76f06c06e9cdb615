"""Loading a model of Hugging Face, whatever it is for: no waiting for a hub that is out of reach, and why it failed."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from taxtune.errors import ModelError, TaxtuneError
from taxtune.progress import track
from taxtune.shell import program

__all__ = ["downloading", "explain_load_error", "is_out_of_reach", "look_for_hub", "not_here", "quiet_progress"]

# Seconds that the hub may take for each step of an answer, and for all of it with the look-up of its name, which takes
# no time limit; and seconds for which what was found out holds.
_STEP, _WHOLE, _HOLDS = 1.0, 2.0, 60.0


class _Hub:
    """Whether the hub was found out of reach here, until when that holds, and what was said."""

    out_of_reach = False
    until = 0.0


def look_for_hub() -> None:
    """Sets Hugging Face's client offline while the hub cannot be reached: call it before anything is loaded by name.

    Without a network the client tries for half a minute and writes a line about each attempt, also where the model is
    in its cache. Offline it loads what is there at once, and what is not fails at once.
    """
    from huggingface_hub import constants

    if monotonic() < _Hub.until or (constants.HF_HUB_OFFLINE and not _Hub.out_of_reach):
        return
    answers: list[bool] = []
    asking = Thread(target=lambda: answers.append(_answers(constants.ENDPOINT)), name="taxtune-hub", daemon=True)
    asking.start()
    asking.join(_WHOLE)
    _Hub.out_of_reach = answers != [True]
    _Hub.until = monotonic() + _HOLDS
    constants.HF_HUB_OFFLINE = _Hub.out_of_reach


def _answers(address: str) -> bool:
    """Tells whether anything answers at an address, also through a proxy; what it says does not count."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_STEP):
            return True
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # whoever disputes a certificate is there
    except (OSError, ValueError, http.client.HTTPException):
        return False


def not_here(name: str, what: str) -> ModelError:
    """Makes the error of a checkpoint of which a part is not on this machine and cannot be fetched.

    Args:
        name: The Hugging Face name.
        what: The part, as for `explain_load_error`.
    """
    from huggingface_hub import constants

    # Without a configuration there is nothing of a model at all.
    lacking = (
        f"The model {name!r} is not on this machine"
        if what == "configuration"
        else f"The {what} of {name!r} {'are' if what.endswith('s') else 'is'} not all on this machine"
    )
    chosen = constants.HF_HUB_OFFLINE and not _Hub.out_of_reach
    return ModelError(
        f"{lacking}, and " + ("HF_HUB_OFFLINE is set." if chosen else f"{constants.ENDPOINT} cannot be reached."),
        remedy=f"Run `{program('hf')} download {name}` while online, or give the folder of a copy.",
    )


def explain_load_error(name: str, error: BaseException, what: str) -> TaxtuneError:
    """Says in one sentence why a part of a checkpoint could not be loaded, and what to do.

    Args:
        name: What to call the checkpoint: the Hugging Face name, or the folder's.
        error: What the library raised.
        what: "configuration", "tokenizer", "processor" or "weights".
    """
    chain, names, text = _causes(error)
    if "GatedRepoError" in names or "gated repo" in text:
        return ModelError(
            f"The model {name!r} can be downloaded only after its licence has been accepted.",
            remedy=f"Accept it at https://huggingface.co/{name} and run `{program('hf')} auth login`.",
        )
    if "RevisionNotFoundError" in names or "is not a valid git identifier" in text:
        return ModelError(f"The model {name!r} does not have this revision.", remedy="Check `revision`.")
    if "RepositoryNotFoundError" in names or "is not a valid model identifier" in text:
        return ModelError(
            f"There is no model {name!r} on Hugging Face, or it is private.",
            remedy=f"Check the name; for a private model run `{program('hf')} auth login`.",
        )
    if is_out_of_reach(error):
        return not_here(name, what)
    missing = next((link for link in chain if isinstance(link, ImportError)), None)
    if missing is not None:
        return ModelError(
            f"The model {name!r} needs a package that is missing: {_first_line(missing)}",
            remedy="Install it in the same environment as taxtune; the model's page may name the version.",
        )
    if "does not appear to have a file named" in text:
        return ModelError(
            f"The {what} of {name!r} cannot be found: {_first_line(error)}",
            remedy=f"Complete the download (`{program('hf')} download {name}`), with HF_HUB_OFFLINE unset.",
        )
    if "does not recognize this architecture" in text:
        return ModelError(
            f"The installed transformers does not support the model {name!r} yet.",
            remedy=f"Upgrade it: {program('pip')} install -U transformers.",
        )
    return ModelError(f"The {what} of {name!r} cannot be loaded: {_first_line(error)}")


def is_out_of_reach(error: BaseException) -> bool:
    """Tells whether an error of Hugging Face's libraries means that a file is neither here nor within reach."""
    _, names, text = _causes(error)
    return bool(
        names & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError"}
        or any(hint in text for hint in ("couldn't connect", "offline mode", "name resolution"))
    )


def _causes(error: BaseException) -> tuple[list[BaseException], set[str], str]:
    """Returns an error and what it came of, the names of their classes, and all that they say."""
    chain: list[BaseException] = [error]
    while len(chain) < 10 and (link := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(link)
    names = {one.__name__ for link in chain for one in type(link).__mro__}
    return chain, names, " ".join(map(str, chain)).lower()


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


@contextmanager
def downloading(name: str, *, every: float = 1.0) -> Iterator[None]:
    """Reports how much of a Hugging Face model has come, since the hub's own bars spoil a display and a log.

    Args:
        name: The model.
        every: Seconds between two looks at the cache.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    blobs = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model") / "blobs"

    def megabytes() -> int:
        total = 0
        with suppress(OSError):  # files that come to be and are renamed meanwhile
            total = sum(file.stat().st_size for file in blobs.iterdir())
        return total // 10**6

    before, ended = megabytes(), Event()
    with track(f"downloading {name}, MB") as task:

        def watch() -> None:
            while not ended.wait(every):
                task.advance(max(0, megabytes() - before - task.done))

        thread = Thread(target=watch, name="taxtune-download", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
