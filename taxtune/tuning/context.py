"""The variables that a run knows of its images, and whether one of them gives the answer away."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taxtune.answers.classifier_scores import Scores, read_scores
from taxtune.data import Example
from taxtune.data.context import CANDIDATES, Variable, candidate, make_variables, values_of
from taxtune.errors import DataError
from taxtune.progress import note
from taxtune.settings import ContextSettings
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels, says

__all__ = ["Known", "candidates_of", "describe_variables", "make_context"]

_TELLS = 0.98  # share of the images from which on a column is the truth by another name
_ONE_LABEL = 0.9  # share of the commonest label up to which a column may determine the label
_EXAMPLES = 3  # values that are shown of a variable
_LONGEST = 40  # the most characters of each
_GUESSES = "another classifier's guesses with their scores, best first"


@dataclass(frozen=True, slots=True)
class Known:
    """A variable as a proposer knows it: values that name no label, the share of images without."""

    variable: Variable
    examples: tuple[str, ...]
    missing: float


def make_context(
    examples: Sequence[Example],
    settings: ContextSettings,
    taxonomy: Taxonomy,
    source: str,
    variables: Sequence[Variable] = (),
) -> tuple[tuple[Variable, ...], list[Example]]:
    """Returns the variables of a run, and its images with their values in place of cells.

    Args:
        examples: The images, with the cells of the columns.
        settings: What templates may know; `candidates` is a path from here.
        taxonomy: The label tree.
        source: What has the cells, for messages.
        variables: The variables, where further images are to have those of a run.

    Raises:
        DataError: If a cell or a file cannot be used, or a column gives the answer away.
    """
    names = [example.id for example in examples]
    cells = [dict(example.context) for example in examples]
    columns = settings.columns
    if settings.candidates is not None:
        columns = (*columns, CANDIDATES)
        photos = []
        for example in examples:
            photo, _, _ = example.id.rpartition("#")
            photos.append(photo if example.box else example.id)
        candidates = candidates_of(settings.candidates, taxonomy, photos, settings.top)
        for name, cell in zip(photos, cells, strict=True):
            cell[CANDIDATES] = candidates.get(name, [])
    known = tuple(variables)
    if not known:
        meanings = {CANDIDATES: _GUESSES, **settings.describe}
        known = make_variables(columns, cells, meanings, top=settings.top)
    values = values_of(known, cells, source, names)
    given = [replace(example, context=own) for example, own in zip(examples, values, strict=True)]
    if not variables:
        for variable in known:
            _refuse_truth(variable, given, taxonomy, source)
            _note_gaps(variable, given)
            if variable.name == CANDIDATES:
                _note_worth(given, taxonomy)
    return known, given


def candidates_of(
    source: Any, taxonomy: Taxonomy, images: Sequence[str], top: int
) -> dict[str, list[str]]:
    """Returns the candidates of images, best first, by the images' names, for those with scores.

    Args:
        source: A classifier's scores, or what `read_scores` takes.
        taxonomy: The label tree, which names them.
        images: What the images are called; see `match_names` for what they may be called in the
            file.
        top: How many candidates an image has at most.

    Raises:
        DataError: If the scores cannot be read, or are of other images.
    """
    scores = source if isinstance(source, Scores) else read_scores(source, taxonomy)
    found: dict[str, list[str]] = {}
    for image, row in scores.rows_of(images).items():
        nodes = np.maximum(scores.nodes[row], 0)
        sums = np.bincount(nodes, scores.weights[row], len(taxonomy))
        sums[taxonomy.root] = 0.0
        found[image] = []
        for node in np.argsort(-sums, kind="stable")[:top].tolist():
            if sums[node] > 0:
                found[image].append(candidate(taxonomy.common_name(node), sums[node]))
    return found


def describe_variables(
    variables: Iterable[Variable], examples: Sequence[Example], labels: Sequence[str]
) -> tuple[Known, ...]:
    """Returns variables with their commonest values, but for those that name a label."""
    described = []
    for variable in variables:
        values = [example.context[variable.name] for example in examples]
        texts: Counter[str] = Counter()
        for value in values:
            texts.update(str(item)[:_LONGEST] for item in _as_list(value))
        common = [text for text, _ in texts.most_common(50)]
        named = find_labels(" | ".join(common), labels)
        shown = [text for text in common if not find_labels(text, named)]
        lacking = sum(value in (None, []) for value in values) / max(len(values), 1)
        described.append(Known(variable, tuple(shown[:_EXAMPLES]), lacking))
    return tuple(described)


def _as_list(value: Any) -> list[Any]:
    """Returns the items of a value, none if it is missing."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _refuse_truth(
    variable: Variable, examples: Sequence[Example], taxonomy: Taxonomy, source: str
) -> None:
    """Raises a `DataError` if a variable names the label, or if its values have one label each.

    Candidates may hold the truth, as they will for new images; of them the first alone must not
    always be it. A variable that always names a group above the label may be known of new images,
    or not: that is noted.
    """
    n, guesses = len(examples), variable.name == CANDIDATES
    named = above = 0
    for example in examples:
        items = _as_list(example.context[variable.name])
        texts = [str(item) for item in items[: 1 if guesses else None]]
        names = [*taxonomy.names(example.target), taxonomy.ids[example.target] or ""]
        groups: list[str] = []
        for node in taxonomy.ancestors(example.target)[1:-1]:
            groups += taxonomy.names(node)
        named += any(says(text, names) for text in texts)
        above += any(says(text, groups) for text in texts)
    told = 0 if guesses else _determined(variable, examples)
    if max(named, told) > _TELLS * n:
        what = "names the label"
        if named <= _TELLS * n:
            what = "tells the label (a value has one label)"
        remedy = "Leave it out of data.context: of new images it will not be known."
        if guesses:
            remedy = (
                "Score images that the classifier was not trained on; where it is always right "
                "nothing is to gain."
            )
        raise DataError(
            f"The column gives away the answer: it {what} of {max(named, told) / n:.1%} of the "
            "images.",
            file=source,
            value=variable.column,
            remedy=remedy,
        )
    if above > _TELLS * n and not guesses:
        note(
            f"{variable.column} names a group above the label of {above / n:.0%} of the images: "
            "will new ones have it?"
        )


def _determined(variable: Variable, examples: Sequence[Example]) -> int:
    """Returns the number of images whose label is the commonest of the others with their value."""
    common = max(Counter(example.target for example in examples).values())
    if common > _ONE_LABEL * len(examples):  # any column would tell the label
        return 0
    labels: dict[str, Counter[int]] = defaultdict(Counter)
    for example in examples:
        labels[repr(example.context[variable.name])][example.target] += 1
    told = 0
    for example in examples:
        value = example.context[variable.name]
        others = labels[repr(value)] - Counter([example.target])
        if _as_list(value) and others:
            told += others.most_common(1)[0][0] == example.target
    return told


def _note_gaps(variable: Variable, examples: Sequence[Example]) -> None:
    """Notes how many images lack a value, or have one that was cut."""
    values = [example.context[variable.name] for example in examples]
    lacking = sum(value in (None, []) for value in values)
    if lacking:
        note(f"{variable.column} is missing for {lacking:,} of {len(values):,} images")
    cut = sum(str((_as_list(value) or [""])[-1]).endswith("…") for value in values)
    if cut:
        note(f"{variable.column} is too long for {cut:,} of {len(values):,} images, and cut")


def _note_worth(examples: Sequence[Example], taxonomy: Taxonomy) -> None:
    """Notes how often the truth is among the candidates, and how often it is the first."""
    first = among = 0
    for example in examples:
        right = []
        for text in example.context[CANDIDATES]:
            # One that the tree lacks is shown as it is, and never the truth.
            nodes = taxonomy.find(text.rsplit(" (", 1)[0])
            right.append(any(taxonomy.is_ancestor(example.target, node) for node in nodes))
        first += any(right[:1])
        among += any(right)
    n = len(examples)
    note(
        f"the candidates hold the truth of {among / n:.0%} of the images, the first of them of "
        f"{first / n:.0%}: no prompt that only chooses among them can be right more often"
    )
