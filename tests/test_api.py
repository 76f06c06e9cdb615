"""taxtune from Python: the listing of the README, with plain functions in every place that takes one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

import taxtune
from taxtune.errors import DataError, ProposerError, ResumeError, TaxtuneError, TemplateError
from taxtune.tuning.loop import Tuner
from taxtune.tuning.records import IterationRecord
from tests.tuning.toy import COLOURS, PARENT, make_files

QUICK = {"data.tuning": 8, "iterations": 2, "tracking.mlflow": False}
TREE = {
    "colour": {
        family: [shade for shade in PARENT if PARENT[shade] == family]
        for family in ("reddish", "bluish")
    }
}


def answer(image: Image.Image, prompt: str) -> str:
    """Sees the mean colour; where the image is murky only a prompt that asks for care makes it back off."""
    red, green, blue = image.getpixel((0, 0))  # type: ignore[misc]
    family = "reddish" if red > blue else "bluish"
    if green >= 30:
        return (
            f"{family}, please"
            if "careful" in prompt
            else {"reddish": "scarlet", "bluish": "azure"}[family]
        )
    return (
        ("scarlet" if red > 180 else "crimson")
        if family == "reddish"
        else ("azure" if blue > 200 else "navy")
    )


def next_template(history: list[IterationRecord]) -> str:
    """Sees the answers about each image, and asks for care after a wrong answer."""
    wrong = [row for row in history[-1].rows if row.hp is not None and row.hp < 1]
    return f"Be careful, try {len(history)}." if wrong else f"What is it? Try {len(history)}."


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sub-folder a label."""
    made = make_files(tmp_path_factory.mktemp("toy") / "in").parent
    photos = made.parent / "photos"
    for label in COLOURS:
        (photos / label).mkdir(parents=True)
        for file in made.glob(f"{label}*.png"):
            file.rename(photos / label / file.name)
    return photos


def tuned(photos: Path, out: Path, **more: Any) -> taxtune.TuneResult:
    given: dict[str, Any] = {
        "taxonomy": TREE,
        "examples": photos,
        "vlm": answer,
        "proposer": next_template,
    }
    given |= {"objective": "hp", "baseline": "What is this?"}
    settings = {**QUICK, **more.pop("settings", {})}
    return taxtune.tune(**{**given, **more}, settings=settings, out=out)


@pytest.fixture(scope="module")
def plain(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> taxtune.TuneResult:
    """A run on what `tuned` gives, not to be touched."""
    return tuned(photos, tmp_path_factory.mktemp("plain") / "run")


@pytest.mark.heavy
def test_the_listing(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "tree.csv").write_text(
        "child,parent\ncolour,\n"
        + "".join(f"{family},colour\n" for family in ("reddish", "bluish"))
        + "".join(f"{shade},{family}\n" for shade, family in PARENT.items())
    )
    seen: list[int] = []

    class Watch:
        def on_iteration(self, record: IterationRecord, best: IterationRecord) -> None:
            seen.append(record.iteration)

    result = taxtune.tune(
        taxonomy=taxtune.read_taxonomy(tmp_path / "tree.csv"),
        examples=photos,
        vlm=answer,
        proposer=next_template,
        objective="hp",
        metrics={"polite": lambda row: "please" in row.answer},
        baseline="What is this?",
        settings={"data.tuning": 8, "data.heldout": 12, "iterations": 2, "seed": 0},
        out=tmp_path / "run",
        resume=True,
        callbacks=[Watch(), lambda record, best: seen.append(-record.iteration)],
    )
    assert seen == [0, 0, 1, -1, 2, -2]
    assert result.best.template.startswith("Be careful")
    baseline, winner = result.heldout
    assert winner.scores.hp > baseline.scores.hp
    assert winner.scores.measures["polite"] > baseline.scores.measures["polite"] == 0
    assert (
        result.against("winner", "baseline").metrics["polite"].difference
        == winner.scores.measures["polite"]
    )
    frame = result.to_frame()
    assert frame["iteration"].tolist() == [0, 1, 2]
    assert frame.loc[frame["winner"], "template"].item() == result.best.template
    assert frame["hp"].tolist() == [record.scores.hp for record in result.iterations]
    page = taxtune.save_report(result, tmp_path / "r.html").read_text()
    assert "polite" in page
    assert "data:image/jpeg;base64," in page
    assert (tmp_path / "run/mlflow.db").exists(), "the run is in MLflow as the command line's are"

    run = taxtune.load_run(tmp_path / "run")
    assert run == result
    (kept,) = (tmp_path / "run/mlartifacts").rglob("result.json")
    assert taxtune.load_run(kept.parent) == replace(result, folder=str(kept.parent)), (
        "MLflow has what a machine needs"
    )
    answers = run.answers("winner")
    assert len(answers) == 12
    assert {"image", "answer", "placement", "truth", "hp", "hr", "stage", "polite"} <= set(
        answers.columns
    )
    assert answers["hp"].mean() == pytest.approx(winner.scores.hp)
    assert run.answers(1)["answer"].tolist() == [row.answer for row in result.iterations[1].rows]
    for wrong in ("loser", 9):
        with pytest.raises(DataError, match=r"(There are no|does not exist)"):
            run.answers(wrong)


@pytest.mark.heavy
def test_defaults_need_a_folder_a_tree_and_a_function(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    result = taxtune.tune(TREE, photos, answer, effort="light")
    assert (result.objective, result.constraints) == (
        "hr_at_hp",
        (taxtune.Constraint("hp", 0.98, 0.9),),
    )
    assert (len(result.iterations), len(result.best.rows), len(result.heldout[0].rows)) == (
        7,
        12,
        8,
    )
    assert result.folder == "runs/tune"
    assert capsys.readouterr().out == ""
    with pytest.raises(ResumeError, match="already holds a tuning run"):
        taxtune.tune(TREE, photos, answer)
    longer = taxtune.tune(TREE, photos, answer, settings={"iterations": 12}, resume=True)
    assert longer.iterations[:7] == result.iterations
    assert len(longer.iterations) == 13
    # The prompt is rendered, and stands beside its template.
    template = (tmp_path / "runs/tune/winner.j2").read_text()
    assert template == longer.best.template != longer.best.prompt, "it has a variable"
    assert (tmp_path / "runs/tune/winner.txt").read_text() == longer.best.prompt
    assert "{{" in template
    assert "{{" not in (longer.best.prompt or "{{")
    assert "colour" in (longer.best.prompt or "")
    (kept,) = taxtune.load_run("runs/tune").iterations[longer.winner :][:1]
    assert kept.prompt == longer.best.prompt


def test_settings_are_checked(photos: Path, tmp_path: Path) -> None:
    for settings, words in (
        ({"data.tunning": 8}, r"data\.tunning: unknown key; did you mean 'tuning'"),
        ({"data.tuning": 0}, r"data\.tuning: .*equal to 1 \(got 0\)"),
    ):
        with pytest.raises(TaxtuneError, match=words):
            taxtune.tune(TREE, photos, answer, settings=settings, out=tmp_path / "run")
    with pytest.raises(DataError, match="Leave out goal, or objective"):
        taxtune.tune(TREE, photos, answer, objective="hf", goal=0.9, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_recipe_holds_where_the_call_says_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(Tuner, "run", lambda self: made.append(self.experiment))
    recipe, out = make_files(tmp_path / "in"), tmp_path / "run"
    taxtune.tune(recipe=recipe, vlm=answer, out=out)
    given: dict[str, Any] = {"goal": 0.9, "effort": "heavy", "baseline": "Which?"}
    taxtune.tune(recipe=recipe, vlm=answer, objective="hr_at_hp", **given, out=out)
    asked = {"vlm.temperature": 0.5, "seed": 4}
    taxtune.tune(
        TREE, photos, "openai/gpt-4o", proposer="openai/gpt-4o-mini", settings=asked, out=out
    )
    taxtune.tune(
        TREE, photos, answer, settings={"policy": taxtune.SelfConsistency(4, 0.5)}, out=out
    )
    plain, other, named, sampled = made
    assert (plain.objective.name, plain.iterations, plain.recipe.prompt.baseline) == (
        "hp",
        5,
        "What is this?",
    )
    assert plain.budget.vlm_calls is None
    assert other.objective.constraints == (taxtune.Constraint("hp", 0.9, 0.9),)
    assert (other.iterations, other.budget.vlm_calls, other.recipe.prompt.baseline) == (
        5,
        3200,
        "Which?",
    )
    known = {"kind": "api", "model": "openai/gpt-4o", "temperature": 0.5, "seed": 4}
    assert known.items() <= named.vlm.identity.items()
    assert named.proposer.identity()["model"] == "openai/gpt-4o-mini"
    assert (named.iterations, named.budget.vlm_calls, named.recipe.prompt.domain) == (
        20,
        1600,
        "colour",
    )
    assert sampled.budget.vlm_calls == 4 * 1600, "four answers count once"


def test_images_and_labels_may_be_objects(photos: Path, tmp_path: Path) -> None:
    files = sorted(photos.glob("*/*.png"))
    pairs = [(Image.open(file).convert("RGB"), file.parent.name) for file in files]
    frame = pd.DataFrame(
        {"image": [str(file) for file in files], "label": [file.parent.name for file in files]}
    )
    one = tuned(photos, tmp_path / "pairs", examples=pairs)
    other = tuned(photos, tmp_path / "frame", examples=frame)
    assert (
        {h.name for h in one.heldout} == {h.name for h in other.heldout} == {"baseline", "winner"}
    )
    assert len(list((tmp_path / "pairs/images").iterdir())) == len(files)


def test_a_changed_function_is_another_run(photos: Path, plain: taxtune.TuneResult) -> None:
    folder = Path(plain.folder)
    with pytest.raises(ResumeError, match=r"vlm\."):
        tuned(photos, folder, vlm=lambda image, prompt: "navy", resume=True)
    with pytest.raises(ResumeError, match=r"prompt\.baseline"):
        tuned(photos, folder, baseline="Which one?", resume=True)


def test_async_functions_work_where_a_loop_is_running(
    photos: Path, tmp_path: Path, plain: taxtune.TuneResult
) -> None:
    async def slow(image: Image.Image, prompt: str) -> str:
        await asyncio.sleep(0)
        return answer(image, prompt)

    async def notebook() -> taxtune.TuneResult:
        return tuned(photos, tmp_path / "async", vlm=slow)

    assert [r.scores for r in asyncio.run(notebook()).iterations] == [
        r.scores for r in plain.iterations
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("exact-match", lambda scores: scores.measures["exact-match"]),
        ("polite", lambda scores: scores.measures["polite"]),
        (lambda scores: scores.hr - scores.hp, lambda scores: scores.hr - scores.hp),
        (taxtune.Objective("short", lambda s: -s.depth), lambda scores: -scores.depth),
    ],
)
def test_any_score_can_be_the_objective(
    photos: Path, tmp_path: Path, objective: Any, expected: Any
) -> None:
    metrics = {"polite": lambda row: "please" in row.answer}
    result = tuned(photos, tmp_path / "run", objective=objective, metrics=metrics)
    for record in result.iterations:
        assert record.value == pytest.approx(expected(record.scores))
    assert result.best.value == max(record.value for record in result.iterations)
    assert taxtune.save_report(result, tmp_path / "r.html").stat().st_size > 10_000
    assert taxtune.load_run(tmp_path / "run") == result


@pytest.mark.heavy
def test_compare_and_evaluate(photos: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"taxonomy": TREE, "examples": photos, "vlm": answer, "settings": QUICK}
    both = taxtune.compare(
        ["hp", "accuracy"], **given, proposer=next_template, out=tmp_path / "both"
    )
    for name, run in both.named_runs:
        assert (tmp_path / f"both/winner-{name}.txt").read_text() == run.best.prompt
    assert [held.name for held in both.heldout] == ["baseline", "hp", "accuracy"]
    assert both.against("hp", "accuracy") is None
    assert both.against("accuracy", "hp").metrics["hp"].difference <= 0
    assert both.to_frame()["name"].tolist() == ["baseline", "hp", "accuracy"]
    assert taxtune.load_run(tmp_path / "both") == both
    assert len(both.answers("hp")) == 12
    with pytest.raises(TaxtuneError, match="at least two different objectives"):
        taxtune.compare(["hp"], **given, out=tmp_path / "one")

    scored = taxtune.evaluate("Be careful!", **given, out=tmp_path / "evaluate")
    assert [held.name for held in scored.heldout] == ["baseline", "template"]
    assert scored.against("template", "baseline").metrics["hp"].difference > 0


def test_a_closed_list_of_labels_is_a_warning_but_for_proposals(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed = f"Which of these is it: {', '.join(COLOURS)}?"
    scored = taxtune.evaluate(
        closed, TREE, photos, answer, baseline=closed, settings=QUICK, out=tmp_path / "evaluate"
    )
    assert scored.heldout[1].template == closed
    said = [
        record.getMessage()
        for record in caplog.records
        if "labels in the prompt" in record.getMessage()
    ]
    assert len(said) == 1, "the baseline is checked where a run begins"
    assert "The template 'template'" in said[0]
    assert "and 1 more" in said[0]
    assert "hold for this list of labels" in said[0]
    result = tuned(
        photos, tmp_path / "run", baseline=closed, proposer=lambda history: f"{closed} Really?"
    )
    assert "The baseline has labels in the prompt" in caplog.text
    assert [record.state for record in result.iterations] == ["complete", "failed", "failed"]
    assert "gives away the answer" in (result.iterations[1].reason or "")
    with pytest.raises(TemplateError):
        taxtune.evaluate(
            "{{ nothing }}", TREE, photos, answer, settings=QUICK, out=tmp_path / "evaluate"
        )


def test_a_run_is_read_once_it_is_finished(photos: Path, tmp_path: Path) -> None:
    def stop(record: IterationRecord, best: IterationRecord) -> None:
        if record.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(photos, tmp_path / "run", callbacks=[stop])
    with pytest.raises(DataError, match=r"not finished.*--resume"):
        taxtune.load_run(tmp_path / "run")
    assert len(tuned(photos, tmp_path / "run", resume=True).iterations) == 3
    with pytest.raises(DataError, match="does not contain a tuning run"):
        taxtune.load_run(tmp_path)
    (tmp_path / "run/result.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(DataError, match="not a result of a tuning run"):
        taxtune.load_run(tmp_path / "run")


def test_proposers_see_rows_and_say_why_they_fail(photos: Path, tmp_path: Path) -> None:
    goals: list[str] = []

    def told(history: list[IterationRecord], goal: Any) -> str:
        goals.append(goal.objective.name)
        if history[-1].rejected:
            assert "scarlet" in history[-1].rejected[0][1]
        return "Is it scarlet?" if len(history) == 1 else f"Try {len(history)}."

    result = tuned(photos, tmp_path / "run", proposer=told)
    assert [record.state for record in result.iterations] == ["complete", "failed", "complete"]
    assert goals == ["hp", "hp"]
    for wrong, message in (
        (lambda history: 3, "it returned 3, not a"),
        (lambda history: 1 / 0, "ZeroDivisionError"),
    ):
        with pytest.raises(ProposerError, match=message):
            tuned(photos, tmp_path / message.split()[0], proposer=wrong)
    with pytest.raises(ProposerError, match=r"Unknown proposer.*fragments"):
        tuned(photos, tmp_path / "x", proposer="gepa")


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"hp": lambda row: 1}, "This name cannot be used"),
        ({"kind": 3}, "is not a function"),
        ({"kind": lambda row: row.nothing}, "'kind' failed on the answer to .*AttributeError"),
        ({"kind": lambda row: "much"}, "could not convert string to float"),
    ],
)
def test_metrics_that_cannot_be_taken(
    photos: Path, tmp_path: Path, metrics: Any, message: str
) -> None:
    with pytest.raises(TaxtuneError, match=message):
        tuned(photos, tmp_path / "run", metrics=metrics)


def test_place_and_score() -> None:
    placed = taxtune.place(["scarlet!", None, "Something reddish", "I cannot tell."], TREE)
    assert placed["label"].tolist()[0] == "scarlet"
    assert placed["placement"].tolist()[2] == "colour/reddish"
    assert pd.isna(placed["placement"][1])
    assert placed["abstained"].tolist()[3]
    assert placed["depth"].tolist() == [2, pd.NA, 1, 0]
    found = taxtune.score(["reddish", "navy"], ["scarlet", "navy"], TREE)
    assert (found.hp, found.hr) == (1.0, pytest.approx((2 / 3 + 1) / 2))
    free = taxtune.score(["Something reddish", "navy!"], ["scarlet", "navy"], TREE, free_text=True)
    assert free == found
    for wrong in ((["navy"], []), ([], [])):
        with pytest.raises(DataError, match="There are"):
            taxtune.score(*wrong, TREE)
    with pytest.raises(TaxtuneError, match="marine"):
        taxtune.score(["marine"], ["navy"], TREE)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_is_not_off_the_tree_and_not_wrong(missing: Any) -> None:
    placed = taxtune.place(["scarlet", missing], TREE)
    assert placed.iloc[1].isna().all()
    for free_text in (True, False):
        with pytest.raises(DataError, match="There is no answer number 2"):
            taxtune.score(["scarlet", missing], ["scarlet", "navy"], TREE, free_text=free_text)
    with pytest.raises(DataError, match="There is no target number 1"):
        taxtune.score(["scarlet"], [missing], TREE)


@pytest.mark.heavy
def test_a_reply_that_ends_within_its_thought_is_missing_in_python() -> None:
    replies = ["<think>navy?</think> scarlet", "◁think▷navy"]
    placed = taxtune.place(replies, TREE)
    assert list(placed.label.isna()) == [False, True]
    assert placed.label[0] == "scarlet"
    with pytest.raises(DataError, match="no answer number 2"):
        taxtune.score(replies, ["scarlet", "navy"], TREE, free_text=True)


def test_a_recipe_runs_with_some_of_its_parts_replaced(photos: Path, tmp_path: Path) -> None:
    recipe = make_files(tmp_path / "in")
    given: dict[str, Any] = {"recipe": recipe, "vlm": answer, "proposer": next_template}
    given["settings"] = {"iterations": 2}
    metrics = {"polite": lambda row: "please" in row.answer}
    result = taxtune.tune(**given, metrics=metrics, out=tmp_path / "run")
    assert result.name == "toy"
    assert result.best.template.startswith("Be careful")
    assert result.heldout[1].scores.measures["polite"] > 0
    assert result.provenance.facts["Model"]["model"].endswith("answer")
    assert "kind: python" in (result.provenance.recipe or "")
    assert not (tmp_path / "run/mlflow.db").exists(), "the recipe wants no MLflow"
    longer = taxtune.tune(
        **{**given, "settings": {"iterations": 3}},
        metrics=metrics,
        out=tmp_path / "run",
        resume=True,
    )
    assert longer.iterations[:3] == result.iterations

    with pytest.raises(ResumeError, match="vlm"):
        taxtune.tune(
            **{**given, "vlm": lambda image, prompt: "navy"}, out=tmp_path / "run", resume=True
        )
    fewer = {**given, "settings": {"iterations": 2, "data.heldout": 8}}
    both = taxtune.compare(["hp", "polite"], **fewer, metrics=metrics, out=tmp_path / "both")
    assert [(held.name, held.scores.n) for held in both.heldout] == [
        ("baseline", 8),
        ("hp", 8),
        ("polite", 8),
    ]
    loaded = taxtune.load_recipe(recipe)
    scored = taxtune.evaluate(
        "Be careful!", recipe=loaded, vlm=answer, examples=photos, out=tmp_path / "evaluate"
    )
    assert len(scored.answers("template")) == 12
    with pytest.raises(TaxtuneError, match=r"recipe\.yaml: data\.tuning: .*equal to 1 \(got 0\)"):
        taxtune.tune(**{**given, "settings": {"data.tuning": 0}}, out=tmp_path / "none")


def test_an_argument_that_there_is_not_is_named_with_its_function() -> None:
    with pytest.raises(TypeError, match=r"tune\(\) got an unexpected keyword argument 'gaol'"):
        taxtune.tune(recipe="fieldguide", gaol=0.9)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"evaluate\(\) got an unexpected keyword argument 'effort'"
    ):
        taxtune.evaluate("Say what.", recipe="fieldguide", effort="light")  # type: ignore[call-arg]
