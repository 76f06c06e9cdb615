"""How a network's next tokens become an answer: drawn at random, and ended where a text occurs."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from taxtune.models.base import Request

__all__ = ["Draw", "StopAt", "cut_at", "seed_of"]


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
    """

    def __init__(self, temperature: float, seeds: Sequence[int]) -> None:
        self.temperature = temperature
        self.seeds = seeds
        self._generators: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Returns the scores (rows x vocabulary) scaled and with noise."""
        import torch

        if not self._generators:
            self._generators = [torch.Generator(scores.device).manual_seed(seed) for seed in self.seeds]
        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self._generators, strict=True):
            row.exponential_(generator=generator)
        return scores / self.temperature - noise.clamp_min_(torch.finfo(noise.dtype).tiny).log_()


class StopAt:
    """Ends each row whose new text holds one of some texts; for `generate`, as a stopping criterion.

    The `stop_strings` of transformers count what the prompt ends with, too: where a blank line is to end the answer,
    and the prompt ends with a line break, as Llama's do, the answer would end at its first line break.

    Args:
        tokenizer: What the tokens are decoded with.
        stops: The texts.
        start: Tokens of a row before the new ones.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str], start: int) -> None:
        self.tokenizer, self.stops, self.start = tokenizer, stops, start
        # A token has a byte at least, so that a text that the last token completes is among so many; the one more keeps
        # a blank that some tokenizers drop at the start.
        self._span = max(len(stop.encode()) for stop in stops) + 1

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Returns for each row of tokens whether it has ended."""
        import torch

        last = input_ids[:, max(self.start, input_ids.shape[1] - self._span) :].tolist()
        texts = self.tokenizer.batch_decode(last, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        ended = [any(stop in text for stop in self.stops) for text in texts]
        return torch.tensor(ended, device=input_ids.device)


def cut_at(text: str, stops: Sequence[str]) -> str:
    """Returns a text up to the first of some texts in it."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]
