"""`taxtune calibrate SCORES --then RUN`: two thresholds with one guarantee, and their price list."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.cli.classifier_scores import guarantee, images_note
from taxtune.cli.printing import note_arbiter, print_json, refuse_existing
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.classifier.cascade import Cascade, CascadeRun

__all__ = ["calibrate_cascade", "check_outputs", "print_shares"]

_PICTURES = (".png", ".svg")


def check_outputs(out: Path, *, force: bool) -> None:
    """Raises a `TaxtuneError` if the calibration, or its picture, cannot be written."""
    from taxtune.atomic import check_folder

    for file in (out, *map(out.with_suffix, _PICTURES)):
        refuse_existing(file, force=force)
    check_folder(out.parent)


def print_shares(work: CascadeRun) -> None:
    """Prints the cost of first thresholds, which scores tell."""
    from taxtune.report.output import StudyReport, publish
    from taxtune.report.prices import share_table

    publish(StudyReport("calibrate", "", {}, (share_table(work),)), out=None, as_json=False)


def calibrate_cascade(
    work: CascadeRun, out: Path, budget: float | None, hr: float | None, *, as_json: bool
) -> None:
    """Calibrates scores and a run, writes the calibration with its picture, and prints it."""
    from taxtune.report.drawing import save_figure
    from taxtune.report.prices import draw_prices

    usual = work.cascade()
    note_arbiter(work.asker.mapper)
    cascade = usual.choose(budget=budget, hr=hr)
    cascade.write(out)
    save_figure(partial(draw_prices, cascade), out)
    if as_json:
        print_json({**asdict(cascade), "taxonomy": cascade.tree.digest})
    else:
        _print(cascade, is_needless=usual.place == 0)
    note(f"written to {out}, the picture to {out.with_suffix('.png')}")


def _print(cascade: Cascade, *, is_needless: bool) -> None:
    from taxtune.policies.risk import how_sure
    from taxtune.report.output import StudyReport, publish
    from taxtune.report.prices import price_table

    sure = how_sure(cascade.confidence_level)
    notes = [
        images_note(cascade),
        "Thresholds that are chosen on other images give hR and the labels wrong. What the risk is "
        f"at most holds for all rows together, {sure}.",
    ]
    report = StudyReport("calibrate", "", {}, (price_table(cascade, notes),))
    publish(report, out=None, as_json=False)
    if is_needless:
        print("The model adds nothing at this promise: the scores alone are as good.")
    levels = [point.level for point in cascade.points]
    if cascade.place is None:
        print(guarantee(cascade, "", None, levels, more=", or a better template"))
        return
    point = cascade.chosen
    needs = {"of the scores": point.first, "of the model's answers": point.second}
    shares = [f"{share:.4g} {source}" for source, share in needs.items() if share is not None]
    cost = f"asking about {100 * point.asked:.1f} % of the images and "
    chosen = replace(point.level, hr=point.hr)
    print(guarantee(cascade, " or ".join(shares), chosen, levels, cost=cost))
