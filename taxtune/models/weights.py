"""What well-known vision-language models ask of a machine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "KNOWN_MODELS",
    "KnownModel",
    "smallest_that_suits",
]


# Weights are not all: what is computed of them needs room as well. SmolVLM's 4.49 GB take 5.02 GB with an image
# (huggingface.co/blog/smolvlm).
_BESIDE = 1.25
# Memory of common GPUs in GB, and the share of it that a model may take: a display has some as well.
_GPUS = (4, 6, 8, 12, 16, 24, 32, 48, 80)
_OF_GPU = 0.9


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A checkpoint on Hugging Face.

    Attributes:
        name: Its name.
        gigabytes: Size of its weights with two bytes a parameter (bfloat16), in GB (10⁹ bytes).
        gated: Whether its licence must be accepted on its page, and `hf auth login` be done, before it is downloaded.
        download: Size of its files in GB, where they are not of two bytes a parameter.
    """

    name: str
    gigabytes: float
    gated: bool = False
    download: float | None = None

    @property
    def download_gb(self) -> float:
        """Size of the download in GB."""
        return self.download or self.gigabytes

    @property
    def gpu_gb(self) -> int:
        """Memory of the smallest common GPU that has room for it, in GB."""
        return next(size for size in _GPUS if size * _OF_GPU >= self.needs("cuda"))

    def needs(self, device: str) -> float:
        """Returns about how many gigabytes of memory it takes, which on a CPU computes with four bytes a parameter."""
        return self.gigabytes * (2 if device == "cpu" else 1) * _BESIDE


#: By name, the smallest first. Sizes are those of the safetensors files, as the models' pages list them.
KNOWN_MODELS = {
    each.name: each
    for each in (
        KnownModel("HuggingFaceTB/SmolVLM-256M-Instruct", 0.51),
        KnownModel("HuggingFaceTB/SmolVLM-500M-Instruct", 1.02),
        KnownModel("HuggingFaceTB/SmolVLM-Instruct", 4.49),
        KnownModel("HuggingFaceTB/SmolVLM2-2.2B-Instruct", 4.49, download=9.0),
        KnownModel("Qwen/Qwen2.5-VL-3B-Instruct", 7.51),
        KnownModel("google/gemma-3-4b-it", 8.60, gated=True),
        KnownModel("Qwen/Qwen2.5-VL-7B-Instruct", 16.57),
        KnownModel("meta-llama/Llama-3.2-11B-Vision-Instruct", 21.35, gated=True),
    )
}


def smallest_that_suits(device: str, gigabytes: float) -> KnownModel | None:
    """The model to begin with on a device: the smallest without a licence to accept, on a GPU of at least 4 GB.

    Args:
        device: "cuda", "mps" or "cpu".
        gigabytes: Memory of the device in GB.

    Returns:
        The model; None where the device has room for none.
    """
    room = gigabytes * (_OF_GPU if device == "cuda" else 0.5)
    fitting = [model for model in KNOWN_MODELS.values() if not model.gated and model.needs(device) <= room]
    worth = [model for model in fitting if device == "cpu" or model.gigabytes >= 4] or fitting[-1:]
    return next(iter(worth), None)
