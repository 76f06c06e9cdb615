from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from taxtune.mapping import Mapper
from taxtune.mapping.similarity import FloatMatrix
from taxtune.models import Answer
from taxtune.tuning import evaluation
from taxtune.tuning.evaluation import Evaluator
from tests.tuning.toy import COLOURS, ToyVLM, make_parts


class BySight:
    """Scores the image, not the answer: 1 for the shade that is nearest to its mean colour."""

    name, needs_images, confident = "sight", True, 0.5

    def __init__(self) -> None:
        self.names: list[str] = []
        self.seen: list[int] = []

    def fit(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def scores(self, answers: Sequence[str], images: Sequence[Image.Image | None] | None = None) -> FloatMatrix:
        assert images is not None
        self.seen.append(len(images))
        rows = np.zeros((len(answers), len(self.names)), dtype=np.float32)
        for row, image in zip(rows, images, strict=True):
            assert image is not None
            mean = np.asarray(image, dtype=float).mean(axis=(0, 1))
            nearest = min(COLOURS, key=lambda shade: float(np.abs(mean - COLOURS[shade]).sum()))
            row[self.names.index(nearest)] = 1
        return rows


class Mumbler(ToyVLM):
    """Says nothing that is a name."""

    def answer(self, questions):
        """Answers each question alike."""
        return [Answer("qwertz", prompt_tokens=1, completion_tokens=1) for _ in questions]


def test_images_go_to_a_similarity_that_looks_at_them_a_few_at_a_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(evaluation, "_IMAGES_AT_ONCE", 3)
    session = make_parts(tmp_path / "in", tmp_path / "out", Mumbler())
    splits = session.splits
    clear = [e for e in (*splits.tuning, *splits.heldout) if e.image.stem.endswith(("0", "1"))][:8]
    similarity = BySight()
    evaluator = Evaluator(
        session.taxonomy,
        session.vlm,
        Mapper(session.taxonomy, similarity),
        store=None,
        variables=session.tuned_for().variables,
    )
    result = evaluator.evaluate("What is this?", clear)
    assert sum(similarity.seen) == len(clear) > 3
    assert max(similarity.seen) == 3
    assert result.scores is not None
    assert result.scores.accuracy == 1.0
