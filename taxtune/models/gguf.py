"""GGUF: one file that holds a language model, its tokenizer and its chat template, as llama.cpp and Ollama use them.

transformers reads such a file and computes with weights in another number format: 4 bits spare the disk, not memory.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from taxtune.errors import MissingExtraError, ModelError

__all__ = ["is_gguf", "read_config"]

# What transformers needs to read the format.
_PACKAGES = ("accelerate", "gguf")
# The architecture of the files, often called mmproj-….gguf, that hold what a vision-language model sees with.
_PROJECTOR = "clip"
# A size such as a checkpoint of that model has: most are published in numbers of 16 bits.
_BYTES_A_WEIGHT = 2


def is_gguf(model: str | Path) -> bool:
    """Tells whether a model's name can only be that of a GGUF file."""
    return str(model).lower().endswith(".gguf")


def read_config(file: Path) -> tuple[Any, int]:
    """Reads what model a file holds, and not its weights.

    Returns:
        The configuration, as transformers has it, and the size of the weights as they are once they are read, in bytes.

    Raises:
        MissingExtraError: If a package is missing.
        ModelError: If the file is none of a language model that transformers reads.
    """
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise MissingExtraError(package, "gguf", f"The model {file.name}")
    try:
        with file.open("rb") as stream:
            begins = stream.read(4)
    except OSError as error:
        raise ModelError(f"The model's file cannot be read: {error.strerror}.", file=file) from error
    if begins != b"GGUF":
        raise ModelError(
            "The file is not a GGUF file: it does not begin with the letters GGUF.",
            file=file,
            remedy="Download it again. A file of a few hundred bytes is the pointer of Git LFS and not the model.",
        )
    import transformers
    from gguf import GGUFReader

    with suppress(ImportError, AttributeError):  # where it has moved, a bar may be drawn
        from transformers import modeling_gguf_pytorch_utils

        # The one progress bar of transformers that does not ask whether bars are to be shown.
        modeling_gguf_pytorch_utils.tqdm = transformers.utils.logging.tqdm
    try:
        reader = GGUFReader(file)
        weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
    except Exception as error:  # whatever the bytes lead it to: ValueError, IndexError, UnicodeDecodeError
        raise ModelError("The GGUF file is damaged or incomplete.", file=file, remedy="Download it again.") from error

    def says(key: str) -> Any:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    architecture = says("general.architecture")
    if architecture == _PROJECTOR:
        raise ModelError(
            "The file holds the image encoder of a vision-language model (mmproj) and no language model.",
            file=file,
            remedy="Give the file of the language model, which has the weights' format in its name (Q4_K_M, F16).",
        )
    if (says("split.count") or 0) > 1:
        raise ModelError(
            "The file is one part of a model that is split into several.",
            file=file,
            remedy="Join the parts first, with `llama-gguf-split --merge` of llama.cpp.",
        )
    try:
        config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    except Exception as error:
        raise ModelError(
            f"transformers {transformers.__version__} cannot read a GGUF file of the architecture {architecture!r}.",
            file=file,
            remedy="Give the model's Hugging Face name or folder, or serve the file with llama.cpp or Ollama and give "
            "the server's address.",
        ) from error
    return config, _BYTES_A_WEIGHT * weights
