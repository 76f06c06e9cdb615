"""Ranking models by their answers: every model scored under every measure, with bootstrap intervals of the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd

from taxtune.errors import DataError
from taxtune.report.output import Cell, StudyReport, Table, numbered
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.placing import COUNTS, missing_note, trivial_answer
from taxtune.studies.ranking.figure import draw_bump
from taxtune.studies.ranking.ranks import Measured, RankStatistics, rank_models
from taxtune.studies.ranking.scoring import METRICS, DataSet, measured, read_data_sets, score_models
from taxtune.studies.ranking.settings import RankingSettings
from taxtune.studies.text_scores import check_headings, check_measures, check_questions, measure_notes

__all__ = ["TITLE", "ranking", "ranks_table"]

TITLE = "Ranking of models under text measures and taxonomy-aware metrics"
_INTERVAL = ("2.5 %", "97.5 %")
_UNPAIRED = (
    "Values are means over targets, each the mean over its own examples. If the models were shown different images, "
    "differences may come from the images."
)
Counts = Mapping[tuple[str, str], Sequence[int | None]]


def ranking(settings: RankingSettings) -> StudyReport:
    """Reads and ranks the models and returns the report; see `taxtune.studies.ranking.run`."""
    judges = check_measures(settings.measure, settings.question_column)
    data_sets, unused = read_data_sets(settings)
    # Models are loaded once the files are known to be in order.
    names = list(dict.fromkeys(name for one in data_sets for name in one.rows))
    if len(names) < 2:
        remedy = "Give several files as MODEL=FILE, or one with --by COLUMN or several --guess."
        raise DataError("A ranking needs at least two models.", value=names, remedy=remedy)
    rows = [(name, some) for one in data_sets for name, some in one.rows.items()]
    if judges:
        for name, some in rows:
            check_questions(name, some, settings.question_column)
    if all(row.answer is None for _, some in rows for row in some):
        remedy = "Check the column with the answers, and whether every call failed."
        raise DataError("No model has answers, so there is nothing to rank.", value=names, remedy=remedy)
    measures = settings.measures(settings.measure)
    check_headings(measures, ("data set", "model", "unit", "target", "answered", *COUNTS, *METRICS))
    mappers = [None if one.taxonomy is None else settings.mapper(one.taxonomy) for one in data_sets]
    scored = [score_models(one, measures, settings, own) for one, own in zip(data_sets, mappers, strict=True)]
    answers = pd.concat([frame for frame, _ in scored], ignore_index=True)
    counts: dict[tuple[str, str], Sequence[int | None]] = {}
    for one, (_, placed) in zip(data_sets, scored, strict=True):
        for name, some in one.rows.items():
            missing = sum(row.answer is None for row in some)
            own_counts = placed[name].counts if name in placed else (len(some) - missing, missing, None, None)
            counts[one.name, name] = own_counts
    labels = [measure.label for measure in measures]
    with_tree = {one.name for one in data_sets if one.taxonomy is not None}
    groups = settings.groups or {"": tuple(one.name for one in data_sets)}
    columns = measured(answers, labels, groups, with_tree)
    units = answers.groupby("data set", sort=False)["unit"].nunique().to_dict()
    statistics = rank_models(
        [one for _, one in columns],
        resamples=settings.resamples,
        seed=settings.seed,
        strata=list(units.values()) if len(units) > 1 else None,
    )
    headings = [f"{group} {one.label}".lstrip() for group, one in columns]
    remarks = _remarks(settings, names, data_sets, answers, counts, labels)
    drawn = f"{settings.resamples:,} resamples of the {settings.unit}s{' of each data set' * bool(settings.group)}"
    tables = [
        _scores_table(names, counts, headings, columns, (*remarks, *measure_notes(measures))),
        *([_data_sets_table(data_sets, answers, counts, labels, with_tree)] if settings.group else []),
        ranks_table(names, headings, statistics.ranks),
        _uncertainty_table(names, headings, statistics, drawn),
        *([] if settings.group else [_tau_table(headings, statistics)]),
    ]
    for one, (frame, placed) in zip(data_sets, scored, strict=True):
        if one.part is not None:
            targets = {name: some.to_numpy() for name, some in frame.groupby("model", sort=False)["target"]}
            both = {name: (own.nodes, targets[name]) for name, own in placed.items()}
            tables.append(both_trees_table(one.part, both, off_tree={k: own.as_child for k, own in placed.items()}))
    figures = {}
    for stem, (group, members) in zip(numbered("ranks", len(groups)), groups.items(), strict=True):
        which = [i for i, (of, _) in enumerate(columns) if of == group]
        over = f"{sum(units[member] for member in members):,} {settings.unit}s"
        figures[stem] = partial(
            draw_bump,
            names,
            [columns[i][1].label for i in which],
            statistics.ranks[which],
            low=statistics.low[which],
            high=statistics.high[which],
            over=f"{group} ({', '.join(members)}): {over}" if group else over,
        )
    record = {
        "groups": settings.groups,
        "dataset_column": settings.dataset_column,
        "data_sets": {
            one.name: {"taxonomy": None if one.taxonomy is None else one.taxonomy.source, "units": units[one.name]}
            for one in data_sets
        },
    }
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={
            **settings.record(),
            **(record if settings.group else {}),
            "models": names,
            f"{settings.unit}s": sum(units.values()),
            "measures": [measure.identity() for measure in measures],
            "mapper": next((mapper.identity() for mapper in mappers if mapper is not None), None),
        },
        tables=tuple(tables),
        figures=figures,
        # Parts of one file give the same notes once.
        notes=tuple(dict.fromkeys([*unused, *(note for one in data_sets for note in one.notes)])),
        data={"excluded": [record for one in data_sets for record in one.excluded]},
    )


def _remarks(
    settings: RankingSettings,
    names: Sequence[str],
    data_sets: Sequence[DataSet],
    answers: pd.DataFrame,
    counts: Counts,
    labels: Sequence[str],
) -> Iterator[str]:
    yield "Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper."
    for group, members in settings.groups.items():
        several = f"the mean of {', '.join(members)}, each of which counts the same"
        yield f"{group}: {several if len(members) > 1 else members[0]}."
        for name in names:
            absent = [member for member in members if not counts.get((member, name), (0,))[0]]
            if absent:
                yield f"{group}: {name} has no answers about {', '.join(absent)}, and so no mean."
    yield from missing_note(
        sum(own[1] or 0 for own in counts.values()),
        "a value is over the model's own answers; a rank compares each pair of models on the examples that both "
        "answered",
    )
    if settings.unit == "target":
        yield _UNPAIRED
    for one in data_sets:
        own, start = answers[answers["data set"] == one.name], f"{one.name}: " if one.name else ""
        targets = {name: set(some) for name, some in own.groupby("model", sort=False)["target"]}
        for a, b in combinations(one.rows, 2):
            if targets[a].isdisjoint(targets[b]):
                yield f"{start}{a} and {b} have no target in common, so that they count as tied."
        if one.taxonomy is not None:
            yield trivial_answer(one.taxonomy, own["target"].to_numpy(), one.name or None)
        for label in labels:
            for model, some in own[own["answered"]].groupby("model", sort=False)[label]:
                if lacking := int(some.isna().sum()):
                    yield f"{start}{label}: {lacking:,} of {len(some):,} answers of {model} are unscored."


def _shown(label: str, values: Sequence[float]) -> list[float]:
    """Returns values as the paper prints them: text measures and accuracy in percent."""
    return [float(value) * (1 if label in METRICS[1:] else 100) for value in values]


def _digits(headings: Sequence[str], labels: Sequence[str]) -> dict[str, int]:
    return {heading: 3 if label in METRICS[1:] else 1 for heading, label in zip(headings, labels, strict=True)}


def _scores_table(
    names: Sequence[str],
    counts: Counts,
    headings: Sequence[str],
    columns: Sequence[tuple[str, Measured]],
    notes: Iterable[str],
) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5), or by group, as paper 2 does."""
    labels = [one.label for _, one in columns]
    values = [_shown(one.label, one.values()[0]) for _, one in columns]
    rows: list[tuple[Cell, ...]] = []
    for j, name in enumerate(names):
        own = zip(*(some for (_, model), some in counts.items() if model == name), strict=True)
        known = [[n for n in column if n is not None] for column in own]
        rows.append((name, *(sum(column) if column else None for column in known), *(of[j] for of in values)))
    digits = _digits(headings, labels)
    return Table("scores", TITLE, ("model", *COUNTS, *headings), tuple(rows), digits, tuple(notes))


def _data_sets_table(
    data_sets: Sequence[DataSet], answers: pd.DataFrame, counts: Counts, labels: Sequence[str], with_tree: set[str]
) -> Table:
    """Returns the values of the models on each data set; a metric is a dash where there is no tree."""
    headings = [*labels, *(METRICS if with_tree else ())]
    rows: list[tuple[Cell, ...]] = []
    for one in data_sets:
        own = answers[answers["data set"] == one.name]
        columns = [column for _, column in measured(own, labels, {"": [one.name]}, with_tree)]
        values = {column.label: _shown(column.label, column.values()[0]) for column in columns}
        for j, model in enumerate(one.rows):
            cells = (values[label][j] if label in values else None for label in headings)
            rows.append((one.name, model, *counts[one.name, model], *cells))
    heads = ("data set", "model", *COUNTS, *headings)
    return Table("data-sets", "By data set", heads, tuple(rows), _digits(headings, headings))


def ranks_table(names: Sequence[str], headings: Sequence[str], ranks: np.ndarray) -> Table:
    """Returns ranks of shape (measures, models) with a row per model."""
    return Table(
        "ranks",
        "Rank of each model under each measure",
        ("model", *headings),
        tuple((name, *map(_rank, ranks[:, j])) for j, name in enumerate(names)),
        dict.fromkeys(headings, 1),
        ("1 is the best. Tied models share the average of their ranks.",),
    )


def _rank(value: float) -> Cell:
    return None if np.isnan(value) else int(value) if float(value).is_integer() else float(value)


def _uncertainty_table(names: Sequence[str], headings: Sequence[str], found: RankStatistics, drawn: str) -> Table:
    shown = (found.ranks, found.low, found.high)
    return Table(
        "uncertainty",
        "How certain the ranks are",
        ("measure", "model", "rank", *_INTERVAL, "P(first)"),
        tuple(
            (heading, name, *(_rank(values[i, j]) for values in shown), float(found.first[i, j]))
            for i, heading in enumerate(headings)
            for j, name in enumerate(names)
        ),
        {**dict.fromkeys(("rank", *_INTERVAL), 1), "P(first)": 2},
        (
            f"Percentiles of the rank, and share of first places, over {drawn}, the same for all models and "
            "measures; k models tied for first place get 1/k each.",
        ),
    )


def _tau_table(headings: Sequence[str], found: RankStatistics) -> Table:
    return Table(
        "tau",
        f"Kendall's τ of each measure's ranking with that of {headings[-1]}",
        ("measure", "τ", *_INTERVAL),
        tuple((heading, *row) for heading, row in zip(headings[:-1], found.taus.tolist(), strict=False)),
        dict.fromkeys(("τ", *_INTERVAL), 2),
        ("τ-b; the interval is over the resamples in which neither ranking ties all models.",),
    )
