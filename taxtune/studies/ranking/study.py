"""Ranking models by their answers: every model scored under every measure, with bootstrap intervals of the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.matching import align, excluded_records
from taxtune.errors import DataError
from taxtune.report.output import Cell, StudyReport, Table, numbered
from taxtune.studies.placing import COUNTS, both_trees_table, missing_note, trivial_answer
from taxtune.studies.ranking import RankingSettings
from taxtune.studies.ranking.bootstrap import MeasuredModels, RankStatistics, rank_models
from taxtune.studies.ranking.data_sets import DataSet, read_data_sets
from taxtune.studies.ranking.figure import draw_bump
from taxtune.studies.ranking.scoring import Rows, Scored, group_columns, score_models
from taxtune.studies.text_scores import check_headings, check_measures, check_questions, measure_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TITLE", "rank", "ranking", "ranks_table"]

FloatArray = NDArray[np.float64]

TITLE = "Ranking of models under text measures and taxonomy-aware metrics"
_INTERVAL = ("2.5 %", "97.5 %")
# Shown between 0 and 1; all others are in percent.
_SHARES = ("hR", "hP", "hF")
_UNPAIRED = (
    "Values are means over targets, each the mean over its own examples. If the models were shown different images, "
    "differences may come from the images."
)


def ranking(settings: RankingSettings) -> StudyReport:
    """Reads and ranks the models and returns the report; see `taxtune.studies.ranking.run`."""
    judges = check_measures(settings.measure, settings.question_column)
    data_sets, unused = read_data_sets(settings)
    sets = {one.name: one for one in data_sets}
    rows, notes, excluded = _rows(sets, settings)
    # Models are loaded once the files are known to be in order.
    names = list(dict.fromkeys(name for some in rows.values() for name in some))
    if len(names) < 2:
        raise DataError(
            "A ranking needs at least two models.",
            value=names,
            remedy="Give several files as MODEL=FILE, or one with --by COLUMN or several --guess.",
        )
    answers = [(name, some) for of in rows.values() for name, some in of.items()]
    if judges:
        for name, some in answers:
            check_questions(name, some, settings.question_column)
    if all(row.answer is None for _, some in answers for row in some):
        raise DataError(
            "No model has answers, so there is nothing to rank.",
            value=names,
            remedy="Check the column with the answers, and whether every call failed.",
        )
    measures = settings.measures(settings.measure)
    check_headings(measures)
    mappers = {name: None if one.taxonomy is None else settings.mapper(one.taxonomy) for name, one in sets.items()}
    scored = {
        name: score_models(of, measures, settings, sets[name].taxonomy, mappers[name]) for name, of in rows.items()
    }
    groups = settings.groups or {"": tuple(sets)}
    columns = group_columns(names, scored, groups)
    measured, labels = [one for _, one in columns], [f"{group} {one.name}".lstrip() for group, one in columns]
    sizes = [one.units for one in scored.values()]
    statistics = rank_models(
        measured, resamples=settings.resamples, seed=settings.seed, strata=sizes if len(sizes) > 1 else None
    )
    remarks = [
        "Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper.",
        *_group_remarks(names, settings.groups, scored),
        *missing_note(
            sum(counts[1] or 0 for one in scored.values() for counts in one.counts.values()),
            "a value is over the model's own answers; a rank compares each pair of models on the examples that "
            "both answered",
        ),
        *([_UNPAIRED] if settings.unit == "target" else []),
        *_nothing_in_common(scored),
        *(
            trivial_answer(one.taxonomy, np.concatenate(list(scored[name].targets.values())), name or None)
            for name, one in sets.items()
            if one.taxonomy is not None
        ),
        *(f"{name}: {said}" if name else said for name, one in scored.items() for said in one.remarks),
        *measure_notes(measures),
    ]
    drawn = f"{settings.resamples:,} resamples of the {settings.unit}s"
    tables = [
        _scores_table(names, scored, measured, labels, remarks),
        *([_data_sets_table(scored)] if settings.groups else []),
        ranks_table(names, labels, statistics.ranks),
        _uncertainty_table(names, labels, statistics, f"{drawn} of each data set" if settings.groups else drawn),
        *([] if settings.groups else [_tau_table(labels, statistics)]),
    ]
    for name, one in sets.items():
        if one.part is not None:
            placed, targets = scored[name].placed, scored[name].targets
            both = {model: (some.nodes, targets[model]) for model, some in placed.items()}
            off_tree = {model: some.as_child for model, some in placed.items()}
            tables.append(both_trees_table(one.part, both, off_tree=off_tree))
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={
            **settings.record(),
            **_record(settings, sets, scored),
            "models": names,
            f"{settings.unit}s": sum(sizes),
            "measures": [measure.identity() for measure in measures],
            "mapper": next((mapper.identity() for mapper in mappers.values() if mapper is not None), None),
        },
        tables=tuple(tables),
        figures=dict(
            zip(
                numbered("ranks", len(groups)),
                (
                    _figure(names, [i for i, (of, _) in enumerate(columns) if of == group], measured, statistics, over)
                    for group, over in _over(groups, scored, settings.unit).items()
                ),
                strict=True,
            )
        ),
        notes=tuple(dict.fromkeys([*unused, *notes])),  # parts of one file say the same about it once
        data={"excluded": excluded},
    )


def _rows(
    sets: Mapping[str, DataSet], settings: RankingSettings
) -> tuple[dict[str, Rows], list[str], list[dict[str, Any]]]:
    """Returns the rows of each model by data set, what the user should know of them, and what is left out."""
    rows: dict[str, Rows] = {}
    notes = [note for one in sets.values() for file in one.files.values() for note in file.notes]
    excluded = []
    for name, one in sets.items():
        if settings.unit == "target":
            rows[name] = {model: file.rows for model, file in one.files.items()}
            excluded += excluded_records(one.files.values())
            continue
        aligned = align(one.files, settings.rows)
        notes += aligned.notes
        rows[name] = aligned.rows
        excluded += excluded_records(one.files.values(), [aligned])
    return rows, notes, excluded


def _group_remarks(
    names: Sequence[str], groups: Mapping[str, Sequence[str]], scored: Mapping[str, Scored]
) -> Iterator[str]:
    """Says of what a group's value is the mean, and who has none."""
    for group, members in groups.items():
        several = f"the mean of {', '.join(members)}, each of which counts the same"
        yield f"{group}: {several if len(members) > 1 else members[0]}."
        for name in names:
            absent = [member for member in members if not scored[member].counts.get(name, (0,))[0]]
            if absent:
                yield f"{group}: {name} has no answers about {', '.join(absent)}, and so no mean."


def _nothing_in_common(scored: Mapping[str, Scored]) -> Iterator[str]:
    """Names the models that were shown different classes alone, which nothing ranks."""
    for name, one in scored.items():
        for a, b in combinations(one.targets, 2):
            if not np.intersect1d(one.targets[a], one.targets[b]).size:
                where = f"{name}: " if name else ""
                yield f"{where}{a} and {b} have no target in common, so that they count as tied."


def _record(settings: RankingSettings, sets: Mapping[str, DataSet], scored: Mapping[str, Scored]) -> dict[str, Any]:
    """Returns what the report records of groups and their data sets; nothing where there are none."""
    if not settings.groups:
        return {}
    return {
        "groups": settings.groups,
        "dataset_column": settings.dataset_column,
        "data_sets": {
            name: {"taxonomy": None if one.taxonomy is None else one.taxonomy.source, "units": scored[name].units}
            for name, one in sets.items()
        },
    }


def _over(groups: Mapping[str, Sequence[str]], scored: Mapping[str, Scored], unit: str) -> dict[str, str]:
    """Returns what the ranks of each group are over, for its figure."""
    said = {}
    for group, members in groups.items():
        count = f"{sum(scored[member].units for member in members):,} {unit}s"
        said[group] = f"{group} ({', '.join(members)}): {count}" if group else count
    return said


def _figure(
    names: Sequence[str], which: Sequence[int], measured: Sequence[MeasuredModels], ranked: RankStatistics, over: str
) -> Callable[[], Figure]:
    labels = [measured[i].name for i in which]
    ranks, low, high = (values[list(which)] for values in (ranked.ranks, ranked.low, ranked.high))
    return partial(draw_bump, names, labels, ranks, low=low, high=high, over=over)


def _scores_table(
    names: Sequence[str],
    scored: Mapping[str, Scored],
    measured: Sequence[MeasuredModels],
    labels: Sequence[str],
    notes: Sequence[str],
) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5), or by group, as paper 2 does."""
    values = [one.values() * _scale(one.name) for one in measured]
    rows: list[tuple[Cell, ...]] = []
    for j, name in enumerate(names):
        counts = [one.counts[name] for one in scored.values() if name in one.counts]
        rows.append((name, *map(_sum, zip(*counts, strict=True)), *(float(of[j]) for of in values)))
    digits = {label: _digits(one.name) for label, one in zip(labels, measured, strict=True)}
    return Table("scores", TITLE, ("model", *COUNTS, *labels), tuple(rows), digits, tuple(notes))


def _data_sets_table(scored: Mapping[str, Scored]) -> Table:
    """Returns the values of the models on each data set; a metric is a dash where there is no tree."""
    labels = list(dict.fromkeys(one.name for some in scored.values() for one in some.measured))
    rows: list[tuple[Cell, ...]] = []
    for name, some in scored.items():
        values = {one.name: one.values() * _scale(one.name) for one in some.measured}
        for j, (model, counts) in enumerate(some.counts.items()):
            cells = (float(values[label][j]) if label in values else None for label in labels)
            rows.append((name, model, *counts, *cells))
    digits = {label: _digits(label) for label in labels}
    return Table("data-sets", "By data set", ("data set", "model", *COUNTS, *labels), tuple(rows), digits)


def _scale(label: str) -> float:
    return 1.0 if label in _SHARES else 100.0


def _digits(label: str) -> int:
    return 3 if label in _SHARES else 1


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def ranks_table(names: Sequence[str], labels: Sequence[str], ranks: FloatArray) -> Table:
    """Returns ranks of shape (measures, models) with a row a model."""
    return Table(
        "ranks",
        "Rank of each model under each measure",
        ("model", *labels),
        tuple((name, *map(rank, ranks[:, j])) for j, name in enumerate(names)),
        dict.fromkeys(labels, 1),
        ("1 is the best. Tied models share the average of their ranks.",),
    )


def rank(value: float) -> Cell:
    """Returns a rank as a table shows it: 2, 2.5, or nothing for NaN."""
    return None if np.isnan(value) else int(value) if float(value).is_integer() else float(value)


def _uncertainty_table(names: Sequence[str], labels: Sequence[str], statistics: RankStatistics, drawn: str) -> Table:
    """Returns rank, interval and probability of being first of each model under each measure, over what was `drawn`."""
    shown = (statistics.ranks, statistics.low, statistics.high)
    return Table(
        "uncertainty",
        "How certain the ranks are",
        ("measure", "model", "rank", *_INTERVAL, "P(first)"),
        tuple(
            (label, name, *(rank(values[i, j]) for values in shown), float(statistics.first[i, j]))
            for i, label in enumerate(labels)
            for j, name in enumerate(names)
        ),
        {**dict.fromkeys(("rank", *_INTERVAL), 1), "P(first)": 2},
        (
            f"Percentiles of the rank, and share of first places, over {drawn}, the same for all models and "
            "measures; k models tied for first place get 1/k each.",
        ),
    )


def _tau_table(labels: Sequence[str], statistics: RankStatistics) -> Table:
    """Returns Kendall's τ of each measure's ranking with the last one's, with intervals."""
    taus = zip(statistics.tau.tolist(), statistics.tau_low.tolist(), statistics.tau_high.tolist(), strict=True)
    return Table(
        "tau",
        f"Kendall's τ of each measure's ranking with that of {labels[-1]}",
        ("measure", "τ", *_INTERVAL),
        tuple((label, *row) for label, row in zip(labels[:-1], taus, strict=False)),
        dict.fromkeys(("τ", *_INTERVAL), 2),
        ("τ-b; the interval is over the resamples in which neither ranking ties all models.",),
    )
