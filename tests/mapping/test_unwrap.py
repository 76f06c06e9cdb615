from __future__ import annotations

import pytest

from taxtune.mapping.unwrap import Block, unwrap


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("A: Blue Jay.", ("Blue Jay",)),
        ("What is it? Answer in the format 'A: <answer>.' A: Blue Jay", ("Blue Jay",)),
        ("It has blue wings.\nFinal answer: **Blue Jay**", ("Blue Jay",)),
        ("\\boxed{Blue Jay}", ("Blue Jay",)),
        ("<answer>Blue Jay</answer>", ("Blue Jay",)),
        ("<think>maybe a crow</think>Blue Jay", ("Blue Jay",)),
        ("“Blue Jay”", ("Blue Jay",)),
        ("possible_dog_breeds", ("possible dog breeds",)),
        ("BlueJay", ("Blue Jay",)),
        ("[Blue Jay](https://example.org/a_crow)", ("Blue Jay",)),
        ('{"label": "Blue Jay", "confidence": 0.4}', ("Blue Jay",)),
        ('```json\n{"prediction": {"species": "Blue Jay"}}\n```', ("Blue Jay",)),
        ('{"x": "Blue Jay", "reason": "no crow"}', ("Blue Jay",)),
        ("C. cornuta", ("C. cornuta",)),
        ("", ()),
        ("```\n```", ()),
    ],
)
def test_formats(answer, lines):
    assert tuple(line for block in unwrap(answer) for line in block.lines) == lines


@pytest.mark.parametrize(
    "answer",
    [
        "1. Beagle\n2. Basset Hound",
        '["Beagle", "Basset Hound"]',
        '{"guesses": ["Beagle", "Basset Hound"]}',
        "Answer:\n* Beagle\n* Basset Hound\n\nI hope this helps.",
    ],
)
def test_lists(answer):
    assert unwrap(answer)[0] == Block(("Beagle", "Basset Hound"), "list")


@pytest.mark.parametrize(
    "answer",
    [
        "Top guesses:\n1. Beagle - 81%\n2. Basset Hound - 12%",
        "Basset Hound (20%), Beagle (70%)",
        "**Item:** Beagle\n**Brand:** none\n**Parts visible:**\n- ears of a Basset Hound",
        "- Name: Beagle\n- Coat: of a Basset Hound\n- Also in the photo: a cat",
        "**Breed:** Beagle\n\n**Key features**\n- a tail like a Basset Hound's\n- Ears: long",
    ],
)
def test_the_part_that_answers_comes_first(answer):
    assert "Basset" not in unwrap(answer)[0].lines[0]
    assert "Beagle" in unwrap(answer)[0].lines[0]


def test_fields_of_one_object_name_one_thing():
    assert unwrap('{"brand": "Nikon", "model": "D850"}') == (Block(("Nikon", "D850"), "same"),)


def test_lines_of_prose_are_no_list():
    assert [block.link for block in unwrap("A dog.\nIt is a beagle.")] == [""]


def test_broken_json_is_text():
    assert unwrap('{"label": "Blue Jay"')
