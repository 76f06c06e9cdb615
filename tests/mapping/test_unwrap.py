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
    assert unwrap(answer)[0] == Block(("Beagle", "Basset Hound"), is_list=True)


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


#: Answers that name one thing, NAME, in many formats, and reject or doubt another one, OTHER.
FORMATS = r"""
{"label": "NAME", "confidence": 0.9}
~
Here:
```json
{"label": "NAME"}
```
Bye!
~
{"x": "NAME", "similar_species": ["OTHER"]}
~
{"x": "NAME", "lookalikes": "OTHER", "not": "OTHER"}
~
{"options": ["OTHER", "NAME"], "answer": "NAME"}
~
{"distractors": ["OTHER"], "object": "NAME"}
~
{
  "image_information": {"description": "next to a OTHER", "quality": "good"},
  "reasoning": {"step 1": "Is it a OTHER?"},
  "result": {"name": "B) NAME", "location": "center"}
}
~
{"best": {"label": "NAME"}, "other_possibilities": [{"label": "OTHER", "confidence": 0.2}]}
~
[{"label": "OTHER", "confidence": 0.2}, {"label": "NAME", "confidence": 0.7}]
~
{"candidates": [{"name": "NAME", "score": 85}, {"name": "OTHER", "score": 9}]}
~
{"predictions": {"OTHER": 0.2, "NAME": 0.7}}
~
**NAME**
~
## NAME
~
- NAME
~
Answer: B) NAME
~
At first I saw a OTHER.

**Final answer:** NAME
~
$\boxed{\text{NAME}}$
~
<answer>NAME</answer>
~
Guesses:
1. **NAME** (70%)
2. OTHER (20%)
~
OTHER: 0.2
NAME: 0.7
~
OTHER (20%), NAME (70%)
~
### Human: a OTHER?
### Assistant: NAME
~
| Rank | Name | Share |
|---|:--:|---|
| 1 | NAME | 70% |
| 2 | OTHER | 20% |
"""
NAMES = st.sampled_from(
    ["robin", "Blue Jay", "Beagle", "Red Fox", "Vulpes vulpes", "birds", "plant"]
)


@pytest.mark.parametrize("form", FORMATS.split("~"))
@given(name=NAMES, other=NAMES)
def test_a_format_changes_no_placement(mapper, form, name, other):
    plain = mapper.place_one(name)
    wrapped = mapper.place_one(form.strip().replace("NAME", name).replace("OTHER", other))
    assert (wrapped.node, wrapped.stage) == (plain.node, plain.stage)


@pytest.mark.parametrize(
    "form", ["{'label': 'NAME'}", "| Key | Value |\n|---|---|\n| Name | NAME |"]
)
def test_a_key_that_stays_changes_no_node(mapper, form):
    assert mapper.place_one(form.replace("NAME", "Blue Jay")).path[-1] == "Cyanocitta cristata"


@given(
    scores=st.lists(st.integers(1, 99), min_size=2, unique=True),
    shape=st.sampled_from(["{0}: {1}%", "{0} ({2})", "| {0} | {2} |", "{0}, probability {1}"]),
)
def test_the_likeliest_candidate_stays_wherever_it_stands(scores, shape):
    lines = []
    objects = []
    for score in scores:
        name = f"bird{'x' * score}"
        lines.append(shape.format(name, score, score / 100))
        objects.append({"label": name, "score": score})
    for answer in ("\n".join(lines), json.dumps(objects)):
        (block,) = unwrap(answer)
        (line,) = block.lines
        assert line.split()[0].strip(":,") == f"bird{'x' * max(scores)}"


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
    assert unwrap('{"brand": "Nikon", "model": "D850"}') == (
        Block(("Nikon", "D850"), is_list=True),
    )


def test_lines_of_prose_are_no_list():
    assert [block.is_list for block in unwrap("A dog.\nIt is a beagle.")] == [False]


def test_broken_json_is_text():
    assert unwrap('{"label": "Blue Jay"')
