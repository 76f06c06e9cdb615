from __future__ import annotations

import numpy as np
import pytest

from taxtune.mapping import Mapper, MapperConfig
from taxtune.metrics.doubt import Doubt
from taxtune.models import Answer, Failure
from taxtune.policies import SelfConsistency, Single
from taxtune.tuning import asker
from taxtune.tuning.asker import Asker
from taxtune.tuning.build import build
from taxtune.tuning.evaluation import Evaluator
from tests.tuning.templates import WHAT
from tests.tuning.toy import COLOURS, ToyVLM, make_parts
from tests.unsure import Unsure


class BySight:
    """Scores the image, not the answer: 1 for the shade that is nearest to its mean colour."""

    name, needs_images, confident = "sight", True, 0.5

    def __init__(self):
        self.names: list[str] = []
        self.seen: list[int] = []

    def fit(self, names):
        self.names = list(names)

    def scores(self, answers, images=None):
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


def test_images_go_to_a_similarity_that_looks_at_them_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(asker, "_IMAGES_AT_ONCE", 3)
    session = build(make_parts(tmp_path / "in", tmp_path / "out", Mumbler()))
    examples = (*session.splits.tuning, *session.splits.heldout)
    clear = [example for example in examples if example.image.stem.endswith(("0", "1"))][:8]
    similarity = BySight()
    asking = Asker(session.vlm, Mapper(session.taxonomy, similarity), variables=session.variables)
    evaluator = Evaluator(asking, session.weights)
    result = evaluator.evaluate(WHAT, clear)
    assert sum(similarity.seen) == len(clear) > 3
    assert max(similarity.seen) == 3
    assert result.scores is not None
    assert result.scores.accuracy == 1.0


class Asking(ToyVLM):
    """Puts a question mark where the image is murky, or on one answer of three.

    It is silent at the first crimson.
    """

    def answer(self, questions):
        """Answers as a ToyVLM."""
        replies = super().answer(questions)
        for i, question in enumerate(questions):
            if question.image.stem == "crimson0":
                replies[i] = Failure("the content filter", retryable=False)
            elif question.image.stem.endswith(("2", "3")) and question.sample == 0:
                replies[i] = Answer(replies[i].text.replace(".", "?"))
        return replies


@pytest.mark.parametrize(
    ("policy", "preset"),
    [
        (Single(), "default"),
        (Single(), "paper-listing"),
        (SelfConsistency(3, 1.0), "default"),
        (SelfConsistency(3, 0.5), "default"),
    ],
)
def test_held_out_scores_say_what_hangs_on_doubtful_placements(tmp_path, policy, preset):
    session = build(make_parts(tmp_path / "in", tmp_path / "out", overrides=("max_missing=0.5",)))
    mapper = Unsure(session.taxonomy, config=MapperConfig(preset=preset))
    evaluator = Evaluator(Asker(Asking(), mapper, policy), session.weights)
    (held,), _ = session.compare(evaluator, {"baseline": WHAT}, lambda *_: None)
    rows = [row for row in held.rows if row.failure is None]
    assert {row.doubtful for row in held.rows if row.failure is not None} <= {None}
    if preset == "paper-listing":  # whose confidence is no probability
        assert held.doubt is None
        return
    worth = held.selective
    scores = held.scores
    assert worth is not None
    assert worth.aurc == pytest.approx(1 - scores.selective_hp)
    interval = held.intervals["selective_hp"]
    assert interval.low <= scores.selective_hp <= interval.high
    assert worth.risks[-1] == pytest.approx(1 - scores.hp)
    if policy == Single():  # whose confidence is that of the placement
        assert (worth.calibration_error, worth.ranks, worth.curve) == (None, (), None)
    else:
        errors = [row.confidence - (row.hp == 1) for row in rows]
        assert worth.brier == pytest.approx(np.mean(np.square(errors)))
        assert worth.ranks[0].n == len(rows)
        # The policy's own place is on its curve.
        curve = worth.curve
        threshold = min(t for t in curve.threshold[1:] if t >= policy.threshold)
        point = curve.threshold.index(threshold)
        assert curve.hp[point] == pytest.approx(scores.hp)
        assert curve.hr[point] == pytest.approx(scores.hr)
    # Where every vote is needed, an image hangs on its one doubtful answer; where two of three will
    # do, it does not.
    doubtful = [row.image[-5] in "23" and policy != SelfConsistency(3, 0.5) for row in rows]
    assert [row.doubtful for row in rows] == doubtful
    kept = []
    wrong = []
    for row in rows:
        if row.doubtful:
            wrong.append((min(row.hp, 1 / 2), 1 / 3))
        else:
            kept.append((row.hp, row.hr))
    doubt = held.doubt
    assert isinstance(doubt, Doubt)
    assert (doubt.n, scores.n) == (sum(doubtful), len(rows))
    assert list(doubt.without) == ["hp", "hr"]
    without = np.mean(kept, axis=0).tolist()
    assert list(doubt.without.values()) == pytest.approx(without)
    at_worst = np.mean(kept + wrong, axis=0).tolist()
    assert list(doubt.wrong.values()) == pytest.approx(at_worst)
