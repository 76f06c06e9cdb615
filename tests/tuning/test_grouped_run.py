"""A run about images that belong together: its splits, its list of copies, and going on with it."""

from __future__ import annotations

import csv

import pytest

from taxtune import runs
from taxtune.errors import ResumeError
from taxtune.tuning.build import build
from taxtune.tuning.plan import make_plan
from tests.scenes import scene
from tests.tuning.toy import toy, tuned


def bursts(folder, size):
    """Writes bursts of so many images into the toy's manifest, and makes one image a copy."""
    manifest = folder / "in/manifest.csv"
    header, *rows = manifest.read_text().splitlines()
    grouped = [f"{row},b{place // size}" for place, row in enumerate(rows)]
    manifest.write_text("\n".join([f"{header},burst", *grouped]))
    for name in ("scarlet0.png", "azure4.png"):
        scene(7).save(folder / "in" / name)
    scene(7).resize((160, 120)).save(folder / "in/azure4.png")


def grouped(folder, *overrides, size=3):
    setup = toy(folder, "data.group=burst", "data.heldout=0.6", *overrides)
    bursts(folder, size)
    return setup


def groups_of(examples):
    return {example.group for example in examples}


def test_a_run_keeps_groups_apart_and_lists_the_copies(tmp_path, notes):
    setup = grouped(tmp_path)
    result = runs.tune(setup)
    splits = build(setup).splits
    assert groups_of(splits.tuning).isdisjoint(groups_of(splits.heldout))
    assert len(splits.tuning) == 8
    assert {row.group for row in result.heldout_winner.rows} == groups_of(splits.heldout)
    with (setup.folder / "copies.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "image": "azure4.png",
        "label": "azure",
        "copy_of": "scarlet0.png",
        "label_of_first": "scarlet",
    }
    assert any("scarlet0.png is 'scarlet' and its copy azure4.png 'azure'" in one for one in notes)


def test_the_dry_run_counts_and_writes_nothing(tmp_path, notes):
    setup = grouped(tmp_path)
    plan = make_plan(setup)
    # Seven bursts, of which the first and the last are one by the copy.
    assert notes[0] == "20 images are of 6 groups by 'burst'."
    assert notes[1].startswith("Copies of other images: 1;")
    splits = build(setup).splits
    assert (plan.tuning_images, plan.heldout_images) == (8, len(splits.heldout))
    assert not setup.folder.exists()


def test_a_run_goes_on_with_its_groups_alone(tmp_path):
    setup = grouped(tmp_path)
    tuned(setup)
    tuned(grouped(tmp_path), resume=True)
    with pytest.raises(ResumeError, match="content has changed"):
        tuned(grouped(tmp_path, size=2), resume=True)
    with pytest.raises(ResumeError, match=r"data\.group"):
        tuned(grouped(tmp_path, "data.group=folder"), resume=True)
