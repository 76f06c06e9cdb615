"""Proposers of installed packages, found by the entry points that an installer writes."""

from __future__ import annotations

import pytest

import taxtune
from taxtune.errors import TaxtuneError
from taxtune.plugins import plugin_names
from taxtune.tuning.proposers import make_proposer
from tests.test_api import photos, tuned

__all__ = ["photos"]

MODULE = """
import taxtune

class Careful(taxtune.Proposer):
    def __init__(self, word="careful"):
        self.word = word
    def propose(self, history, goal, *, iteration, seed, check):
        return taxtune.Proposal(f"Be {self.word}, try {iteration}.")

def broken():
    raise OSError("no licence")

def number(floor=None):
    return 3
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that adds proposers."""
    site = tmp_path / "site"
    info = site / "birdtuning-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "birdtuning.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: birdtuning\nVersion: 1.0\n")
    functions = (f"{name} = birdtuning:{name}" for name in ("broken", "gone", "number"))
    proposers = ["careful = birdtuning:Careful", *functions]
    (info / "entry_points.txt").write_text("\n".join(["[taxtune.proposers]", *proposers]) + "\n")
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("package")
def test_a_run_uses_a_packages_proposer_by_its_name(photos, tmp_path):
    assert plugin_names("taxtune.proposers") == ["broken", "careful", "gone", "number"]
    result = tuned(photos, tmp_path / "run", proposer="careful")
    assert [record.template for record in result.iterations[1:]] == [
        "Be careful, try 1.",
        "Be careful, try 2.",
    ]
    assert result.provenance.facts["Proposer"] == {"kind": "Careful"}
    assert taxtune.load_run(tmp_path / "run") == result


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"proposer": "careful"}, "careful"),
        ({"proposer": {"kind": "careful", "word": "bold"}}, "bold"),
        ({"proposer.kind": "careful", "proposer.word": "bold"}, "bold"),
    ],
)
def test_a_recipe_names_a_packages_proposer_with_its_settings(photos, tmp_path, changes, word):
    result = tuned(photos, tmp_path / "run", proposer=None, settings=changes)
    assert result.iterations[1].template == f"Be {word}, try 1."
    recipe = taxtune.load_recipe("fieldguide", changes)
    assert recipe.changed({}).proposer == recipe.proposer
    again = recipe.changed({"proposer.kind": "fragments"})
    assert again.settings()["proposer"] == {"kind": "fragments", "fragments": "default"}


@pytest.mark.usefixtures("package")
def test_a_recipe_that_gives_a_package_a_wrong_setting_is_told(photos, tmp_path):
    words = "'careful', which a package provides, cannot be created: TypeError: .*'words'"
    wrong = {"proposer": {"kind": "careful", "words": "bold"}}
    with pytest.raises(TaxtuneError, match=words):
        tuned(photos, tmp_path, proposer=None, settings=wrong)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (
            make_proposer,
            "broken",
            r"'broken', which a package provides, cannot be created: OSError: no licence",
        ),
        (
            make_proposer,
            "number",
            r"'number', which a package provides, cannot be created: This is not a proposer\. \(got 3\)",
        ),
        (
            make_proposer,
            "gone",
            r"'gone', which birdtuning registers for taxtune\.proposers, cannot be loaded",
        ),
        (make_proposer, "carefull", r"Unknown proposer.*Did you mean 'careful'"),
    ],
)
def test_a_package_whose_part_cannot_be_had_is_named(make, name, words):
    with pytest.raises(TaxtuneError, match=words):
        make(name)
