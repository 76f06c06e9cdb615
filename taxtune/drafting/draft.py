"""A recipe for a user's own images, sized and named after what was found."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.data import Examples, load_examples, split_sizes
from taxtune.data.examples import UnknownLabelsError
from taxtune.drafting.offer import Offer
from taxtune.drafting.source import Source
from taxtune.drafting.subject import Subject, find_subject
from taxtune.errors import DataError
from taxtune.models.known import KNOWN_MODELS, KnownModel
from taxtune.models.names import parse_model
from taxtune.shell import command
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import Aims
from taxtune.tuning.outlook import ASSUMED_SHARE, ASSUMED_STEP, images_needed, smallest_difference

__all__ = ["Draft", "make_draft"]

_RECIPE = """\
# Written by `taxtune init`. Check it with: taxtune tune {file} --dry-run
name: {name}
seed: 0

taxonomy:
  path: {taxonomy}
{domain_node}
data:
  kind: {kind} # {kind_says}
  path: {data}
{columns}{splits}

prompt:
  question: {question}
  domain: {word} # {word_says}
  ranks: {ranks} # {ranks_say}
  examples: {examples} # example answers, general to specific, for templates that show some

vlm:
{vlm}

mapper:
  similarity: lexical # offline; or sentence:MODEL, clip:MODEL

objective:
  kind: hr_at_hp # as specific as it can be while right; or hp, hf, f_beta, pareto, accuracy, ...
  hp_target: 0.98 # "right": of what is said, this share is true, in the mean over images
  confidence: {confidence}

proposer:
  kind: fragments # no key needed; or llm, with `model: openai/gpt-4o` and OPENAI_API_KEY

effort: medium # 20 templates and at most 1,600 calls about tuning images; light is half of that, heavy twice
max_off_tree: 0.5 # if more of the baseline's answers are about nothing on the tree, the run ends and shows some
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was found, for a recipe.

    Attributes:
        source: The labelled images.
        examples: Those of them that differ, with their nodes.
        listed: How many there are with those that show the same as another.
        tree: The label tree.
        subject: What the images show.
        tuning: Images for comparing templates.
        heldout: Images for the final comparison.
    """

    source: Source
    examples: Examples
    listed: int
    tree: Taxonomy
    subject: Subject
    tuning: int
    heldout: int

    def text(
        self,
        file: Path,
        taxonomy: Path,
        model: str | None,
        offer: Offer | None,
        word: str | None,
        *,
        api_base: str | None = None,
    ) -> str:
        """Returns the recipe.

        Args:
            file: Where it is going to be; paths in it are relative to that.
            taxonomy: The tree's file.
            model: The model that was asked for; None for the one on offer.
            offer: What this machine has room for; needed without a model.
            word: What the images show, where somebody said it.
            api_base: Address of the server that has the model.
        """
        source, subject = self.source, self.subject
        subject_word = word or subject.word or "object"
        said = "what the images show; templates use the word"
        if word is None and subject.word is not None:
            said += f". It is named after the tree's node {self.tree.labels[subject.node]!r}"
        return _RECIPE.format(
            file=" ".join(shlex.quote(str(file)).split()),
            name=_written(re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)[:100].strip("._-") or "mine"),
            taxonomy=_path(taxonomy, file),
            domain_node=self._domain_node(),
            kind=source.kind,
            kind_says="one sub-folder for each label" if source.kind == "folder" else "a row for each image",
            data=_path(source.path, file),
            columns=self._columns(file),
            splits=self._splits(),
            question=_written(f"What {subject_word} is this?"),
            word=_written(subject_word),
            word_says=said,
            ranks=_written(list(subject.ranks)),
            ranks_say="broadest first" if subject.ranks else "the tree names none; for example [family, species]",
            examples=_written(list(subject.examples)),
            vlm=_vlm(model, offer, file) + ("" if api_base is None else f"\n  api_base: {_written(api_base)}"),
            confidence=self._confidence(),
        )

    def facts(self) -> dict[str, Any]:
        """Returns what was found as plain values."""
        subject = self.subject
        return {
            "images": len(self.examples),
            "copies": self.listed - len(self.examples),
            "labels": len(set(self.examples.target.tolist())),
            "nodes": len(self.tree),
            "tuning": self.tuning,
            "heldout": self.heldout,
            "domain": "/".join(self.tree.path(subject.node)),
            "word": subject.word,
            "ranks": list(subject.ranks),
            "examples": list(subject.examples),
            "image_column": self.source.image_column if self.source.kind == "manifest" else None,
            "label_column": self.source.label_column if self.source.kind == "manifest" else None,
        }

    def _domain_node(self) -> str:
        if self.subject.reference is None:
            return ""
        return (
            f"  domain: {_written(self.subject.reference)} # the lowest node above all labels: to always answer this "
            "is the trivial answer\n"
        )

    def _columns(self, file: Path) -> str:
        source = self.source
        if source.kind == "folder":
            return ""
        images = "" if source.images is None else f"  images: {_path(source.images, file)} # where the files lie\n"
        return (
            f"{images}  image_column: {_written(source.image_column)}\n"
            f"  label_column: {_written(source.label_column)} # labels, other names or paths of the tree\n"
        )

    def _splits(self) -> str:
        """Returns the sizes of the splits with what they mean."""
        seen = _smallest_difference(self.tuning)
        least = "too few to compare any" if seen is None else f"differences in hP below {seen:.2f} do not show"
        of = f"of {len(self.examples):,}"
        lines = [f"  tuning: {self.tuning} # images for comparing templates, {of}; {least}"]
        lines.append(f"  heldout: {self.heldout} # images for the final comparison of baseline and winner")
        return "\n".join(lines)

    def _confidence(self) -> str:
        aims = Aims()
        needed = images_needed(aims.hp_target, aims.confidence)
        if self.tuning >= needed:
            return f"{aims.confidence} # how certain that must be; that takes at least {needed} tuning images"
        return f"0.5 # how certain that must be: 0.5 takes the mean as it is; {aims.confidence} needs {needed} images"


def make_draft(source: Source, tree: Taxonomy) -> Draft:
    """Looks at the images and their labels as a run does, and sizes its splits.

    Args:
        source: The labelled images.
        tree: The label tree.

    Raises:
        DataError: If labels are not on the tree (all are listed, with what may be meant), an image has two labels, or
            there are too few different images.
        ImageError: If images are missing or unreadable (all are listed).
    """
    rows = source.labels
    try:
        examples = load_examples(
            source.path,
            tree,
            kind=source.kind,
            images=source.images,
            image_column=source.image_column,
            label_column=source.label_column,
        )
    except UnknownLabelsError as error:
        raise _unmatched(error, rows, tree) from error
    found, least = len(examples), 2 * _fewest(lambda n: _smallest_difference(n) is not None)
    if found < least:
        listed = f" ({rows.total()} with copies)" if rows.total() > found else ""
        raise DataError(
            f"There {'is 1 image' if found == 1 else f'are {found} different images'}{listed}, too few for a run.",
            file=source.path,
            remedy=f"It takes at least {least}: half of them to compare templates, half for the final comparison. Even "
            f"those show only differences above {_smallest_difference(least // 2):.2f} in hP; 100 images show those "
            f"above {_smallest_difference(50):.2f}.",
        )
    if len(set(examples.target.tolist())) == 1:
        raise DataError(
            f"All {found:,} images have the label {examples[0].label!r}, so that there is nothing to tell apart.",
            file=source.path,
            remedy="Add images with other labels.",
        )
    tuning, heldout = split_sizes(found)
    return Draft(
        source=source,
        examples=examples,
        listed=rows.total(),
        tree=tree,
        subject=find_subject(tree, examples.target.tolist()),
        tuning=tuning,
        heldout=heldout,
    )


def _unmatched(error: UnknownLabelsError, rows: Counter[str], tree: Taxonomy) -> DataError:
    images = sum(rows[label] for label in error.labels)
    total, lost = len(rows), len(error.labels)
    where = tree.source or "the tree"
    if lost == total:
        doubt = f"None of the {total} labels is on the tree. Is {where} the tree of these images?"
    else:
        doubt = (
            f"{total - lost} of {total} labels are on the tree; {lost} ({images:,} of {rows.total():,} images) "
            f"{'is' if lost == 1 else 'are'} not."
        )
    names = command("taxonomy", "enrich", where, "--out", "names.csv")
    return DataError(
        f"{doubt}\n"
        + "\n".join(error.lines)
        + f"\nNothing was written. Correct the labels that are misspelt, or add them to {where}: what it lacks in a "
        "row of its own,\nanother name for a node in the column aliases of its row. To have other names proposed: "
        + names,
        file=error.file,
    )


def _smallest_difference(images: int) -> float | None:
    return smallest_difference(images, math.sqrt(ASSUMED_SHARE) * ASSUMED_STEP)


def _fewest(enough: Callable[[int], bool]) -> int:
    return next(n for n in range(1, 1000) if enough(n))


def _vlm(model: str | None, offer: Offer | None, file: Path) -> str:
    if model is not None:
        return _one_model(model, file)
    assert offer is not None
    others = [f"  # model: local:{each.name} # {_size(each, offer.machine.device)}" for each in offer.larger]
    if offer.first is None:
        lines = [
            f"  # This machine ({offer.machine}) has no room even for the smallest of the usual models: use an API.",
            *_one_model("openai/gpt-4o-mini", file).splitlines(),
        ]
        return "\n".join(lines)
    size = "on this machine already" if offer.here else _size(offer.first, offer.machine.device)
    lines = [
        f"  model: {_written(f'local:{offer.first.name}')} # {size}; or an API: openai/gpt-4o",
    ]
    if others:
        lines += [f"  # Larger ones that this machine ({offer.machine}) has room for; they know more and are slower:"]
    return "\n".join(lines + others)


def _one_model(model: str, file: Path) -> str:
    kind, name = parse_model(model)
    if kind == "local" and Path(name).is_dir():  # relative to the recipe, as all its paths are
        model = f"local:{json.loads(_path(Path(name), file))}"
    known = KNOWN_MODELS.get(name)
    size = "" if known is None else f" # {known.download_gb:.1f} GB to download"
    return f"  model: {_written(model)}{size}"


def _size(checkpoint: KnownModel, device: str) -> str:
    gated = "; its licence has to be accepted on its page first" if checkpoint.gated else ""
    return f"{checkpoint.download_gb:.1f} GB to download, about {checkpoint.needs(device):.1f} GB of memory{gated}"


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _path(path: Path, recipe: Path) -> str:
    # Paths in a recipe are relative to it, so that a folder with recipe, tree and images can be moved as a whole.
    base = recipe.resolve().parent
    full = path.resolve()
    return _written(full.relative_to(base).as_posix() if full.is_relative_to(base) else str(full))
