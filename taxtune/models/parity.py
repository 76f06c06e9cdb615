"""How often a local model's answers depend on how they are computed: alone, in batches, from images that are kept.

Sums of floating-point numbers depend on the order in which they are added, and with it on the shapes of the tensors.
Where two tokens are about equally likely, rounding then decides which one is written, and the rest of the answer
follows. In float32 this hardly ever happens; in bfloat16, with a hundredth of the precision of the logits, it does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from taxtune.models.ask import ask
from taxtune.models.base import Answer, Reply, Request
from taxtune.models.vision import LocalVLM

__all__ = ["ALONE", "BATCHED", "KEPT", "Parity", "Way", "compare_ways"]

ALONE, BATCHED, KEPT = "alone", "batched", "kept"


@dataclass(frozen=True, slots=True)
class Way:
    """What came of asking all questions in one way.

    Attributes:
        replies: A reply for each question, in order.
        batch_size: Questions computed at a time; at the end, as it is halved where memory runs out.
        seconds: Wall-clock seconds that it took.
    """

    replies: tuple[Reply, ...]
    batch_size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Parity:
    """Answers to the same questions, computed in different ways.

    Attributes:
        questions: The questions, in order.
        ways: What came of each way, by name: `ALONE` (one by one), `BATCHED`, and `KEPT` (batched, and read from what
            is kept of each image), which is missing where the model's images cannot be kept.
        not_kept: Why they cannot be; None where they are.
    """

    questions: tuple[Request, ...]
    ways: Mapping[str, Way]
    not_kept: str | None

    def answered(self, way: str, other: str = ALONE) -> list[int]:
        """Returns the places of the questions that two ways both answered."""
        pairs = zip(self.ways[way].replies, self.ways[other].replies, strict=True)
        return [i for i, pair in enumerate(pairs) if all(isinstance(reply, Answer) for reply in pair)]

    def differing(self, way: str, other: str = ALONE) -> list[int]:
        """Returns the places of the questions to which two ways gave different texts."""
        return [i for i in self.answered(way, other) if self.text(way, i) != self.text(other, i)]

    def text(self, way: str, place: int) -> str:
        """Returns an answer's text; of a failed question the reason."""
        reply = self.ways[way].replies[place]
        return reply.text if isinstance(reply, Answer) else reply.reason


def compare_ways(model: LocalVLM, questions: Sequence[Request]) -> Parity:
    """Asks a model the same questions one by one, in batches, and in batches from what is kept of the images.

    Args:
        model: The model, with the batch size and the number format that are in question; its weights are loaded once.
        questions: The questions. Those with the same prompt in a row are asked at once, as an iteration of tuning does.

    Raises:
        ModelError: If the model cannot be asked, or one question alone does not fit into the device's memory.
    """
    plain = {"image_memory_gib": 0.0, "image_disk_gib": 0.0}
    runs = {
        ALONE: model.with_settings(batch_size=1, **plain),
        BATCHED: model.with_settings(**plain),
        # Nothing from the disk, so that all of it is made here.
        KEPT: model.with_settings(image_memory_gib=model.settings.image_memory_gib or None, image_disk_gib=0.0),
    }
    ways = {name: _asked(run, questions, name) for name, run in runs.items()}
    not_kept = runs[KEPT].not_kept
    if not_kept is not None:
        del ways[KEPT]
    return Parity(tuple(questions), ways, not_kept)


def _asked(model: LocalVLM, questions: Sequence[Request], name: str) -> Way:
    started = time.perf_counter()
    replies: list[Reply] = []
    for _, same in groupby(questions, key=lambda question: question.prompt):
        replies += ask(model, list(same), None, what=f"asking, {name}")
    return Way(tuple(replies), model.batch_size, time.perf_counter() - started)
