"""Finding a checkpoint: which model, which revision, and what is missing, without its weights.

And the formats of weights in fewer bits.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from taxtune.errors import MissingExtraError, ModelError
from taxtune.loading import explain_load_error, look_for_hub, not_here
from taxtune.models.base import Task

__all__ = [
    "Checkpoint",
    "check_quantization",
    "check_reachable",
    "checkpoint_revision",
    "find_checkpoint",
    "quantization_config",
    "weights_here",
]

# Models that come with the package, by name.
_BUILTIN = {"builtin:fieldguide": Path(__file__).resolve().parent.parent / "fieldguide" / "model"}
# Files that decide what a local checkpoint answers.
_SUFFIXES = (".bin", ".jinja", ".json", ".model", ".safetensors", ".txt")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was found.

    Attributes:
        name: What to call it: the Hugging Face name, the folder's name, or "builtin:...".
        source: What to load: the Hugging Face name or the folder.
        arguments: What `from_pretrained` takes besides the source: the revision of a Hugging Face
            name.
        revision: The commit, or for a folder "sha256:" and a hash of the content.
        config: The configuration, as transformers has it.
        complete: Whether the weights are here already.
        weight_bytes: Size of the weights where they are here, else 0.
    """

    name: str
    source: str
    arguments: dict[str, Any]
    revision: str
    config: Any
    complete: bool
    weight_bytes: int

    @property
    def model_type(self) -> str:
        """The architecture, as transformers calls it ("mllama", "qwen2_5_vl")."""
        return str(self.config.model_type)


def find_checkpoint(
    model: str, revision: str | None = None, *, task: Task = "image-text-to-text"
) -> Checkpoint:
    """Finds a checkpoint and checks that it is made for a task.

    Of one on the hub only the configuration is fetched.

    Raises:
        ModelError: If the model is missing, needs a licence, cannot be reached, or is not made for
            the task; the message says how to get it.
    """
    folder = _folder(model)
    if folder is None:
        return _on_hub(model, revision, task)
    if revision is not None:
        message = "A folder has no revisions."
        raise ModelError(message, value=revision, remedy="Leave out `revision`.")
    if not folder.is_dir():
        raise ModelError(
            "The folder of the model does not exist.",
            value=model,
            remedy="Check the path. Serve a file (GGUF) with llama.cpp or Ollama, and name its "
            "model as openai/NAME with api_base.",
        )
    if not (folder / "config.json").is_file():
        raise _no_checkpoint(folder, "config.json")
    name = model if model in _BUILTIN else folder.resolve().name
    config = _load_config(name, str(folder), None, task)
    size = _weight_bytes(folder)
    if size is None:
        raise _no_checkpoint(folder, "weights (*.safetensors)")
    return Checkpoint(
        name=name,
        source=str(folder),
        arguments={},
        revision=_hash_folder(folder),
        config=config,
        complete=True,
        weight_bytes=size,
    )


def check_reachable(model: str, revision: str | None = None) -> None:
    """Checks without importing torch that a model is on this machine or can be fetched.

    A folder is not looked at.

    Raises:
        ModelError: If the commit of a model named as on Hugging Face cannot be found.
    """
    if _folder(model) is None:
        _commit(model, revision)


def weights_here(model: str, revision: str | None = None) -> bool:
    """Tells whether a model's weights are on this machine, without network and torch."""
    folder = _folder(model)
    if folder is not None:
        return folder.exists()
    return _cached_weights(model, revision or "main") is not None


def checkpoint_revision(model: str, revision: str | None = None) -> str:
    """Returns the `Checkpoint.revision` of a model, which may have changed; checks nothing else.

    Raises:
        ModelError: If it cannot be read or reached.
    """
    folder = _folder(model)
    return _commit(model, revision) if folder is None else _hash_folder(folder)


def _folder(model: str) -> Path | None:
    """Returns the folder, maybe missing, that a model's name stands for; None for Hugging Face."""
    if model.startswith("builtin:"):
        if model not in _BUILTIN:
            remedy = f"Use one of {', '.join(_BUILTIN)}."
            raise ModelError("Unknown built-in model.", value=model, remedy=remedy)
        return _BUILTIN[model]
    path = Path(model).expanduser()
    is_path = model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model
    return path if is_path or path.exists() else None


def _no_checkpoint(folder: Path, lacking: str) -> ModelError:
    message = f"The folder contains no {lacking}, so it is not a checkpoint."
    return ModelError(message, file=folder, remedy="Give the folder that `save_pretrained` wrote.")


def _hash_folder(folder: Path) -> str:
    """Returns "sha256:" and one hash of the names and contents of a checkpoint's files."""
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if not file.is_file() or file.suffix not in _SUFFIXES:
            continue
        try:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            message = f"The model's file cannot be read: {error.strerror}."
            raise ModelError(message, file=file) from error
        total.update(f"{file.name}\0{digest}\n".encode())
    return f"sha256:{total.hexdigest()}"


def _on_hub(model: str, revision: str | None, task: Task) -> Checkpoint:
    from huggingface_hub import constants

    commit = _commit(model, revision)
    config = _load_config(model, model, commit, task)
    size = _cached_weights(model, commit)
    if size is None and constants.HF_HUB_OFFLINE:
        raise not_here(model, "weights")
    return Checkpoint(
        name=model,
        source=model,
        arguments={"revision": commit},
        revision=commit,
        config=config,
        complete=size is not None,
        weight_bytes=size or 0,
    )


def _commit(model: str, revision: str | None) -> str:
    """Returns the commit of a revision on Hugging Face; offline, as it was last fetched."""
    from huggingface_hub import hf_hub_download

    look_for_hub()
    try:
        file = hf_hub_download(model, "config.json", revision=revision)
    except Exception as error:
        raise explain_load_error(model, error, "configuration") from error
    commit = re.search(r"[\\/]snapshots[\\/]([0-9a-f]{40})[\\/]", file)
    if commit is None:
        message = f"The commit of {model!r} cannot be determined from its location."
        raise ModelError(message, file=file)
    return commit[1]


def _cached_weights(model: str, revision: str) -> int | None:
    """Returns the size of a Hugging Face model's weights if they are all in the cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, revision=revision, local_files_only=True))
        index = min(folder.glob("*.index.json"), default=None)  # safetensors before pytorch_model
        names: Collection[str] = ()
        if index is not None:
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (LocalEntryNotFoundError, OSError, ValueError, KeyError):
        return None
    return _weight_bytes(folder) if all((folder / name).exists() for name in names) else None


def _weight_bytes(folder: Path) -> int | None:
    """Returns the size of the weights in a folder; None where there are none."""
    weights = list(folder.glob("*.safetensors")) or list(folder.glob("*.bin"))
    return sum(file.stat().st_size for file in weights) if weights else None


def _load_config(name: str, source: str, revision: str | None, task: Task) -> Any:
    """Loads a configuration and checks that it is that of a model made for the task."""
    from transformers import AutoConfig
    from transformers.models.auto import modeling_auto as auto

    try:
        config = AutoConfig.from_pretrained(source, revision=revision or "main")
    except Exception as error:
        raise explain_load_error(name, error, "configuration") from error
    if task == "text-generation":
        known = [auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING]
        work = "read and write text"
        instead = "a language model, such as meta-llama/Llama-3.2-3B-Instruct"
    else:
        known = [auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING]
        work = "take an image and text and give text"
        instead = "a vision-language model, such as meta-llama/Llama-3.2-11B-Vision-Instruct"
    if not any(type(config) in mapping for mapping in known):
        message = f"The model {name!r} (of the type {config.model_type!r}) does not {work}."
        raise ModelError(message, remedy=f"Choose {instead}.")
    return config


def check_quantization(quantization: str) -> None:
    """Checks that the packages for weights in fewer bits are here.

    Raises:
        MissingExtraError: If one is missing.
    """
    for package in ("accelerate", "bitsandbytes"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "quantized", f"quantization: {quantization}")


def quantization_config(quantization: str, dtype: Any) -> Any:
    """Makes the settings of transformers for a format of weights.

    All weights of linear layers but the last are in it.

    Args:
        quantization: "4bit" (NF4), which keeps only the weights in fewer bits, or "8bit"
            (LLM.int8()), which also rounds the inputs of the layers.
        dtype: The torch dtype that the model computes in.
    """
    import logging

    from transformers import BitsAndBytesConfig

    # LLM.int8() says at every layer of every step that it computes in float16.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
    )
