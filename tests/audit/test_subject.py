"""What is read of a run's folder, made by the loop itself in miniature, and audited as it was placed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from taxtune.answers import AnswerSchema, read_answers
from taxtune.answers.runs import read_run_rows
from taxtune.audit.subject import recorded_population, run_settings
from taxtune.errors import DataError, TaxtuneError
from taxtune.taxonomy import Taxonomy, read_taxonomy
from tests.tuning.toy import compared, make_parts, tuned


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    session = make_parts(folder / "recipe", folder / "run", overrides=("iterations=2",))
    tuned(session, folder / "run")
    return folder / "run"


@pytest.fixture
def tree(run: Path) -> Taxonomy:
    return read_taxonomy(run.parent / "recipe" / "tree.csv")


def test_the_winners_held_out_answers_are_the_default(run: Path, tree: Taxonomy) -> None:
    found = read_run_rows(run)
    held = json.loads((run / "result.json").read_text())["heldout"]
    assert (found.evaluation, found.split, len(found.rows)) == ("winner", "held-out", 12)
    assert [row["answer"] for row in found.rows] == [row["answer"] for row in held[1]["rows"]]
    people = recorded_population(found, "run", tree, {})
    assert people.answers == 12
    assert len(people.items) == len({row["answer"] for row in found.rows}) < 12
    assert {people.path(item) for item in people.items} == {row["placement"] for row in held[1]["rows"]}


def test_the_baseline_and_an_iteration_can_be_named(run: Path) -> None:
    assert read_run_rows(run, "baseline").evaluation == "baseline"
    found = read_run_rows(run, "1")
    assert (found.evaluation, found.split, len(found.rows)) == ("iteration 1", "tuning", 8)


def test_a_run_is_a_file_of_answers(run: Path, tree: Taxonomy) -> None:
    held = json.loads((run / "result.json").read_text())["heldout"]
    for source, rows in ((run, held[1]["rows"]), (f"{run}:baseline", held[0]["rows"])):
        read = read_answers(source, AnswerSchema(taxonomy=tree, reference="reference"))
        assert [(row.id, row.answer, row.target) for row in read.rows] == [
            (row["example"], row["answer"], row["target"]) for row in rows
        ]
        assert [row.references for row in read.rows] == [(tree.labels[row["target"]],) for row in rows]


def test_what_the_run_was_made_from(run: Path) -> None:
    settings = run_settings(run)
    assert settings["recipe.mapper.preset"] == "default"
    assert settings["mapper.similarity"] == "lexical"
    # Where the recipe's relative path led, which its own word does not say.
    assert settings["recipe.taxonomy.path"] == "tree.csv"
    assert Path(settings["note:taxonomy"]) == run.parent / "recipe" / "tree.csv"


def test_another_tree_is_told(run: Path) -> None:
    other = Taxonomy(["colour", "green"], [-1, 0])
    with pytest.raises(DataError, match=r"not the taxonomy that the run's answers were placed on.* again"):
        recorded_population(read_run_rows(run), "run", other, {})


def test_answers_that_failed_are_counted_and_no_part_of_it(run: Path, tmp_path: Path, tree: Taxonomy) -> None:
    result = json.loads((run / "result.json").read_text())
    result["heldout"][1]["rows"][0] |= {"answer": None, "node": None, "placement": None, "stage": None}
    (tmp_path / "result.json").write_text(json.dumps(result))
    found = read_run_rows(tmp_path)
    people = recorded_population(found, "run", tree, {})
    assert (people.answers, people.unanswered) == (11, 1)
    assert run_settings(tmp_path) == {}


def test_a_comparison_has_its_objectives(tmp_path: Path) -> None:
    session = make_parts(tmp_path / "recipe", tmp_path / "run", overrides=("iterations=1",))
    result = compared(session, ("hp", "accuracy"))
    assert [held.name for held in result.heldout] == ["baseline", "hp", "accuracy"]
    assert read_run_rows(tmp_path / "run").evaluation == "hp"
    assert read_run_rows(tmp_path / "run", "accuracy").evaluation == "accuracy"
    assert run_settings(tmp_path / "run")["recipe.mapper.preset"] == "default"
    with pytest.raises(DataError, match=r"Use baseline, hp, accuracy, or the number"):
        read_run_rows(tmp_path / "run", "winner")
    with pytest.raises(DataError, match="sub-folders"):
        read_run_rows(tmp_path / "run", "0")


def test_what_is_no_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not contain a taxtune run"):
        read_run_rows(tmp_path)
    shutil.copy(run / "history.jsonl", tmp_path)
    with pytest.raises(DataError, match="not finished"):
        read_run_rows(tmp_path)
    assert read_run_rows(tmp_path, "0").split == "tuning"
    with pytest.raises(DataError, match=r"no answers for this iteration.*'9'.* 0, 1, 2"):
        read_run_rows(tmp_path, "9")
    for content in ("nonsense", "[]", "{}", '{"heldout": [{"name": "a", "rows": [{}]}]}', '{"heldout": 3}'):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(DataError, match=r"result\.json: "):
            read_run_rows(tmp_path)
    (tmp_path / "result.json").write_text('{"heldout": [{"name": "a", "rows": [{"answer": null}]}]}')
    with pytest.raises(DataError, match="No image of the held-out split has an answer"):
        read_run_rows(tmp_path)
    (tmp_path / "history.json").write_text("not JSON")
    with pytest.raises(TaxtuneError, match="What the run was made from cannot be read"):
        run_settings(tmp_path)
