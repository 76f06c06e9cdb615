"""Images that show nothing, in a run: their truth is the root."""

from __future__ import annotations

from taxtune.classifier import load_classifier
from taxtune.data import Example
from taxtune.metrics.outcomes import CALLED_EMPTY, CALLED_SOMETHING
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import trivial_node
from taxtune.tuning.leaks import group_names
from taxtune.tuning.proposers.evidence import relation
from taxtune.tuning.records import outcomes_of
from taxtune.tuning.rules import label_names
from tests.rows import placed_row
from tests.tuning.toy import Cyclist, make_parts, tuned, with_bicycles

TREE = Taxonomy.from_paths(
    ["animal/bird/duck/mallard", "animal/bird/duck/teal", "animal/bird/owl", "animal/deer"]
)
MALLARD = TREE.resolve("mallard")
BIRD = TREE.resolve("bird")


def examples(*labels):
    found = []
    at_root = ("blank", "animal")
    for number, label in enumerate(labels):
        target = TREE.root if label in at_root else TREE.resolve(label)
        found.append(Example(id=str(number), image=None, label=label, target=target))
    return found


def test_states_and_counts_of_rows():
    rows = [
        placed_row(TREE, TREE.root, TREE.root, abstained=True),
        placed_row(TREE, MALLARD, TREE.root),
        placed_row(TREE, TREE.root, TREE.root, off_tree=True),
        placed_row(TREE, TREE.root, MALLARD, abstained=True),
        placed_row(TREE, BIRD, MALLARD),
    ]
    states = [row.state for row in rows]
    assert states == ["exact", "wrong", "off the tree", "abstained", "right, but general"]
    found = outcomes_of(rows)
    assert found.nothing == {CALLED_SOMETHING: 2, CALLED_EMPTY: 1}
    assert (found.images, found.labels) == (5, 2)
    assert (found.wrong, found.general, found.exact) == (2, 2, 1)
    assert outcomes_of(rows[3:]).nothing == {}


def test_what_all_images_show_is_asked_of_those_that_show_something(tmp_path):
    recipe = make_parts(tmp_path / "in", tmp_path / "out").recipe
    assert trivial_node(recipe, TREE, examples("blank", "mallard", "owl")) == BIRD
    assert trivial_node(recipe, TREE, examples("animal", "mallard", "owl")) == TREE.root
    assert trivial_node(recipe, TREE, examples("blank")) == TREE.root


def test_the_root_is_no_secret_and_hides_no_group():
    shown = examples("blank", "mallard", "owl")
    assert label_names(TREE, BIRD, shown) == ("mallard", "owl")
    targets = [example.target for example in shown]
    names = group_names(TREE, TREE.root, targets)
    assert names == group_names(TREE, TREE.root, targets[1:])


def test_a_name_is_told_to_a_proposer_as_what_it_is():
    assert relation(TREE, BIRD, MALLARD, TREE.root) == "a name where nothing is there"
    assert relation(TREE, BIRD, TREE.root, TREE.root) == "no more than the domain"


def test_a_run_follows_the_recipes_words_and_is_not_on_the_wrong_tree(tmp_path):
    session = make_parts(tmp_path / "in", tmp_path / "out", Cyclist(), ('data.nothing=["leer"]',))
    manifest = tmp_path / "in/manifest.csv"
    lines = manifest.read_text().splitlines()
    for number, line in enumerate(lines):
        image, *rest = line.split(",")
        place = image[-5:]
        if place in ("2.png", "3.png", "4.png"):  # the murky ones
            lines[number] = ",".join([image, "Leer", *rest[1:]])
    manifest.write_text("\n".join(lines) + "\n")
    result = tuned(with_bicycles(session), tmp_path / "out")
    rows = result.iterations[0].rows
    assert sum(row.off_tree for row in rows) > len(rows) / 2
    assert {row.target == 0 for row in rows if row.off_tree} == {True}
    mapper = with_bicycles(session).mapper
    classifier = load_classifier(tmp_path / "out", vlm=Cyclist(), mapper=mapper)
    assert classifier.words.nothing == ("leer",)
