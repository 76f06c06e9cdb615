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
    """The history without what depends on the clock and on what the store already knew."""
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    for record in records:
        del record["usage"]
        for row in record["rows"]:
            del row["from_store"]
    return records


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
    session = make_parts(folder / "in", folder / "out")
    result = tuned(session, folder / "out", callbacks=[events])
    return Run(folder, result, events.said, session.vlm.asked)


def test_a_run_tunes_and_judges(whole):
    result, said = whole.result, whole.said
    assert [r.iteration for r in result.iterations] == [0, 1, 2, 3, 4, 5]
    assert len({r.template for r in result.iterations}) == 6, "no template twice"
    baseline, winner = result.heldout
    assert baseline.template == "What is this?"
    # The toy errs on murky images unless told to be careful: hP can rise, and rises.
    assert winner.scores.hp > baseline.scores.hp
    assert result.differences[0].metrics["hp"].difference == pytest.approx(
        winner.scores.hp - baseline.scores.hp
    )
    assert winner.scores.n == 12
    assert result.iterations[result.winner].scores.hr >= result.bounds["hr"] > result.trivial_hr
    assert said[0] == ("start", 0)
    assert [e[1] for e in said if e[0] == "iteration"] == [0, 1, 2, 3, 4, 5]
    assert said[-2:] == [("result", result.winner), ("stop", "finished")]


def test_a_finished_run_resumes_to_the_same_result_and_more_iterations_go_on(tmp_path, whole):
    first, _ = whole.result, whole.copied(tmp_path)
    session = make_parts(tmp_path / "in", tmp_path / "out")
    again = tuned(session, tmp_path / "out", resume=True)
    assert again.iterations == first.iterations
    assert [h.scores for h in again.heldout] == [h.scores for h in first.heldout]
    assert session.vlm.asked == 0
    longer = make_parts(tmp_path / "in", tmp_path / "out", overrides=("iterations=8",))
    result = tuned(longer, tmp_path / "out", resume=True)
    assert result.iterations[:6] == first.iterations
    assert len(result.iterations) == 9


def test_a_history_that_fell_behind_is_written_again(tmp_path, whole):
    # A process can die after the last iteration is in the database and before it is in the file.
    history = whole.copied(tmp_path) / "out/history.jsonl"
    before = history.read_text()
    history.write_text("".join(before.splitlines(True)[:-1]))
    tuned(make_parts(tmp_path / "in", tmp_path / "out"), tmp_path / "out", resume=True)
    assert history.read_text() == before


def test_a_run_is_not_overwritten_nor_mixed_with_another(tmp_path, whole):
    whole.copied(tmp_path)
    with pytest.raises(ResumeError, match="--resume"):
        tuned(make_parts(tmp_path / "in", tmp_path / "out"), tmp_path / "out")
    with pytest.raises(ResumeError, match=r"recipe\.seed: was 3, is 4"):
        tuned(
            make_parts(tmp_path / "in", tmp_path / "out", overrides=("seed=4",)),
            tmp_path / "out",
            resume=True,
        )
    manifest = tmp_path / "in/manifest.csv"
    session = make_parts(tmp_path / "in", tmp_path / "out")
    manifest.write_text(manifest.read_text().replace("navy0.png,navy", "navy0.png,azure"))
    with pytest.raises(ResumeError, match="images: the content has changed"):
        tuned(session, tmp_path / "out", resume=True)


@pytest.mark.heavy
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path, whole):
    class Interrupted(ToyVLM):
        def answer(self, questions):
            if self.asked >= 8:
                raise KeyboardInterrupt
            return super().answer(questions)

    events = Events()
    with pytest.raises(KeyboardInterrupt):
        tuned(
            make_parts(tmp_path / "in", tmp_path / "out", Interrupted()),
            tmp_path / "out",
            callbacks=[events],
        )
    assert events.said[-1] == ("stop", "killed")
    session = make_parts(tmp_path / "in", tmp_path / "out")
    tuned(session, tmp_path / "out", resume=True)
    assert history(tmp_path / "out") == history(whole.folder / "out")
    assert session.vlm.asked == whole.asked - 8


def test_failed_calls_are_missing_not_wrong(tmp_path):
    class OneFails(ToyVLM):
        def answer(self, questions):
            from taxtune.models import Failure

            replies = super().answer(questions)
            first = sorted(q.image.name for q in questions)[0]
            return [
                Failure("filtered", retryable=False) if q.image.name == first == "azure0.png" else r
                for q, r in zip(questions, replies, strict=True)
            ]

    session = make_parts(
        tmp_path / "in", tmp_path / "out", OneFails(), overrides=("max_missing=0.4",)
    )
    result = tuned(session, tmp_path / "out")
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
            from taxtune.models import Failure

            if self.asked >= 8:
                return [Failure("connection refused", retryable=True)] * len(questions)
            return super().answer(questions)

    with pytest.raises(ModelError, match=r"Iteration 1 stopped.*connection refused.*--resume"):
        tuned(make_parts(tmp_path / "in", tmp_path / "out", Down()), tmp_path / "out")
    result = tuned(make_parts(tmp_path / "in", tmp_path / "out"), tmp_path / "out", resume=True)
    assert [r.template for r in result.iterations] == [r.template for r in whole.result.iterations]


@pytest.mark.heavy
def test_objectives_are_compared_from_one_baseline_on_the_same_images(tmp_path):
    session = make_parts(tmp_path / "in", tmp_path / "out", overrides=("iterations=12",))
    result = compared(session, ("hp", "accuracy"))
    hp, accuracy = result.runs
    assert hp.iterations[0].rows[0].answer == accuracy.iterations[0].rows[0].answer
    assert accuracy.iterations[0].usage.vlm.calls == 0, "the baseline was asked once"
    assert [h.name for h in result.heldout] == ["baseline", "hp", "accuracy"]
    assert {each.key for each in result.differences} == {
        "hp - baseline",
        "accuracy - baseline",
        "accuracy - hp",
    }
    scores = {h.name: h.scores for h in result.heldout}
    assert scores["hp"].hp > scores["accuracy"].hp
    assert scores["accuracy"].accuracy >= scores["hp"].accuracy
    assert result.against("hp", "baseline").metrics["hp"].difference > 0


class Lost(ToyVLM):
    """Fails where an image is gone, as a model behind an API does."""

    def answer(self, questions):
        there = [question for question in questions if question.image.exists()]
        answers = iter(super().answer(there))
        return [
            next(answers) if q in there else Failure("The image file does not exist.", False)
            for q in questions
        ]


def test_images_that_go_end_the_run_which_goes_on_when_they_are_back(tmp_path):
    expected = tuned(make_parts(tmp_path / "other", tmp_path / "expected"))
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

    with pytest.raises(ImageError) as error, guarded(out, "Continue with: X"):
        build(parts_again())
    (note,) = error.value.__notes__
    assert note == "Finished work is saved. Continue with: X"
    shutil.copytree(safe, images, dirs_exist_ok=True)
    again = tuned(parts_again(), resume=True)
    assert [each.template for each in again.iterations] == [
        each.template for each in expected.iterations
    ]


def test_a_plan_counts_calls_and_names_every_problem(tmp_path):
    session = make_parts(tmp_path / "in", tmp_path / "out")
    plan = make_plan(session, ("hp", "hr_at_hp"))
    assert plan.problems == ()
    assert (plan.llm_calls, plan.judge_calls, plan.images, plan.nodes) == (0, 0, 20, 7)
    assert plan.vlm_calls == 8 * (1 + 10) + 12 * 3
    (power,) = plan.power
    assert (power.measure, power.goal, power.images) == ("hp", 0.98, 8)
    assert power.provable < 0.98 < highest_provable(power.needed, 0.9) < 0.985
    # The templates of each rung are asked about what is new to them, and so is the baseline that others are
    # held to by the floor of "hp".
    plan = make_plan(
        make_parts(tmp_path / "in", tmp_path / "out", overrides=("data.first_rung=2",))
    )
    first, second, last = plan.rungs
    assert (first.images, first.templates, last.images) == (2, 6, 8)
    asked = 2 * 6 + (second.images - 2) * second.templates + (8 - second.images) * last.templates
    assert plan.vlm_calls == asked + (8 - 2) + 12 * 2
    (tmp_path / "in/navy0.png").unlink()
    (tmp_path / "in/navy1.png").write_bytes(b"")
    recipe = load_recipe(tmp_path / "in/recipe.yaml", ["proposer.fragments=nope"])
    text = "\n".join(make_plan(Setup(recipe, tmp_path / "out2", vlm=ToyVLM())).problems)
    assert "navy0.png" in text
    assert "navy1.png" in text
    assert "nope" in text
