"""A recipe that restricts the taxonomy to a domain root: what is scored, reported and left out."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from taxtune.errors import DataError, TaxonomyError, TaxtuneError
from taxtune.progress import showing
from taxtune.report.html import render_report
from taxtune.report.tables import print_result
from taxtune.settings import TaxonomySettings
from taxtune.taxonomy import FORMATS
from taxtune.tracking.values import heldout_metrics, result_tables
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.records import TuneResult
from tests.displays import Recorder
from tests.tuning.toy import COLOURS, PARENT, make_parts, tuned


def restricted(folder: Path, out: Path, root: str = "colour", overrides: tuple[str, ...] = ()) -> Experiment:
    """The toy recipe on a taller tree, sight / property / colour / …, with one image of a shape."""
    session = make_parts(folder, out, overrides=(f"taxonomy.root={root}", *overrides))
    rows = ["child,parent", "sight,", "property,sight", "shape,property", "round,shape", "colour,property"]
    rows += [f"{p},colour" for p in dict.fromkeys(PARENT.values())]
    rows += [f"{child},{parent}" for child, parent in PARENT.items()]
    (folder / "tree.csv").write_text("\n".join(rows) + "\n")
    lines = (folder / "manifest.csv").read_text().splitlines()
    # A label may be given as a path from the very root.
    lines = [line.replace(",navy", ",sight/property/colour/bluish/navy") for line in lines]
    first = next(iter(COLOURS))
    image = (folder / f"{first}0.png").read_bytes()
    (folder / "ball.png").write_bytes(image + b"\0")
    (folder / "manifest.csv").write_text("\n".join([*lines, "ball.png,round"]) + "\n")
    return session


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, TuneResult, list[str]]:
    base = tmp_path_factory.mktemp("restricted")
    session = restricted(base / "in", base / "out", overrides=("iterations=3",))
    with showing(Recorder()) as display:
        return session, tuned(session, base / "out"), display.notes


def test_the_domain_is_the_root_and_images_outside_are_left_out_and_counted(
    run: tuple[Experiment, TuneResult, list[str]],
) -> None:
    session, result, notes = run
    assert session.taxonomy.labels[0] == "colour"
    assert len(session.examples) == 20
    said = [note for note in notes if "outside" in note]
    assert len(said) == 1
    assert "1 of 21 images are outside 'colour' and are left out: round." in said[0]
    # The trivial answer is the domain's root, and so is the tuning's.
    assert (result.trivial_hp, result.trivial_hr) == (1.0, pytest.approx(1 / 3))


def test_both_values_are_those_of_sets_of_ancestors(run: tuple[Experiment, TuneResult, list[str]]) -> None:
    session, result, _ = run
    whole = session.full_taxonomy
    for held in result.heldout:
        assert held.full is not None
        assert (held.full.domain, held.full.root) == ("colour", "sight")
        expected: dict[str, list[float]] = {"hp": [], "hr": [], "full_hp": [], "full_hr": []}
        for row in held.rows:
            placed, truth = row.placement.split("/"), row.truth.split("/")  # type: ignore[union-attr]
            for key, above in (("", []), ("full_", ["sight", "property"])):
                p = {tuple((above + placed)[: i + 1]) for i in range(len(above + placed))}
                t = {tuple((above + truth)[: i + 1]) for i in range(len(above + truth))}
                expected[f"{key}hp"].append(len(p & t) / len(p))
                expected[f"{key}hr"].append(len(p & t) / len(t))
            assert whole.path(whole.resolve(("sight", "property", *placed)))[2:] == tuple(placed)
        for key in ("hp", "hr"):
            assert getattr(held.scores, key) == pytest.approx(np.mean(expected[key]))
            assert getattr(held.full.scores, key) == pytest.approx(np.mean(expected[f"full_{key}"]))
            ends = held.full.intervals[key]
            assert ends.low <= ends.estimate <= ends.high
        assert held.full.scores.accuracy == held.scores.accuracy
        assert held.full.scores.depth == pytest.approx(held.scores.depth + 2)
    before, after = (held.full.scores for held in result.heldout if held.full is not None)
    assert result.differences[0].full["hr"].difference == pytest.approx(after.hr - before.hr)


def test_table_report_json_and_mlflow_show_both_and_say_which(run: tuple[Experiment, TuneResult, list[str]]) -> None:
    _, result, _ = run
    text = io.StringIO()
    print_result(Console(file=text, width=140), result, details=True)
    for label in ("hP on colour", "hR on colour", "hF on colour", "hP on sight", "hR on sight", "hF on sight"):
        assert label in text.getvalue()
    page = render_report(result)
    assert '<td class="left">hP on colour</td>' in page
    assert '<td class="left">hP on sight</td>' in page
    assert "restricted to colour" in page
    held = result.heldout[1]
    assert held.full is not None
    assert heldout_metrics(held)["heldout/hr"] == held.scores.hr
    table = result_tables(result)["heldout.json"]
    rows = dict(zip(zip(table["template"], table["score"], strict=True), table["value"], strict=True))
    assert rows["winner", "hR on colour"] == held.scores.hr
    assert rows["winner", "hR on sight"] == held.full.scores.hr
    assert rows["winner − baseline", "hP on sight"] == result.differences[0].full["hp"].difference
    assert ("winner", "hF on sight") in rows
    stored = json.loads(json.dumps(result.as_dict()))
    assert stored["heldout"][0]["full"]["root"] == "sight"
    assert stored["differences"][0]["full"]["hp"]["p_value"] > 0


def test_without_a_root_nothing_is_added(tmp_path: Path) -> None:
    session = make_parts(tmp_path / "in", tmp_path / "out", overrides=("iterations=1",))
    result = tuned(session, tmp_path / "out")
    assert session.part is None
    assert all(held.full is None for held in result.heldout)
    assert result.differences[0].full == {}
    assert not any(" on " in name for name in result_tables(result)["heldout.json"]["score"])
    page = render_report(result)
    assert '<td class="left">hP</td>' in page
    assert "restricted to" not in page
    assert "domain root" not in session.tuned_for().identity()


def test_a_run_is_not_resumed_with_another_root_nor_on_another_tree_around_it(tmp_path: Path) -> None:
    settings = ("iterations=1", "data.tuning=4", "data.heldout=4")
    tuned(restricted(tmp_path / "in", tmp_path / "out", overrides=settings), tmp_path / "out")
    other = restricted(tmp_path / "in", tmp_path / "out", "bluish", settings)
    with pytest.raises(TaxtuneError, match=r'recipe.taxonomy.root: was "colour", is "bluish"'):
        tuned(other, tmp_path / "out", resume=True)
    # The same part, a step further down the whole: its scores on the whole would not be comparable.
    moved = restricted(tmp_path / "in", tmp_path / "out", overrides=settings)
    tree = tmp_path / "in" / "tree.csv"
    tree.write_text(tree.read_text().replace("property,sight", "look,sight\nproperty,look"))
    manifest = tmp_path / "in" / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("sight/property/", "sight/look/property/"))
    with pytest.raises(TaxtuneError, match='domain root: was "sight/property/colour", is "sight/look/property/colour"'):
        tuned(moved, tmp_path / "out", resume=True)


@pytest.mark.parametrize(
    ("root", "error", "message"),
    [
        ("shape", None, "19"),
        ("round", TaxonomyError, "nothing below this node"),
        ("coulour", TaxonomyError, r"'coulour' is not on the taxonomy.*'colour'"),
    ],
)
def test_a_root_that_does_not_fit_is_told(
    tmp_path: Path, root: str, error: type[Exception] | None, message: str, notes: list[str]
) -> None:
    session = restricted(tmp_path / "in", tmp_path / "out", root)
    if error is None:
        assert len(session.examples) == 1
        assert "20 of 21 images are outside 'shape'" in notes[0]
        return
    with pytest.raises(error, match=message):
        _ = session.examples


def test_images_of_nothing_in_the_domain_and_misspelt_labels_are_errors(tmp_path: Path) -> None:
    session = restricted(tmp_path / "in", tmp_path / "out", "shape")
    manifest = tmp_path / "in" / "manifest.csv"
    lines = manifest.read_text().splitlines()
    manifest.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(DataError, match="None of the 20 images shows anything below 'shape'"):
        _ = session.examples
    again = restricted(tmp_path / "in", tmp_path / "out", "colour")
    manifest.write_text(manifest.read_text().replace("scarlet0.png,scarlet", "scarlet0.png,scralet"))
    with pytest.raises(DataError, match=r"'scralet'.*did you mean 'scarlet'"):
        _ = again.examples


def test_a_recipe_knows_every_format() -> None:
    for name in FORMATS:
        assert TaxonomySettings(path="tree.csv", format=name).format == name
    with pytest.raises(ValueError, match=r"is not a format\. Did you mean 'edges'"):
        TaxonomySettings(path="tree.csv", format="edgse")
