"""Finding a checkpoint: which model it is, which revision, and what is missing, without loading its weights.

A GGUF file holds a language model, its tokenizer and its chat template, as llama.cpp and Ollama use them; transformers
reads such a file and computes in another number format: 4 bits spare the disk, not memory.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from taxtune.errors import MissingExtraError, ModelError
from taxtune.loading import explain_load_error, look_for_hub, not_here
from taxtune.models.base import Task
from taxtune.shell import program

__all__ = [
    "BUILTIN",
    "Checkpoint",
    "check_reachable",
    "checkpoint_revision",
    "find_checkpoint",
    "is_gguf",
    "weights_here",
]

#: Models that travel inside the package, by name.
BUILTIN = {"builtin:fieldguide": Path(__file__).resolve().parent.parent / "fieldguide" / "model"}

# Files that decide what a local checkpoint answers.
_SUFFIXES = (".bin", ".jinja", ".json", ".model", ".safetensors", ".txt")
# transformers unpacks a GGUF file's weights into numbers of 16 bits.
_BYTES_PER_WEIGHT = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was found.

    Attributes:
        name: What to call it: the Hugging Face name, the folder's or the file's name, or "builtin:...".
        source: What to load: the Hugging Face name or the folder.
        arguments: What `from_pretrained` takes besides the source: a revision, or the GGUF file in the folder.
        revision: The commit, or for a folder or a file "sha256:" and a hash of the content.
        config: The configuration, as transformers has it.
        complete: Whether the weights are here already.
        weight_bytes: Size of the weights where they are here, for a GGUF file as transformers unpacks them; else 0.
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


def is_gguf(model: str | Path) -> bool:
    """Tells whether a model's name can only be that of a GGUF file."""
    return str(model).lower().endswith(".gguf")


def find_checkpoint(model: str, revision: str | None = None, *, task: Task = "image-text-to-text") -> Checkpoint:
    """Finds a checkpoint and checks that it is made for a task; of one on the hub only the configuration is fetched.

    Raises:
        ModelError: If the model is missing, needs a licence, cannot be reached, or is not made for the task; the
            message says how to get it.
    """
    path = BUILTIN.get(model) or Path(model).expanduser()
    if model.startswith("builtin:") and model not in BUILTIN:
        raise ModelError("Unknown built-in model.", value=model, remedy=f"Built-in models: {', '.join(BUILTIN)}.")
    if (path.is_dir() or is_gguf(model)) and revision is not None:
        raise ModelError(
            "A folder and a file have no revisions.",
            value=revision,
            remedy="Leave out `revision`, or --set vlm.revision=null.",
        )
    if path.is_dir():
        return _in_folder(model if model in BUILTIN else path.resolve().name, path, task)
    if is_gguf(model):
        return _in_file(path, task)
    if model in BUILTIN or _is_path(model):
        raise ModelError("The folder of the model does not exist.", value=model, remedy="Check the path.")
    return _on_hub(model, revision, task)


def check_reachable(model: str, revision: str | None = None) -> None:
    """Checks, without importing torch, that a vision-language model is on this machine or can be fetched.

    Folders are not looked at.

    Raises:
        ModelError: If it is not, or is a GGUF file.
    """
    if is_gguf(model):
        raise _takes_no_images(model)
    if not (model.startswith("builtin:") or Path(model).expanduser().is_dir() or _is_path(model)):
        _commit(model, revision)


def weights_here(model: str, revision: str | None = None) -> bool:
    """Tells whether a model's weights are on this machine, without the network and without importing torch."""
    if model.startswith("builtin:") or Path(model).expanduser().exists():
        return True
    return not _is_path(model) and _cached_weights(model, revision or "main") is not None


def checkpoint_revision(model: str, revision: str | None = None) -> str:
    """Returns the `Checkpoint.revision` of a model that may have changed since it was found, and checks nothing else.

    Raises:
        ModelError: If it cannot be read or reached.
    """
    path = BUILTIN.get(model) or Path(model).expanduser()
    if path.is_dir():
        return f"sha256:{_hash_folder(path)}"
    return f"sha256:{_hash_file(path)}" if is_gguf(model) else _commit(model, revision)


def _is_path(model: str) -> bool:
    return model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model or is_gguf(model)


def _in_folder(name: str, folder: Path, task: Task) -> Checkpoint:
    def lacks(what: str) -> ModelError:
        message = f"The folder contains no {what}, so it is not a checkpoint."
        return ModelError(message, file=folder, remedy="Give the folder that `save_pretrained` wrote.")

    if not (folder / "config.json").is_file():
        raise lacks("config.json")
    config = _load_config(name, str(folder), None)
    _check_architecture(name, config, task)
    weights = [file for suffix in ("*.safetensors", "*.bin") for file in folder.glob(suffix)]
    if not weights:
        raise lacks("weights (*.safetensors)")
    size = sum(file.stat().st_size for file in weights)
    return Checkpoint(name, str(folder), {}, f"sha256:{_hash_folder(folder)}", config, True, size)


def _in_file(file: Path, task: Task) -> Checkpoint:
    if not file.is_file():
        raise ModelError(
            "The file of the model does not exist.",
            file=file,
            remedy="Check the path; a file in a repository on Hugging Face must be downloaded first "
            f"(`{program('hf')} download REPOSITORY FILE --local-dir .`).",
        )
    if task != "text-generation":
        raise _takes_no_images(str(file))
    config, size = _read_gguf(file)
    _check_architecture(file.name, config, task)
    # With the configuration, which otherwise would be read again for each part, in seconds.
    arguments = {"gguf_file": file.name, "config": config}
    return Checkpoint(file.name, str(file.parent), arguments, f"sha256:{_hash_file(file)}", config, True, size)


def _takes_no_images(file: str) -> ModelError:
    return ModelError(
        "A GGUF file is read as a language model, which takes no images.",
        file=file,
        remedy="Give the Hugging Face name or the folder of a vision-language model, or serve the file with llama.cpp "
        "or Ollama, and name its model as openai/NAME with vlm.api_base.",
    )


def _read_gguf(file: Path) -> tuple[Any, int]:
    """Returns the configuration of the model in a GGUF file, as transformers has it, and its size in bytes.

    Raises:
        MissingExtraError: If a package is missing.
        ModelError: If it is not the file of a language model that transformers reads.
    """
    for package in ("accelerate", "gguf"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "gguf", f"The model {file.name}")
    import transformers
    from gguf import GGUFReader

    with suppress(ImportError, AttributeError):  # where it has moved, a bar may be drawn
        from transformers import modeling_gguf_pytorch_utils

        # The one progress bar of transformers that does not ask whether bars are to be shown.
        modeling_gguf_pytorch_utils.tqdm = transformers.utils.logging.tqdm
    try:
        reader = GGUFReader(file)
        parts = reader.get_field("split.count")
        if parts is not None and parts.contents() > 1:  # transformers would make up the weights of the other parts
            raise ValueError("it is one part of a model that is split into several")
        weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
        return transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name), _BYTES_PER_WEIGHT * weights
    except Exception as error:  # whatever the bytes lead to: ValueError, IndexError, UnicodeDecodeError
        raise ModelError(
            f"transformers {transformers.__version__} cannot read a language model from the file: {error}.",
            file=file,
            remedy="Give the whole file of a language model (no part of a split one, no mmproj file, no pointer of Git "
            "LFS), or its Hugging Face name, or serve the file with llama.cpp or Ollama as openai/NAME.",
        ) from error


def _hash_folder(folder: Path) -> str:
    """Returns one hash of the names and contents of the files that a checkpoint consists of."""
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.suffix in _SUFFIXES:
            total.update(f"{file.name}\0{_hash_file(file)}\n".encode())
    return total.hexdigest()


def _hash_file(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"The model's file cannot be read: {error.strerror}.", file=file) from error


def _on_hub(model: str, revision: str | None, task: Task) -> Checkpoint:
    from huggingface_hub import constants

    pinned = _commit(model, revision)
    config = _load_config(model, model, pinned)
    size = _cached_weights(model, pinned)
    if size is None and constants.HF_HUB_OFFLINE:
        raise not_here(model, "weights")
    _check_architecture(model, config, task)
    return Checkpoint(model, model, {"revision": pinned}, pinned, config, size is not None, size or 0)


def _commit(model: str, revision: str | None) -> str:
    """Returns the commit that a revision of a Hugging Face name stands for; offline, as it was last fetched."""
    from huggingface_hub import hf_hub_download

    look_for_hub()
    try:
        file = hf_hub_download(model, "config.json", revision=revision)
    except Exception as error:
        raise explain_load_error(model, error, "configuration") from error
    commit = re.search(r"[\\/]snapshots[\\/]([0-9a-f]{40})[\\/]", file)
    if commit is None:
        raise ModelError(f"The commit of {model!r} cannot be determined from its location.", file=file)
    return commit.group(1)


def _cached_weights(model: str, revision: str) -> int | None:
    """Returns the size of a Hugging Face model's weights if they are all in the cache."""
    from huggingface_hub import try_to_load_from_cache

    def cached(name: str) -> Path | None:
        file = try_to_load_from_cache(model, name, revision=revision)
        return Path(file) if isinstance(file, str) else None

    for single in ("model.safetensors", "pytorch_model.bin"):
        if (file := cached(single)) is not None:
            return file.stat().st_size
    index = cached("model.safetensors.index.json") or cached("pytorch_model.bin.index.json")
    if index is None:
        return None
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, OSError):
        return None
    files = [cached(name) for name in names]
    return None if None in files else sum(file.stat().st_size for file in files if file is not None)


def _load_config(name: str, source: str, revision: str | None) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(source, revision=revision or "main")
    except Exception as error:
        raise explain_load_error(name, error, "configuration") from error


def _check_architecture(name: str, config: Any, task: Task) -> None:
    from transformers.models.auto import modeling_auto as auto

    if task == "text-generation":
        known = [auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING]
        does, instead = "read and write text", "a language model, such as meta-llama/Llama-3.2-3B-Instruct"
    else:
        known = [auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING]
        does = "take an image and text and give text"
        instead = "a vision-language model, such as meta-llama/Llama-3.2-11B-Vision-Instruct"
    if not any(type(config) in mapping for mapping in known):
        raise ModelError(
            f"The model {name!r} (of the type {config.model_type!r}) does not {does}.", remedy=f"Choose {instead}."
        )
