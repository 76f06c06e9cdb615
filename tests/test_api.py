"""taxtune from Python: the listing of the README, with plain functions in every place that takes one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

import taxtune
from taxtune.errors import DataError, ProposerError, ResumeError, TaxtuneError, TemplateError
from taxtune.models import AnswerStore
from taxtune.tuning.loop import Tuner
from tests.tuning.toy import COLOURS, SHADES, Sight, make_files

QUICK = {"data.tuning": 8, "iterations": 2, "tracking.mlflow": False}
TREE = {"colour": {family: list(shades) for family, shades in SHADES.items()}}


def answer(image, prompt):
    """Sees the mean colour; where the image is murky only a prompt that asks for care makes it back off."""
    sight = Sight.of(image)
    return f"{sight.family}, please" if sight.murky and "careful" in prompt else sight.shade


def is_polite(row):
    return "please" in row.answer


#: What is evaluated or compared on photos of colours.
COLOURED = {"taxonomy": TREE, "vlm": answer, "settings": QUICK}


def next_template(history):
    """Sees the answers about each image, and asks for care after a wrong answer."""
    wrong = [row for row in history[-1].rows if row.hp is not None and row.hp < 1]
    return f"Be careful, try {len(history)}." if wrong else f"What is it? Try {len(history)}."


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with a sub-folder a label."""
    made = make_files(tmp_path_factory.mktemp("toy") / "in").parent
    photos = made.parent / "photos"
    for label in COLOURS:
        (photos / label).mkdir(parents=True)
        for file in made.glob(f"{label}*.png"):
            file.rename(photos / label / file.name)
    return photos


def tuned(photos, out, **more):
    given = {
        **COLOURED,
        "examples": photos,
        "proposer": next_template,
        "objective": "hp",
        "baseline": "What is this?",
    }
    return taxtune.tune(**{**given, **more}, out=out)


@pytest.fixture
def tune(photos, tmp_path):
    """Tunes in the folder "run"."""
    return partial(tuned, photos, tmp_path / "run")


@pytest.fixture(scope="module")
def plain(photos, tmp_path_factory):
    """A run on what `tuned` gives, not to be touched."""
    return tuned(photos, tmp_path_factory.mktemp("plain") / "run")


@pytest.mark.heavy
def test_the_listing(photos, tmp_path):
    make_files(tmp_path)
    seen = []

    class Watch:
        def on_iteration(self, record, best):
            seen.append(record.iteration)

    result = taxtune.tune(
        taxonomy=taxtune.read_taxonomy(tmp_path / "tree.csv"),
        examples=photos,
        vlm=answer,
        proposer=next_template,
        objective="hp",
        metrics={"polite": is_polite},
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
    paired = result.against("winner", "baseline").metrics["polite"]
    assert paired.difference == winner.scores.measures["polite"]
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
    # MLflow has what a machine needs.
    assert taxtune.load_run(kept.parent) == replace(result, folder=str(kept.parent))
    answers = run.answers("winner")
    assert len(answers) == 12
    columns = {"image", "answer", "placement", "truth", "hp", "hr", "stage", "polite"}
    assert columns <= set(answers.columns)
    assert answers["hp"].mean() == pytest.approx(winner.scores.hp)
    assert run.answers(1)["answer"].tolist() == [row.answer for row in result.iterations[1].rows]
    for wrong in ("loser", 9):
        with pytest.raises(DataError, match=r"(There are no|does not exist)"):
            run.answers(wrong)


@pytest.mark.heavy
def test_defaults_need_a_folder_a_tree_and_a_function(
    photos,
    tmp_path,
    monkeypatch,
    capsys,
):
    monkeypatch.chdir(tmp_path)
    result = taxtune.tune(TREE, photos, answer, effort="light")
    assert result.objective == "hr_at_hp"
    assert result.constraints == (taxtune.Constraint("hp", 0.98, 0.9),)
    assert len(result.iterations) == 7
    assert len(result.best.rows) == 12
    assert len(result.heldout[0].rows) == 8
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
    kept = taxtune.load_run("runs/tune").iterations[longer.winner]
    assert kept.prompt == longer.best.prompt


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"settings": {"data.tunning": 8}}, r"data\.tunning: unknown key; did you mean 'tuning'"),
        ({"settings": {"data.tuning": 0}}, r"data\.tuning: .*such as 0.4 \(got 0\)"),
        ({"objective": "hf", "goal": 0.9}, "Leave out goal, or objective"),
    ],
)
def test_settings_are_checked(photos, tmp_path, given, words):
    with pytest.raises(TaxtuneError, match=words):
        taxtune.tune(TREE, photos, answer, **given, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def made(monkeypatch):
    """The experiments that would have been run."""
    experiments = []
    monkeypatch.setattr(Tuner, "run", lambda self: experiments.append(self.experiment))
    monkeypatch.setattr("taxtune.results.tuned", lambda nothing: nothing)
    return experiments


def test_a_recipe_holds_where_the_call_says_nothing(made, tmp_path):
    taxtune.tune(recipe=make_files(tmp_path / "in"), vlm=answer, out=tmp_path / "run")
    (plain,) = made
    assert plain.objective.name == "hp"
    assert plain.iterations == 5
    assert plain.recipe.prompt.baseline == "What is this?"
    assert plain.budget.vlm_calls is None


def test_what_the_call_says_replaces_what_the_recipe_says(made, tmp_path):
    taxtune.tune(
        recipe=make_files(tmp_path / "in"),
        vlm=answer,
        objective="hr_at_hp",
        goal=0.9,
        effort="heavy",
        baseline="Which?",
        out=tmp_path / "run",
    )
    (other,) = made
    assert other.objective.constraints == (taxtune.Constraint("hp", 0.9, 0.9),)
    assert other.iterations == 5
    assert other.budget.vlm_calls == 3200
    assert other.recipe.prompt.baseline == "Which?"


def test_models_may_be_named(made, photos, tmp_path):
    taxtune.tune(
        TREE,
        photos,
        "openai/gpt-4o",
        proposer="openai/gpt-4o-mini",
        settings={"vlm.temperature": 0.5, "seed": 4},
        out=tmp_path / "run",
    )
    (named,) = made
    known = {"kind": "api", "model": "openai/gpt-4o", "temperature": 0.5, "seed": 4}
    assert known.items() <= named.vlm.identity.items()
    assert named.proposer.identity()["model"] == "openai/gpt-4o-mini"
    assert named.iterations == 20
    assert named.budget.vlm_calls == 1600
    assert named.recipe.prompt.domain == "colour"


def test_several_answers_count_once(made, photos, tmp_path):
    settings = {"policy": taxtune.SelfConsistency(4, 0.5)}
    taxtune.tune(TREE, photos, answer, settings=settings, out=tmp_path / "run")
    assert made[0].budget.vlm_calls == 4 * 1600


def test_images_and_labels_may_be_objects(photos, tmp_path):
    files = sorted(photos.glob("*/*.png"))
    pairs = [(Image.open(file).convert("RGB"), file.parent.name) for file in files]
    frame = pd.DataFrame({"image": files, "label": [file.parent.name for file in files]})
    frame["image"] = frame["image"].astype(str)
    one = tuned(photos, tmp_path / "pairs", examples=pairs)
    other = tuned(photos, tmp_path / "frame", examples=frame)
    for result in (one, other):
        assert [held.name for held in result.heldout] == ["baseline", "winner"]
    assert len(list((tmp_path / "pairs/images").iterdir())) == len(files)


def test_a_changed_function_is_another_run(photos, plain):
    folder = Path(plain.folder)
    with pytest.raises(ResumeError, match=r"vlm\."):
        tuned(photos, folder, vlm=lambda image, prompt: "navy", resume=True)
    with pytest.raises(ResumeError, match=r"prompt\.baseline"):
        tuned(photos, folder, baseline="Which one?", resume=True)


def test_async_functions_work_where_a_loop_is_running(photos, tmp_path, plain):
    async def slow(image, prompt):
        await asyncio.sleep(0)
        return answer(image, prompt)

    async def notebook():
        return tuned(photos, tmp_path / "async", vlm=slow)

    result = asyncio.run(notebook())
    assert [r.scores for r in result.iterations] == [r.scores for r in plain.iterations]


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
def test_any_score_can_be_the_objective(tune, tmp_path, objective, expected):
    result = tune(objective=objective, metrics={"polite": is_polite})
    for record in result.iterations:
        assert record.value == pytest.approx(expected(record.scores))
    assert result.best.value == max(record.value for record in result.iterations)
    assert taxtune.save_report(result, tmp_path / "r.html").stat().st_size > 10_000
    assert taxtune.load_run(tmp_path / "run") == result


@pytest.mark.heavy
def test_compare_and_evaluate(photos, tmp_path):
    given = {**COLOURED, "examples": photos}
    out = tmp_path / "both"
    both = taxtune.compare(["hp", "accuracy"], **given, proposer=next_template, out=out)
    for name, run in both.named_runs:
        assert (tmp_path / f"both/winner-{name}.txt").read_text() == run.best.prompt
    assert [held.name for held in both.heldout] == ["baseline", "hp", "accuracy"]
    assert both.against("hp", "accuracy") is None
    assert both.against("accuracy", "hp").metrics["hp"].difference <= 0
    assert both.to_frame().index.tolist() == ["baseline", "hp", "accuracy"]
    assert taxtune.load_run(tmp_path / "both") == both
    assert len(both.answers("hp")) == 12
    with pytest.raises(TaxtuneError, match="at least two different objectives"):
        taxtune.compare(["hp"], **given, out=tmp_path / "one")

    scored = taxtune.evaluate("Be careful!", **given, out=tmp_path / "evaluate")
    assert [held.name for held in scored.heldout] == ["baseline", "template"]
    assert scored.against("template", "baseline").metrics["hp"].difference > 0


def test_a_new_run_says_how_many_answers_of_its_function_are_kept(photos, plain, caplog):
    folder = Path(plain.folder)
    with AnswerStore(folder.parent / "answers.db") as store:
        count = len(store)
    tuned(photos, folder.with_name("again"))
    (text,) = [text for text in caplog.messages if "are not asked for again" in text]
    assert text.startswith(
        f"{count} answers of the function tests.test_api.answer are kept in {store.path}, "
    )


def test_a_closed_list_of_labels_is_a_warning_but_for_proposals(tune, photos, tmp_path, caplog):
    closed = f"Which of these is it: {', '.join(COLOURS)}?"
    given = {**COLOURED, "examples": photos, "out": tmp_path / "evaluate"}
    scored = taxtune.evaluate(closed, baseline=closed, **given)
    assert scored.heldout[1].template == closed
    # One, as the baseline is checked where a run begins.
    (note,) = [text for text in caplog.messages if "labels in the prompt" in text]
    assert "The template 'template'" in note
    assert "and 1 more" in note
    assert "hold for this list of labels" in note
    result = tune(baseline=closed, proposer=lambda history: f"{closed} Really?")
    assert "The baseline has labels in the prompt" in caplog.text
    assert [record.state for record in result.iterations] == ["complete", "failed", "failed"]
    assert "gives away the answer" in (result.iterations[1].reason or "")
    with pytest.raises(TemplateError):
        taxtune.evaluate("{{ nothing }}", **given)


def test_a_run_is_read_once_it_is_finished(tune, tmp_path):
    def stop(record, best):
        if record.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(callbacks=[stop])
    with pytest.raises(DataError, match=r"not finished.*--resume"):
        taxtune.load_run(tmp_path / "run")
    assert len(tune(resume=True).iterations) == 3
    with pytest.raises(DataError, match="does not contain a tuning run"):
        taxtune.load_run(tmp_path)
    (tmp_path / "run/result.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(DataError, match="not a result of a tuning run"):
        taxtune.load_run(tmp_path / "run")


def test_a_script_is_told_each_rung_unless_it_wants_silence(tune, capsys):
    tune()
    said = capsys.readouterr()
    assert said.out == ""
    goal, scores, counts, rung, won, *heldout = said.err.splitlines()
    assert goal.endswith(" calls")
    assert scores.startswith("hP: how much of what is said is true")
    assert counts.startswith("wrong: untrue; general: ")
    assert rung.startswith("3 prompts asked about 8 images; best so far is iteration ")
    assert won.startswith(f"iteration {rung.split('iteration ')[1][0]} wins. ")
    assert heldout == ["held-out split: baseline, 12 images", "held-out split: winner, 12 images"]
    tune(resume=True, progress=False)
    assert capsys.readouterr().err == ""


def test_proposers_see_rows_and_refusals(tune):
    goals = []

    def told(history, goal):
        goals.append(goal.objective.name)
        if history[-1].rejected:
            assert "scarlet" in history[-1].rejected[0][1]
        return "Is it scarlet?" if len(history) == 1 else f"Try {len(history)}."

    result = tune(proposer=told)
    assert [record.state for record in result.iterations] == ["complete", "failed", "complete"]
    assert goals == ["hp", "hp"]


@pytest.mark.parametrize(
    ("proposer", "message"),
    [
        (lambda history: 3, "it returned 3, not a"),
        (lambda history: 1 / 0, "ZeroDivisionError"),
        ("gepa", r"Unknown proposer.*fragments"),
    ],
)
def test_a_proposer_that_fails_is_named(tune, proposer, message):
    with pytest.raises(ProposerError, match=message):
        tune(proposer=proposer)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"hp": lambda row: 1}, "This name cannot be used"),
        ({"kind": 3}, "is not a function"),
        ({"kind": lambda row: row.nothing}, "'kind' failed on the answer to .*AttributeError"),
        ({"kind": lambda row: "much"}, "could not convert string to float"),
    ],
)
def test_metrics_that_cannot_be_taken(tune, metrics, message):
    with pytest.raises(TaxtuneError, match=message):
        tune(metrics=metrics)


def test_a_metric_may_be_called_as_the_confidence_of_answers(tune, plain):
    result = tune(metrics={"confidence": lambda row: 7.0})
    assert result.heldout[0].scores.measures == {"confidence": 7.0}
    assert result.heldout[0].intervals["confidence"].estimate == 7.0
    assert result.heldout[0].scores.selective_hp == plain.heldout[0].scores.selective_hp


def test_place_and_score():
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
    for answers in (["navy"], []):
        with pytest.raises(DataError, match="There are"):
            taxtune.score(answers, [], TREE)
    with pytest.raises(TaxtuneError, match="marine"):
        taxtune.score(["marine"], ["navy"], TREE)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_is_not_off_the_tree_and_not_wrong(missing):
    placed = taxtune.place(["scarlet", missing], TREE)
    assert placed.iloc[1].isna().all()
    for free_text in (True, False):
        with pytest.raises(DataError, match="There is no answer number 2"):
            taxtune.score(["scarlet", missing], ["scarlet", "navy"], TREE, free_text=free_text)
    with pytest.raises(DataError, match="There is no target number 1"):
        taxtune.score(["scarlet"], [missing], TREE)


@pytest.mark.heavy
def test_a_reply_that_ends_within_its_thought_is_missing_in_python():
    replies = ["<think>navy?</think> scarlet", "◁think▷navy"]
    placed = taxtune.place(replies, TREE)
    assert list(placed.label.isna()) == [False, True]
    assert placed.label[0] == "scarlet"
    with pytest.raises(DataError, match="no answer number 2"):
        taxtune.score(replies, ["scarlet", "navy"], TREE, free_text=True)


def test_a_recipe_runs_with_some_of_its_parts_replaced(photos, tmp_path):
    recipe = make_files(tmp_path / "in")
    out = tmp_path / "run"
    given = {
        "recipe": recipe,
        "vlm": answer,
        "proposer": next_template,
        "metrics": {"polite": is_polite},
    }
    result = taxtune.tune(**given, settings={"iterations": 2}, out=out)
    assert result.name == "toy"
    assert result.best.template.startswith("Be careful")
    assert result.heldout[1].scores.measures["polite"] > 0
    assert result.provenance.facts["Model"]["model"].endswith("answer")
    assert "kind: python" in (result.provenance.recipe or "")
    assert not (tmp_path / "run/mlflow.db").exists(), "the recipe wants no MLflow"
    longer = taxtune.tune(**given, settings={"iterations": 3}, out=out, resume=True)
    assert longer.iterations[:3] == result.iterations

    with pytest.raises(ResumeError, match="vlm"):
        taxtune.tune(**{**given, "vlm": lambda image, prompt: "navy"}, out=out, resume=True)
    fewer = {"iterations": 2, "data.heldout": 8}
    both = taxtune.compare(["hp", "polite"], **given, settings=fewer, out=tmp_path / "both")
    assert [held.name for held in both.heldout] == ["baseline", "hp", "polite"]
    assert [held.scores.n for held in both.heldout] == [8, 8, 8]
    loaded = taxtune.load_recipe(recipe)
    scored = taxtune.evaluate(
        "Be careful!", recipe=loaded, vlm=answer, examples=photos, out=tmp_path / "evaluate"
    )
    assert len(scored.answers("template")) == 12
    with pytest.raises(TaxtuneError, match=r"recipe\.yaml: data\.tuning: .*such as 0.4 \(got 0\)"):
        taxtune.tune(**given, settings={"data.tuning": 0}, out=tmp_path / "none")


def test_an_argument_that_there_is_not_is_named_with_its_function():
    unexpected = "got an unexpected keyword argument"
    with pytest.raises(TypeError, match=rf"tune\(\) {unexpected} 'gaol'"):
        taxtune.tune(recipe="fieldguide", gaol=0.9)
    with pytest.raises(TypeError, match=rf"evaluate\(\) {unexpected} 'effort'"):
        taxtune.evaluate("Say what.", recipe="fieldguide", effort="light")
