"""A tuning run in miniature: coloured squares, a two-level tree, and a model that reads colours and instructions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
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
#: The shades of each family, the brighter first.
SHADES = {"reddish": ("scarlet", "crimson"), "bluish": ("azure", "navy")}

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
    tree = ["child,parent", "colour,", "reddish,colour", "bluish,colour"]
    tree += [f"{shade},{family}" for shade, family in PARENT.items()]
    (folder / "tree.csv").write_text("\n".join(tree) + "\n")
    images = ["image,label,place"]
    for label, (red, green, blue) in COLOURS.items():
        for n in range(5):
            colour = (red, green + n, blue)
            if n >= 2:  # murky: nobody can tell scarlet from crimson there
                colour = (red // 4, 30 + n, blue // 4)
            Image.new("RGB", (16, 16), colour).save(folder / f"{label}{n}.png")
            place = ("wall", "shelf", "")[n % 3]
            images.append(f"{label}{n}.png,{label},{place}")
    (folder / "manifest.csv").write_text("\n".join(images) + "\n")
    (folder / "toy.yaml").write_text(FRAGMENTS)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


@dataclass(frozen=True)
class Sight:
    """What can be seen on an image: the family of its colour, a shade, and whether it is murky.

    The brighter shade is seen where the image is murky.
    """

    family: str
    shade: str
    murky: bool

    @classmethod
    def of(cls, image: Image.Image) -> Sight:
        """Returns the sight of an image."""
        red, green, blue = image.convert("RGB").getpixel((0, 0))  # type: ignore[misc]
        family = "reddish" if red > blue else "bluish"
        murky = green >= 30
        bright, dark = SHADES[family]
        is_bright = murky or max(red, blue) > 180
        return cls(family, bright if is_bright else dark, murky)


class ToyVLM:
    """Sees the mean colour; says a shade, or the family where told to or where careful and the image is murky."""

    batch_size = 2

    def __init__(
        self, log: Path | None = None, seconds: float = 0.0, fail: str | None = None
    ) -> None:
        self.identity: dict[str, str | int | float | None] = {"kind": "toy", "model": "toy"}
        self.log = log
        self.seconds = seconds
        self.fail = fail
        self.asked = 0

    def check(self) -> None:
        """Is always ready."""

    def answer(self, questions):
        """Answers as told."""
        time.sleep(self.seconds)
        return [self.reply(question) for question in questions]

    def reply(self, question):
        """Returns the reply to a question, of which a line is written to the log."""
        self.asked += 1
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{question.prompt}|{question.image.name}\n")
        if self.fail is not None and self.fail in question.prompt:
            return Failure("the content filter", retryable=False)
        said = self.text(question, Sight.of(Image.open(question.image)))
        return Answer(said, prompt_tokens=5, completion_tokens=2, cost_usd=0.0)

    def text(self, question, sight: Sight) -> str:
        """Returns the text of its answer."""
        if "Just say" in question.prompt:
            return "A: colour."
        if "family" in question.prompt or ("careful" in question.prompt and sight.murky):
            return f"A: {sight.family}."
        return f"A: {sight.shade}."


class Weighing(ToyVLM):
    """Is sure of a shade where the image is clear, and in two minds within the family where it is murky."""

    silent = False

    def reply(self, question):
        """Replies as a ToyVLM, with outcomes where there are candidates."""
        reply = super().reply(question)
        if self.silent or question.candidates is None:
            return reply
        return replace(reply, outcomes=self.outcomes(question))

    def outcomes(self, question):
        """Weighs the two shades of the family."""
        assert set(question.candidates.weighed) >= set(COLOURS)
        sight = Sight.of(Image.open(question.image))
        bright, dark = SHADES[sight.family]
        share = 0.97 if sight.shade == bright else 0.01
        if sight.murky:
            share = 0.48
        return {bright: log(share), dark: log(0.98 - share), OTHERWISE: log(0.02)}


class Cyclist(ToyVLM):
    """Takes what is murky for a bicycle, unless told to be careful, when it declines."""

    def text(self, question, sight):
        """Speaks as a ToyVLM where the image is clear."""
        if not sight.murky:
            return super().text(question, sight)
        if "careful" in question.prompt:
            return "I cannot tell."
        return f"A bicycle, see {question.image.stem}."


class Wavering(ToyVLM):
    """Says another shade of the family every other time where the image is murky."""

    def text(self, question, sight):
        """Speaks as a ToyVLM, but of murky images by the number of the answer that is wanted."""
        if not sight.murky:
            return super().text(question, sight)
        return f"A: {SHADES[sight.family][question.sample % 2]}."


class BicycleMapper(Mapper):
    """A mapper that knows of one thing that the tree lacks it; all else is placed as ever."""

    def place(self, answers, *how, **named):
        """Places answers about bicycles off the tree."""
        placements = list(super().place(answers, *how, **named))
        for i, answer in enumerate(answers):
            if "bicycle" in answer:
                root = self.taxonomy.root
                placements[i] = Placement(
                    answer, root, Stage.OFF_TREE, evidence="bicycle", doubtful=False
                )
        return placements


def make_parts(
    folder: Path, out: Path, vlm: ToyVLM | None = None, overrides: tuple[str, ...] = ()
) -> Setup:
    """Returns the parts of the toy recipe with the toy model in place of a checkpoint."""
    return Setup(load_recipe(make_files(folder), overrides), out, vlm=vlm or ToyVLM())


def toy(
    folder: Path, *overrides: str, vlm: ToyVLM | None = None, out: str = "run", **parts: Any
) -> Setup:
    """Returns the toy's parts: the files are in `folder/in`, the run in `folder/OUT`."""
    return replace(make_parts(folder / "in", folder / out, vlm, overrides), **parts)


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
