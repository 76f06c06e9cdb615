"""One folder, one run: nothing overwrites the results of another, with --resume or without."""

from __future__ import annotations

import shutil
from functools import partial
from types import SimpleNamespace

import pytest

from taxtune import api
from taxtune.errors import DataError, RecipeError, ResumeError, TaxtuneError
from taxtune.models.vision import LocalVLM
from taxtune.report.html import ReportCallback
from taxtune.tuning.build import build
from taxtune.tuning.history import locked
from taxtune.tuning.records import Provenance
from taxtune.tuning.run_folder import (
    STAND_INS,
    check_run_folder,
    identity_of,
    read_result,
    recipe_of,
    write_result,
)
from tests.cli.commands import run_captured, without_duration
from tests.tuning.toy import make_files, toy, tuned

HP_AND_ACCURACY = ("--objective", "hp", "--objective", "accuracy")
COMMANDS = {
    "tune": ("tune", "recipe.yaml"),
    "compare": ("compare", "recipe.yaml", *HP_AND_ACCURACY),
}
#: Where each is, as nobody names a folder.
FOLDERS = {"tune": "runs/toy", "compare": "runs/toy-compare"}
WORDS = {"tune": "a tuning run", "compare": "a comparison"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a recipe and a run of each kind, which has a folder of its own where nobody names one."""
    folder = tmp_path_factory.mktemp("runs")
    recipe = make_files(folder)
    recipe.write_text(
        recipe.read_text().replace("iterations: 5", "iterations: 1\nmax_off_tree: 1.0")
    )
    for command in COMMANDS.values():
        assert run_captured(*command, folder=folder).code == 0
    there = {f"runs/{each.name}" for each in (folder / "runs").iterdir()}
    assert there == {*FOLDERS.values(), "runs/answers.db"}
    return folder


def taxtune(folder, *arguments):
    return run_captured(*arguments, folder=folder)


def results(folder):
    """What would be overwritten."""
    names = ("result.json", "calibration.json", "provenance.json", "report.html", "winner.*")
    return {str(file): file.read_bytes() for name in names for file in folder.rglob(name)}


@pytest.mark.parametrize(
    "more", [(), ("--resume",), ("--dry-run",), ("--dry-run", "--resume")], ids=" ".join
)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("there", COMMANDS)
def test_a_run_of_another_kind_is_refused(made, there, command, more):
    before = results(made)
    done = taxtune(made, *COMMANDS[command], "--out", FOLDERS[there], *more)
    if there == command:
        assert (done.code == 0) is ("--resume" in more), done.err
    else:
        assert done.code == 2
        said = f"The folder {FOLDERS[there]!r} already holds {WORDS[there]}, whose results would be overwritten."
        assert said in done.err + done.out
        assert f"--out {FOLDERS[there]}-{command}" in done.err + done.out
        assert "Finished work is saved" not in done.err, "of another run"
    if done.code != 0:
        assert results(made) == before


@pytest.mark.parametrize("more", [(), ("--resume",)], ids=" ".join)
def test_a_comparison_is_not_overwritten_by_one_of_other_objectives(made, more):
    before = results(made)
    objectives = ("--objective", "hf", "--objective", "hp")
    out = ("--out", FOLDERS["compare"])
    done = taxtune(made, "compare", "recipe.yaml", *objectives, *out, *more)
    assert done.code == 2
    assert "already holds a comparison of accuracy and hp" in done.err
    assert "Name accuracy as well and continue it (`--resume`" in done.err
    assert results(made) == before


def test_a_comparison_that_was_stopped_is_known_by_its_runs(made, tmp_path):
    shutil.copytree(made / FOLDERS["compare"], tmp_path / "stopped")
    for name in ("result.json", "report.html"):
        (tmp_path / "stopped" / name).unlink(missing_ok=True)
    with pytest.raises(ResumeError, match="already holds a comparison"):
        check_run_folder(tmp_path / "stopped")


def test_a_run_of_another_version_is_neither_read_nor_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    write_result(tuned(toy(tmp_path)))
    monkeypatch.setattr("taxtune.tuning.run_folder.RUN_FORMAT", "another")
    monkeypatch.setattr("taxtune.tuning.history.RUN_FORMAT", "another")
    with pytest.raises(DataError, match="not a result of a tuning run of this version"):
        read_result(folder)
    with pytest.raises(ResumeError, match="written by another version of taxtune"):
        tuned(toy(tmp_path), resume=True)


def test_words_and_margins_count_by_what_they_change_alone(tmp_path):
    # Runs of earlier versions, which know of neither, go on.
    before = identity_of(build(toy(tmp_path)))
    assert not any(key.startswith(("recipe.data.nothing", "recipe.data.margin")) for key in before)
    assert identity_of(build(toy(tmp_path, "data.nothing=[bare]", "data.margin=0.5"))) == before


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"odd": 1}'])
def test_a_result_that_cannot_be_read_is_not_written_over(tmp_path, content):
    (tmp_path / "result.json").write_text(content)
    check_run_folder(tmp_path)


@pytest.mark.parametrize(
    ("recipe", "problem"), [("nam: x", "name: Field required"), ("a: [", "line 1, column 5")]
)
def test_the_key_is_named_where_the_recipe_of_a_run_cannot_be_used(tmp_path, recipe, problem):
    provenance = Provenance(recipe=recipe, source="r.yaml")
    run = SimpleNamespace(provenance=provenance, folder=str(tmp_path))
    words = rf"(?s)provenance\.json: .*{problem}.*--recipe"
    with pytest.raises(RecipeError, match=words) as caught:
        recipe_of(run, given=STAND_INS)
    assert "pydantic" not in str(caught.value)


def test_a_folder_that_is_deleted_while_the_run_goes_on_ends_it(tmp_path):
    def delete(record, best):
        if record.iteration == 1:
            shutil.rmtree(tmp_path / "out")

    parts = toy(tmp_path, out="out")
    with pytest.raises(TaxtuneError, match=r"history\.jsonl: .*No such file"):
        tuned(parts, callbacks=[delete])
    assert not (tmp_path / "out").exists()


def test_a_finished_run_that_is_resumed_asks_nothing_and_makes_what_it_lacks(made, monkeypatch):
    command = (*COMMANDS["tune"], "--resume")
    loaded = []
    monkeypatch.setattr(LocalVLM, "_family", loaded.append)
    first = taxtune(made, *command)
    assert (first.code, loaded) == (0, [])
    assert "images the search never saw" in first.out
    (made / FOLDERS["tune"] / "report.html").unlink()
    assert without_duration(taxtune(made, *command).out) == without_duration(first.out)
    assert (made / FOLDERS["tune"] / "report.html").exists()
    assert taxtune(made, *command, "--set", "seed=4").code == 2
    moved = (made / FOLDERS["tune"]).with_name("moved")
    shutil.copytree(made / FOLDERS["tune"], moved)
    assert "moved/report.html" in taxtune(made, *command, "--out", moved).out
    image = min(made.glob("*.png"))
    image.write_bytes(image.read_bytes() + b"\0")
    refused = taxtune(made, *command)
    assert refused.code == 2
    assert f"1 new image: {image.name}" in refused.err


# -- whose folder it is ------------------------------------------------------------------------------------------------


def test_links_in_a_run_lead_nothing_out_of_it(tmp_path):
    folder = tmp_path / "run"
    tuned(toy(tmp_path))
    names = ("report.html", "hp_hr.png", "winner.txt", "provenance.json")
    for name in names:
        (tmp_path / f"my-{name}").write_text("{}")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(tmp_path / f"my-{name}")
    tuned(toy(tmp_path), resume=True, callbacks=[ReportCallback()])
    assert taxtune(tmp_path, "report", folder).code == 0
    assert not any((folder / name).is_symlink() for name in names)  # they were written anew
    for name in names:
        assert (tmp_path / f"my-{name}").read_text() == "{}"


@pytest.mark.parametrize(
    "name", [".lock", "history.db", "history.jsonl", "answers.db", "classifier"]
)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_would_be_written_through_is_refused(tmp_path, name, there):
    parts = toy(tmp_path)
    mine = tmp_path / "mine"
    if there and name != "history.jsonl":  # a history that is there is a run's
        mine.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path if name == "answers.db" else tmp_path / "run").joinpath(name).symlink_to(mine)
    with pytest.raises(TaxtuneError, match=f"{name}: This is a link"):
        tuned(parts)
    assert not mine.exists() or mine.read_text() == "mine"


@pytest.fixture
def no_images(monkeypatch):
    """Lets a test fail that reads images."""
    monkeypatch.setattr(
        "taxtune.tuning.build.load_examples", lambda *given, **how: pytest.fail("images were read")
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("no_images")
def test_a_second_run_is_refused_before_it_reads_an_image(tmp_path, command):
    make_files(tmp_path)
    with locked(tmp_path / FOLDERS[command]):
        done = taxtune(tmp_path, *COMMANDS[command])
    assert done.code == 2
    assert "Another process is working on the run in this folder" in done.err
    assert not any((tmp_path / FOLDERS[command]).iterdir())


@pytest.mark.parametrize("act", [api.tune, partial(api.compare, ("hp", "accuracy"))])
@pytest.mark.usefixtures("no_images")
def test_a_second_run_in_python_is_refused_as_early(tmp_path, act):
    make_files(tmp_path)
    with locked(tmp_path / "run"), pytest.raises(ResumeError, match="Another process is working"):
        act(recipe=tmp_path / "recipe.yaml", out=tmp_path / "run")


def test_a_run_that_could_not_begin_leaves_its_folder_free(tmp_path):
    recipe = make_files(tmp_path)
    recipe.write_text(recipe.read_text().replace("path: tree.csv", "path: none.csv"))
    assert taxtune(tmp_path, *COMMANDS["tune"]).code == 2
    assert not (tmp_path / FOLDERS["tune"]).exists()
