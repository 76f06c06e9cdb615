"""The report of a run: one HTML file with its outcome, prompts, scores, confusions, account and images.

A section is a function of a result that returns the values of its partial template
`templates/sections/NAME.html.j2`, its `title` among them, or None if there is nothing to show. The
one script of a page, `templates/report.js`, only filters the images: without it everything is shown.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Any

from taxtune import atomic
from taxtune.errors import DataError
from taxtune.metrics.names import metric_name
from taxtune.metrics.outcomes import EXACT, GENERAL, LABELS_WRONG, OFF_TREE, UNTRUE, WRONG
from taxtune.progress import track
from taxtune.report import gallery
from taxtune.report.drawing import inline_svg, save_figure
from taxtune.report.figures import draw_plane
from taxtune.report.formatting import (
    Result,
    anchor,
    failed_calls,
    longest_answer,
    number,
    result_runs,
    role_of,
    rows_by_image,
    score_of,
    share_wrong,
    signed,
    spread_wrong,
    title,
)
from taxtune.report.output import page
from taxtune.report.summary import account_lines, summarise
from taxtune.report.tables import (
    candidate_table,
    choose_command,
    doubt_table,
    rank_table,
    score_table,
    selective_table,
)
from taxtune.tuning.records import IterationRecord, SampleResult, cut_in_words, outcomes_of

__all__ = ["ReportCallback", "render_report", "save_report", "write_report"]

#: What the scores are, in half a sentence.
_EXPLAINED = {
    "hp": "how much of what the answers say is true",
    "hr": "how much of what is true the answers say",
}
#: A sign for each state of an answer, so that none is told by its colour alone, and its class in
#: the page.
_SIGNS = {
    WRONG: ("✕", "worse"),
    OFF_TREE: ("✕", "worse"),
    GENERAL: ("✓", "better"),
    EXACT: ("✓", "better"),
}
_PICTURE = "data:image/jpeg;"  # how the page has one
_SIDE = 320  # pixels of the first screen's image


def write_report(result: Result, folder: str | Path) -> Path:
    """Writes `report.html` and its picture (`hp_hr`, as PNG and SVG) into a folder.

    Args:
        result: A tuning run, or several compared.
        folder: Where to write.

    Returns:
        The report's path.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    folder = Path(folder)
    _, plane = save_figure(lambda: draw_plane(result), folder / "hp_hr")
    return atomic.write_text(folder / "report.html", render_report(result, plane))


class ReportCallback:
    """Writes the report of a run, a comparison or an evaluation into its folder."""

    def on_result(self, result: Result) -> None:
        """Writes `report.html` and its picture."""
        with track("writing the report"):
            write_report(result, result.folder)


def save_report(result: Result, path: str | Path | None = None) -> Path:
    """Writes the report as one HTML file that needs no network and no other file.

    Args:
        result: A tuning run, or several compared.
        path: The file; None for `report.html` in the run's folder.

    Raises:
        TaxtuneError: If it cannot be written, or the page in the run's folder would lose pictures,
            whose image files are gone.
    """
    text = render_report(result)
    if path is not None:
        return atomic.write_text(Path(path), text)
    file = Path(result.folder) / "report.html"
    before = file.read_bytes().count(_PICTURE.encode()) if file.is_file() else 0
    lost = before - text.count(_PICTURE)
    if lost > 0:
        raise DataError(
            f"The page would lose {lost:,} of its {before:,} pictures: their image files are not "
            "where the run found them.",
            file=file,
            remedy="Put the images back, or write another page with --out.",
        )
    return atomic.write_text(file, text)


def render_report(result: Result, plane: Path | None = None) -> str:
    """Returns the report as HTML.

    Args:
        result: A tuning run, or several compared.
        plane: The SVG file of the hP-hR plane, if it is drawn already.
    """
    sections = {
        "templates": _templates(result, plane),
        "scores": _scores(result),
        "confusion": gallery.confused_pairs(result),
        "account": _account(result),
        "gallery": gallery.all_images(result),  # last, since it is as long as there are images
    }
    shown = {name: section for name, section in sections.items() if section is not None}
    first = _first_screen(result)
    return page("report.html.j2", title=title(result), first=first, sections=shown)


def _first_screen(result: Result) -> dict[str, Any] | None:
    """Returns the values of the first screen; None if nothing was asked about held-out images."""
    if not result.heldout:
        return None
    return {
        "summary": summarise(result),
        "example": _example(result),
        "subjects": {name: subject for subject, name in enumerate(result.contenders)},
        "signs": _SIGNS,
        "explained": _EXPLAINED,
        "number": number,
        "signed": signed,
        "labels_wrong": LABELS_WRONG,
        "share_wrong": share_wrong,
        "spread_wrong": spread_wrong,
        "candidate_table": candidate_table,
        "choose_command": choose_command,
    }


def backed_off(result: Result) -> list[SampleResult]:
    """Returns answers that are right and general where the baseline's are wrong.

    They are those of the first template that has any, the most specific first.
    """
    baseline = result.heldout_baseline
    if baseline is None:
        return []
    # The hP of the baseline's wrong answers.
    wrong = {row.example: row.hp or 0 for row in baseline.rows if row.state in UNTRUE}
    for held in result.heldout:
        rows = [row for row in held.rows if row.example in wrong and row.state == GENERAL]
        if rows:
            # Of those the ones first that the baseline all but knew.
            return sorted(rows, key=lambda row: (-(row.hr or 0), -wrong[row.example]))
    return []


def _example(result: Result) -> dict[str, Any] | None:
    """Returns an image on which a template backed off rightly, with the answers of all templates.

    It is the first that has a picture; None if there is no such image.
    """
    rows = backed_off(result)
    if not rows:
        return None
    shown = rows[0]
    picture = None
    files = result.provenance.images
    for row in rows:
        file = files.get(row.example)
        picture = None if file is None else gallery.thumbnail(Path(file), _SIDE)
        if picture is not None:
            shown = row
            break
    answers = rows_by_image(result.heldout)[shown.example]
    return {"truth": shown.truth.split("/"), "picture": picture, "answers": answers}


def _scores(result: Result) -> dict[str, Any] | None:
    if not result.heldout:
        return None
    first = result.heldout[0]
    tables = [score_table(result), doubt_table(result), selective_table(result), rank_table(result)]
    return {
        "title": f"{first.split.capitalize()} scores",
        "tables": [table for table in tables if table.rows],
        "off_tree_as": first.off_tree_as,
    }


def _templates(result: Result, plane: Path | None) -> dict[str, Any]:
    """Returns the plane of all templates, and the prompts that its marks lead to."""
    from markupsafe import Markup

    runs = result_runs(result)
    limit = longest_answer(result)
    prompts = []
    links = {}
    for run in runs:
        for record in run.iterations:
            target = anchor(result, run, record.iteration)
            text = record.prompt or record.template or ""
            links[target] = f"Iteration {record.iteration}: {shorten(text, 120)}"
            prompts.append(
                {
                    "anchor": target,
                    "run": None if run is result else metric_name(run.objective),
                    "iteration": record.iteration,
                    "role": role_of(run, record.iteration),
                    "outcomes": outcomes_of(record.rows),
                    "scores": _tuning_scores(record),
                    "remarks": _remarks(record, limit),
                    "text": text,
                }
            )
    return {
        "title": "All prompts that were tried" if prompts else "hP and hR",
        # Our own drawing: texts are paths, and the names of links are escaped.
        "plane": Markup(inline_svg(lambda: draw_plane(result), "plane", plane, links)),
        "prompts": prompts,
        "trivial": [(number(run.trivial_hp), number(run.trivial_hr)) for run in runs[:1]],
        "split": result.split,
    }


def _tuning_scores(record: IterationRecord) -> dict[str, str]:
    """Returns the scores on the tuning images, by the names that they are shown by."""
    if record.scores is None:
        return {}
    keys = dict.fromkeys(("hp", "hr", "hf", "accuracy", *record.scores.measures))
    return {metric_name(key): number(score_of(record.scores, key)) for key in keys}


def _remarks(record: IterationRecord, limit: int | None) -> list[str]:
    """Returns further facts of an iteration; `limit` is the longest answer in tokens."""
    remarks = []
    if not record.feasible and not record.cut_short:
        remarks.append("on average below what is held")
    cut = cut_in_words(record.rows, limit)
    if cut:
        remarks.append(cut)
    if record.reason is not None:
        remarks.append(f"{record.state}: {record.reason}")
    if record.missing:
        remarks.append(f"{record.missing} without an answer")
    return remarks


def _account(result: Result) -> dict[str, Any]:
    calls = dict(account_lines(result.usage))
    failed = failed_calls(result)
    if failed is not None:
        calls["failed, those made again included"] = failed
    facts = {"Calls": calls, **result.provenance.facts}
    facts.pop("Effort", None)  # the account of the time when the run was finished
    return {"title": "Account", "facts": facts, "provenance": result.provenance}
