"""Loading a model of Hugging Face, whatever it is for: why a part could not be loaded, and no bars for what is here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taxtune.errors import ModelError, TaxtuneError
from taxtune.shell import program

__all__ = ["explain_load_error", "quiet_progress"]


def explain_load_error(name: str, error: BaseException, what: str) -> TaxtuneError:
    """Says in one sentence why a part of a checkpoint could not be loaded, and what to do.

    Args:
        name: What to call the checkpoint: the Hugging Face name, or the folder's.
        error: What the library raised.
        what: "configuration", "tokenizer", "processor" or "weights".
    """
    chain: list[BaseException] = [error]
    while len(chain) < 10 and (link := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(link)
    names = {one.__name__ for link in chain for one in type(link).__mro__}
    text = " ".join(map(str, chain)).lower()
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
    if names & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError"} or any(
        hint in text for hint in ("couldn't connect", "offline mode", "name resolution")
    ):
        verb = "are" if what.endswith("s") else "is"
        return ModelError(
            f"The {what} of {name!r} {verb} not all on this machine, and Hugging Face cannot be reached.",
            remedy=f"Run `{program('hf')} download {name}` while online, or give the folder of a copy.",
        )
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


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
