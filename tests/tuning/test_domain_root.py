"""A recipe that restricts the taxonomy to a domain root: what is scored, reported and left out."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.errors import TaxonomyError, TaxtuneError
from taxtune.progress import showing
from taxtune.tuning.build import build, make_data, make_taxonomy
from tests.displays import Recorder
from tests.tuning.toy import make_parts, tuned


def restricted(folder, out, root="colour", overrides=()):
    """The toy recipe on a taller tree, sight / property / colour / …, with one image of a shape."""
    session = make_parts(folder, out, overrides=(f"taxonomy.root={root}", *overrides))
    tree = folder / "tree.csv"
    above = "sight,\nproperty,sight\nshape,property\nround,shape\ncolour,property\n"
    tree.write_text(tree.read_text().replace("colour,\n", above, 1))
    manifest = folder / "manifest.csv"
    # A label may be given as a path from the very root.
    lines = manifest.read_text().replace(",navy", ",sight/property/colour/bluish/navy")
    manifest.write_text(f"{lines}ball.png,round,\n")
    image = (folder / "scarlet0.png").read_bytes()
    (folder / "ball.png").write_bytes(image + b"\0")
    return session


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    base = tmp_path_factory.mktemp("restricted")
    session = restricted(base / "in", base / "out", overrides=("iterations=3",))
    with showing(Recorder()) as display:
        result = tuned(session, base / "out")
    return build(session), result, display.notes


def test_the_domain_is_the_root_and_images_outside_are_left_out_and_counted(
    run,
):
    session, result, notes = run
    assert session.taxonomy.labels[0] == "colour"
    assert len(session.examples) == 20
    said = [note for note in notes if "outside" in note]
    assert len(said) == 1
    assert "1 of 21 images are outside 'colour' and are left out: round." in said[0]
    # The trivial answer is the domain's root, and so is the tuning's.
    assert result.trivial_hp == 1.0
    assert result.trivial_hr == pytest.approx(1 / 3)


def test_scores_are_those_of_sets_of_ancestors_below_the_root(
    run,
):
    session, result, _ = run
    whole = session.full_taxonomy
    for held in result.heldout:
        hps, hrs = [], []
        for row in held.rows:
            # The labels of this tree are unequal, so that they stand for the nodes.
            placed = row.placement.split("/")
            truth = row.truth.split("/")
            shared = set(placed) & set(truth)
            hps.append(len(shared) / len(placed))
            hrs.append(len(shared) / len(truth))
            assert whole.path(whole.resolve(("sight", "property", *placed)))[2:] == tuple(placed)
        assert held.scores.hp == pytest.approx(np.mean(hps))
        assert held.scores.hr == pytest.approx(np.mean(hrs))


def test_a_run_is_not_resumed_with_another_root_nor_on_another_tree_around_it(
    tmp_path,
):
    settings = ("iterations=1", "data.tuning=4", "data.heldout=4")
    tuned(restricted(tmp_path / "in", tmp_path / "out", overrides=settings), tmp_path / "out")
    other = restricted(tmp_path / "in", tmp_path / "out", "bluish", settings)
    with pytest.raises(TaxtuneError, match=r'taxonomy.root: was "colour", is "bluish"'):
        tuned(other, tmp_path / "out", resume=True)
    # The same part, a step further down the whole.
    moved = restricted(tmp_path / "in", tmp_path / "out", overrides=settings)
    tree = tmp_path / "in" / "tree.csv"
    tree.write_text(tree.read_text().replace("property,sight", "look,sight\nproperty,look"))
    manifest = tmp_path / "in" / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("sight/property/", "sight/look/property/"))
    words = 'domain root: was "sight/property/colour", is "sight/look/property/colour"'
    with pytest.raises(TaxtuneError, match=words):
        tuned(moved, tmp_path / "out", resume=True)


def test_a_root_that_few_images_are_below_is_told(tmp_path, notes):
    session = restricted(tmp_path / "in", tmp_path / "out", "shape")
    tree, part = make_taxonomy(session.recipe)
    data = make_data(session.recipe, tree, part, None, session.folder)
    assert len(data.examples) == 1
    assert "20 of 21 images are outside 'shape'" in notes[0]


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("round", "nothing below this node"),
        ("coulour", r"'coulour' is not on the taxonomy.*'colour'"),
    ],
)
def test_a_root_that_does_not_fit_is_refused(tmp_path, root, message):
    session = restricted(tmp_path / "in", tmp_path / "out", root)
    with pytest.raises(TaxonomyError, match=message):
        build(session)
