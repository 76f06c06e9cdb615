"""The answers that runs share: data that grow, another objective, another folder, and two runs at a time."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

import taxtune
from taxtune.errors import DataError
from taxtune.tuning.build import build
from taxtune.tuning.plan import make_plan
from taxtune.tuning.run_folder import answers_of, check_run_folder, note_answers
from tests.tuning.test_crashes import CONTEXT, asked, kept, work
from tests.tuning.toy import SHADES, Sight, compared, make_files, toy, tuned

TREE = {"colour": {family: list(shades) for family, shades in SHADES.items()}}
HUES = {"scarlet": (200, 0, 0), "crimson": (160, 0, 0), "navy": (0, 0, 120), "azure": (0, 0, 250)}


# -- where they are ----------------------------------------------------------------------------------------------------


def test_they_are_beside_the_folder_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert answers_of(Path("runs/birds")) == Path("runs/answers.db")
    assert answers_of(tmp_path / "birds") == tmp_path / "answers.db"
    for folder in (".", "inner/.."):
        assert answers_of(Path(folder)) == tmp_path.parent / "answers.db"
    assert answers_of(Path("runs/birds"), "mine.db") == Path("mine.db")


def test_a_folder_that_has_its_own_keeps_it(tmp_path):
    run = tmp_path / "runs" / "birds"
    run.mkdir(parents=True)
    (run / "answers.db").touch()
    assert answers_of(run) == run / "answers.db"
    # Of a comparison of an earlier version it is that of its runs, too.
    assert answers_of(run / "hp") == run / "answers.db"


def test_a_note_leads_to_them_also_when_both_are_moved(tmp_path):
    run, elsewhere = tmp_path / "runs" / "birds", tmp_path / "disk" / "all.db"
    run.mkdir(parents=True)
    note_answers(run, tmp_path / "answers.db")
    assert answers_of(run) == tmp_path / "answers.db"
    shutil.copytree(tmp_path / "runs", tmp_path / "moved" / "runs")
    assert answers_of(tmp_path / "moved" / "runs" / "birds") == tmp_path / "moved" / "answers.db"
    note_answers(run, elsewhere)
    shutil.copytree(run, tmp_path / "copy")
    assert answers_of(run) == answers_of(tmp_path / "copy") == elsewhere


def test_a_run_remembers_where_they_are(tmp_path):
    given = tmp_path / "new" / "mine.db"
    tuned(toy(tmp_path, "iterations=1", answers=given))
    tuned(toy(tmp_path, "iterations=2"), resume=True)
    assert answers_of(tmp_path / "run") == given
    assert given.exists()
    assert not (tmp_path / "answers.db").exists()


@pytest.mark.parametrize("place", [None, "mine.db"])
def test_the_runs_of_a_comparison_find_them(tmp_path, place):
    given = None if place is None else tmp_path / place
    parts = toy(tmp_path, "iterations=1", out="runs/both", answers=given)
    compared(parts, ("hp", "accuracy"))
    found = given or tmp_path / "runs" / "answers.db"
    for name in (".", "hp", "accuracy"):
        assert answers_of(tmp_path / "runs" / "both" / name) == found
    assert not list((tmp_path / "runs" / "both").rglob("answers.db"))
    # Other runs beside it are no comparison.
    tuned(toy(tmp_path, "iterations=1", out="runs/one", answers=given))
    check_run_folder(tmp_path / "runs")


@pytest.mark.parametrize("table", ["answers", "diary"])
def test_a_file_of_another_program_is_left_alone(tmp_path, table):
    file = tmp_path / "mine.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"CREATE TABLE {table} (day TEXT)")
    before = file.read_bytes()
    parts = toy(tmp_path, answers=file)
    with pytest.raises(DataError, match=r"mine\.db: .*cannot be used: another program, or"):
        tuned(parts)
    assert any("mine.db: The store" in problem for problem in make_plan(parts).problems)
    assert file.read_bytes() == before
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_with_the_file_is_told_before_images_are_read(tmp_path, monkeypatch):
    parts = toy(tmp_path, answers=tmp_path / "no" / "mine.db")
    monkeypatch.setattr("taxtune.tuning.build.load_examples", lambda *_, **__: pytest.fail("read"))
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(DataError, match=r"mine\.db: .*nothing may be written there"):
        build(parts)
    assert not (tmp_path / "no").exists()


# -- the questions -----------------------------------------------------------------------------------------------------


def photo(folder, number):
    """Makes a photo of its own colour; returns its file and its label."""
    label = list(HUES)[number % 4]
    red, _, blue = HUES[label]
    file = folder / f"{number:03}.png"
    if not file.exists():
        Image.new("RGB", (16, 16), (red, number // 4, blue)).save(file)
    return file, label


class Asked:
    """A model that writes down what it is asked: pairs of a prompt and the name of an image."""

    identity = "sees colours"

    def __init__(self):
        self.pairs = []

    def __call__(self, image, prompt):
        self.pairs.append((prompt, Path(image.filename).name))
        sight = Sight.of(image)
        return sight.family if sight.murky and "careful" in prompt else sight.shade


def asked_by(examples, out, objective="hp"):
    """Tunes anew; returns what the model is asked, what the run needs, and its result."""
    model = Asked()
    result = taxtune.tune(
        TREE,
        examples,
        model,
        objective=objective,
        out=out,
        settings={"data.first_rung": 8, "iterations": 6, "tracking.mlflow": False},
    )
    needed = set()
    for record in result.iterations:
        needed |= {(record.prompt, Path(row.example).name) for row in record.rows}
    prompts = {record.template: record.prompt for record in result.iterations}
    for held in result.heldout:
        needed |= {(prompts[held.template], Path(row.example).name) for row in held.rows}
    assert len(model.pairs) == len(set(model.pairs)), "twice within a run"
    return set(model.pairs), needed, result


@pytest.mark.heavy
def test_of_data_that_grow_only_what_is_new_is_asked(tmp_path):
    photos = [photo(tmp_path, number) for number in range(60)]
    first, needed, _ = asked_by(photos, tmp_path / "runs" / "first")
    assert first == needed

    more = [photo(tmp_path, number) for number in range(108)]
    more[7] = (more[7][0], "crimson")
    second, needed, _ = asked_by(more, tmp_path / "runs" / "second")
    assert second == needed - first
    assert second
    assert needed & first, "of the photos that were there, too"

    # In another folder nothing is asked, and all comes out as before.
    third, again, _ = asked_by(more, tmp_path / "runs" / "third")
    assert (third, again) == (set(), needed)
    results = [kept(tmp_path / "runs" / name) for name in ("second", "third")]
    for _, result in results:
        del result["name"]  # that of the folder
    assert results[0] == results[1]

    fourth, needed, _ = asked_by(more, tmp_path / "runs" / "fourth", "accuracy")
    assert fourth == needed - first - second
    # Another place knows nothing.
    file = tmp_path / "elsewhere" / "runs"
    fifth, needed, _ = asked_by(more, file / "fifth")
    assert fifth == needed


# -- two runs at a time ------------------------------------------------------------------------------------------------

BOTH = {"one": ("iterations=7", "data.first_rung=3"), "two": ("iterations=7", "seed=4")}


def start(*arguments):
    process = CONTEXT.Process(target=work, args=arguments)
    process.start()
    return process


def whole(file):
    """Tells whether a store is sound."""
    with closing(sqlite3.connect(file)) as db:
        return db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.heavy
@pytest.mark.parametrize("moment", [5, 30])
def test_two_runs_side_by_side_are_what_each_is_alone_also_after_a_kill(tmp_path, moment):
    folder, runs = tmp_path / "in", tmp_path / "runs"
    make_files(folder)
    for name, overrides in BOTH.items():
        alone = start(folder, tmp_path / name / name, overrides)
        alone.join(120)
        assert alone.exitcode == 0

    killed = start(folder, runs / "one", BOTH["one"], moment)
    other = start(folder, runs / "two", BOTH["two"])
    killed.join(120)
    other.join(120)
    assert (killed.exitcode, other.exitcode) == (-signal.SIGKILL, 0)
    assert whole(runs / "answers.db")
    resumed = start(folder, runs / "one", BOTH["one"])
    resumed.join(120)
    assert resumed.exitcode == 0
    for name in BOTH:
        assert kept(runs / name) == kept(tmp_path / name / name)
        # Each may find what the other has asked. A kill loses the batch in flight, two questions.
        assert len(asked(runs / name)) <= len(asked(tmp_path / name / name)) + 2
    assert whole(runs / "answers.db")
    both = set(asked(runs / "one")) | set(asked(runs / "two"))
    assert both == set(asked(tmp_path / "one" / "one")) | set(asked(tmp_path / "two" / "two"))
