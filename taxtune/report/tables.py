"""The tables of a result: its candidates, held-out scores with differences, by rank, and confidence."""

from __future__ import annotations

from taxtune.errors import command
from taxtune.mapping.config import DOUBTFUL
from taxtune.metrics.confidence import COVERAGES
from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.metrics.table import PER_IMAGE, SCORES
from taxtune.report.formatting import (
    MINUS,
    Result,
    images_of_units,
    number,
    per_unit,
    result_runs,
    role_of,
    score_of,
    template_name,
)
from taxtune.report.output import Cell, Table
from taxtune.report.summary import proof_in_words, summarise, summary_table
from taxtune.tuning.records import HeldoutResult, TuneResult, groups_of

__all__ = [
    "candidate_table",
    "choose_command",
    "doubt_table",
    "first_tables",
    "rank_table",
    "score_table",
    "selective_table",
]

_LAST = ("abstained", "off_tree", "selective_hp")


def first_tables(result: Result) -> list[Table]:
    """Returns the counts and scores of a result, then the candidates of each run."""
    tables = [candidate_table(run) for run in result_runs(result)]
    if result.heldout:
        tables.insert(0, summary_table(summarise(result)))
    return [table for table in tables if table.rows]


def candidate_table(run: TuneResult) -> Table:
    """Returns the candidates, the most careful first, with role and prompt in the last two columns."""
    records = {record.iteration: record for record in run.iterations}
    rows: list[dict[str, Cell]] = []
    for each in run.shortlist:
        record = records[each.iteration]
        outcomes = each.outcomes
        row: dict[str, Cell] = {"": "*" if each.taken else ""}
        row["no."] = each.iteration
        row["wrong"] = outcomes.wrong
        row["general"] = outcomes.general
        row["exact"] = outcomes.exact
        row["of"] = outcomes.images
        bound = f"hP ({100 * each.confidence:g} % bound)"
        row[bound] = f"{number(each.hp)} (≥ {number(each.low)})"
        row["proven"] = proof_in_words(each)
        row["it is"] = role_of(run, each.iteration)
        row["prompt"] = record.prompt or record.template or ""
        rows.append(row)
    per = "" if run.selection is None else per_unit(run.selection.unit)
    measured = f", hP{per}" if per else ""
    title = f"Candidates, by their tuning images{measured} (* the run's choice)"
    return Table.from_records("candidates", title, rows)


def choose_command(run: TuneResult) -> str:
    """Returns the command that takes another candidate, the boldest; empty where there is none.

    The baseline, which the run was to improve on, is not offered.
    """
    others = [each.iteration for each in run.shortlist if each.iteration not in (0, run.winner)]
    return command("choose", run.folder, str(others[-1])) if others else ""


def score_table(result: Result) -> Table:
    """Returns the held-out scores and paired differences, with 95 % intervals and p values."""
    rows: list[dict[str, Cell]] = []
    for key in _shown_scores(result.heldout):
        score = metric_name(key)
        for held in result.heldout:
            row: dict[str, Cell] = {"score": score, "template": template_name(held.name)}
            row["value"] = score_of(held.scores, key)
            row |= _ends(held.intervals.get(key))
            rows.append(row | {"p": None})
        for pair in result.differences:
            change = pair.metrics.get(key)
            if change is not None:
                names = f"{template_name(pair.name)} {MINUS} {template_name(pair.other)}"
                row = {"score": score, "template": names, "value": change.difference}
                row |= _ends(change)
                rows.append(row | {"p": change.p_value})
    notes = [
        "Differences are paired over the same images; bootstrap intervals and two-sided p values."
    ]
    missing = set()
    for held in result.heldout:
        missing |= {row.example for row in held.rows if row.failure is not None}
    if missing:
        notes.append(
            f"{len(missing):,} images without an answer to some template count for none of its scores."
        )
    title = "Scores"
    if result.heldout:
        first = result.heldout[0]
        n_groups = len(groups_of(first.rows))
        images = images_of_units(first.scores.n, first.split, n_groups, first.unit)
        title = f"Scores{per_unit(first.unit)}: {images}"
    return Table.from_records("scores", title, rows, digits={"p": 4}, notes=notes)


def _shown_scores(heldout: tuple[HeldoutResult, ...]) -> list[str]:
    """Returns the keys of the scores to show, in their order."""
    known = dict.fromkeys(key for held in heldout for key in held.scores.means)
    shown = [key for key in known if key not in SCORES or not SCORES[key].fixed]
    # Shares of the answers and the worth of their confidence are below the run's own metrics.
    last = [key for key in shown if key in _LAST]
    return [key for key in shown if key not in _LAST] + last


def _ends(ends: Interval | PairedDifference | None) -> dict[str, Cell]:
    if ends is None:
        return {"95 % low": None, "95 % high": None}
    return {"95 % low": ends.low, "95 % high": ends.high}


def doubt_table(result: Result) -> Table:
    """Returns hP and hR as they are, without doubtful placements, and with all of these wrong."""
    rows: list[dict[str, Cell]] = []
    for held in result.heldout:
        doubt = held.doubt
        if doubt is None:
            continue
        row: dict[str, Cell] = {"template": template_name(held.name), "doubtful": doubt.n}
        row["share"] = doubt.n / held.scores.n
        for key in ("hp", "hr"):
            name = metric_name(key)
            of_images = PER_IMAGE[key] if held.unit else key
            row[name] = score_of(held.scores, of_images)
            row[f"{name} without"] = (doubt.without or {}).get(key)
            row[f"{name} if wrong"] = doubt.wrong.get(key)
        rows.append(row)
    note = (
        "Doubtful: the mapper's confidence, the probability that a placement is acceptable, is "
        f"below {DOUBTFUL:g}; of several answers, the majority vote comes out elsewhere without "
        "such answers."
    )
    return Table.from_records("doubtful", "Doubtful placements", rows, notes=[note])


def selective_table(result: Result) -> Table:
    """Returns the worth of each template's confidence: of its answers, and at each rank if known."""
    rows: list[dict[str, Cell]] = []
    for held in result.heldout:
        selective = held.selective
        if selective is None:
            continue
        name = template_name(held.name)
        row: dict[str, Cell] = {
            "template": name,
            "at": "answers",
            "of": held.scores.n,
            "calibration error": selective.calibration_error,
            "Brier score": selective.brier,
            "AURC": selective.aurc,
            "hAURC": None if selective.curve is None else selective.curve.area,
        }
        for coverage, risk in zip(COVERAGES, selective.risks, strict=True):
            row[f"risk at {100 * coverage:.0f} %"] = risk
        rows.append(row)
        for rank in selective.ranks:
            rows.append(
                {
                    "template": name,
                    "at": rank.rank,
                    "of": rank.n,
                    "calibration error": rank.calibration_error,
                    "Brier score": rank.brier,
                }
            )
    note = (
        "Risk: the mean of 1 - hP of the surest answers, and AURC its mean over all shares that "
        "are kept; of single answers, sure means that the mapper understood them. hAURC: the share "
        "of wrong nodes, over all coverages."
    )
    return Table.from_records("selective", "Confidence", rows, notes=[note])


def rank_table(result: Result) -> Table:
    """Returns precision and recall at each rank of each template, with counts and 95 % intervals."""
    rows: list[dict[str, Cell]] = []
    order: dict[str, int] = {}
    for held in result.heldout:
        for ranked in held.ranks:
            name = ranked.scores.rank
            order.setdefault(name, len(order))
            counts = {"precision": ranked.scores.n_predicted, "recall": ranked.scores.n_relevant}
            for kind, count in counts.items():
                share: Interval | None = getattr(ranked, kind)
                row: dict[str, Cell] = {"rank": name, "template": template_name(held.name)}
                row["share"] = kind
                row["value"] = None if share is None else share.estimate
                row |= _ends(share)
                rows.append(row | {"of": count})
    rows.sort(key=lambda row: order[str(row["rank"])])
    note = "Precision is of the answers that name the rank, recall of the images that have it."
    return Table.from_records("ranks", "Precision and recall at each rank", rows, notes=[note])
