"""A tuning run in miniature: coloured squares, a two-level tree, and a model that reads colours and instructions."""

from __future__ import annotations

import time
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

from PIL import Image

from taxtune import runs
from taxtune.mapping import Mapper, Placement, Stage
from taxtune.models import Answer, Failure
from taxtune.models.base import OTHERWISE
from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup, build, make_mapper, make_taxonomy
from taxtune.tuning.loop import Tuner
from taxtune.tuning.records import ComparisonResult, TuneResult

COLOURS = {
    "scarlet": (200, 0, 0),
    "crimson": (160, 0, 0),
    "navy": (0, 0, 120),
    "azure": (0, 0, 250),
}
PARENT = {"scarlet": "reddish", "crimson": "reddish", "navy": "bluish", "azure": "bluish"}

FRAGMENTS = """\
name: toy
slots:
  - id: question
    about: The question.
    choices:
      - {id: plain, text: "Which {{ domain }} is this?"}
      - {id: name, text: "Name the {{ domain }}."}
      - {id: see, text: "What {{ domain }} do you see?"}
  - id: backoff
    about: What to do when unsure.
    choices:
      - {id: none, text: ""}
      - {id: family, text: "Give only the family."}
      - {id: careful, text: "Be careful."}
      - {id: nothing, text: "Just say {{ domain }}."}
"""

RECIPE = """\
name: toy
seed: 3
taxonomy: {path: tree.csv}
data: {kind: manifest, path: manifest.csv, tuning: 8, heldout: 12}
prompt: {baseline: "What is this?", question: "What is it?", domain: colour, ranks: [family, shade]}
vlm: {kind: local, model: builtin:fieldguide, batch_size: 2}
proposer: {kind: fragments, fragments: toy.yaml}
objective: {kind: hp}
iterations: 5
tracking: {mlflow: false}
"""


def make_files(folder: Path) -> Path:
    """Writes the recipe and what it needs; returns the recipe's path."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["child,parent", "colour,"] + [f"{p},colour" for p in dict.fromkeys(PARENT.values())]
    rows += [f"{child},{parent}" for child, parent in PARENT.items()]
    (folder / "tree.csv").write_text("\n".join(rows) + "\n")
    lines = ["image,label,place"]
    for label, (red, green, blue) in COLOURS.items():
        for n in range(5):
            # The last three of each are murky: nobody can tell scarlet from crimson there.
            murky = n >= 2
            colour = (red // 4, 30 + n, blue // 4) if murky else (red, green + n, blue)
            Image.new("RGB", (16, 16), colour).save(folder / f"{label}{n}.png")
            lines.append(f"{label}{n}.png,{label},{('wall', 'shelf', '')[n % 3]}")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    (folder / "toy.yaml").write_text(FRAGMENTS)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


class ToyVLM:
    """Sees the mean colour; says a shade, or the family where told to or where careful and the image is murky."""

    batch_size = 2

    def __init__(
        self, log: Path | None = None, seconds: float = 0.0, fail: str | None = None
    ) -> None:
        self.identity: dict[str, str | int | float | None] = {"kind": "toy", "model": "toy"}
        self.log, self.seconds, self.fail = log, seconds, fail
        self.asked = 0

    def check(self) -> None:
        """Is always ready."""

    def answer(self, questions):
        """Answers as told."""
        time.sleep(self.seconds)
        replies = []
        for question in questions:
            self.asked += 1
            if self.log is not None:
                with self.log.open("a") as file:
                    file.write(f"{question.prompt}|{question.image.name}\n")
            red, green, blue = Image.open(question.image).convert("RGB").getpixel((0, 0))
            family = "reddish" if red > blue else "bluish"
            murky = green >= 30
            if self.fail is not None and self.fail in question.prompt:
                replies.append(Failure("the content filter", retryable=False))
                continue
            if "Just say" in question.prompt:
                text = "colour"
            elif "family" in question.prompt or ("careful" in question.prompt and murky):
                text = family
            elif family == "reddish":
                text = "scarlet" if murky or red > 180 else "crimson"
            else:
                text = "azure" if murky or blue > 200 else "navy"
            replies.append(
                Answer(f"A: {text}.", prompt_tokens=5, completion_tokens=2, cost_usd=0.0)
            )
        return replies


class Weighing(ToyVLM):
    """Is sure of a shade where the image is clear, and in two minds within the family where it is murky."""

    silent = False

    def answer(self, questions):
        """Answers as a ToyVLM, with outcomes where there are candidates."""
        replies = super().answer(questions)
        return [
            reply
            if self.silent or question.candidates is None
            else replace(reply, outcomes=self.outcomes(question))
            for reply, question in zip(replies, questions, strict=True)
        ]

    def outcomes(self, question):
        """Weighs the two shades of the family."""
        red, green, blue = Image.open(question.image).convert("RGB").getpixel((0, 0))
        family = [
            name for name in COLOURS if PARENT[name] == ("reddish" if red > blue else "bluish")
        ]
        said = min(family, key=lambda name: abs(sum(COLOURS[name]) - red - blue))
        sure = 0.5 if green >= 30 else 0.97
        assert set(question.candidates.weighed) >= set(COLOURS)
        return {
            **{name: log(sure if name == said else 0.98 - sure) for name in family},
            OTHERWISE: log(0.02),
        }


class Cyclist(ToyVLM):
    """Takes what is murky for a bicycle, unless told to be careful, when it declines."""

    def answer(self, questions):
        """Answers as a ToyVLM where the image is clear."""
        replies = super().answer(questions)
        for i, question in enumerate(questions):
            if Image.open(question.image).convert("RGB").getpixel((0, 0))[1] >= 30 and isinstance(
                replies[i], Answer
            ):
                said = (
                    "I cannot tell."
                    if "careful" in question.prompt
                    else f"A bicycle, see {question.image.stem}."
                )
                replies[i] = Answer(said, prompt_tokens=5, completion_tokens=2, cost_usd=0.0)
        return replies


class BicycleMapper(Mapper):
    """A mapper that knows of one thing that the tree lacks it; all else is placed as ever."""

    def place(self, answers, images=None):
        """Places answers about bicycles off the tree."""
        return [
            Placement(
                answer, self.taxonomy.root, Stage.OFF_TREE, evidence="bicycle", doubtful=False
            )
            if "bicycle" in answer
            else found
            for answer, found in zip(answers, super().place(answers, images), strict=True)
        ]


def make_parts(
    folder: Path, out: Path, vlm: ToyVLM | None = None, overrides: tuple[str, ...] = ()
) -> Setup:
    """Returns the parts of the toy recipe with the toy model in place of a checkpoint."""
    return Setup(load_recipe(make_files(folder), overrides), out, vlm=vlm or ToyVLM())


def with_bicycles(parts: Setup) -> Setup:
    """Returns the parts with the mapper that knows of bicycles."""
    tree, _ = make_taxonomy(parts.recipe)
    config = make_mapper(parts.recipe, tree).config
    return replace(parts, mapper=BicycleMapper(tree, config=config))


def tuned(
    parts: Setup, folder: Path | None = None, *, objective: str | None = None, **how: Any
) -> TuneResult:
    """Runs what a recipe asks for; drawing the report takes twice as long, so a test asks for it with a callback."""
    return Tuner(build(parts, objective), folder or parts.folder, **how).run()


def compared(parts: Setup, objectives: tuple[str, ...], **how: Any) -> ComparisonResult:
    """Runs a recipe with several objectives and compares them, as `tuned` does."""
    return runs.compare(parts, objectives, **how)


class Wavering(ToyVLM):
    """Says another shade of the family every other time where the image is murky."""

    def answer(self, questions):
        """Answers as a ToyVLM, but for murky images by the number of the answer that is wanted."""
        replies = super().answer(questions)
        for i, question in enumerate(questions):
            red, green, blue = Image.open(question.image).convert("RGB").getpixel((0, 0))
            if green >= 30 and isinstance(replies[i], Answer):
                shades = ["scarlet", "crimson"] if red > blue else ["azure", "navy"]
                replies[i] = replace(replies[i], text=f"A: {shades[question.sample % 2]}.")
        return replies
