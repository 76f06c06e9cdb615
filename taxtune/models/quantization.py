"""Weights in 4 or 8 bits: what each format needs, and its settings for transformers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from taxtune.errors import MissingExtraError, ModelError

__all__ = ["QUANTIZATIONS", "check_quantization", "quantization_config"]

#: Formats of weights, and the package that computes in each. All but "8bit", which also rounds what the layers are
#: given (LLM.int8()), keep only the weights in fewer bits and compute in the model's number format.
QUANTIZATIONS = {
    "4bit": "bitsandbytes",
    "8bit": "bitsandbytes",
    "int8": "torchao",
    "int4": "torchao",
    "float8": "torchao",
}


def check_quantization(quantization: str, device: str, dtype: str) -> None:
    """Checks that weights can be kept in a format here, without loading them.

    Raises:
        MissingExtraError: If a package is missing.
        ModelError: If the device or the number format is not one for it.
    """
    for package in ("accelerate", QUANTIZATIONS[quantization]):
        if find_spec(package) is None:
            raise MissingExtraError(package, "quantized", f"quantization: {quantization}")
    kind = device.split(":")[0]
    if quantization == "int4" and (kind, dtype) != ("cuda", "bfloat16"):
        raise ModelError(
            f"quantization: int4 needs a CUDA card and the dtype bfloat16, but the model runs on {kind} in {dtype}.",
            remedy="Use 4bit, which runs on a CPU too.",
        )


def quantization_config(quantization: str, dtype: Any) -> Any:
    """Returns the settings of transformers for a format; all weights of linear layers but the last are in it.

    Args:
        quantization: One of `QUANTIZATIONS`.
        dtype: The torch dtype that the model computes in.
    """
    from transformers import BitsAndBytesConfig, TorchAoConfig

    if QUANTIZATIONS[quantization] == "bitsandbytes":
        import logging

        # LLM.int8() says at every layer of every step that it computes in float16.
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        if quantization == "8bit":
            return BitsAndBytesConfig(load_in_8bit=True)
        return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    from torchao import quantization as torchao

    made: dict[str, Callable[[], Any]] = {
        "int8": torchao.Int8WeightOnlyConfig,
        # The one packing whose kernel comes with torch itself.
        "int4": lambda: torchao.Int4WeightOnlyConfig(int4_packing_format="tile_packed_to_4d"),
        "float8": torchao.Float8WeightOnlyConfig,
    }
    return TorchAoConfig(made[quantization]())
