from __future__ import annotations

import pytest

from taxtune.mapping.reading import Force, Link, read_line


class Names:
    """A tree that has some words, and names of several words at some places."""

    def __init__(self, *words, places=()):
        self.words, self.places = set(words), places

    def locate(self, words):
        return self.places

    def exact(self, words):
        return [word for word in words if word in self.words]

    def mentions(self, words):
        return not self.words.isdisjoint(words)


NAMES = Names("robin", "dog", "fox", "rabbit", "salad", "soup")


def roles(line):
    reading = read_line(line, NAMES)
    return {
        " ".join(word.lower for word in phrase.words): phrase.force.name
        for phrase in reading.phrases
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("It is a robin", {"a robin": "ASSERTED"}),
        ("a robin on an oak", {"a robin": "ASSERTED", "an oak": "CONTEXT"}),
        ("not a duck but a coot", {"a duck": "DENIED", "a coot": "ASSERTED"}),
        ("a crow rather than a jay", {"a crow": "ASSERTED", "a jay": "DENIED"}),
        ("it looks like a robin", {"a robin": "GUESSED"}),
        ("it may be a robin", {"a robin": "GUESSED"}),
        ("a bird like a robin", {"a bird": "ASSERTED", "a robin": "COMPARED"}),
        ("similar to a robin", {"a robin": "COMPARED"}),
        ("On the branch is a robin", {"the branch": "CONTEXT", "a robin": "ASSERTED"}),
        ("I cannot identify this robin", {"robin": "DENIED"}),
        # verbs are known by where they stand
        ("a dog laying on a blanket", {"a dog": "ASSERTED", "a blanket": "CONTEXT"}),
        ("the dog is wearing a hat", {"the dog": "ASSERTED", "a hat": "CONTEXT"}),
        ("a dog holding sticks", {"a dog": "ASSERTED", "sticks": "CONTEXT"}),
        ("a flying robin", {"a flying robin": "ASSERTED"}),
        ("a fox chases a rabbit", {"a fox chases": "ASSERTED", "a rabbit": "CONTEXT"}),
        ("a woman holds a rabbit", {"a woman holds": "ASSERTED", "a rabbit": "ASSERTED"}),
        ("the salad contains a soup", {"the salad": "ASSERTED", "a soup": "CONTEXT"}),
        ("the picture contains a soup", {"the picture": "ASSERTED", "a soup": "ASSERTED"}),
        # what comes before the main clause
        ("In the picture, a robin", {"the picture": "CONTEXT", "a robin": "ASSERTED"}),
        (
            "a robin on a branch, a twig",
            {"a robin": "ASSERTED", "a branch": "CONTEXT", "a twig": "CONTEXT"},
        ),
        ("The robin in the picture is a thrush", {"the robin": "ASSERTED", "a thrush": "ASSERTED"}),
        ("a crate filled with robins", {"a crate filled of robins": "ASSERTED"}),
        ("it belongs in soup", {"of soup": "ASSERTED"}),
    ],
)
def test_roles(line, expected):
    assert expected.items() <= roles(line).items()


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("Crow (Corvus)", [Link.SENTENCE, Link.LIST]),
        ("a crow, also known as a corbie", [Link.SENTENCE, Link.PREDICATE]),
        ("crow, jay", [Link.SENTENCE, Link.LIST]),
        ("crow or jay", [Link.SENTENCE, Link.OR]),
        ("crow/jay", [Link.SENTENCE, Link.OR]),
        ("A crow. A jay.", [Link.SENTENCE, Link.SENTENCE]),
        ("The bird is a jay", [Link.SENTENCE, Link.PREDICATE]),
        ("A bird which is a jay", [Link.SENTENCE, Link.SENTENCE]),
    ],
)
def test_links(line, links):
    assert [phrase.link for phrase in read_line(line, NAMES).phrases] == links


def test_words_inside_a_name_part_nothing():
    reading = read_line("a jack in the pulpit", Names(places=[(1, 5)]))
    assert [phrase.keys for phrase in reading.phrases] == [("a", "jack", "in", "the", "pulpit")]
    assert len(read_line("a jack in the pulpit", NAMES).phrases) == 2


def test_abbreviations_end_no_sentence():
    assert [phrase.keys for phrase in read_line("V. cornuta", NAMES).phrases] == [("v", "cornuta")]


def test_refusals_and_denials_are_told():
    assert read_line("I'm sorry, I can't help.", NAMES).refused
    assert read_line("no bird", NAMES).denied
    assert read_line("a robin", NAMES).phrases[0].force is Force.ASSERTED
