"""What the vision-language models that recipes name ask of a machine, so that this can be told without the network."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KNOWN", "KnownModel"]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A checkpoint on Hugging Face.

    Attributes:
        download_gb: Size of its weights there, in GB (10⁹ bytes).
        gpu_gb: Memory of a GPU that holds it in 16-bit numbers with room for a few images at a time, in GB: the next
            common size of a card above 2 bytes a parameter and a fifth more.
        gated: Whether its licence must be accepted on its page, and `hf auth login` be done, before it is downloaded.
    """

    download_gb: float
    gpu_gb: int
    gated: bool = False


#: By name, the smallest first. The sizes are those of the files on Hugging Face; SmolVLM2's are of 32-bit numbers.
KNOWN = {
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": KnownModel(9.0, 8),
    "google/gemma-3-4b-it": KnownModel(8.6, 12, gated=True),
    "Qwen/Qwen2.5-VL-7B-Instruct": KnownModel(16.6, 24),
    "meta-llama/Llama-3.2-11B-Vision-Instruct": KnownModel(21.3, 32, gated=True),
}
