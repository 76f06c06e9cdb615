from __future__ import annotations

import pytest

from taxtune.mapping.unwrap import unwrap


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
        ("Species: Blue Jay\nConfidence: high as a crow", ("Blue Jay",)),
        ('{"label": "Blue Jay", "confidence": 0.4}', ("Blue Jay",)),
        ('```json\n{"prediction": {"species": "Blue Jay"}}\n```', ("Blue Jay",)),
        ('{"x": "Blue Jay", "reason": "no crow"}', ("Blue Jay",)),
        ("C. cornuta", ("C. cornuta",)),
        ("", ()),
        ("```\n```", ()),
    ],
)
def test_formats(answer: str, lines: tuple[str, ...]) -> None:
    assert unwrap(answer).lines == lines


@pytest.mark.parametrize(
    "answer",
    [
        "1. Beagle\n2. Basset Hound",
        "Here are my guesses:\n- Beagle\n- Basset Hound",
        "1) Beagle 2) Basset Hound",
        '["Beagle", "Basset Hound"]',
        '{"guesses": ["Beagle", "Basset Hound"]}',
        "Answer:\n* Beagle\n* Basset Hound\n\nI hope this helps.",
    ],
)
def test_lists(answer: str) -> None:
    unwrapped = unwrap(answer)
    assert unwrapped.lines == ("Beagle", "Basset Hound")
    assert unwrapped.listed


def test_lines_of_prose_are_no_list() -> None:
    assert not unwrap("A dog.\nIt is a beagle.").listed


def test_broken_json_is_text() -> None:
    assert unwrap('{"label": "Blue Jay"').lines != ()
