"""A run whose templates know columns of the data: what it is for, what it refuses, and that nothing else changes."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

import taxtune
from taxtune.data import Example, load_examples
from taxtune.data.context import EXIF
from taxtune.errors import DataError
from taxtune.progress import Display, showing
from taxtune.settings import ContextSettings
from taxtune.taxonomy import as_taxonomy
from taxtune.tuning.context import make_context

TREE = {"bird": {"finch": {"siskin": {}, "linnet": {}}, "duck": {"teal": {}, "pintail": {}}}}
SPECIES = {"siskin": "linnet", "linnet": "siskin", "teal": "pintail", "pintail": "teal"}
QUIET = {"tracking.mlflow": False}


def photos(folder: Path, n: int = 60) -> pd.DataFrame:
    """Photos of four species; the month and the place in which they were taken tell nothing of the species."""
    rows = []
    (folder / "photos").mkdir(parents=True)
    for i in range(n):
        file = folder / "photos" / f"{i}.png"
        Image.new("RGB", (8, 8), (i, 2 * i, 3 * i)).save(file)
        draw = random.Random(i)
        place = draw.choice(["marsh", "garden", None])
        rows.append((str(file), [*SPECIES][i % 4], draw.randint(1, 12), place, f"a note {i}"))
    return pd.DataFrame(rows, columns=["image", "label", "month", "place", "notes"])


def ask(image: Image.Image, prompt: str) -> str:
    """A model that tells the species of nine images in ten if it is told the month, and else of every other one."""
    number = int(Path(image.filename).stem)
    right = [*SPECIES][number % 4]
    knows = re.search(r"month: \d+", prompt, re.IGNORECASE) is not None
    sure = random.Random(f"{number}").random()
    return right if sure < (0.9 if knows else 0.5) else SPECIES[right]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in (1, 2))]
)
def test_the_search_finds_the_template_that_tells_the_month(seed, tmp_path):
    frame, settings = photos(tmp_path), {**QUIET, "seed": seed}
    told = {**settings, "data.context": ["month", "place"]}
    found = taxtune.tune(
        TREE, frame, ask, objective="accuracy", effort="light", settings=told, out=tmp_path / "told"
    )
    assert "{{ month }}" in found.best.template
    assert found.heldout_winner.scores.accuracy - found.heldout[0].scores.accuracy > 0.2
    rows = found.heldout_winner.rows
    assert {row.example: row.context["month"] for row in rows} == {
        row.example: frame.set_index("image").month[row.example] for row in rows
    }
    without = taxtune.tune(
        TREE,
        frame,
        ask,
        objective="accuracy",
        effort="light",
        settings=settings,
        out=tmp_path / "no",
    )
    assert without.heldout_winner.scores.accuracy == without.heldout[0].scores.accuracy


# -- leaks -------------------------------------------------------------------------------------------------------------

CODES = {"siskin": "linnet", "linnet": "teal", "teal": "pintail", "pintail": "siskin"}
DRAW = random.Random(7)
NOISE = [DRAW.choice([*SPECIES]) for _ in range(200)]


class Said(Display):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def context_of(cells, column="x", **settings):
    """The variables and the images of 200 images of four species with such cells."""
    tree = as_taxonomy(TREE)
    labels = [[*SPECIES][i % 4] for i in range(200)]
    examples = [
        Example(
            f"{i}.png",
            Path(f"{i}.png"),
            label,
            tree.resolve(label),
            context={column: cells(i, label)},
        )
        for i, label in enumerate(labels)
    ]
    said = Said()
    with showing(said):
        made = make_context(
            examples, ContextSettings(columns=(column,), **settings), tree, "birds.csv"
        )
    return (*made, said.notes)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (lambda i, label: label.upper(), "names the label of 100.0 %"),
        (lambda i, label: f"bird/finch/{label}", "names the label of 100.0 %"),
        (
            lambda i, label: f"near the pond: a female {label}s, i think" if i > 2 else None,
            "names the label of 98.5 %",
        ),
        (lambda i, label: ["seen", label], "names the label of 100.0 %"),
        (lambda i, label: CODES[label], "tells the label .* of 100.0 %"),
        (lambda i, label: [*SPECIES].index(label), "tells the label .* of 100.0 %"),
    ],
)
def test_a_column_that_is_the_truth_is_refused(cells, words):
    with pytest.raises(DataError, match=words.replace(" %", "%")) as caught:
        context_of(cells)
    assert "birds.csv" in str(caught.value)
    assert "data.context" in str(caught.value)


@pytest.mark.parametrize(
    "cells",
    [
        lambda i, label: NOISE[i],  # names, but not those of the images
        lambda i, label: label if i > 4 else None,  # 97.5 %
        lambda i, label: "pond" if label in ("teal", "pintail") else "hedge",
        lambda i, label: f"{i}.png",
        lambda i, label: "finches and ducks",
        lambda i, label: None,
    ],
)
def test_a_column_that_tells_only_a_part_is_not(cells):
    variables, examples, _ = context_of(cells)
    assert [example.context["x"] for example in examples] == [
        cells(i, e.label) for i, e in enumerate(examples)
    ]
    assert variables[0].kind == "text"


def test_words_of_a_name_in_another_order_are_the_name():
    tree = as_taxonomy({"bird": {"House Finch": {}, "Purple Finch": {}}})
    examples = [
        Example(
            f"{i}",
            Path(f"{i}"),
            "",
            1 + i % 2,
            context={"x": ("Finch, House", "finches (purple)")[i % 2]},
        )
        for i in range(50)
    ]
    with pytest.raises(DataError, match=r"names the label of 100\.0%"):
        make_context(examples, ContextSettings(columns=("x",)), tree, "birds.csv")


# -- cells and candidates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        ("5", "number", 5),
        (5.5, "number", 5.5),
        ("007", "text", "007"),
        (True, "text", "true"),
        (" two\nlines\x00 ", "text", "two lines"),
        (["b", "a"], "list", ["b", "a"]),
        ({"siskin": 0.2, "teal": 0.7, "linnet": 0.0}, "list", ["teal (0.70)", "siskin (0.20)"]),
        ([["teal", 0.7], ["siskin", 0.001]], "list", ["teal (0.70)", "siskin (<0.01)"]),
        ("yes " * 900, "text", "yes " * 499 + "yes…"),
        (["yes " * 200] * 4, "list", [*[("yes " * 200).strip()] * 2, "…"]),
    ],
)
def test_cells_have_the_kind_of_their_column(cell, kind, value):
    (variable,), examples, notes = context_of(lambda i, label: cell if i % 2 else None)
    assert variable.kind == kind
    assert (examples[1].context["x"], examples[0].context["x"]) == (
        value,
        [] if kind == "list" else None,
    )
    assert "x is missing for 100 of 200 images" in notes


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("teal; basilisk", ["teal", "basilisk"]),
        ('["basilisk", "teal"]', ["basilisk", "teal"]),
        ("['basilisk', 'teal']", ["basilisk", "teal"]),
        ('{"teal": 0.25, "basilisk": 0.5}', ["basilisk (0.50)", "teal (0.25)"]),
        ("[not a list; teal", ["[not a list", "teal"]),
        (["basilisk"], ["basilisk"]),
        (7, ["7"]),
    ],
)
def test_a_column_of_candidates_is_a_list_however_it_is_written(cell, shown):
    (variable,), examples, notes = context_of(
        lambda i, label: cell if i % 2 else None, column="candidates"
    )
    assert (variable.kind, variable.top) == ("list", 5)
    assert (examples[1].context["candidates"], examples[0].context["candidates"]) == (shown, [])
    assert "the candidates hold the truth of" in notes[-1]


def test_candidates_are_named_best_first_and_the_ceiling_is_told(tmp_path):
    file = tmp_path / "scores.csv"
    lines = ["image,label,score"]
    for i in range(200):
        right = [*SPECIES][i % 4]
        first, second = (
            (right, SPECIES[right]) if i % 3 else (SPECIES[right], "pintail" if i % 2 else right)
        )
        lines += (
            [f"{i}.png,{first},0.6", f"{i}.png,{second},0.3"]
            if first != second
            else [f"{i}.png,{first},0.9"]
        )
    file.write_text("\n".join(lines))
    variables, examples, notes = context_of(lambda i, label: None, candidates=str(file), top=2)
    assert [variable.name for variable in variables] == ["x", "candidates"]
    assert examples[1].context["candidates"] == ["linnet (0.60)", "siskin (0.30)"]
    counted = Counter(
        next((k for k, c in enumerate(e.context["candidates"]) if e.label in c), None)
        for e in examples
    )
    assert f"first of them of {counted[0] / 200:.0%}" in notes[-1]
    assert f"the truth of {(counted[0] + counted[1]) / 200:.0%}" in notes[-1]
    file.write_text(
        "\n".join(["image,label,score", *(f"{i}.png,{[*SPECIES][i % 4]},1" for i in range(200))])
    )
    with pytest.raises(DataError, match=r"names the label of 100\.0%"):
        context_of(lambda i, label: None, candidates=str(file))
    file.write_text("image,label,score\nelsewhere.png,teal,1\n")
    with pytest.raises(DataError, match="other images"):
        context_of(lambda i, label: None, candidates=str(file))


# -- runs and classifiers ----------------------------------------------------------------------------------------------

TEMPLATE = "What is it? {% if place %}Place: {{ place }}. {% endif %}{% if month > 6 %}Late in the year.{% endif %}"


def test_a_prompt_that_differs_by_image_is_the_key_of_its_answer(tmp_path):
    frame, asked = photos(tmp_path, 40), []

    def model(image, prompt):
        asked.append((Path(image.filename).stem, prompt))
        return ask(image, prompt)

    settings = {**QUIET, "data.context": ["place", "month"]}
    once = taxtune.evaluate(TEMPLATE, TREE, frame, model, settings=settings, out=tmp_path / "run")
    (held,) = (each for each in once.heldout if each.name == "template")
    for row in held.rows:
        prompt = next(
            p for name, p in asked if Path(row.image).stem == name and p.startswith("What is it?")
        )
        assert ("Place" in prompt) is (row.context["place"] is not None)
        assert ("Late" in prompt) is (row.context["month"] > 6)
    asked.clear()
    image = held.rows[0].example
    frame.loc[frame.image == image, "place"] = "a new place"
    taxtune.evaluate(TEMPLATE, TREE, frame, model, settings=settings, out=tmp_path / "run")
    assert [name for name, _ in asked] == [Path(image).stem]
    asked.clear()
    plain = {"data.context": [], **QUIET}
    taxtune.evaluate("What is it?", TREE, frame, model, settings=plain, out=tmp_path / "run")
    assert {prompt for _, prompt in asked} == {"What is it?"}, (
        "what the baseline was asked before is known"
    )


def test_a_classifier_asks_for_the_columns_of_its_prompt(tmp_path):
    frame, settings = (
        photos(tmp_path),
        {**QUIET, "iterations": 1, "data.context": ["notes", "month", "place"]},
    )
    result = taxtune.tune(
        TREE,
        frame,
        ask,
        baseline=TEMPLATE,
        proposer=lambda history: "?",
        settings=settings,
        out=tmp_path / "run",
    )
    assert result.best.template == TEMPLATE
    made = taxtune.load_classifier(tmp_path / "run", vlm=ask, taxonomy=TREE)
    assert made.columns == ("month", "place")
    labels = made.classify(frame.rename(columns={"month": "Month"}))
    known = {row.example: row for row in result.heldout_winner.rows}
    assert all(one.answer == known[one.image].answer for one in labels if one.image in known)
    with pytest.raises(
        DataError,
        match=r"classifier needs 'month', 'place' of each image.*'image', 'month', 'place'",
    ):
        made.classify(list(frame.image))
    with pytest.raises(DataError, match="needs 'place'"):
        made.classify(frame.drop(columns="place"))
    with pytest.raises(DataError, match="month is not a number: 'June'"):
        made.classify(frame.assign(month="June"))
    portable = replace(made, recipe=taxtune.load_recipe("fieldguide"))
    loaded = taxtune.load_classifier(portable.save(tmp_path / "saved"), vlm=ask)
    assert (loaded.template, loaded.context, loaded.columns) == (
        made.template,
        made.context,
        made.columns,
    )
    assert [one.answer for one in loaded.classify(frame)] == [one.answer for one in labels]


def test_exif_is_read_where_it_is_asked_for_and_never_sent(tmp_path):
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2024:05:17 06:30:00"
    exif.get_ifd(0x8825).update({1: "S", 2: (33.0, 51.0, 36.0), 3: "E", 4: (151.0, 12.0, 0.0)})
    for i in range(4):
        known = {"exif": exif} if i else {}
        Image.new("RGB", (16, 16), (i, 0, 0)).save(tmp_path / f"{i}.jpg", **known)
    rows = [(tmp_path / f"{i}.jpg", [*SPECIES][i]) for i in range(4)]
    examples = load_examples(rows, as_taxonomy(TREE), columns=EXIF)
    settings = ContextSettings(columns=EXIF)
    _, given = make_context(examples, settings, as_taxonomy(TREE), "photos")
    assert given[1].context == {"month": 5, "hour": 6, "latitude": -33.9, "longitude": 151.2}
    assert set(given[0].context.values()) == {None}
    assert load_examples(rows, as_taxonomy(TREE))[1].context == {}
    with pytest.raises(DataError, match="no column 'place': this source has no columns"):
        load_examples(rows, as_taxonomy(TREE), columns=["place"])


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (["month", "exif:month"], "'month' is the name of another variable already"),
        (["plaice"], "no column 'plaice'.*'place'"),
        (
            {"columns": ["place"], "describe": {"plaice": "a fish"}},
            "is described that there is not.*'place'",
        ),
        ({"candidates": "nowhere.csv"}, "does not exist"),
    ],
)
def test_a_context_that_cannot_be_is_an_error(context, words, tmp_path):
    with pytest.raises(DataError, match=words):
        taxtune.tune(
            TREE,
            photos(tmp_path, 8),
            ask,
            settings={**QUIET, "data.context": context},
            out=tmp_path / "run",
        )
