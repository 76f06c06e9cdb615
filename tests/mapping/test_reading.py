from __future__ import annotations

import pytest

from taxtune.mapping.reading import Link, Role, read_line


def roles(line: str) -> dict[str, str]:
    reading = read_line(line, lambda words: [])
    return {" ".join(word.lower for word in phrase.words): phrase.role.name for phrase in reading.phrases}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("It is a robin", {"a robin": "ASSERTED"}),
        ("a robin on an oak", {"a robin": "ASSERTED", "an oak": "CONTEXT"}),
        ("not a duck but a coot", {"a duck": "DENIED", "a coot": "ASSERTED"}),
        ("a crow rather than a jay", {"a crow": "ASSERTED", "a jay": "DENIED"}),
        ("not sure, a robin", {"sure": "ASSERTED", "a robin": "ASSERTED"}),
        ("it looks like a robin", {"a robin": "ASSERTED"}),
        ("a bird like a robin", {"a bird": "ASSERTED", "a robin": "COMPARED"}),
        ("similar to a robin", {"a robin": "COMPARED"}),
        ("On the branch is a robin", {"the branch": "CONTEXT", "a robin": "ASSERTED"}),
        ("a bird in the family Corvidae", {"a bird": "ASSERTED", "the family corvidae": "ASSERTED"}),
        ("I cannot identify this robin", {"robin": "DENIED"}),
        ("I cannot tell the exact kind of robin", {"the exact kind of robin": "ASSERTED"}),
    ],
)
def test_roles(line: str, expected: dict[str, str]) -> None:
    assert expected.items() <= roles(line).items()


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("Crow (Corvus)", [Link.SENTENCE, Link.SAME]),
        ("a crow, also known as a corbie", [Link.SENTENCE, Link.SAME]),
        ("crow, jay", [Link.SENTENCE, Link.LIST]),
        ("crow or jay", [Link.SENTENCE, Link.OR]),
        ("crow/jay", [Link.SENTENCE, Link.OR]),
        ("A crow. A jay.", [Link.SENTENCE, Link.SENTENCE]),
        ("A crow. It could also be a jay.", [Link.SENTENCE, Link.OR]),
    ],
)
def test_links(line: str, links: list[Link]) -> None:
    assert [phrase.link for phrase in read_line(line, lambda words: []).phrases] == links


def test_words_inside_a_name_part_nothing() -> None:
    reading = read_line("a jack in the pulpit", lambda words: [(1, 5)])
    assert [phrase.keys for phrase in reading.phrases] == [("a", "jack", "in", "the", "pulpit")]
    assert len(read_line("a jack in the pulpit", lambda words: []).phrases) == 2


def test_abbreviations_end_no_sentence() -> None:
    assert [phrase.keys for phrase in read_line("V. cornuta", lambda words: []).phrases] == [("v", "cornuta")]


def test_confidences_are_left_out() -> None:
    phrases = read_line("robin (95%), 0.8", lambda words: []).phrases
    assert [phrase.keys for phrase in phrases] == [("robin",)]


def test_refusals_and_denials_are_told() -> None:
    assert read_line("I'm sorry, I can't help.", lambda words: []).refused
    assert read_line("no bird", lambda words: []).denied
    assert not read_line("no doubt a bird", lambda words: []).denied
    assert read_line("a robin", lambda words: []).phrases[0].role is Role.ASSERTED
