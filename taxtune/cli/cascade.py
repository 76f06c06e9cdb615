"""`taxtune calibrate SCORES --then RUN`: two thresholds with one guarantee, and their price list."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.cli.classifier_scores import guarantee, images_note
from taxtune.cli.printing import note_arbiter, print_json, refuse_existing
from taxtune.errors import TaxtuneError
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.classifier.cascade import Cascade, CascadeRun
    from taxtune.policies.cascade import PricePoint
    from taxtune.report.output import Table

__all__ = ["calibrate_cascade"]


def calibrate_cascade(
    work: CascadeRun,
    out: Path,
    budget: float | None,
    hr: float | None,
    *,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Calibrates scores and a run and prints their prices; in a dry run those that scores tell."""
    from taxtune.atomic import check_folder
    from taxtune.report.drawing import save_figure
    from taxtune.report.prices import draw_prices, share_table

    if dry_run:
        _publish(share_table(work), as_json=as_json)
        return
    for suffix in (out.suffix, ".png", ".svg"):
        refuse_existing(out.with_suffix(suffix), force=force)
    check_folder(out.parent)
    if budget is not None and work.call.usd is None:  # told before anything is paid
        raise TaxtuneError("What a call costs is not known.", remedy="Choose by the hR: --hr.")
    usual = work.cascade()
    note_arbiter(work.asker.mapper)
    cascade = usual.choose(budget=budget, hr=hr)
    cascade.write(out)
    save_figure(partial(draw_prices, cascade), out)
    if as_json:
        print_json({**asdict(cascade), "taxonomy": cascade.tree.digest})
    else:
        _print(cascade)
        if usual.place == 0:
            print("The model adds nothing at this promise: the scores alone are as good.")
    note(f"written to {out}, the picture to {out.with_suffix('.png')}")


def _publish(table: Table, *, as_json: bool = False) -> None:
    from taxtune.report.output import StudyReport, publish

    publish(StudyReport("calibrate", "", {}, (table,)), out=None, as_json=as_json)


def _print(cascade: Cascade) -> None:
    from taxtune.policies.risk import how_sure
    from taxtune.report.prices import price_table

    sure = how_sure(cascade.confidence_level)
    depth = "" if cascade.wanted is None else f", down to {cascade.wanted} alone"
    notes = [
        images_note(cascade),
        f"hR{depth}, and the share of the labels that are wrong, are of thresholds chosen on other images. "
        f"The risk is at most so for all rows together, {sure}.",
    ]
    _publish(price_table(cascade, notes))
    levels = [point.level for point in cascade.points]
    if cascade.place is None:
        print(guarantee(cascade, "", None, levels, more=", or a better template"))
        return
    point = cascade.chosen
    cost = f"asking about {100 * point.asked:.1f} % of the images and " if point.asked else ""
    chosen = replace(point.level, hr=point.hr)
    print(guarantee(cascade, _needs(point), chosen, levels, cost=cost))


def _needs(point: PricePoint) -> str:
    from taxtune.policies.cascade import ABOVE

    answers = f"{point.second or 0:.4g} of the model's answers"
    if point.first is None:
        return answers
    scores = f"{point.first:.4g} of the scores"
    if point.second is None:
        return scores
    if point.first < ABOVE:
        scores += f" to be done, else {ABOVE:g} of them"
    return f"{scores} or {answers}"
