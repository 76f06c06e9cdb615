"""taxtune from Python: the listing of the README, with plain functions in every place that takes one."""

from __future__ import annotations

import asyncio
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

import taxtune
from taxtune.errors import DataError, ProposerError, ResumeError, TaxtuneError, TemplateError
from taxtune.report.wording import signed
from taxtune.tuning.records import ExampleRow, IterationRecord
from tests.tuning.toy import COLOURS, PARENT, make_files

TREE = {"colour": {family: [shade for shade in PARENT if PARENT[shade] == family] for family in ("reddish", "bluish")}}


def answer(image: Image.Image, prompt: str) -> str:
    """Sees the mean colour; where the image is murky only a prompt that asks for care makes it back off."""
    red, green, blue = image.getpixel((0, 0))  # type: ignore[misc]
    family = "reddish" if red > blue else "bluish"
    if green >= 30:
        return f"{family}, please" if "careful" in prompt else {"reddish": "scarlet", "bluish": "azure"}[family]
    return ("scarlet" if red > 180 else "crimson") if family == "reddish" else ("azure" if blue > 200 else "navy")


def next_template(history: list[IterationRecord]) -> str:
    """Sees what was said about each image, and asks for care once an answer was wrong."""
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
    given: dict[str, Any] = {"taxonomy": TREE, "examples": photos, "vlm": answer, "proposer": next_template}
    given |= {"tuning": 8, "iterations": 2, "mlflow": False, "baseline": "What is this?"}
    return taxtune.tune(**{**given, **more}, out=out)


@pytest.fixture(scope="module")
def plain(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> taxtune.TuneResult:
    """A run on what `tuned` gives, not to be touched."""
    return tuned(photos, tmp_path_factory.mktemp("plain") / "run")


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
        tuning=8,
        heldout=12,
        iterations=2,
        seed=0,
        out=tmp_path / "run",
        resume=True,
        callbacks=[Watch(), lambda record, best: seen.append(-record.iteration)],
    )
    assert seen == [0, 0, 1, -1, 2, -2]
    assert result.best.template.startswith("Be careful")
    baseline, winner = result.heldout
    assert winner.scores.hp > baseline.scores.hp
    assert winner.scores.measures["polite"] > baseline.scores.measures["polite"] == 0
    assert result.against("winner", "baseline").metrics["polite"].difference == winner.scores.measures["polite"]
    frame = result.to_frame()
    assert frame["iteration"].tolist() == [0, 1, 2]
    assert frame.loc[frame["winner"], "template"].item() == result.best.template
    assert frame["hp"].tolist() == [record.scores.hp for record in result.iterations]
    page = result.report(tmp_path / "r.html").read_text()
    assert "polite" in page
    assert "data:image/jpeg;base64," in page
    assert (tmp_path / "run/mlflow.db").exists(), "the run is in MLflow as the command line's are"

    run = taxtune.load_run(tmp_path / "run")
    assert run == result
    (kept,) = (tmp_path / "run/mlartifacts").rglob("result.json")
    assert taxtune.load_run(kept.parent) == replace(result, folder=str(kept.parent)), "MLflow has what a machine needs"
    answers = run.answers("winner")
    assert len(answers) == 12
    assert {"image", "answer", "placement", "truth", "hp", "hr", "stage", "polite"} <= set(answers.columns)
    assert answers["hp"].mean() == pytest.approx(winner.scores.hp)
    assert run.answers(1)["answer"].tolist() == [row.answer for row in result.iterations[1].rows]
    assert "on 12 held-out" in run._repr_html_().lower()
    for wrong in ("loser", 9):
        with pytest.raises(DataError, match=r"(There are no|does not exist)"):
            run.answers(wrong)


def test_defaults_need_a_folder_a_tree_and_a_function(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Twenty images are all tuned on, so that none would be left to judge by.
    with pytest.raises(DataError, match="need 21 different images"):
        taxtune.tune(taxonomy=TREE, examples=photos, vlm=answer)
    result = taxtune.tune(taxonomy=TREE, examples=photos, vlm=answer, tuning=8, iterations=1)
    assert len(result.heldout[0].rows) == 12, "all that is left"
    assert result.folder == "runs/tune"
    assert capsys.readouterr().out == ""
    with pytest.raises(ResumeError, match="already holds a tuning run"):
        taxtune.tune(taxonomy=TREE, examples=photos, vlm=answer, tuning=8)
    longer = taxtune.tune(taxonomy=TREE, examples=photos, vlm=answer, tuning=8, iterations=2, resume=True)
    assert longer.iterations[:2] == result.iterations


def test_images_and_labels_may_be_objects(photos: Path, tmp_path: Path) -> None:
    files = sorted(photos.glob("*/*.png"))
    pairs = [(Image.open(file).convert("RGB"), file.parent.name) for file in files]
    frame = pd.DataFrame({"image": [str(file) for file in files], "label": [file.parent.name for file in files]})
    one = tuned(photos, tmp_path / "pairs", examples=pairs)
    other = tuned(photos, tmp_path / "frame", examples=frame)
    assert {h.name for h in one.heldout} == {h.name for h in other.heldout} == {"baseline", "winner"}
    assert len(list((tmp_path / "pairs/images").iterdir())) == len(files)


def test_a_changed_function_is_another_run(photos: Path, plain: taxtune.TuneResult) -> None:
    folder = Path(plain.folder)
    with pytest.raises(ResumeError, match=r"vlm\."):
        tuned(photos, folder, vlm=lambda image, prompt: "navy", resume=True)
    with pytest.raises(ResumeError, match=r"prompt\.baseline"):
        tuned(photos, folder, baseline="Which one?", resume=True)


def test_async_functions_work_where_a_loop_is_running(photos: Path, tmp_path: Path, plain: taxtune.TuneResult) -> None:
    async def slow(image: Image.Image, prompt: str) -> str:
        await asyncio.sleep(0)
        return answer(image, prompt)

    async def notebook() -> taxtune.TuneResult:
        return tuned(photos, tmp_path / "async", vlm=slow)

    assert [r.scores for r in asyncio.run(notebook()).iterations] == [r.scores for r in plain.iterations]


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("hf", lambda scores: scores.hf),
        ("exact-match", lambda scores: scores.measures["exact-match"]),
        ("polite", lambda scores: scores.measures["polite"]),
        (lambda scores: scores.hr - scores.hp, lambda scores: scores.hr - scores.hp),
        (taxtune.Objective("short", lambda s: s.depth, "minimize", told="Be brief."), lambda scores: -scores.depth),
    ],
)
def test_any_score_can_be_the_objective(photos: Path, tmp_path: Path, objective: Any, expected: Any) -> None:
    metrics = {"polite": lambda row: "please" in row.answer}
    result = tuned(photos, tmp_path / "run", objective=objective, metrics=metrics)
    for record in result.iterations:
        assert record.value == pytest.approx(expected(record.scores))
    assert result.best.value == max(record.value for record in result.iterations)
    assert result.report(tmp_path / "r.html").stat().st_size > 10_000
    assert taxtune.load_run(tmp_path / "run") == result


def test_a_changed_objective_is_another_run(photos: Path, tmp_path: Path) -> None:
    def first(scores: Any) -> float:
        return float(scores.hp)

    def second(scores: Any) -> float:
        return float(scores.hr)

    tuned(photos, tmp_path / "run", objective=taxtune.Objective("mine", first), iterations=1)
    tuned(photos, tmp_path / "run", objective=taxtune.Objective("mine", first), iterations=1, resume=True)
    with pytest.raises(ResumeError, match=r"objective\.source"):
        tuned(photos, tmp_path / "run", objective=taxtune.Objective("mine", second), iterations=1, resume=True)


def test_compare_and_evaluate(photos: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"taxonomy": TREE, "examples": photos, "vlm": answer, "tuning": 8}
    both = taxtune.compare(
        ["hp", "accuracy"], **given, proposer=next_template, iterations=2, out=tmp_path / "both", mlflow=False
    )
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
    with pytest.raises(TemplateError, match="scarlet"):
        taxtune.evaluate("Is it scarlet?", **given, out=tmp_path / "evaluate")


def test_a_run_that_was_stopped_is_read_as_far_as_it_is(photos: Path, tmp_path: Path) -> None:
    def stop(record: IterationRecord, best: IterationRecord) -> None:
        if record.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(photos, tmp_path / "run", callbacks=[stop])
    run = taxtune.load_run(tmp_path / "run")
    assert isinstance(run, taxtune.TuneResult)
    assert [record.iteration for record in run.iterations] == [0, 1]
    assert run.heldout == ()
    assert "Be careful" in run._repr_html_()
    with pytest.raises(DataError, match="not finished"):
        run.answers("winner")
    whole = tuned(photos, tmp_path / "run", resume=True)
    assert whole.iterations[:2] == run.iterations
    with pytest.raises(DataError, match="does not contain a tuning run"):
        taxtune.load_run(tmp_path)
    (tmp_path / "run/result.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(DataError, match="not a result of a tuning run"):
        taxtune.load_run(tmp_path / "run")


def test_failed_answers_are_missing(photos: Path, tmp_path: Path) -> None:
    def refuses(image: Image.Image, prompt: str) -> str:
        if "azure" in str(getattr(image, "filename", "")):
            raise RuntimeError("content filter")
        return answer(image, prompt)

    result = tuned(photos, tmp_path / "run", vlm=refuses, max_missing=0.5)
    answers = result.answers("winner")
    failed = answers["failure"].notna()
    assert failed.any()
    assert answers.loc[failed, "hp"].isna().all()
    assert result.heldout[0].scores.n == int((~failed).sum())


def test_proposers_see_rows_and_say_why_they_fail(photos: Path, tmp_path: Path) -> None:
    goals: list[str] = []

    def told(history: list[IterationRecord], goal: Any) -> str:
        goals.append(goal.objective.name)
        if history[-1].rejected:
            assert "scarlet" in history[-1].rejected[0][1]
        return "Is it scarlet?" if len(history) == 1 else f"Try {len(history)}."

    result = tuned(photos, tmp_path / "run", proposer=told, iterations=2)
    assert [record.state for record in result.iterations] == ["complete", "failed", "complete"]
    assert goals == ["hp", "hp"]
    for wrong, message in ((lambda history: 3, "did not return text"), (lambda history: 1 / 0, "ZeroDivisionError")):
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
        ({"kind": lambda row: "much"}, "did not return a number"),
    ],
)
def test_metrics_that_cannot_be_taken(photos: Path, tmp_path: Path, metrics: Any, message: str) -> None:
    with pytest.raises(TaxtuneError, match=message):
        tuned(photos, tmp_path / "run", metrics=metrics)


def test_a_metric_may_have_no_value(photos: Path, tmp_path: Path) -> None:
    def backed_off(row: ExampleRow) -> bool | None:
        return None if "crimson" in row.truth else (row.answer or "") in PARENT.values()

    result = tuned(photos, tmp_path / "run", metrics={"backed-off": backed_off})
    rows = [row for row in result.heldout[1].rows if row.measures["backed-off"] is not None]
    assert 0 < len(rows) < 12
    known = [row.measures["backed-off"] for row in rows]
    assert result.heldout[1].scores.measures["backed-off"] == pytest.approx(sum(known) / len(known))
    assert result.heldout[1].scores.n == 12


def test_place_and_score() -> None:
    placed = taxtune.place(["scarlet!", None, "Something reddish", "I cannot tell."], TREE)
    assert placed["label"].tolist()[0] == "scarlet"
    assert placed["placement"].tolist()[2] == "colour/reddish"
    assert pd.isna(placed["placement"][1])
    assert placed["abstained"].tolist()[3]
    assert placed["depth"].tolist() == [2, pd.NA, 1, 0]
    with pytest.raises(DataError, match="at least one worker"):
        taxtune.place(["navy"], TREE, workers=0)
    found = taxtune.score(["reddish", "navy"], ["scarlet", "navy"], TREE)
    assert (found.hp, found.hr) == (1.0, pytest.approx((2 / 3 + 1) / 2))
    free = taxtune.score(["Something reddish", "navy!"], ["scarlet", "navy"], TREE, free_text=True)
    assert free == found
    for wrong in ((["navy"], []), ([], [])):
        with pytest.raises(DataError, match="There are"):
            taxtune.score(*wrong, TREE)
    with pytest.raises(TaxtuneError, match="marine"):
        taxtune.score(["marine"], ["navy"], TREE)


def test_callbacks_are_checked(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="is not a callback"):
        tuned(photos, tmp_path / "run", callbacks=["print"])


def test_unfinished_numbers_are_told_apart_from_zero(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TaxtuneError, match="'nothing' is not a finite number"):
        tuned(photos, tmp_path / "run", objective=taxtune.Objective("nothing", lambda scores: math.nan))


def test_a_recipe_runs_with_some_of_its_parts_replaced(photos: Path, tmp_path: Path) -> None:
    recipe = make_files(tmp_path / "in")
    given: dict[str, Any] = {"recipe": recipe, "vlm": answer, "proposer": next_template, "iterations": 2}
    metrics = {"polite": lambda row: "please" in row.answer}
    result = taxtune.tune(**given, metrics=metrics, out=tmp_path / "run")
    assert result.name == "toy"
    assert result.best.template.startswith("Be careful")
    assert result.heldout[1].scores.measures["polite"] > 0
    assert result.provenance.facts["Model"]["model"].endswith("answer")
    assert "kind: python" in (result.provenance.recipe or "")
    assert not (tmp_path / "run/mlflow.db").exists(), "the recipe wants no MLflow"
    longer = taxtune.tune(**{**given, "iterations": 3}, metrics=metrics, out=tmp_path / "run", resume=True)
    assert longer.iterations[:3] == result.iterations

    with pytest.raises(ResumeError, match="vlm"):
        taxtune.tune(**{**given, "vlm": lambda image, prompt: "navy"}, out=tmp_path / "run", resume=True)
    both = taxtune.compare(["hp", "polite"], **given, metrics=metrics, heldout=8, out=tmp_path / "both")
    assert [(held.name, held.scores.n) for held in both.heldout] == [("baseline", 8), ("hp", 8), ("polite", 8)]
    loaded = taxtune.load_recipe(recipe)
    scored = taxtune.evaluate("Be careful!", recipe=loaded, vlm=answer, examples=photos, out=tmp_path / "evaluate")
    assert len(scored.answers("template")) == 12
    with pytest.raises(TaxtuneError, match=r"recipe\.yaml: data\.tuning: must be at least 1 \(got 0\)"):
        taxtune.tune(**given, tuning=0, out=tmp_path / "none")


def test_a_result_prints_in_a_line_and_shows_as_a_table(photos: Path, tmp_path: Path) -> None:
    result = tuned(photos, tmp_path / "run", iterations=1, baseline="What <b>is</b> this?")
    text = repr(result)
    assert text.startswith("TuneResult('run', objective='hp', iterations=2, winner=1, held-out hP: baseline 0.")
    assert len(text) < 300
    assert "ExampleRow" not in repr((result.best, result.heldout))
    page = result._repr_html_()
    assert "What &lt;b&gt;is&lt;/b&gt; this?" in page
    assert "winner − baseline" in page
    changes = result.against("winner", "baseline").metrics
    bold = [f"<b>{signed(each.difference, key)}</b>" for key, each in changes.items() if each.significant]
    assert sorted(bold) == sorted(re.findall("<b>.*?</b>", page))
    assert 0 < len(bold) < len(changes)


def test_runs_of_earlier_versions_are_read(photos: Path, tmp_path: Path) -> None:
    """They kept a judge's rating beside hP, and its reasons beside the answer."""
    result = tuned(photos, tmp_path / "run", metrics={"lave": lambda row: row.answer == row.truth.split("/")[-1]})
    file = tmp_path / "run/result.json"
    data = json.loads(file.read_text())
    assert taxtune.load_run(tmp_path / "run") == result, "intervals by score are no scores"

    def earlier(value: Any) -> Any:
        if isinstance(value, list):
            return [earlier(item) for item in value]
        if not isinstance(value, dict):
            return value
        value = {key: earlier(item) for key, item in value.items()}
        if "measures" in value:
            value["lave"] = value.pop("measures").get("lave")
            if "remarks" in value:
                del value["remarks"]
                value["rationale"] = "the same word" if value["lave"] == 1 else None
        return value

    file.write_text(json.dumps(earlier(data)))
    read = taxtune.load_run(tmp_path / "run")
    assert isinstance(read, taxtune.TuneResult)
    assert [held.scores for held in read.heldout] == [held.scores for held in result.heldout]
    answers, expected = read.answers("winner"), result.answers("winner")
    assert answers["lave"].tolist() == expected["lave"].tolist()
    assert set(answers.loc[answers["lave"] == 1, "lave_remark"]) == {"the same word"}
    assert answers.loc[answers["lave"] != 1, "lave_remark"].isna().all()
    without = json.loads(json.dumps(earlier(data)), object_hook=lambda o: {k: v for k, v in o.items() if k != "lave"})
    file.write_text(json.dumps(without))
    assert "lave" not in taxtune.load_run(tmp_path / "run").answers("winner")


def test_what_is_needed_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs a taxonomy, examples and a vlm.*or a recipe"):
        taxtune.tune(taxonomy=TREE, out=tmp_path)
    with pytest.raises(TaxtuneError, match=r"recipe does not exist.*fieldguide"):
        taxtune.tune(recipe="feldguide", out=tmp_path)
