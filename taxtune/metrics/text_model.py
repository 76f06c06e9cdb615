"""Finding a text model of Hugging Face: which one it is, which revision, and how to get it where it is absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.encoders.base import check_encoder, folder_digest
from taxtune.errors import ModelError
from taxtune.loading import look_for_hub
from taxtune.shell import program

__all__ = ["TextModel", "find_text_model", "load_error", "quiet_loading", "token_limit", "version_of"]

# What a tokenizer says that knows no limit is larger than any.
_NO_LIMIT = 1_000_000
_USUAL_LIMIT = 512
# Their position embeddings begin after the padding token's, so that they read fewer tokens than they have positions.
_OFFSET_POSITIONS = frozenset(
    {"camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm"}
    | {"xlm-roberta", "xlm-roberta-xl", "xmod"}
)


@dataclass(frozen=True, slots=True)
class TextModel:
    """A model that was found; its weights are not loaded.

    Attributes:
        name: The Hugging Face name, or the folder's name.
        source: What to load: the Hugging Face name or the folder.
        revision: The commit, or for a folder "sha256:" and a hash of its files.
        commit: The commit to load, or None for a folder.
        config: The model's configuration.
    """

    name: str
    source: str
    revision: str | None
    commit: str | None
    config: Any


def find_text_model(model: str) -> TextModel:
    """Finds a model by its Hugging Face name or its folder.

    Raises:
        ModelError: If it is not there; the message says how to get it.
    """
    from transformers import AutoConfig

    check_encoder(model)
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(
                "The folder contains no config.json, so it is not a model.",
                file=folder,
                remedy="Give the folder that `save_pretrained` or `hf download` wrote.",
            )
        try:
            config = AutoConfig.from_pretrained(str(folder))
            digest = folder_digest(folder)
        except Exception as error:
            raise load_error(model, error, "configuration") from error
        return TextModel(folder.resolve().name, str(folder), f"sha256:{digest}", None, config)
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model:
        raise ModelError("The folder of the model does not exist.", value=model, remedy="Check the path.")
    look_for_hub()
    try:
        config = AutoConfig.from_pretrained(model)
    except Exception as error:  # OSError, ValueError, HTTP errors
        raise load_error(model, error, "configuration") from error
    commit = getattr(config, "_commit_hash", None)
    return TextModel(model, model, commit, commit, config)


def load_error(model: str, error: BaseException, what: str) -> ModelError:
    """Says in one sentence why a part of a model cannot be loaded, and how to get it.

    Args:
        model: The Hugging Face name or the folder.
        error: What the library raised.
        what: "configuration", "tokenizer" or "weights".
    """
    from taxtune.loading import explain_load_error

    if isinstance(error, ModelError):
        return error
    found = explain_load_error(model, error, what)
    remedy = found.remedy
    if remedy is None:
        remedy = (
            "Add the missing files to the folder."
            if Path(model).expanduser().is_dir()
            else f"Run `{program('hf')} download {model}` while online, or give the folder of a copy."
        )
    return ModelError(found.message if found.message.endswith((".", ":")) else f"{found.message}.", remedy=remedy)


@contextmanager
def quiet_loading(model: TextModel) -> Iterator[None]:
    """Keeps transformers from drawing bars while weights are read from the disk; a download's bar is shown."""
    from huggingface_hub import try_to_load_from_cache

    from taxtune.loading import quiet_progress

    def is_here(file: str) -> bool:
        return model.commit is None or isinstance(
            try_to_load_from_cache(model.source, file, revision=model.commit), str
        )

    if any(map(is_here, ("model.safetensors", "pytorch_model.bin"))):
        with quiet_progress():
            yield
    else:
        yield


def token_limit(tokenizer: Any, config: Any) -> int:
    """Returns how many tokens a model reads, special tokens included."""
    limits = []
    said = getattr(tokenizer, "model_max_length", None)
    if said is not None and 0 < said < _NO_LIMIT:
        limits.append(int(said))
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
        limits.append(positions - offset)
    return min(limits, default=_USUAL_LIMIT)


def version_of(module: Any) -> str:
    """Returns the major and minor version of a library; tokenizers and pooling seldom change within one."""
    return f"{module.__name__} {'.'.join(str(module.__version__).split('.')[:2])}"
