"""Several runs side by side: one comparison of their held-out results, paired where they share images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.statistics import INFORMATION_METRICS, PairedDifference, Sample, paired_bootstrap
from taxtune.tuning.records import (
    ComparisonResult,
    Difference,
    ExampleRow,
    HeldoutResult,
    Provenance,
    TuneResult,
)

if TYPE_CHECKING:
    from taxtune.tuning.repeats import RepeatsResult

__all__ = ["join_results"]

AnyResult: TypeAlias = "TuneResult | ComparisonResult | RepeatsResult"


def join_results(results: Mapping[str, AnyResult]) -> ComparisonResult:
    """Returns several results as one comparison, so that one report shows them.

    What a template is called begins with its run: "birds: winner". Where all runs have the same baseline, with the same
    answers, it is there once. A template is compared with its own baseline, and with every other run's winner, where
    both were asked about the same images; scores that not all runs have are left out.

    Args:
        results: Runs, comparisons, evaluations and repeated runs by what they are to be called, two or more.

    Raises:
        DataError: If a run is not finished.
    """
    parts = {
        label: single
        for name, result in results.items()
        for label, single in _singles(name.replace(" - ", "-"), result)
    }
    for single in parts.values():
        if not single.heldout:
            raise DataError(
                "The run is not finished: it has no held-out results.",
                file=single.folder,
                remedy="Finish it with --resume first.",
            )
    held = {f"{label}: {each.name}": each for label, single in parts.items() for each in single.heldout}
    held = _one_baseline(_alike(held))
    runs = {
        f"{label}: {name}": run
        for label, single in parts.items()
        for name, run in single.named_runs
        if f"{label}: {name}" in held
    }
    joined = ComparisonResult(
        name=", ".join(results),
        runs=tuple(runs.values()),
        heldout=tuple(replace(each, name=name) for name, each in held.items()),
        differences=(),
        folder="",
        provenance=_provenance(parts),
        names=tuple(runs),
    )
    return replace(joined, differences=tuple(_differences(joined)))


def _singles(label: str, result: AnyResult) -> list[tuple[str, TuneResult | ComparisonResult]]:
    if isinstance(result, TuneResult | ComparisonResult):
        return [(label, result)]
    return [(f"{label}/{Path(run.folder).name}", run) for run in result.runs]


def _alike(held: Mapping[str, HeldoutResult]) -> dict[str, HeldoutResult]:
    """Returns the results with the scores that all of them have."""
    measures = set.intersection(*(set(each.scores.measures) for each in held.values()))
    domains = {None if each.full is None else (each.full.domain, each.full.root) for each in held.values()}
    return {
        name: replace(
            each,
            scores=replace(each.scores, measures={k: v for k, v in each.scores.measures.items() if k in measures}),
            full=each.full if len(domains) == 1 else None,
        )
        for name, each in held.items()
    }


def _one_baseline(held: Mapping[str, HeldoutResult]) -> dict[str, HeldoutResult]:
    """Returns the results with a single "baseline" where all runs have the same, which were asked the same."""
    baselines = [each for name, each in held.items() if name.endswith(": baseline")]
    first = baselines[0] if baselines else None
    if first is None or any(_said(each) != _said(first) for each in baselines):
        return dict(held)
    others = {name: each for name, each in held.items() if not name.endswith(": baseline")}
    return {"baseline": first, **others}


def _said(held: HeldoutResult) -> tuple[object, ...]:
    return (
        held.template,
        held.off_tree_as,
        *((row.example, row.truth, row.answer, row.placement) for row in held.rows),
    )


def _differences(result: ComparisonResult) -> list[Difference]:
    """Returns the paired differences of each contender from its baseline, and of all later ones from earlier ones."""
    held = {each.name: each for each in result.heldout}
    pairs = [(name, base.name) for name in result.contenders if (base := result.baseline_of(name)) is not None]
    pairs += [(later, earlier) for earlier, later in itertools.combinations(result.contenders, 2)]
    found = []
    for name, other in pairs:
        metrics = _paired(held[name].rows, held[other].rows)
        if metrics:
            found.append(Difference(name, other, metrics))
    return found


def _paired(rows: Sequence[ExampleRow], others: Sequence[ExampleRow]) -> dict[str, PairedDifference]:
    """Returns the differences on the images that both have an answer about; none where they are other images."""
    there = {row.example: row for row in others}
    if [(row.example, row.truth) for row in rows] != [(row.example, row.truth) for row in there.values()]:
        return {}
    pairs = [(row, there[row.example]) for row in rows if row.hp is not None and there[row.example].hp is not None]
    if not pairs:
        return {}
    samples = [_samples([pair[side] for pair in pairs]) for side in (0, 1)]
    ours, theirs = ({tuple(each.parts): each for each in found} for found in samples)
    shared = [(ours[parts], theirs[parts]) for parts in ours if parts in theirs]
    return paired_bootstrap(*((a, b) for a, b in shared if _whole(a) and _whole(b)))


def _whole(sample: Sample) -> bool:
    return not any(np.isnan(values).any() for values in sample.parts.values())


def _samples(rows: Sequence[ExampleRow]) -> list[Sample]:
    """Returns what the scores of answered images are made of; NaN where a row has no value."""

    def column(name: str) -> NDArray[np.float64]:
        return np.array([math.nan if (v := getattr(row, name)) is None else v for row in rows], dtype=np.float64)

    hp, hr = column("hp"), column("hr")
    exact = ((hp == 1) & (hr == 1)).astype(float)
    bits = {name: column(name) for name in ("ihp", "ihr", "remaining_uncertainty", "misinformation")}
    shares = {name: column(name) for name in ("abstained", "off_tree")}
    measures = {
        name: np.array([row.measures.get(name, math.nan) for row in rows], dtype=np.float64)
        for name in rows[0].measures
    }
    return [
        Sample({"hp": hp, "hr": hr, "accuracy": exact}, names=("hp", "hr", "hf", "accuracy"), keys=(hp, hr)),
        Sample(bits, names=INFORMATION_METRICS, keys=tuple(bits.values())),
        *(Sample.mean(name, values) for name, values in {**shares, **measures}.items()),
    ]


def _provenance(parts: Mapping[str, TuneResult | ComparisonResult]) -> Provenance:
    """Returns what was run: of each run what sets it apart, then what all have in common."""
    facts = {label: single.provenance.facts for label, single in parts.items()}
    keys = dict.fromkeys((group, name) for found in facts.values() for group, those in found.items() for name in those)
    apart: dict[str, dict[str, str]] = {label: {} for label in parts}
    common: dict[str, dict[str, str]] = {}
    for group, name in keys:
        values = {label: found.get(group, {}).get(name) for label, found in facts.items()}
        first = next(iter(values.values()))
        if first is not None and len(set(values.values())) == 1:
            common.setdefault(group, {})[name] = first
        else:
            for label, value in values.items():
                if value is not None:
                    apart[label][f"{group.lower()}, {name}"] = value
    images = {example: file for single in parts.values() for example, file in single.provenance.images.items()}
    return Provenance(
        facts=apart | {f"{group}, the same in all": found for group, found in common.items()}, images=images
    )
