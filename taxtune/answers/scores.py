"""The scores of a table of answers, with intervals.

`score_answers` gives hP, hR, hF, accuracy and depth, the same in bits, and by rank; `measured_report` gives text
measures of the answers against their references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.read import AnswerTable
from taxtune.answers.targets import make_information
from taxtune.errors import DataError
from taxtune.mapping import Mapper, Placement
from taxtune.mapping.config import DOUBTFUL
from taxtune.metrics import (
    Information,
    Interval,
    Sample,
    bootstrap,
    bootstrap_ranks,
    hierarchical_sample,
    information_sample,
    information_values,
    precision_recall,
)
from taxtune.metrics.confidence import COVERAGES, influence_of_doubt
from taxtune.metrics.names import metric_name
from taxtune.metrics.registry import Measure
from taxtune.metrics.selective import selective_scores
from taxtune.progress import note, track
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.taxonomy import Domain, Taxonomy

__all__ = [
    "as_child",
    "check_questions",
    "mean_interval",
    "measure_answers",
    "measured_report",
    "place_texts",
    "score_answers",
]

IntArray = NDArray[np.int64]
Mask = NDArray[np.bool_]

CONFIDENCE = 0.95
_BLOCK = 1_000
#: Of the scores those that are no shares.
_IN_UNITS = ("depth", "remaining_uncertainty", "misinformation")


def place_texts(mapper: Mapper, texts: Sequence[str]) -> list[Placement]:
    """One placement for each text, in order; equal texts share one, and a blank one is an abstention."""
    placements: dict[str, Placement] = {}
    distinct = list(dict.fromkeys(texts))
    with track("placing answers", len(distinct)) as task:
        for start in range(0, len(distinct), _BLOCK):
            block = distinct[start : start + _BLOCK]
            placements.update(zip(block, mapper.place(block), strict=True))
            task.advance(len(block))
    return [placements[text] for text in texts]


def as_child(mapper: Mapper, placements: Iterable[Placement | None]) -> Mask:
    """Which placements (None: no answer) are scored as a child of the root that is never right, shape (n,).

    They are those off the tree, unless the mapper's settings (`MapperConfig.off_tree`) score these as the root.
    """
    scored = mapper.identity().get("off_tree") == "child"
    return np.array([scored and one is not None and one.off_tree for one in placements], dtype=bool)


def score_answers(
    answers: AnswerTable,
    taxonomy: Taxonomy,
    mapper: Mapper | None = None,
    *,
    part: Domain | None = None,
    frequencies: str | None = None,
    smoothing: float = 0.0,
    resamples: int = 2000,
    seed: int = 0,
) -> StudyReport:
    """Every score of answers, or of predicted nodes where the rows have them; a missing answer says nothing.

    Args:
        answers: The answers with their targets.
        taxonomy: The tree that the targets are on.
        mapper: The mapper that places answers on it; None for the default mapper.
        part: What `taxonomy` is a part of; the scores on the whole are added.
        frequencies: How often nodes occur, see `make_information`.
        smoothing: Added to the frequency of each leaf.
        resamples: Bootstrap resamples; the same seed draws the same for every score.
        seed: Their seed.

    Raises:
        DataError: If the frequencies cannot be used.
        MapperError: If the mapper's similarity needs images.
    """
    targets = np.array([row.target for row in answers.rows], dtype=np.int64)
    placements: list[Placement] = []
    off, identity, doubtful = None, None, None
    if answers.has_nodes:
        nodes = np.array([row.predicted for row in answers.rows], dtype=np.int64)
    else:
        mapper = mapper or Mapper(taxonomy)
        placements = place_texts(mapper, [row.answer or "" for row in answers.rows])
        off, identity = as_child(mapper, placements), dict(mapper.identity())
        nodes = np.array([placement.node for placement in placements], dtype=np.int64)
        unsure = [placement.doubtful for placement in placements]
        doubt = influence_of_doubt(taxonomy, nodes, targets, unsure, off_tree=off)
        if doubt is not None:
            doubtful = {
                "n": doubt.n,
                "below": DOUBTFUL,
                "wrong": doubt.wrong,
                "without": doubt.without,
            }
    draws: dict[str, Any] = {
        "off_tree": off,
        "resamples": resamples,
        "confidence": CONFIDENCE,
        "seed": seed,
    }
    information = make_information(
        taxonomy, frequencies, smoothing=smoothing, targets=targets, part=part
    )
    scores = _intervals(information, nodes, targets, **draws)
    full: dict[str, Any] | None = None
    if part is not None:
        on_full = part.on_full(targets)
        bits = make_information(part.full, frequencies, smoothing=smoothing, targets=on_full)
        full = _intervals(bits, part.on_full(nodes), on_full, **draws)
    ranks = [
        asdict(row.scores)
        | {name: (one := getattr(row, name)) and asdict(one) for name in ("precision", "recall")}
        for row in bootstrap_ranks(taxonomy, nodes, targets, **draws)
    ]
    summary = {
        "root": None if part is None else "/".join(part.full.path(part.root)),
        "scored": "placement" if identity is None else "answer",
        "n": len(answers.rows),
        "abstained": None if identity is None else sum(placed.abstained for placed in placements),
        "off_tree": None if identity is None else sum(placed.off_tree for placed in placements),
        "left_out": list(answers.unanswered),
        "outside": list(answers.outside),
        "confidence_level": CONFIDENCE,
        "resamples": resamples,
        "seed": seed,
        "scores": scores,
        "doubtful": doubtful,
        "selective": _selective(
            answers, placements, precision_recall(taxonomy, nodes, targets, off_tree=off)[0]
        ),
        "full_scores": full,
        "targets": {
            "depth": float(taxonomy.depth[targets].mean()),
            "bits": float(information.content[targets].mean()),
        },
        "information": information.as_dict(),
        "ranks": ranks,
        "mapper": identity,
    }
    return StudyReport(
        study="score",
        title="Scores of answers",
        settings={
            "file": answers.file,
            "taxonomy": taxonomy.source,
            "frequencies": frequencies,
            "smoothing": smoothing,
        },
        tables=_tables(summary, part, information.counted),
        notes=answers.notes,
        data={
            **summary,
            "rows": _rows(answers, information, part, nodes, targets, off, placements),
        },
    )


def _selective(
    answers: AnswerTable, placements: Sequence[Placement], hp: ArrayLike
) -> dict[str, Any] | None:
    """The worth of the mapper's confidence, or of a column `confidence` beside nodes: how surely each is right."""
    column: list[Any] = [row.fields.get("confidence") for row in answers.rows]
    try:
        sure = np.array([one.confidence for one in placements] or column, dtype=np.float64)
    except ValueError:
        sure = np.array([np.nan])
    if np.isnan(sure).any():
        if answers.has_nodes and any(one not in (None, "") for one in column):
            note(
                f"{answers.file}: the column confidence has no number in some rows; it is not scored"
            )
        return None
    claims = answers.has_nodes and bool(((sure >= 0) & (sure <= 1)).all())
    return asdict(selective_scores(sure, hp, np.asarray(hp) == 1 if claims else None))


#: How scores are meant that leave the doubtful placements out, or take all of them for wrong.
_DOUBT = {"without": "without them", "wrong": "if all of them are wrong"}


def _intervals(
    information: Information,
    nodes: IntArray,
    targets: IntArray,
    *,
    off_tree: Mask | None,
    **draws: Any,
) -> dict[str, dict[str, float]]:
    samples = (
        hierarchical_sample(information.taxonomy, nodes, targets, off_tree=off_tree),
        information_sample(information, nodes, targets, off_tree=off_tree),
    )
    return {name: asdict(interval) for name, interval in bootstrap(*samples, **draws).items()}


def _rows(
    answers: AnswerTable,
    information: Information,
    part: Domain | None,
    nodes: IntArray,
    targets: IntArray,
    off: Mask | None,
    placements: Sequence[Placement],
) -> list[dict[str, Any]]:
    tree = information.taxonomy
    columns: dict[str, Iterable[Any]] = {
        "row": [row.row for row in answers.rows],
        "truth": ["/".join(tree.path(node)) for node in targets.tolist()],
        "placement": ["/".join(tree.path(node)) for node in nodes.tolist()],
    }
    names = ["hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation"]
    scores = [*precision_recall(tree, nodes, targets, off_tree=off)]
    scores += information_values(information, nodes, targets, off_tree=off)
    if part is not None:
        names += ["full_hp", "full_hr"]
        scores += precision_recall(
            part.full, part.on_full(nodes), part.on_full(targets), off_tree=off
        )
    columns |= {name: values.tolist() for name, values in zip(names, scores, strict=True)}
    if placements:
        columns["stage"] = [str(placed.stage) for placed in placements]
        for name in ("answer", "evidence", "confidence", "abstained", "off_tree"):
            columns[name] = [getattr(placed, name) for placed in placements]
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _tables(summary: Mapping[str, Any], part: Domain | None, counted: str) -> tuple[Table, ...]:
    n, depth, bits = summary["n"], summary["targets"]["depth"], summary["targets"]["bits"]
    parts = {"": summary["scores"]}
    if part is not None:
        parts = {
            f" on {part.label}": summary["scores"],
            f" on {part.full_label}": summary["full_scores"],
        }
    shares: list[tuple[Cell, ...]] = []
    in_units: list[tuple[Cell, ...]] = []
    for i, (on, scores) in enumerate(parts.items()):
        for key, values in scores.items():
            # Whether a node is exactly right does not depend on the root.
            if key != "accuracy" or i == 0:
                name = metric_name(key)
                cells = (f"{name}{on if key != 'accuracy' else ''}", *values.values())
                (in_units if key in _IN_UNITS else shares).append(cells)
    examples = f"{n:,} example{'' if n == 1 else 's'}"
    if summary["abstained"] is not None:
        silent, off = (
            f"{summary[key]:,} ({100 * summary[key] / n:.1f} %)"
            for key in ("abstained", "off_tree")
        )
        examples += f", {silent} of them abstentions, which claim nothing, and {off} off the tree, which are wrong"
    notes = [examples]
    if (doubtful := summary["doubtful"]) and doubtful["n"]:
        means = {how: doubtful[key] for key, how in _DOUBT.items() if doubtful[key]}
        said = ", ".join(
            f"hP {mean['hp']:.3f} and hR {mean['hr']:.3f} {how}" for how, mean in means.items()
        )
        notes.append(
            f"doubtful placements (confidence below {doubtful['below']:g}): {doubtful['n']:,}; {said}"
        )
    if worth := summary["selective"]:
        risks = ", ".join(
            f"{risk:.3f} at {share:.0%}"
            for share, risk in zip(COVERAGES, worth["risks"], strict=True)
        )
        measures = {
            "AURC": "aurc",
            "calibration error": "calibration_error",
            "Brier score": "brier",
        }
        said = ", ".join(
            f"{name} {worth[key]:.3f}" for name, key in measures.items() if worth[key] is not None
        )
        notes.append(f"confidence: {said}; 1 - hP by coverage: {risks}".replace("%", " %"))
    outside = "" if part is None else f"with a target outside {part.label}"
    for rows, reason in ((summary["left_out"], "without an answer"), (summary["outside"], outside)):
        if rows:
            shown = ", ".join(map(str, rows[:20])) + (", …" if len(rows) > 20 else "")
            notes.append(
                f"{len(rows):,} row{'' if len(rows) == 1 else 's'} {reason} left out: {shown}"
            )
    notes.append(f"targets: mean depth {depth:.2f}, mean information {bits:.2f} bits ({counted})")
    heads, none = (
        ("score", "estimate", "low", "high"),
        {"estimate": None, "low": None, "high": None},
    )
    ranks = []
    for row in summary["ranks"]:
        precision, recall = (row[name] or none for name in ("precision", "recall"))
        ranks.append(
            (
                row["rank"],
                row["n_predicted"],
                *precision.values(),
                row["n_relevant"],
                *recall.values(),
            )
        )
    columns = ["rank"]
    for count, rate in (("predicted", "precision"), ("relevant", "recall")):
        columns += [count, rate, f"{rate} low", f"{rate} high"]
    return (
        Table("scores", "Scores with 95 % intervals", heads, tuple(shares)),
        Table("bits", "Depth and information", heads, tuple(in_units), dict.fromkeys(heads, 2)),
        Table("ranks", "At each rank", tuple(columns), tuple(ranks), notes=tuple(notes)),
    )


# -- text measures -----------------------------------------------------------------------------------------------------


def check_questions(name: str, answers: AnswerTable) -> None:
    """Checks that a file has the questions that a measure needs, before its model is loaded.

    Raises:
        DataError: If a row has none.
    """
    lacking = next((row.row for row in answers.rows if row.question is None), None)
    if lacking is not None:
        remedy = "Give each row its question, or give the column with --question-column."
        raise DataError(
            f"{name} needs the question of every answer.",
            file=answers.file,
            row=lacking,
            remedy=remedy,
        )


def measure_answers(measure: Measure, answers: AnswerTable) -> NDArray[np.float64]:
    """The score of each answer, shape (n,); NaN is unscored.

    Raises:
        DataError: If the measure needs questions and the file has none.
    """
    rows = answers.rows
    extra: dict[str, Any] = {}
    if measure.needs_questions:
        check_questions(measure.name, answers)
        extra["questions"] = [row.question for row in rows]
    return measure.scores_many(
        [row.answer or "" for row in rows], [row.references for row in rows], **extra
    )


def mean_interval(
    scores: ArrayLike, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Interval | None:
    """The mean of the scores (n,) that are not NaN with a percentile bootstrap interval; None if all are."""
    values = np.asarray(scores, dtype=np.float64)
    values = np.sort(values[~np.isnan(values)])
    if not values.size:
        return None
    # A draw over few different values is the same as one over answers, and less work.
    few = len(np.unique(values)) * 10 < len(values)
    sample = Sample({"mean": values}, keys=(values,) if few else None)
    return bootstrap(sample, resamples=resamples, confidence=confidence, seed=seed)["mean"]


def measured_report(
    answers: AnswerTable,
    measures: Sequence[Measure],
    *,
    settings: Mapping[str, Any],
    resamples: int = 2000,
    seed: int = 0,
) -> StudyReport:
    """The mean of each measure over the answers, and the score of every answer; a missing answer says nothing.

    `settings` are recorded in the report.

    Raises:
        DataError: If a measure needs questions and the answers have none.
    """
    scores = {measure.name: measure_answers(measure, answers) for measure in measures}
    rows = []
    for name, values in scores.items():
        unscored = int(np.isnan(values).sum())
        mean = mean_interval(values, resamples=resamples, seed=seed)
        cells = (None, None, None) if mean is None else (mean.estimate, mean.low, mean.high)
        rows.append((name, *cells, len(values) - unscored, unscored))
    columns = ("measure", "mean", "low", "high", "scored", "unscored")
    note = "low and high: 95 % bootstrap interval of the mean over the scored answers."
    notes = [f"{measure.label}: {text}" for measure in measures for text in measure.notes]
    return StudyReport(
        study="measure",
        title="Text measures of answers",
        settings={**settings, "measures": [measure.identity() for measure in measures]},
        tables=(Table("measures", "Mean score", columns, tuple(rows), notes=(note,)),),
        notes=(*answers.notes, *notes),
        data={
            "n": len(answers.rows),
            "left_out": list(answers.unanswered),
            "rows": [
                {
                    "row": row.row,
                    "answer": row.answer or "",
                    "references": list(row.references),
                    "scores": {name: values[i] for name, values in scores.items()},
                }
                for i, row in enumerate(answers.rows)
            ],
        },
    )
