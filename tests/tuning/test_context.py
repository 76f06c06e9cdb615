"""A run whose templates know columns of the data: what it is for, what it refuses, and that nothing else changes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import taxtune
from taxtune.data import Example, load_examples
from taxtune.data.context import EXIF
from taxtune.errors import DataError
from taxtune.progress import showing
from taxtune.settings import ContextSettings
from taxtune.taxonomy import as_taxonomy
from taxtune.tuning.build import Setup
from taxtune.tuning.context import make_context
from taxtune.tuning.plan import make_plan
from tests.displays import Recorder

TREE = {"bird": {"finch": ["siskin", "linnet"], "duck": ["teal", "pintail"]}}
SPECIES = {"siskin": "linnet", "linnet": "siskin", "teal": "pintail", "pintail": "teal"}
SPECIES_LIST = [*SPECIES]
QUIET = {"tracking.mlflow": False}


def photos(folder, n=60):
    """Photos of four species; the month and the place in which they were taken tell nothing of the species."""
    rows = []
    (folder / "photos").mkdir(parents=True)
    for i in range(n):
        file = folder / "photos" / f"{i}.png"
        Image.new("RGB", (8, 8), (i, 2 * i, 3 * i)).save(file)
        draw = random.Random(i)
        place = draw.choice(["marsh", "garden", None])
        rows.append((str(file), SPECIES_LIST[i % 4], draw.randint(1, 12), place, f"a note {i}"))
    return pd.DataFrame(rows, columns=["image", "label", "month", "place", "notes"])


def ask(image, prompt):
    """A model that tells the species of nine images in ten if it is told the month, and else of every other one."""
    number = int(Path(image.filename).stem)
    right = SPECIES_LIST[number % 4]
    knows = re.search(r"month: \d+", prompt, re.IGNORECASE) is not None
    sure = random.Random(f"{number}").random()
    return right if sure < (0.9 if knows else 0.5) else SPECIES[right]


def search(frame, out, **settings):
    """Tunes the default fragments for accuracy."""
    settings |= QUIET
    return taxtune.tune(
        TREE, frame, ask, objective="accuracy", effort="light", settings=settings, out=out
    )


HEAVY = pytest.mark.heavy


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=HEAVY), pytest.param(2, marks=HEAVY)])
def test_the_search_finds_the_template_that_tells_the_month(seed, tmp_path):
    frame = photos(tmp_path)
    context = {"data.context": ["month", "place"]}
    found = search(frame, tmp_path / "told", seed=seed, **context)
    assert "{{ month }}" in found.best.template
    assert found.heldout_winner.scores.accuracy - found.heldout[0].scores.accuracy > 0.2
    months = frame.set_index("image").month
    for row in found.heldout_winner.rows:
        assert row.context["month"] == months[row.example]
    without = search(frame, tmp_path / "no", seed=seed)
    assert without.heldout_winner.scores.accuracy == without.heldout[0].scores.accuracy


# -- leaks -------------------------------------------------------------------------------------------------------------

CODES = {"siskin": "linnet", "linnet": "teal", "teal": "pintail", "pintail": "siskin"}
DRAW = random.Random(7)
NOISE = [DRAW.choice([*SPECIES]) for _ in range(200)]


def context_of(cells, column="x", **settings):
    """The variables and the images of 200 images of four species with such cells."""
    tree = as_taxonomy(TREE)
    labels = [SPECIES_LIST[i % 4] for i in range(200)]
    examples = []
    for i, label in enumerate(labels):
        cell = {column: cells(i, label)}
        name = f"{i}.png"
        examples.append(Example(name, Path(name), label, tree.resolve(label), context=cell))
    with showing(Recorder()) as display:
        wanted = ContextSettings(columns=(column,), **settings)
        made = make_context(examples, wanted, tree, "birds.csv")
    return (*made, display.notes)


def in_a_sentence(i, label):
    return f"near the pond: a female {label}s, i think" if i > 2 else None


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (lambda i, label: label.upper(), "names the label of 100.0 %"),
        (lambda i, label: f"bird/finch/{label}", "names the label of 100.0 %"),
        (in_a_sentence, "names the label of 98.5 %"),
        (lambda i, label: ["seen", label], "names the label of 100.0 %"),
        (lambda i, label: CODES[label], "tells the label .* of 100.0 %"),
        (lambda i, label: SPECIES_LIST.index(label), "tells the label .* of 100.0 %"),
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
    for i, example in enumerate(examples):
        assert example.context["x"] == cells(i, example.label)
    assert variables[0].kind == "text"


def test_words_of_a_name_in_another_order_are_the_name():
    tree = as_taxonomy({"bird": ["House Finch", "Purple Finch"]})
    house = Example("0", Path("0"), "", 1, context={"x": "Finch, House"})
    purple = Example("1", Path("1"), "", 2, context={"x": "finches (purple)"})
    examples = [house, purple] * 25
    with pytest.raises(DataError, match=r"names the label of 100\.0%"):
        make_context(examples, ContextSettings(columns=("x",)), tree, "birds.csv")


def every_other(cell):
    """Returns the cells of a column that only every other image has."""
    return lambda i, label: cell if i % 2 else None


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
    (variable,), examples, notes = context_of(every_other(cell))
    assert variable.kind == kind
    assert examples[1].context["x"] == value
    assert examples[0].context["x"] == ([] if kind == "list" else None)
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
    cells = every_other(cell)
    (variable,), examples, notes = context_of(cells, column="candidates")
    assert variable.kind == "list"
    assert variable.top == 5
    assert examples[1].context["candidates"] == shown
    assert examples[0].context["candidates"] == []
    assert "the candidates hold the truth of" in notes[-1]


def test_candidates_are_named_best_first_and_the_ceiling_is_told(tmp_path):
    scores = []
    for i in range(200):
        right = SPECIES_LIST[i % 4]
        first, second = right, SPECIES[right]
        if i % 3 == 0:
            first, second = SPECIES[right], "pintail" if i % 2 else right
        if first == second:
            scores.append((f"{i}.png", first, 0.9))
            continue
        scores.append((f"{i}.png", first, 0.6))
        scores.append((f"{i}.png", second, 0.3))
    file = tmp_path / "scores.csv"
    pd.DataFrame(scores, columns=["image", "label", "score"]).to_csv(file, index=False)
    variables, examples, notes = context_of(lambda i, label: None, candidates=str(file), top=2)
    assert [variable.name for variable in variables] == ["x", "candidates"]
    assert examples[1].context["candidates"] == ["linnet (0.60)", "siskin (0.30)"]
    first_right = np.mean([e.label in e.context["candidates"][0] for e in examples])
    any_right = np.mean([e.label in " ".join(e.context["candidates"]) for e in examples])
    assert f"first of them of {first_right:.0%}" in notes[-1]
    assert f"the truth of {any_right:.0%}" in notes[-1]


def test_candidates_that_are_the_truth_or_of_other_images_are_refused(tmp_path):
    file = tmp_path / "scores.csv"
    right = [f"{i}.png,{SPECIES_LIST[i % 4]},1" for i in range(200)]
    file.write_text("\n".join(["image,label,score", *right]))
    with pytest.raises(DataError, match=r"names the label of 100\.0%"):
        context_of(lambda i, label: None, candidates=str(file))
    file.write_text("image,label,score\nelsewhere.png,teal,1\n")
    with pytest.raises(DataError, match="other images"):
        context_of(lambda i, label: None, candidates=str(file))


# -- runs and classifiers ----------------------------------------------------------------------------------------------

TEMPLATE = "What is it? {% if place %}Place: {{ place }}. {% endif %}{% if month > 6 %}Late in the year.{% endif %}"


def test_a_prompt_that_differs_by_image_is_the_key_of_its_answer(tmp_path):
    frame = photos(tmp_path, 40)
    prompts = {}

    def model(image, prompt):
        prompts.setdefault(Path(image.filename).stem, []).append(prompt)
        return ask(image, prompt)

    def evaluate(template, context):
        prompts.clear()
        settings = {**QUIET, "data.context": context}
        return taxtune.evaluate(
            template, TREE, frame, model, settings=settings, out=tmp_path / "run"
        )

    held = evaluate(TEMPLATE, ["place", "month"]).heldout[1]
    assert held.name == "template"
    for row in held.rows:
        (prompt,) = [p for p in prompts[Path(row.image).stem] if p.startswith("What is it?")]
        assert ("Place" in prompt) is (row.context["place"] is not None)
        assert ("Late" in prompt) is (row.context["month"] > 6)
    image = held.rows[0].example
    frame.loc[frame.image == image, "place"] = "a new place"
    evaluate(TEMPLATE, ["place", "month"])
    assert list(prompts) == [Path(image).stem]
    assert len(prompts[Path(image).stem]) == 1
    evaluate("What is it?", [])
    # What the baseline was asked before is known.
    for asked in prompts.values():
        assert asked == ["What is it?"]
    assert prompts


def test_a_classifier_asks_for_the_columns_of_its_prompt(tmp_path):
    frame = photos(tmp_path)
    settings = {**QUIET, "iterations": 1, "data.context": ["notes", "month", "place"]}
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
    made = taxtune.load_classifier(tmp_path / "run", vlm=ask)
    assert made.columns == ("month", "place")
    labels = made.classify(frame.rename(columns={"month": "Month"}))
    answers = {found.image: found.answer for found in labels}
    for row in result.heldout_winner.rows:
        assert answers[row.example] == row.answer
    words = r"classifier needs 'month', 'place' of each image.*'image', 'month', 'place'"
    with pytest.raises(DataError, match=words):
        made.classify(list(frame.image))
    with pytest.raises(DataError, match="needs 'place'"):
        made.classify(frame.drop(columns="place"))
    with pytest.raises(DataError, match="month is not a number: 'June'"):
        made.classify(frame.assign(month="June"))
    portable = replace(made, recipe=taxtune.load_recipe("fieldguide"))
    loaded = taxtune.load_classifier(portable.save(tmp_path / "saved"), vlm=ask)
    assert loaded.template == made.template
    assert loaded.context == made.context
    assert loaded.columns == made.columns
    assert [found.answer for found in loaded.classify(frame)] == list(answers.values())


def test_exif_is_read_where_it_is_asked_for_and_never_sent(tmp_path):
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2024:05:17 06:30:00"
    exif.get_ifd(0x8825).update({1: "S", 2: (33.0, 51.0, 36.0), 3: "E", 4: (151.0, 12.0, 0.0)})
    for i in range(4):
        known = {"exif": exif} if i else {}
        Image.new("RGB", (16, 16), (i, 0, 0)).save(tmp_path / f"{i}.jpg", **known)
    rows = [(tmp_path / f"{i}.jpg", SPECIES_LIST[i]) for i in range(4)]
    tree = as_taxonomy(TREE)
    examples = load_examples(rows, tree, columns=EXIF)
    _, given = make_context(examples, ContextSettings(columns=EXIF), tree, "photos")
    assert given[1].context == {"month": 5, "hour": 6, "latitude": -33.9, "longitude": 151.2}
    assert set(given[0].context.values()) == {None}
    assert load_examples(rows, tree)[1].context == {}
    with pytest.raises(DataError, match=r"no column 'place'.*There are no columns"):
        load_examples(rows, tree, columns=["place"])


DESCRIBED = {"columns": ["place"], "describe": {"plaice": "a fish"}}


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (["month", "exif:month"], "'month' is the name of another variable already"),
        (["plaice"], "no column 'plaice'.*'place'"),
        (DESCRIBED, "is described that there is not.*'place'"),
        ({"candidates": "nowhere.csv"}, "does not exist"),
    ],
)
def test_a_context_that_cannot_be_is_an_error(context, words, tmp_path):
    frame = photos(tmp_path, 8)
    with pytest.raises(DataError, match=words):
        search(frame, tmp_path / "run", **{"data.context": context})


def test_a_dry_run_without_its_images_tries_the_proposer_too(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    data = {"kind": "manifest", "path": str(tmp_path / "none.csv"), "context": ["place"]}
    proposer = {"kind": "llm", "model": "openai/gpt-4o-mini"}
    recipe = taxtune.load_recipe("fieldguide").changed({"data": data, "proposer": proposer})
    no_images, no_key = make_plan(Setup(recipe, tmp_path / "run")).problems
    assert "none.csv" in no_images
    assert "OPENAI_API_KEY" in no_key
