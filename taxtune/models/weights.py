"""Weights in fewer bits: the packages that they need, and their settings for transformers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from taxtune.errors import MissingExtraError

__all__ = ["check_quantization", "quantization_config"]


def check_quantization(quantization: str) -> None:
    """Checks that the packages for weights in fewer bits are here.

    Raises:
        MissingExtraError: If one is missing.
    """
    for package in ("accelerate", "bitsandbytes"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "quantized", f"quantization: {quantization}")


def quantization_config(quantization: str, dtype: Any) -> Any:
    """Makes the settings of transformers for a format; all weights of linear layers but the last are in it.

    Args:
        quantization: "4bit" (NF4), which keeps only the weights in fewer bits, or "8bit" (LLM.int8()), which also
            rounds what the layers are given.
        dtype: The torch dtype that the model computes in.
    """
    import logging

    from transformers import BitsAndBytesConfig

    # LLM.int8() says at every layer of every step that it computes in float16.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
