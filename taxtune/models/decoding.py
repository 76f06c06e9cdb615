"""How a network's next tokens become an answer: drawn at random, and ended where a text occurs."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from taxtune.models.base import Request

__all__ = ["Draw", "seed_of"]


def seed_of(request: Request, seed: int) -> int:
    """Returns the seed that a request's answer is drawn with: by the request alone, whatever it is asked with."""
    text = f"{request.prompt}\0{request.image_sha256 or ''}" + (f"\0{request.sample}" if request.sample else "")
    digest = sha256(f"{seed}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:7], "big")


class Draw:
    """Draws each row's next token with a generator of its own; for `generate`, as a processor of greedy decoding.

    The most likely token, after Gumbel noise was added to the scaled scores, is a draw from their softmax (the
    Gumbel-max trick). So an answer depends neither on the rows beside it nor on their order, as it would with one
    generator for a batch.

    Args:
        temperature: What the scores are divided by, above 0.
        seeds: A seed for each row.
        device: Where the scores are.
    """

    def __init__(self, temperature: float, seeds: Sequence[int], device: Any) -> None:
        import torch

        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Returns the scores (rows x vocabulary) scaled and with noise."""
        import torch

        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores / self.temperature - noise.clamp_min_(torch.finfo(noise.dtype).tiny).log_()
