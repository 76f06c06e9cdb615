"""`taxtune calibrate SCORES` and `taxtune classify CALIBRATION SCORES`: scores with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.printing import print_json, refuse_existing, tell
from taxtune.errors import DataError
from taxtune.options import opt
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.classifier.cascade import Cascade
    from taxtune.classifier.scores import ScoreCalibration
    from taxtune.metrics.outcomes import Outcomes
    from taxtune.metrics.statistics import Interval
    from taxtune.policies import RiskGuarantee, ThresholdLevel
    from taxtune.policies.risk import CalibratedThreshold
    from taxtune.report.output import Cell, Table
    from taxtune.tuning.calibrate import Calibration

__all__ = [
    "ImageColumnOption",
    "LabelColumnOption",
    "ScoreColumnOption",
    "TruthLabelsOption",
    "calibrate_file",
    "classify_file",
    "columns_of",
    "guarantee",
    "images_note",
    "levels_table",
    "tell_truth",
]

ImageColumnOption = Annotated[
    str | None, opt("Column of the images in tables.", shown="by its name and its values")
]
LabelColumnOption = Annotated[
    str | None, opt("Column of the labels of scores.", shown="by its name and its values")
]
ScoreColumnOption = Annotated[
    str | None, opt("Column of the scores, if they have one.", shown="by its name")
]
TruthLabelsOption = Annotated[
    str | None, opt("Column of the labels of --truth.", shown="by its name and its values")
]
_SHARE = "labels wrong, %"
_MOST = "at most, %"
#: Rows of the table of thresholds, besides the chosen one.
_ROWS = 9
_COLUMNS = ("image", "placement", "rank", "confidence", "failure", "nodes")


def columns_of(context: typer.Context) -> dict[str, str | None]:
    """Returns the columns that the options of a command name; None for those to be told."""
    roles = ("image", "label", "score", "truth")
    return {role: context.params[f"{role}_column"] for role in roles}


# -- what a calibration says -----------------------------------------------------------------------


def levels_table(
    calibration: Calibration | ScoreCalibration,
    title: str,
    needs: Callable[[ThresholdLevel], str],
) -> Table:
    """Returns a table of about ten levels that differ, by what a node needs at each."""
    from taxtune.report.output import Table

    named = []
    for level in _shown_levels(calibration):
        named.append(("always the root" if level.threshold is None else needs(level), level))
    named += getattr(calibration, "compared", {}).items()
    rows: list[dict[str, Cell]] = []
    for name, level in named:
        outcomes = level.outcomes
        share = level.labels.share_wrong
        most = level.labels_bound
        verdict = "chosen" if level is calibration.chosen else "kept"
        rows.append(
            {
                "a node needs": name,
                "wrong": outcomes.wrong,
                "general": outcomes.general,
                "exact": outcomes.exact,
                _SHARE: None if share is None else 100 * share.estimate,
                _MOST: None if most is None else 100 * most,
                "hP": level.hp,
                "hR": level.hr,
                "risk at most": level.bound,
                "verdict": verdict if level.kept else "",
            }
        )
    notes = _notes(calibration)
    digits = {_SHARE: 1, _MOST: 1}
    return Table.from_records("calibration", title, rows, digits=digits, notes=notes)


def _notes(calibration: Calibration | ScoreCalibration) -> list[str]:
    """Returns the lines below the table: its images, its columns, more of the chosen level."""
    from taxtune.policies.risk import LABELS_CONFIDENCE, how_sure

    chosen = calibration.chosen
    unit = calibration.unit
    also = [f"{n:,} {name}" for name, n in chosen.outcomes.nothing.items()]
    once = ""
    if calibration.units != calibration.images:
        once = f" hP, hR and what is at most so are per {unit}."
        hp = f"hP {chosen.image_hp:.3f}"
        also.append(f"per image, without a promise, {hp} and hR {chosen.image_hr:.3f}")
    limit = how_sure(calibration.confidence_level)
    surely = how_sure(calibration.confidence_level or LABELS_CONFIDENCE)
    notes = [
        images_note(calibration),
        f"General: right, but general. The risk is the mean of 1 - hP on new images, {limit}. hR on "
        "these images is a little high, since the threshold was chosen on them.",
        f"At most, %: of new labels{calibration.least_rank} so many are wrong, {surely} for each "
        f"threshold on its own.{once}",
    ]
    if also:
        notes.append(f"At the chosen threshold: {'; '.join(also)}.")
    return notes


def images_note(calibration: CalibratedThreshold | Cascade) -> str:
    """Returns on how many images, and which, a calibration rests."""
    images = f"{calibration.images:,} images"
    if calibration.units != calibration.images:
        images += f" in {calibration.units:,} groups ({calibration.unit})"
    missing = ""
    if calibration.missing:
        missing = f"; {calibration.missing:,} more had no answer or no scores and were left out"
    return f"{images}: {calibration.source}{missing}."


def _shown_levels(calibration: Calibration | ScoreCalibration) -> list[ThresholdLevel]:
    """Returns the chosen level, the next one, and some whose hR are about evenly apart."""
    import numpy as np

    levels = list(calibration.levels)
    if len(levels) <= _ROWS:
        return levels
    rising = [levels[0]]
    rising += [level for before, level in pairwise(levels) if level.hr > before.hr]
    gains = np.array([level.hr - rising[0].hr for level in rising])
    step = gains[-1] / (_ROWS - 1)
    shown = [rising[np.abs(gains - i * step).argmin()] for i in range(_ROWS)]
    chosen = levels.index(calibration.chosen)
    shown += levels[chosen : chosen + 2]
    return [level for level in levels if level in shown]


def guarantee(
    calibration: CalibratedThreshold | Cascade,
    needs: str,
    chosen: ThresholdLevel | None,
    levels: Sequence[ThresholdLevel],
    *,
    cost: str = "",
    groups: str = "",
    more: str = "",
) -> str:
    """Returns the guarantee in a sentence, or what helps where there is none.

    Args:
        calibration: The calibration.
        needs: What a node needs.
        chosen: What was chosen; None or the root where nothing else is kept.
        levels: What else was tested.
        cost: The cost beside the lost hR.
        groups: What holds of groups.
        more: What may help beside more images.
    """
    from taxtune.metrics.outcomes import LABELS_WRONG
    from taxtune.policies.risk import how_sure
    from taxtune.report.formatting import wrong_labels

    if chosen is None or chosen.threshold is None:
        only = (
            f"Only always answering the root keeps the risk of {calibration.risk:g} "
            f"{how_sure(calibration.confidence_level)}: it takes more images{more}"
        )
        if calibration.promise == "hp":
            return f"{only}."
        what = "images" if calibration.unit == "image" else "groups"
        bounds = [level.labels_bound or 1.0 for level in levels]
        return (
            f"{only}, or a larger risk. At best {calibration.needed:,} {what} with labels"
            f"{calibration.least_rank} show it, none of them wrong; the least risk that any "
            f"threshold shows on these images is {min(bounds):.3g}."
        )
    wrong = wrong_labels(chosen.labels)
    return (
        f"A node needs {needs}: on new images of the same kind {calibration}, for {cost}an hR of "
        f"{chosen.hr:.3f}{groups}. On these images, "
        f"{LABELS_WRONG}{calibration.least_rank}: {wrong}."
    )


# -- files of scores -------------------------------------------------------------------------------


def calibrate_file(
    scores: Path,
    tree: str | None,
    truth: Path | None,
    out: Path,
    *,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Calibrates a file of scores, writes the calibration and prints it; see `calibrate_scores`."""
    from taxtune.atomic import check_folder, write_json
    from taxtune.classifier.scores import calibrate_scores

    if tree is None or truth is None:
        remedy = "Add -t TREE and --truth LABELS, a table with the label of each image."
        raise DataError("Scores are calibrated on a tree, with labels.", file=scores, remedy=remedy)
    refuse_existing(out, force=force)
    check_folder(out.parent)
    calibration = calibrate_scores(scores, tree, truth, **options)
    record = asdict(calibration)
    write_json(out, record, indent=None)
    if as_json:
        print_json({**record, "taxonomy": calibration.tree.digest})
    else:
        _print_calibration(calibration)
    note(f"written to {out}")


def _print_calibration(calibration: ScoreCalibration) -> None:
    from taxtune.report.output import StudyReport, publish

    title = "A node needs so much of the scores"
    tables = [levels_table(calibration, title, lambda level: f"{level.threshold:.3f}")]
    groups = ""
    if calibration.by is not None:
        tables.append(_groups_table(calibration))
        groups = ", and so it is in each group with a guarantee of its own"
    publish(StudyReport("calibrate", "", {}, tuple(tables)), out=None, as_json=False)
    needs = f"{calibration.threshold or 0:.4g} of the scores"
    print(guarantee(calibration, needs, calibration.chosen, calibration.levels[1:], groups=groups))


def _groups_table(calibration: ScoreCalibration) -> Table:
    from taxtune.report.output import Table

    rows: list[dict[str, Cell]] = []
    for name, (images, level) in calibration.groups.items():
        rows.append(
            {
                "group": name or "all others",
                "images": images,
                "threshold": level.threshold,
                "hP": level.hp,
                "hR": level.hr,
                "at most": level.bound,
            }
        )
    fewest = f"{calibration.needed:,} {calibration.unit}s, by {calibration.by}"
    note = f"Groups of fewer than {fewest}, go with all others."
    return Table.from_records("groups", "Groups with a guarantee of their own", rows, notes=[note])


def classify_file(
    file: Path,
    scores: list[str],
    out: Path | None,
    truth: Path | None,
    columns: Mapping[str, str | None],
    on_broken: str,
) -> None:
    """Labels images by their scores; if their labels are known, says whether the risk is kept."""
    import pandas as pd

    from taxtune.answers.classifier_scores import read_truth
    from taxtune.audit.watch import tell_broken
    from taxtune.classifier.labels import csv_of, label_cells, write_labels
    from taxtune.classifier.scores import ScoreCalibration
    from taxtune.classifier.truth import compare_labels

    calibration = ScoreCalibration.read(file)
    if len(scores) != 1:
        raise DataError("A calibration of scores labels one file of scores.", value=scores)
    known = {} if truth is None else read_truth(truth, calibration.tree, columns)
    broken, depth = tell_broken(file, on_broken)
    labels = calibration.classify(Path(scores[0]), columns)
    labels = [label.up_to(depth, calibration.tree) for label in labels]
    frame = pd.DataFrame([label_cells(label) for label in labels], dtype=object)[[*_COLUMNS]]
    if out is None:
        print(csv_of(frame), end="")
    else:
        write_labels(frame, out)
        note(f"the labels are in {out}")
    if truth is not None:
        rows = [(label.image, label.placement, label.off_tree) for label in labels]
        outcomes, means = compare_labels(rows, known, calibration.tree, truth, calibration)
        tell_truth(outcomes, means, calibration)
    if broken:
        tell(broken)


def tell_truth(
    outcomes: Outcomes, scores: Mapping[str, Interval], promise: RiskGuarantee | None
) -> None:
    """Prints how labels compare with the true ones, and whether what is promised is kept on them.

    It counts each image, whatever groups were counted for the promise.
    """
    from taxtune.metrics.outcomes import LABELS_WRONG
    from taxtune.report.formatting import interval, number, wrong_labels

    images = outcomes.images + outcomes.missing
    tell(
        f"{images:,} images with a true label: {outcomes.wrong:,} wrong, {outcomes.general:,} "
        f"right, but general, {outcomes.exact:,} exact, {outcomes.missing:,} without an answer"
    )
    if outcomes.nothing:
        tell("; ".join(f"{name}: {count:,}" for name, count in outcomes.nothing.items()))
    without = outcomes.images - outcomes.labels
    tell(f"{LABELS_WRONG}: {wrong_labels(outcomes)}; {without:,} answers give no label")
    hp, hr = scores["hp"], scores["hr"]
    tell(f"hP {number(hp.estimate)} ({interval(hp)}), hR {number(hr.estimate)} ({interval(hr)})")
    if promise is None or "risk" not in scores:
        return
    share = scores["risk"]
    what = "1 - hP"
    if promise.promise == "labels":
        what = f"the share of wrong labels{promise.least_rank}"
    verdict = "kept" if share.estimate <= promise.risk else "not kept"
    each = "" if promise.unit == "image" else f", per image and not per {promise.unit}"
    tell(
        f"{what} is {share.estimate:.4f} ({share.low:.4f} to {share.high:.4f}) on average, "
        f"so that the risk of {promise.risk:g} is {verdict} on these{each}"
    )
