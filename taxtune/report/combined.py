"""Several runs as one comparison of their held-out results, paired where they share images."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from taxtune.errors import DataError
from taxtune.metrics.statistics import INFORMATION_METRICS, PairedDifference, Sample, paired_bootstrap
from taxtune.report.scores import Result
from taxtune.tuning.records import ComparisonResult, Difference, HeldoutResult, Provenance, SampleResult

__all__ = ["combine_results"]


def combine_results(results: Mapping[str, Result]) -> ComparisonResult:
    """Returns several results as one comparison, so that one report shows them.

    A template's name begins with its run: "birds: winner". Where all runs have the same baseline, with the same
    answers, it is there once. A template is compared with its own baseline, and with every other run's winner, where
    both were asked about the same images; scores that not all runs have are left out.

    Args:
        results: Runs, comparisons and evaluations by their names, two or more.

    Raises:
        DataError: If a run is not finished.
    """
    runs = {name.replace(" - ", "-"): result for name, result in results.items()}
    for result in runs.values():
        if not result.heldout:
            raise DataError(
                "The run is not finished: it has no held-out results.",
                file=result.folder,
                remedy="Finish it with --resume first.",
            )
    held = _one_baseline(
        _shared_scores({f"{name}: {each.name}": each for name, result in runs.items() for each in result.heldout})
    )
    named = {
        f"{name}: {key}": run
        for name, result in runs.items()
        for key, run in result.named_runs
        if f"{name}: {key}" in held
    }
    combined = ComparisonResult(
        name=", ".join(results),
        runs=tuple(named.values()),
        heldout=tuple(replace(each, name=name) for name, each in held.items()),
        differences=(),
        folder="",
        provenance=_provenance(runs),
        names=tuple(named),
    )
    pairs = [(name, base.name) for name in combined.contenders if (base := combined.baseline_of(name)) is not None]
    pairs += [(later, earlier) for earlier, later in itertools.combinations(combined.contenders, 2)]
    differences = (Difference(a, b, _paired(held[a].rows, held[b].rows)) for a, b in pairs)
    return replace(combined, differences=tuple(each for each in differences if each.metrics))


def _shared_scores(held: Mapping[str, HeldoutResult]) -> dict[str, HeldoutResult]:
    """Returns the results with the scores that all of them have."""
    shared = set.intersection(*(set(each.scores.measures) for each in held.values()))
    domains = {None if each.full is None else (each.full.domain, each.full.root) for each in held.values()}
    kept = {}
    for name, each in held.items():
        measures = {key: value for key, value in each.scores.measures.items() if key in shared}
        full = each.full if len(domains) == 1 else None
        kept[name] = replace(each, scores=replace(each.scores, measures=measures), full=full)
    return kept


def _one_baseline(held: Mapping[str, HeldoutResult]) -> dict[str, HeldoutResult]:
    """Returns the results with a single "baseline" where all runs have the same one with the same answers."""
    baselines = {
        (each.template, each.off_tree_as, *((row.example, row.truth, row.answer, row.placement) for row in each.rows))
        for name, each in held.items()
        if name.endswith(": baseline")
    }
    if len(baselines) != 1:
        return dict(held)
    first = next(each for name, each in held.items() if name.endswith(": baseline"))
    return {"baseline": first, **{name: each for name, each in held.items() if not name.endswith(": baseline")}}


def _paired(rows: Sequence[SampleResult], others: Sequence[SampleResult]) -> dict[str, PairedDifference]:
    """Returns the differences on the images that both have an answer about; none where they are other images."""
    if [(row.example, row.truth) for row in rows] != [(row.example, row.truth) for row in others]:
        return {}
    pairs = [(a, b) for a, b in zip(rows, others, strict=True) if a.hp is not None and b.hp is not None]
    if not pairs:
        return {}
    ours, theirs = ({tuple(s.parts): s for s in _samples(side)} for side in zip(*pairs, strict=True))
    shared = [(ours[parts], theirs[parts]) for parts in ours if parts in theirs]
    return paired_bootstrap(*((a, b) for a, b in shared if _whole(a) and _whole(b)))


def _whole(sample: Sample) -> bool:
    return not any(np.isnan(values).any() for values in sample.parts.values())


def _samples(rows: Sequence[SampleResult]) -> list[Sample]:
    """Returns what the scores of answered images are made of; NaN where a row has no value."""
    names = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation", "abstained", "off_tree")
    columns = {name: np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in names}
    hp, hr = columns["hp"], columns["hr"]
    bits = {name: columns[name] for name in names[2:6]}
    means = {name: columns[name] for name in names[6:]}
    means |= {key: np.array([row.measures.get(key) for row in rows], dtype=np.float64) for key in rows[0].measures}
    exact = ((hp == 1) & (hr == 1)).astype(float)
    return [
        Sample({"hp": hp, "hr": hr, "accuracy": exact}, names=("hp", "hr", "hf", "accuracy"), keys=(hp, hr)),
        Sample(bits, names=INFORMATION_METRICS, keys=tuple(bits.values())),
        *(Sample.mean(name, values) for name, values in means.items()),
    ]


def _provenance(runs: Mapping[str, Result]) -> Provenance:
    """Returns what was run: of each run what sets it apart, then what all have in common."""
    facts = {name: result.provenance.facts for name, result in runs.items()}
    keys = dict.fromkeys(
        (group, name) for groups in facts.values() for group, those in groups.items() for name in those
    )
    apart: dict[str, dict[str, str]] = {name: {} for name in runs}
    common: dict[str, dict[str, str]] = {}
    for group, name in keys:
        values = {run: groups.get(group, {}).get(name) for run, groups in facts.items()}
        first = next(iter(values.values()))
        if first is not None and len(set(values.values())) == 1:
            common.setdefault(group, {})[name] = first
            continue
        for run, value in values.items():
            if value is not None:
                apart[run][f"{group.lower()}, {name}"] = value
    images = {example: file for result in runs.values() for example, file in result.provenance.images.items()}
    shared = {f"{group}, the same in all": found for group, found in common.items()}
    return Provenance(facts=apart | shared, images=images)
