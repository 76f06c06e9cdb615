import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from taxtune.cli.running import guarded
from taxtune.errors import ImageError, ModelError, ResumeError
from taxtune.models import Failure
from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup, build
from taxtune.tuning.loop import Callback
from taxtune.tuning.plan import highest_provable, make_plan
from taxtune.tuning.records import TuneResult
from tests.tuning.toy import ToyVLM, compared, make_parts, tuned


def history(folder: Path) -> list[dict]:
    """Returns the history without what depends on the clock or on what the store knew."""
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    for record in records:
        del record["usage"]
        for row in record["rows"]:
            del row["from_store"]
    return records


def toy(folder: Path, *overrides: str, vlm: ToyVLM | None = None) -> Setup:
    """Returns the toy run of `in` and `out` in a folder."""
    return make_parts(folder / "in", folder / "out", vlm, overrides)


class Events(Callback):
    def __init__(self):
        self.said = []

    def on_start(self, tuner, done):
        self.said.append(("start", len(done)))

    def on_iteration(self, record, best):
        self.said.append(("iteration", record.iteration, best.iteration))

    def on_result(self, result):
        self.said.append(("result", result.winner))

    def on_stop(self, status):
        self.said.append(("stop", status))


@dataclass(frozen=True)
class Run:
    """A finished run, in `in` and `out` of a folder that is to be copied and not to be touched."""

    folder: Path
    result: TuneResult
    said: list
    asked: int

    def copied(self, folder: Path) -> Path:
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    folder, events = tmp_path_factory.mktemp("whole"), Events()
    session = toy(folder)
    result = tuned(session, callbacks=[events])
    return Run(folder, result, events.said, session.vlm.asked)


def templates(result: TuneResult) -> list[str | None]:
    return [record.template for record in result.iterations]


def test_a_run_tunes_and_judges(whole):
    result, said = whole.result, whole.said
    assert [r.iteration for r in result.iterations] == [0, 1, 2, 3, 4, 5]
    assert len(set(templates(result))) == 6, "no template twice"
    baseline, winner = result.heldout
    assert baseline.template == "What is this?"
    # The toy errs on murky images unless told to be careful: hP can rise, and rises.
    assert winner.scores.hp > baseline.scores.hp
    difference = winner.scores.hp - baseline.scores.hp
    assert result.differences[0].metrics["hp"].difference == pytest.approx(difference)
    assert winner.scores.n == 12
    assert result.iterations[result.winner].scores.hr >= result.bounds["hr"] > result.trivial_hr
    assert said[0] == ("start", 0)
    assert [e[1] for e in said if e[0] == "iteration"] == [0, 1, 2, 3, 4, 5]
    assert said[-2:] == [("result", result.winner), ("stop", "finished")]


def test_a_finished_run_resumes_to_the_same_result_and_more_iterations_go_on(tmp_path, whole):
    first, _ = whole.result, whole.copied(tmp_path)
    session = toy(tmp_path)
    again = tuned(session, resume=True)
    assert again.iterations == first.iterations
    assert [h.scores for h in again.heldout] == [h.scores for h in first.heldout]
    assert session.vlm.asked == 0
    result = tuned(toy(tmp_path, "iterations=8"), resume=True)
    assert result.iterations[:6] == first.iterations
    assert len(result.iterations) == 9


def test_a_history_that_fell_behind_is_written_again(tmp_path, whole):
    # A process can die after the last iteration is in the database and before it is in the file.
    history = whole.copied(tmp_path) / "out/history.jsonl"
    before = history.read_text()
    history.write_text("".join(before.splitlines(True)[:-1]))
    tuned(toy(tmp_path), resume=True)
    assert history.read_text() == before


def test_a_run_is_not_overwritten_nor_mixed_with_another(tmp_path, whole):
    whole.copied(tmp_path)
    with pytest.raises(ResumeError, match="--resume"):
        tuned(toy(tmp_path))
    with pytest.raises(ResumeError, match=r"\n  seed: was 3, is 4\n") as error:
        tuned(toy(tmp_path, "seed=4"), resume=True)
    manifest = tmp_path / "in/manifest.csv"
    session = toy(tmp_path)
    manifest.write_text(manifest.read_text().replace("navy0.png,navy", "navy0.png,azure"))
    assert "images" not in str(error.value), "they follow from the seed"
    with pytest.raises(ResumeError, match=r"1 label changed: navy0\.png: navy → azure"):
        tuned(session, resume=True)


@pytest.mark.heavy
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path, whole):
    class Interrupted(ToyVLM):
        def answer(self, questions):
            if self.asked >= 8:
                raise KeyboardInterrupt
            return super().answer(questions)

    events = Events()
    with pytest.raises(KeyboardInterrupt):
        tuned(toy(tmp_path, vlm=Interrupted()), callbacks=[events])
    assert events.said[-1] == ("stop", "killed")
    session = toy(tmp_path)
    tuned(session, resume=True)
    assert history(tmp_path / "out") == history(whole.folder / "out")
    assert session.vlm.asked == whole.asked - 8


def test_failed_calls_are_missing_not_wrong(tmp_path):
    class OneFails(ToyVLM):
        def answer(self, questions):
            replies = super().answer(questions)
            names = [question.image.name for question in questions]
            if min(names) == "azure0.png":
                replies[names.index("azure0.png")] = Failure("filtered", retryable=False)
            return replies

    result = tuned(toy(tmp_path, "max_missing=0.4", vlm=OneFails()))
    record = result.iterations[0]
    unanswered = [row for row in record.rows if row.failure]
    if record.missing:
        assert all(row.hp is None and row.placement is None for row in unanswered)
        assert record.scores.n == 8 - record.missing
    held = [h for h in result.heldout if any(row.failure for row in h.rows)]
    assert record.missing or held, "the failing image must be in one of the splits"
    for h in held:
        assert h.scores.n == sum(row.failure is None for row in h.rows)


def test_a_model_out_of_reach_stops_the_run_and_resume_asks_the_same_template(tmp_path, whole):
    class Down(ToyVLM):
        def answer(self, questions):
            if self.asked >= 8:
                return [Failure("connection refused", retryable=True)] * len(questions)
            return super().answer(questions)

    with pytest.raises(ModelError, match=r"Iteration 1 stopped.*connection refused.*--resume"):
        tuned(toy(tmp_path, vlm=Down()))
    result = tuned(toy(tmp_path), resume=True)
    assert templates(result) == templates(whole.result)


@pytest.mark.heavy
def test_objectives_are_compared_from_one_baseline_on_the_same_images(tmp_path):
    result = compared(toy(tmp_path, "iterations=12"), ("hp", "accuracy"))
    hp, accuracy = result.runs
    assert hp.iterations[0].rows[0].answer == accuracy.iterations[0].rows[0].answer
    assert accuracy.iterations[0].usage.vlm.calls == 0, "the baseline was asked once"
    assert [h.name for h in result.heldout] == ["baseline", "hp", "accuracy"]
    pairs = {each.key for each in result.differences}
    assert pairs == {"hp - baseline", "accuracy - baseline", "accuracy - hp"}
    scores = {h.name: h.scores for h in result.heldout}
    assert scores["hp"].hp > scores["accuracy"].hp
    assert scores["accuracy"].accuracy >= scores["hp"].accuracy
    assert result.against("hp", "baseline").metrics["hp"].difference > 0


class Lost(ToyVLM):
    """Fails where an image is gone, as a model behind an API does."""

    def answer(self, questions):
        there = [question for question in questions if question.image.exists()]
        answers = iter(super().answer(there))
        gone = Failure("The image file does not exist.", retryable=False)
        return [next(answers) if question in there else gone for question in questions]


def test_images_that_go_end_the_run_which_goes_on_when_they_are_back(tmp_path):
    expected = tuned(make_parts(tmp_path / "other", tmp_path / "other" / "expected"))
    images, safe, out = tmp_path / "in", tmp_path / "safe", tmp_path / "out"

    def hide(record, best):
        if record.iteration == 1:
            shutil.copytree(images, safe)
            for file in images.glob("*.png"):
                file.unlink()

    def parts_again():
        return Setup(load_recipe(images / "recipe.yaml"), out, vlm=Lost())

    parts = make_parts(images, out, Lost())
    with pytest.raises(ImageError, match="8 of 8 images are no longer there"):
        tuned(parts, callbacks=[hide])
    assert len(history(out)) == 2, "what the loss of the images voided is not an iteration"

    with pytest.raises(ImageError) as error, guarded(parts, "Continue with: X"):
        build(parts_again())
    (note,) = error.value.__notes__
    assert note == "Finished work is saved. Continue with: X"
    shutil.copytree(safe, images, dirs_exist_ok=True)
    again = tuned(parts_again(), resume=True)
    assert templates(again) == templates(expected)


def test_a_plan_counts_calls_and_names_every_problem(tmp_path):
    plan = make_plan(toy(tmp_path), ("hp", "hr_at_hp"))
    assert plan.problems == ()
    assert (plan.llm_calls, plan.judge_calls, plan.images, plan.nodes) == (0, 0, 20, 7)
    assert plan.vlm_calls == 8 * (1 + 10) + 12 * 3
    (power,) = plan.power
    assert (power.measure, power.goal, power.images) == ("hp", 0.98, 8)
    assert power.provable < 0.98 < highest_provable(power.needed, 0.9) < 0.985
    # The templates of each rung are asked about what is new to them, and so is the baseline that
    # others are held to by the floor of "hp".
    plan = make_plan(toy(tmp_path, "data.first_rung=2"))
    first, second, last = plan.rungs
    assert (first.images, first.templates, last.images) == (2, 6, 8)
    asked = 2 * 6 + (second.images - 2) * second.templates + (8 - second.images) * last.templates
    assert plan.vlm_calls == asked + (8 - 2) + 12 * 2
    (tmp_path / "in/navy0.png").unlink()
    (tmp_path / "in/navy1.png").write_bytes(b"")
    recipe = load_recipe(tmp_path / "in/recipe.yaml", ["proposer.fragments=nope"])
    plan = make_plan(Setup(recipe, tmp_path / "out2", vlm=ToyVLM()))
    text = "\n".join(plan.problems)
    for name in ("navy0.png", "navy1.png", "nope"):
        assert name in text
