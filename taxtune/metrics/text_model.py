"""A text model by its Hugging Face name or its folder: its configuration, its limits, and how to get it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.encoders.base import check_encoder, folder_digest
from taxtune.errors import ModelError
from taxtune.loading import explain_load_error, look_for_hub
from taxtune.shell import program

__all__ = ["TextModel", "find_text_model", "load_error", "load_tokenizer", "token_limit", "version_of"]

_NO_LIMIT = 1_000_000  # a tokenizer without a limit names a larger one
_USUAL_LIMIT = 512
# Their position embeddings begin after the padding token's, so that they read fewer tokens than they have positions.
_OFFSET_POSITIONS = frozenset(
    {"camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm"}
    | {"xlm-roberta", "xlm-roberta-xl", "xmod"}
)


@dataclass(frozen=True, slots=True)
class TextModel:
    """A model whose weights are not loaded.

    Attributes:
        name: The Hugging Face name, or the folder's name.
        source: The Hugging Face name or the folder, to load it by.
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
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(
            "The folder contains no config.json, so it is not a model.",
            file=folder,
            remedy="Give the folder that `save_pretrained` or `hf download` wrote.",
        )
    if not folder.is_dir():
        if model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model:
            raise ModelError("The folder of the model does not exist.", value=model, remedy="Check the path.")
        look_for_hub()
    try:
        config = AutoConfig.from_pretrained(str(folder) if folder.is_dir() else model)
        digest = folder_digest(folder) if folder.is_dir() else None
    except Exception as error:  # OSError, ValueError, HTTP errors
        raise load_error(model, error, "configuration") from error
    if digest is not None:
        return TextModel(folder.resolve().name, str(folder), f"sha256:{digest}", None, config)
    commit = getattr(config, "_commit_hash", None)
    return TextModel(model, model, commit, commit, config)


def load_error(model: str, error: BaseException, what: str) -> ModelError:
    """Returns the error to raise where a part of a model cannot be loaded, with the way to get it.

    Args:
        model: The Hugging Face name or the folder.
        error: The library's error.
        what: "configuration", "tokenizer" or "weights".
    """
    if isinstance(error, ModelError):
        return error
    found = explain_load_error(model, error, what)
    remedy = found.remedy
    if remedy is None:
        is_folder = Path(model).expanduser().is_dir()
        download = f"Run `{program('hf')} download {model}` while online, or give the folder of a copy."
        remedy = "Add the missing files to the folder." if is_folder else download
    return ModelError(found.message if found.message.endswith((".", ":")) else f"{found.message}.", remedy=remedy)


def load_tokenizer(model: TextModel, *, blank_first: bool = False) -> Any:
    """Returns the model's tokenizer with its limit as `model_max_length` and a token for padding.

    With `blank_first` RoBERTa's tokenizers put a blank before the first word, as bert-score does.
    """
    from transformers import AutoTokenizer

    revision = model.commit or "main"
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.source, revision=revision)
        if blank_first and type(tokenizer).__name__.removesuffix("Fast") in ("GPT2Tokenizer", "RobertaTokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(model.source, revision=revision, add_prefix_space=True)
    except Exception as error:
        raise load_error(model.source, error, "tokenizer") from error
    tokenizer.model_max_length = token_limit(tokenizer, model.config)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def token_limit(tokenizer: Any, config: Any) -> int:
    """Returns the number of tokens that a model reads, special tokens included."""
    limits = []
    length = getattr(tokenizer, "model_max_length", None)
    if length is not None and 0 < length < _NO_LIMIT:
        limits.append(int(length))
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
        limits.append(positions - offset)
    return min(limits, default=_USUAL_LIMIT)


def version_of(module: Any) -> str:
    """Returns the major and minor version of a library; tokenizers and pooling seldom change within one."""
    return f"{module.__name__} {'.'.join(str(module.__version__).split('.')[:2])}"
