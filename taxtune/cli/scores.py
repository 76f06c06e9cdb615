"""`taxtune calibrate SCORES` and `taxtune classify CALIBRATION SCORES`: any classifier's scores with a guarantee."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from taxtune.errors import DataError
from taxtune.options import opt
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.classifier.scores import ScoreCalibration
    from taxtune.policies import ThresholdLevel
    from taxtune.report.output import Table
    from taxtune.tuning.calibrate import Calibration

__all__ = [
    "LabelColumnOption",
    "ScoreColumnOption",
    "TruthLabelsOption",
    "calibrate_file",
    "classify_file",
]
__all__ += ["guarantee", "levels_table", "only_for"]

LabelColumnOption = Annotated[
    str | None, opt("Column of the labels of scores.", shown="by its name and its values")
]
ScoreColumnOption = Annotated[
    str | None, opt("Column of the scores, if they have one.", shown="by its name")
]
TruthLabelsOption = Annotated[
    str | None, opt("Column of the labels of --truth.", shown="by its name and its values")
]
_ROWS = 9  # of the table of thresholds, besides the chosen one
_COLUMNS = ("image", "placement", "rank", "confidence", "failure", "nodes")


def only_for(what: str, options: Mapping[str, object]) -> None:
    """Raises a DataError if an option is given that a command has for something else than it was given."""
    if given := [name for name, value in options.items() if value not in (None, False)]:
        raise DataError(f"{', '.join(given)}: only for {what}.", remedy="Leave it out.")


def levels_table(
    found: Calibration | ScoreCalibration,
    title: str,
    head: str,
    needs: Callable[[ThresholdLevel], str],
) -> Table:
    """Returns a table of levels, about ten that differ, which marks what is kept and what was chosen."""
    from taxtune.report.output import Table

    some = [*found.levels]
    if len(some) > _ROWS:
        rising = [some[0], *(one for before, one in pairwise(some) if one.hr > before.hr)]
        step = (rising[-1].hr - rising[0].hr) / (_ROWS - 1)
        near = [
            min(rising, key=lambda one: abs(one.hr - rising[0].hr - i * step)) for i in range(_ROWS)
        ]
        at = some.index(found.chosen)
        some = [one for one in some if one in near or one in some[at : at + 2]]
    named = [("always the root" if one.threshold is None else needs(one), one) for one in some]
    named += getattr(found, "compared", {}).items()
    limit = (
        "expected" if found.confidence_level is None else f"with {100 * found.confidence_level:g} %"
    )
    heads = (
        head,
        "threshold",
        "hP",
        "hR",
        "hR lost",
        "accuracy",
        "on the root",
        "1 - hP",
        f"at most, {limit}",
        "risk",
    )
    rows = tuple(
        (
            *(
                name,
                one.threshold,
                one.hp,
                one.hr,
                one.hr - found.levels[-1].hr,
                one.accuracy,
                one.root,
            ),
            *(
                1 - one.hp,
                one.bound,
                ("chosen" if one is found.chosen else "kept") if one.kept else "",
            ),
        )
        for name, one in named
    )
    missing = f"; {found.missing:,} more had no answer and were left out" if found.missing else ""
    notes = (
        f"{found.images:,} images: {found.source}{missing}.",
        "hR lost: against the smallest threshold. hR on these images is a little high, since the threshold was "
        "chosen on them.",
    )
    return Table("calibration", title, heads, rows, notes=notes)


def guarantee(
    found: Calibration | ScoreCalibration,
    needs: str,
    *,
    cost: str = "",
    each: str = "",
    more: str = "",
) -> str:
    """Returns in a sentence what is guaranteed, at which cost, and what `more` may help where nothing is."""
    how = (
        "in expectation"
        if found.confidence_level is None
        else f"with a confidence of {found.confidence_level:g}"
    )
    if found.threshold is None:
        return f"Only always answering the root keeps the risk of {found.risk:g} {how}: it takes more images{more}."
    return (
        f"A node needs {needs}: on new images of the same kind the mean of 1 - hP is at most {found.risk:g} {how}, "
        f"for {cost}an hR of {found.chosen.hr:.3f}{each}."
    )


def calibrate_file(
    scores: Path,
    tree: str | None,
    truth: Path | None,
    out: Path,
    *,
    force: bool,
    as_json: bool,
    **promise: Any,
) -> None:
    """Calibrates a file of scores, writes that and prints what it says; `promise` is of `calibrate_scores`."""
    from taxtune.atomic import check_folder, write_json
    from taxtune.classifier.scores import calibrate_scores
    from taxtune.report.output import StudyReport, Table, publish

    if tree is None or truth is None:
        remedy = "Add -t TREE and --truth LABELS, a table with the label of each image."
        raise DataError("Scores are calibrated on a tree, with labels.", file=scores, remedy=remedy)
    if out.exists() and not force:
        raise DataError(
            "The file already exists.", file=out, remedy="Choose another name, or add --force."
        )
    check_folder(out.parent)
    found = calibrate_scores(scores, tree, truth, **promise)
    record = found.model_dump(mode="json")
    write_json(out, record, indent=None)
    if as_json:
        print(json.dumps({**record, "taxonomy": found.tree.digest}, ensure_ascii=False, indent=2))
    else:
        tables = [
            levels_table(
                found, "A node needs so much of the scores", "place", lambda _: "threshold"
            )
        ]
        each = ""
        if found.by is not None:
            heads = ("group", "images", "threshold", "hP", "hR", "at most")
            rows = [
                (name or "all others", n, a.threshold, a.hp, a.hr, a.bound)
                for name, (n, a) in found.groups.items()
            ]
            text = (
                f"Groups of fewer than {found.needed:,} images, by {found.by}, go with all others."
            )
            tables.append(
                Table(
                    "groups",
                    "Groups with a guarantee of their own",
                    heads,
                    tuple(rows),
                    notes=(text,),
                )
            )
            each = ", and so it is in each group with a guarantee of its own"
        publish(StudyReport("calibrate", "", {}, tuple(tables)), out=None, as_json=False)
        print(guarantee(found, f"{found.threshold or 0:.4g} of the scores", each=each))
    note(f"written to {out}")


def classify_file(
    calibration: Path,
    scores: list[str],
    out: Path | None,
    truth: Path | None,
    columns: Mapping[str, str | None],
) -> None:
    """Labels images by their scores, and says how well where their labels are known."""
    import pandas as pd

    from taxtune.answers.classifier_scores import few, read_truth
    from taxtune.classifier.labels import csv_of, label_cells, write_labels
    from taxtune.classifier.scores import ScoreCalibration
    from taxtune.data.names import match_names
    from taxtune.metrics.hierarchical import precision_recall

    found = ScoreCalibration.read(calibration)
    if len(scores) != 1:
        raise DataError("A calibration of scores labels one file of scores.", value=scores)
    known = {} if truth is None else read_truth(truth, found.tree, columns)
    labels = found.classify(Path(scores[0]), columns)
    frame = pd.DataFrame([label_cells(one) for one in labels], dtype=object)[[*_COLUMNS]]
    if out is None:
        print(csv_of(frame), end="")
    else:
        write_labels(frame, out)
        note(f"the labels are in {out}")
    if truth is None:
        return
    placed = {one.image: one.placement for one in labels if one.placement}
    pairs = [
        (found.nodes[placed[image]], known[other])
        for image, other in match_names(placed, known).items()
    ]
    if not pairs:
        raise DataError(
            "No image that was labelled has a true label.", file=truth, value=few(known)
        )
    if len(pairs) < len(labels):
        note(
            f"{len(labels) - len(pairs):,} of {len(labels):,} images have no scores or no true label"
        )
    hp, hr = precision_recall(found.tree, *(list(nodes) for nodes in zip(*pairs, strict=True)))
    loss, error = 1 - hp.mean(), hp.std(ddof=1) / len(hp) ** 0.5 if len(hp) > 1 else 0.0
    said = "kept" if loss <= found.risk else "not kept"
    print(
        f"taxtune: {len(pairs):,} images with a true label: hP {hp.mean():.3f}, hR {hr.mean():.3f}; 1 - hP is "
        f"{loss:.4f} ± {error:.4f} on average, so that the risk of {found.risk:g} is {said} on these",
        file=sys.stderr,
    )
