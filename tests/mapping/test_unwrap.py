from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


#: Formats of an answer that names one thing and rejects or doubts another.
WRAPPERS = {
    "object": lambda name, other: json.dumps({"label": name, "confidence": 0.9}),
    "single quotes": lambda name, other: str({"label": name}),
    "fenced object": lambda name, other: (
        f"Here:\n```json\n{json.dumps({'label': name})}\n```\nBye!"
    ),
    "similar": lambda name, other: json.dumps({"x": name, "similar_species": [other]}),
    "lookalikes": lambda name, other: json.dumps({"x": name, "lookalikes": other, "not": other}),
    "options": lambda name, other: json.dumps({"options": [other, name], "answer": name}),
    "distractors": lambda name, other: json.dumps({"distractors": [other], "object": name}),
    "reply": lambda name, other: json.dumps(
        {
            "image_information": {"description": f"next to a {other}", "quality": "good"},
            "reasoning": {"step 1": f"Is it a {other}?"},
            "result": {"name": f"B) {name}", "location": "center"},
        }
    ),
    "alternatives": lambda name, other: json.dumps(
        {"best": {"label": name}, "other_possibilities": [{"label": other, "confidence": 0.2}]}
    ),
    "scored objects": lambda name, other: json.dumps(
        [{"label": other, "confidence": 0.2}, {"label": name, "confidence": 0.7}]
    ),
    "scores of a hundred": lambda name, other: json.dumps(
        {"candidates": [{"name": name, "score": 85}, {"name": other, "score": 9}]}
    ),
    "scores by name": lambda name, other: json.dumps({"predictions": {other: 0.2, name: 0.7}}),
    "bold": lambda name, other: f"**{name}**",
    "heading": lambda name, other: f"## {name}",
    "item": lambda name, other: f"- {name}",
    "option": lambda name, other: f"Answer: B) {name}",
    "final": lambda name, other: f"At first I saw a {other}.\n\n**Final answer:** {name}",
    "box": lambda name, other: f"$\\boxed{{\\text{{{name}}}}}$",
    "tag": lambda name, other: f"<answer>{name}</answer>",
    "ranks": lambda name, other: f"Guesses:\n1. **{name}** (70%)\n2. {other} (20%)",
    "scores": lambda name, other: f"{other}: 0.2\n{name}: 0.7",
    "in a row": lambda name, other: f"{other} (20%), {name} (70%)",
    "turns": lambda name, other: f"### Human: a {other}?\n### Assistant: {name}",
    "table": lambda name, other: (
        f"| Rank | Name | Share |\n|---|:--:|---|\n| 1 | {name} | 70% |\n| 2 | {other} | 20% |"
    ),
    "fields": lambda name, other: f"| Field | Value |\n|---|---|\n| Name | {name} |",
}
NAMES = st.sampled_from(
    ["robin", "Blue Jay", "Beagle", "Red Fox", "Vulpes vulpes", "birds", "plant"]
)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@given(name=NAMES, other=NAMES)
def test_a_format_changes_no_placement(mapper, wrapper, name, other):
    plain = mapper.place_one(name)
    wrapped = mapper.place_one(WRAPPERS[wrapper](name, other))
    assert (wrapped.node, wrapped.stage) == (plain.node, plain.stage)


@given(
    scores=st.lists(st.integers(1, 99), min_size=2, unique=True),
    shape=st.sampled_from(["{0}: {1}%", "{0} ({2})", "| {0} | {2} |", "{0}, probability {1}"]),
)
def test_the_likeliest_candidate_stays_wherever_it_stands(scores, shape):
    names = [f"bird{'x' * score}" for score in scores]
    lines = [
        shape.format(name, score, score / 100) for name, score in zip(names, scores, strict=True)
    ]
    objects = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    likeliest = names[scores.index(max(scores))]
    for answer in ("\n".join(lines), json.dumps(objects)):
        (block,) = unwrap(answer)
        (line,) = block.lines
        assert line.split()[0].strip(":,") == likeliest


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ('{"label": null, "alternatives": ["Blue Jay", "Robin"]}', ("Blue Jay", "Robin")),
        ('{"description": "a Blue Jay"}', ("a Blue Jay",)),
        (
            '[{"name": "Blue Jay", "year": 2012}, {"name": "Robin", "year": 2010}]',
            ("Blue Jay", "Robin"),
        ),
        ("A jay, 0.1 m long, tail 0.15 m", ("A jay, 0.1 m long, tail 0.15 m",)),
        ("Blue Jay\n---\nIt is blue.", ("Blue Jay", "It is blue")),
    ],
)
def test_nothing_that_may_answer_is_lost(answer, lines):
    assert unwrap(answer)[0].lines == lines


@pytest.mark.parametrize(
    "part", ["-", "| ", "a|\n", "1", "0.1", "<a ", "```", "\\text", "__", "[x](", " ", "## "]
)
def test_long_answers_are_unwrapped_in_linear_time(part):
    unwrap(part * (200_000 // len(part)) + "x")


def test_fields_of_one_object_name_one_thing():
    assert unwrap('{"brand": "Nikon", "model": "D850"}') == (Block(("Nikon", "D850"), "same"),)


def test_lines_of_prose_are_no_list():
    assert [block.link for block in unwrap("A dog.\nIt is a beagle.")] == [""]


def test_broken_json_is_text():
    assert unwrap('{"label": "Blue Jay"')
