"""Calibrating scores and a run together, on the toy's coloured squares."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from taxtune.classifier.cascade import CascadeRun
from taxtune.data import Example
from taxtune.data.boxes import Box
from taxtune.errors import DataError
from taxtune.policies import Posterior, SelfConsistency, Single
from tests.tuning.toy import COLOURS, Wavering, Weighing, toy, tuned

SMALL = ("data.tuning=4", "data.heldout=6", "iterations=1", "proposer.fragments=toy.yaml")


def write_scores(file, images, *, sure=0.9, second="azure"):
    """Scores that are sure of the colour in each name but for one other."""
    rows = ["image,label,score"]
    for image in images:
        colour = Path(image).stem.rstrip("0123456789")
        rows.append(f"{image},{colour},{sure}")
        if colour != second:
            rows.append(f"{image},{second},{0.99 - sure}")
    file.write_text("\n".join(rows) + "\n")
    return file


def all_images(folder):
    return sorted(path.name for path in (folder / "in").glob("*.png"))


def cascade_run(folder, vlm, *overrides, **given):
    tuned(toy(folder, *SMALL, *overrides, vlm=vlm))
    scores = write_scores(folder / "scores.csv", all_images(folder))
    return CascadeRun(
        folder=folder / "run", scores=scores, risk=0.6, confidence=0.5, vlm=vlm, **given
    )


def test_the_policy_is_the_runs_own(tmp_path):
    single = cascade_run(tmp_path / "one", Wavering())
    assert single.policy == Single()
    found = single.cascade()
    assert (found.samples, found.policy) == (1, {"kind": "direct"})
    assert found.images == 10
    voting = ("policy.samples=4", "policy.threshold=0.75")
    assert cascade_run(tmp_path / "four", Wavering(), *voting).policy.samples == 4
    weighed = ("policy.kind=posterior", "policy.threshold=0.9")
    weighing = cascade_run(tmp_path / "weighed", Weighing(), *weighed)
    assert isinstance(weighing.policy, Posterior)
    assert weighing.cascade().policy["kind"] == "posterior"
    other = CascadeRun(
        folder=tmp_path / "one" / "run", scores=single.scores, risk=0.6, samples=3, vlm=Wavering()
    )
    assert isinstance(other.policy, SelfConsistency)
    assert other.policy.samples == 3
    assert other.confidence == 0.9


def test_a_single_answer_is_as_sure_as_the_run_knows(tmp_path):
    """Of the toy's answers only those about clear images are right, which the held-out split shows."""
    found = cascade_run(tmp_path, Wavering()).cascade()
    assert {point.second for point in found.points[1:]} - {None} <= set(Single().thresholds)
    assert found.points[-1].level.outcomes.images == 10


def test_prompts_have_the_candidates_of_these_scores(tmp_path):
    """The run's own file of candidates is about its own images."""
    asked = []

    class Noting(Wavering):
        def reply(self, question):
            """Notes the prompt."""
            asked.append(question.prompt)
            return super().reply(question)

    (tmp_path / "in").mkdir()
    images = [f"{colour}{n}.png" for colour in COLOURS for n in range(5)]
    own = write_scores(tmp_path / "own.csv", images, sure=0.4)
    vlm = Noting()
    prompt = "prompt.baseline=\"What is it? {{ candidates | join(' or ') }}\""
    tuned(toy(tmp_path, *SMALL, f"data.context.candidates={own}", prompt, vlm=vlm))
    more = tmp_path / "more"
    for colour, (red, green, blue) in COLOURS.items():
        for n in range(10, 14):
            (more / colour).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (16, 16), (red, green + n, blue)).save(
                more / colour / f"{colour}{n}.png"
            )
    images = [path.name for path in more.rglob("*.png")]
    scores = write_scores(tmp_path / "new.csv", images, sure=0.7, second="crimson")
    work = CascadeRun(
        folder=tmp_path / "run", scores=scores, risk=0.6, confidence=0.5, data=str(more), vlm=vlm
    )
    asked.clear()
    found = work.cascade()
    assert len(asked) == found.images == 16
    assert all("0.70" in prompt or "0.29" in prompt for prompt in asked)


def test_groups_are_those_of_the_run(tmp_path):
    vlm = Wavering()
    setup = toy(tmp_path, *SMALL, "data.group=place", vlm=vlm)
    manifest = tmp_path / "in" / "manifest.csv"
    header, *rows = manifest.read_text().splitlines()
    paired = [",".join([*row.split(",")[:2], str(i // 2)]) for i, row in enumerate(rows)]
    manifest.write_text("\n".join([header, *paired]) + "\n")
    tuned(setup)
    scores = write_scores(tmp_path / "scores.csv", all_images(tmp_path))
    found = CascadeRun(
        folder=tmp_path / "run", scores=scores, risk=0.6, confidence=0.3, vlm=vlm
    ).cascade()
    assert found.unit == "place"
    assert found.units < found.images


def test_boxes_of_photos_have_no_scores(tmp_path):
    box = Box(0.1, 0.1, 0.5, 0.5)
    cut = Example("a.jpg#1", Path("a.jpg"), "azure", 1, box=box)
    work = CascadeRun(folder=tmp_path, scores=tmp_path / "scores.csv", risk=0.5)
    with pytest.raises(DataError, match="the run asks about boxes"):
        work.usable([cut])
