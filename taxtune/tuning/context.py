"""What a run knows of its images besides pixels: its variables, their values, and whether one gives the answer away."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taxtune.answers.classifier_scores import read_scores
from taxtune.data import Example
from taxtune.data.context import CANDIDATES, Variable, candidate, make_variables, values_of
from taxtune.data.names import match_names
from taxtune.errors import DataError
from taxtune.progress import note
from taxtune.settings import ContextSettings
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels, says

__all__ = ["Known", "candidates_of", "describe_variables", "make_context"]

_TELLS = 0.98  # share of the images from which on a column is the truth by another name
_ONE_LABEL = 0.9  # share of the commonest label up to which it can be told whether a column determines the label
_EXAMPLES, _LONGEST = 3, 40  # values that are shown of a variable, and the most characters of each
_GUESSES = "another classifier's guesses with their scores, best first"


@dataclass(frozen=True, slots=True)
class Known:
    """A variable as who writes templates is told of it: values that name no label, and the share of images without."""

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
    """Returns the variables of a run, and its images with their values in place of the cells of the data.

    Args:
        examples: The images, with the cells of the columns.
        settings: What templates may know; `candidates` is a path from here.
        taxonomy: The label tree.
        source: What has the cells, for messages.
        variables: The variables, where further images are to have those of a run.

    Raises:
        DataError: If a cell or a file cannot be used, or a column gives the answer away.
    """
    names, cells = (
        [example.id for example in examples],
        [dict(example.context) for example in examples],
    )
    columns = settings.columns
    if settings.candidates is not None:
        columns, found = (
            (*columns, CANDIDATES),
            candidates_of(settings.candidates, taxonomy, names, settings.top),
        )
        cells = [
            {**cell, CANDIDATES: found.get(name, [])}
            for cell, name in zip(cells, names, strict=True)
        ]
    meanings = {CANDIDATES: _GUESSES, **settings.describe}
    known = tuple(variables) or make_variables(columns, cells, meanings, top=settings.top)
    values = values_of(known, cells, source, names)
    given = [replace(example, context=own) for example, own in zip(examples, values, strict=True)]
    for variable in () if variables else known:
        _refuse_truth(variable, given, taxonomy, source)
        _tell(variable, given, taxonomy)
    return known, given


def candidates_of(
    source: Any, taxonomy: Taxonomy, images: Sequence[str], top: int
) -> dict[str, list[str]]:
    """Returns the candidates of images, best first, by the images' names; those without scores are left out.

    Args:
        source: A classifier's scores, as `read_scores` takes them.
        taxonomy: The label tree, which names them.
        images: What the images are called; see `match_names` for what they may be called in the file.
        top: How many candidates an image has at most.

    Raises:
        DataError: If the scores cannot be read, or are of other images.
    """
    scores = read_scores(source, taxonomy)
    rows = {name: row for row, name in enumerate(scores.images)}
    meant = match_names(images, rows)
    found = {}
    for image in images:
        if image in meant:
            row = rows[meant[image]]
            sums = np.bincount(np.maximum(scores.nodes[row], 0), scores.weights[row], len(taxonomy))
            sums[taxonomy.root] = 0.0
            best = np.argsort(-sums, kind="stable")[:top].tolist()
            found[image] = [
                candidate(taxonomy.common_name(node), sums[node]) for node in best if sums[node] > 0
            ]
    if not found:
        message = "The scores are of other images: the names of the images must be the same."
        raise DataError(message, file=str(source), value=(scores.images[0], *images[:1]))
    return found


def describe_variables(
    variables: Iterable[Variable], examples: Sequence[Example], labels: Sequence[str]
) -> tuple[Known, ...]:
    """Returns variables as a proposer is told of them: with their commonest values, but for those that name a label."""
    described = []
    for variable in variables:
        values = [example.context[variable.name] for example in examples]
        texts = Counter(str(text)[:_LONGEST] for value in values for text in _listed(value))
        common = [text for text, _ in texts.most_common(50)]
        named = find_labels(" | ".join(common), labels)
        shown = [text for text in common if not find_labels(text, named)][:_EXAMPLES]
        lacking = sum(value in (None, []) for value in values) / max(len(values), 1)
        described.append(Known(variable, tuple(shown), lacking))
    return tuple(described)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _refuse_truth(
    variable: Variable, examples: Sequence[Example], taxonomy: Taxonomy, source: str
) -> None:
    """Raises a DataError if a variable is the truth: it names the label, or images that share a value share a label.

    Candidates may hold the truth, as they will for new images; of them the first alone must not always be it. A
    variable that always names a group above the label may be known of new images, or not: that is noted.
    """
    n, guesses = len(examples), variable.name == CANDIDATES
    labels: dict[str, Counter[int]] = defaultdict(Counter)
    for example in examples:
        labels[repr(example.context[variable.name])][example.target] += 1
    named = told = above = 0
    for example in examples:
        value, target = example.context[variable.name], example.target
        texts = [str(text) for text in _listed(value)][: 1 if guesses else None]
        names = (*taxonomy.names(target), taxonomy.ids[target] or "")
        named += any(says(text, names) for text in texts)
        groups = [
            name for node in taxonomy.ancestors(target)[1:-1] for name in taxonomy.names(node)
        ]
        above += any(says(text, groups) for text in texts)
        others = labels[repr(value)] - Counter([target])
        told += bool(texts and others) and others.most_common(1)[0][0] == target
    common = max(Counter(example.target for example in examples).values())
    told = 0 if guesses or common > _ONE_LABEL * n else told
    if max(named, told) > _TELLS * n:
        what = (
            "names the label" if named > _TELLS * n else "tells the label (a value has one label)"
        )
        remedy = "Leave it out of data.context: of new images it will not be known."
        if guesses:
            remedy = "Score images that the classifier was not trained on; where it is always right nothing is to gain."
        message = f"The column gives away the answer: it {what} of {max(named, told) / n:.1%} of the images."
        raise DataError(message, file=source, value=variable.column, remedy=remedy)
    if above > _TELLS * n and not guesses:
        note(
            f"{variable.column} names a group above the label of {above / n:.0%} of the images: will new ones have it?"
        )


def _tell(variable: Variable, examples: Sequence[Example], taxonomy: Taxonomy) -> None:
    """Notes how many images lack a value or have one that was cut, and how often the truth is among the candidates."""
    values, n = [example.context[variable.name] for example in examples], len(examples)
    if lacking := sum(value in (None, []) for value in values):
        note(f"{variable.column} is missing for {lacking:,} of {n:,} images")
    if cut := sum(str((_listed(value) or [""])[-1]).endswith("…") for value in values):
        note(f"{variable.column} is too long for {cut:,} of {n:,} images, and cut")
    if variable.name == CANDIDATES:
        named = [[taxonomy.find(text.rsplit(" (", 1)[0]) for text in value] for value in values]
        # One that the tree lacks is shown as it is, and never the truth.
        right = [
            [any(taxonomy.is_ancestor(example.target, node) for node in nodes) for nodes in some]
            for example, some in zip(examples, named, strict=True)
        ]
        best, all_of_them = (sum(any(each[:k]) for each in right) / n for k in (1, None))
        note(
            f"the candidates hold the truth of {all_of_them:.0%} of the images, the first of them of {best:.0%}: no "
            "prompt that only chooses among them can be right more often"
        )
