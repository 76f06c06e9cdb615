"""Labels that no tree has: nothing is there, of an unnamed kind, not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.answers.targets import target_finder
from taxtune.data import load_examples
from taxtune.data.labels import OUTSIDE, LabelFinder
from taxtune.mapping import Mapper
from taxtune.settings import LabelWords
from taxtune.taxonomy import Taxonomy, restrict

TREE = Taxonomy.from_paths(
    ["animal/bird/duck/mallard", "animal/bird/warbler/blackcap", "animal/deer/roe deer"]
)
WORDS = LabelWords()
FORMS = st.sampled_from([str, str.upper, str.title])
SPACES = st.sampled_from([" ", "_", "-", "  "])
ENDS = st.sampled_from(["", "s", " image", "_photo"])
GROUPS = st.sampled_from(["bird", "Warblers", "roe deer"])


def meant(label, tree=TREE, **settings):
    """The kind of a label and the name of its node, "" where it is left out; None for a name."""
    found = LabelFinder(tree, **settings).unnamed(label)
    if found is None:
        return None
    kind, node, _ = found
    return kind, "" if node == OUTSIDE else tree.labels[node]


@given(st.sampled_from(WORDS.nothing), FORMS, SPACES, ENDS)
def test_nothing_is_there_however_it_is_spelt(phrase, form, space, end):
    label = form(phrase).replace(" ", space)
    assert meant(label + end) == ("nothing", "animal")


@given(st.sampled_from(WORDS.unnamed), GROUPS, FORMS, SPACES, st.booleans())
def test_an_unnamed_kind_is_its_group(word, group, form, space, is_first):
    label = f"{word} {group}" if is_first else f"{group} {word}."
    node = {"Warblers": "warbler"}.get(group, group)
    spelt = form(label).replace(" ", space)
    assert meant(spelt) == ("unnamed", node)


@given(st.sampled_from([*WORDS.left_out, *WORDS.unnamed]), FORMS)
def test_what_is_not_known_is_left_out(phrase, form):
    assert meant(form(phrase)) == ("left_out", "")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("No animals", ("nothing", "animal")),
        ("site 3/empty", ("nothing", "animal")),
        ("bird/unknown", ("unnamed", "bird")),
        ("bird/unidentified penguin", ("unnamed", "bird")),
        ("animal/bird/unidentified duck", ("unnamed", "duck")),
        ("site 3/unknown", ("left_out", "")),
        ("birds, species not identified", ("unnamed", "bird")),
        ("???", ("left_out", "")),
        ("NA", ("left_out", "")),
        ("unknown cathedral", None),
        ("empty nest", None),
        ("heron", None),
        ("no deer", None),
    ],
)
def test_labels_are_told_apart(label, expected):
    assert meant(label) == expected


def test_a_denial_of_the_root_is_nothing():
    part = restrict(TREE, "bird")
    birds = part.tree
    assert meant("no birds", birds, part=part) == ("nothing", "bird")
    assert meant("no animals", birds, words=LabelWords(nothing=()), part=part) == (
        "nothing",
        "bird",
    )


@given(st.sampled_from(["none", "Blank", "unknown", "other bird", "?"]))
def test_a_node_of_that_name_is_meant_whatever_the_words_say(name):
    tree = Taxonomy(["animal", "bird", name], [-1, 0, 1])
    target = target_finder(tree)(name)
    assert target.node == 2
    assert not target.phrase
    assert LabelFinder(tree).empty([name, name.upper()]) == set()


def test_the_words_can_be_changed():
    words = LabelWords(nothing=("leer",), unnamed=("unbestimmter", "art"), left_out=("blank",))
    finder = target_finder(TREE, words=words)
    assert finder("Leer").node == TREE.root
    bird = finder("unbestimmter bird").node
    assert TREE.labels[bird] == "bird"
    assert finder("blank").outside
    assert finder("empty").problem
    assert finder("unidentified bird").problem


def photos(folder, *labels):
    """Different images with these labels."""
    pairs = []
    for number, label in enumerate(labels):
        file = folder / f"{number}.png"
        Image.new("RGB", (9, 9), (number, 0, 0)).save(file)
        pairs.append((str(file), label))
    return pairs


def test_an_empty_frame_is_inside_of_every_domain_and_part(tmp_path):
    pairs = photos(tmp_path, "mallard", "empty", "roe deer", "unknown", "animal")
    bird = TREE.resolve("bird")
    inside = load_examples(pairs, TREE, domain=bird)
    labels = [example.label for example in inside]
    assert labels == ["mallard", "empty"]
    part = restrict(TREE, "bird")
    birds = part.tree
    _, empty = load_examples(pairs[:4], birds, part=part)
    assert (empty.label, empty.target) == ("empty", birds.root)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            "empty",
            "A: blank.",
            "An empty frame",
            "The frame is empty.",
            "false trigger",
            "nothing",
        ),
        *("The image appears to be empty", "There is no animal in the photo.", "none", "no bird"),
    ],
)
def test_an_answer_that_nothing_is_there_is_on_the_root(answer):
    (placed,) = Mapper(TREE).place([answer])
    assert (placed.node, placed.abstained, placed.off_tree) == (TREE.root, True, False)


@pytest.mark.parametrize("answer", ["a picture frame", "an empty bottle", "a blank cheque"])
def test_an_answer_that_names_something_else_is_off_the_tree(answer):
    (placed,) = Mapper(TREE).place([answer])
    assert placed.off_tree
