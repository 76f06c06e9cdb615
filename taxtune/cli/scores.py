"""`taxtune calibrate SCORES` and `taxtune classify CALIBRATION SCORES`: any classifier's scores with a guarantee."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from taxtune.errors import DataError
from taxtune.options import opt
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.classifier.scores import ScoreCalibration
    from taxtune.policies import ShareLevel
    from taxtune.report.output import Table
    from taxtune.tuning.calibrate import Calibration

__all__ = [
    "LabelColumnOption",
    "ScoreColumnOption",
    "TruthLabelsOption",
    "calibrate_file",
    "classify_file",
    "levels_table",
    "only_for",
    "some_levels",
]

LabelColumnOption = Annotated[str | None, opt("Column of the labels of scores.", shown="by its name and its values")]
ScoreColumnOption = Annotated[str | None, opt("Column of the scores, if they have one.", shown="by its name")]
TruthLabelsOption = Annotated[str | None, opt("Column of the labels of --truth.", shown="by its name and its values")]
_ROWS = 9  # of the table of shares, besides the chosen one
_COLUMNS = ("image", "placement", "rank", "confidence", "failure", "nodes")


def only_for(what: str, options: Mapping[str, object]) -> None:
    """Raises a DataError if an option is given that a command has for something else than it was given."""
    if given := [name for name, value in options.items() if value not in (None, False)]:
        raise DataError(f"{', '.join(given)}: only for {what}.", remedy="Leave it out.")


def levels_table(
    found: Calibration | ScoreCalibration, title: str, head: str, levels: Iterable[tuple[str, ShareLevel]]
) -> Table:
    """Returns a table of named levels, which marks what is kept and what was chosen."""
    from taxtune.report.output import Table

    limit = "expected" if found.confidence_level is None else f"with {100 * found.confidence_level:g} %"
    heads = (head, "share", "hP", "hR", "hR lost", "accuracy", "on the root", "1 - hP", f"at most, {limit}", "risk")
    rows = tuple(
        (
            name if level.share is not None else "always the root",
            *(level.share, level.hp, level.hr, level.hr - found.levels[-1].hr, level.accuracy, level.root),
            *(1 - level.hp, level.bound, ("chosen" if level is found.chosen else "kept") if level.kept else ""),
        )
        for name, level in levels
    )
    missing = f"; {found.missing:,} more had no answer and were left out" if found.missing else ""
    notes = (
        f"{found.images:,} images: {found.source}{missing}.",
        "hR lost: against the smallest share. hR on these images is a little high, since the share was chosen on them.",
    )
    return Table("calibration", title, heads, rows, notes=notes)


def some_levels(found: Calibration | ScoreCalibration) -> list[ShareLevel]:
    """Returns all levels if they are few, else about ten that differ, the chosen one and the next among them."""
    if len(found.levels) <= _ROWS:
        return [*found.levels]
    levels = [
        one
        for before, one in zip((None, *found.levels), found.levels, strict=False)
        if not before or one.hr > before.hr
    ]
    after = found.levels[found.levels.index(found.chosen) + 1 :][:1]
    step = (levels[-1].hr - levels[0].hr) / (_ROWS - 1)
    near = {id(min(levels, key=lambda one: abs(one.hr - levels[0].hr - i * step))) for i in range(_ROWS)}
    return [one for one in found.levels if id(one) in near or one is found.chosen or one in after]


def calibrate_file(
    scores: Path,
    taxonomy: str | None,
    truth: Path | None,
    out: Path,
    promise: tuple[float, float | None, str | None],
    columns: Mapping[str, str | None],
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Calibrates a file of scores for a risk, a confidence level and groups, writes that and prints what it says."""
    from taxtune.atomic import check_folder, write_json
    from taxtune.classifier.scores import calibrate_scores
    from taxtune.report.output import StudyReport, Table, publish

    if taxonomy is None or truth is None:
        remedy = "Add -t TREE and --truth LABELS, a table with the label of each image."
        raise DataError("Scores are calibrated on a tree, with labels.", file=scores, remedy=remedy)
    if out.exists() and not force:
        raise DataError("The file already exists.", file=out, remedy="Choose another name, or add --force.")
    check_folder(out.parent)
    risk, level, by = promise
    found = calibrate_scores(scores, taxonomy, truth, risk=risk, confidence_level=level, by=by, columns=columns)
    record = found.model_dump(mode="json")
    write_json(out, record, indent=None)
    if as_json:
        print(json.dumps({**record, "taxonomy": found.tree.digest}, ensure_ascii=False, indent=2))
    else:
        levels = (*(("share", level) for level in some_levels(found)), *found.compared.items())
        tables = [levels_table(found, "A node needs so much of the scores", "place", levels)]
        heads = ("group", "images", "share", "hP", "hR", "at most")
        groups = [
            (name or "all others", n, one.share, one.hp, one.hr, one.bound) for name, (n, one) in found.groups.items()
        ]
        if found.by is not None:
            text = f"Groups of fewer than {found.needed:,} images, by {found.by}, go with all others."
            tables.append(Table("groups", "Groups with a guarantee of their own", heads, tuple(groups), notes=(text,)))
        publish(StudyReport("calibrate", "", {}, tuple(tables)), out=None, as_json=False)
        print(_guarantee(found))
    note(f"written to {out}")


def _guarantee(found: ScoreCalibration) -> str:
    sure = found.confidence_level
    how = "in expectation" if sure is None else f"with a confidence of {sure:g}"
    if found.share is None:
        return f"Only always answering the root keeps the risk of {found.risk:g} {how}: it takes more images."
    each = "" if found.by is None else ", and so it is in each group with a guarantee of its own"
    return (
        f"A node needs {found.share:.4g} of the scores: on new images of the same kind the mean of 1 - hP is at most "
        f"{found.risk:g} {how}, for an hR of {found.chosen.hr:.3f}{each}."
    )


def classify_file(
    calibration: Path, scores: list[str], out: Path | None, truth: Path | None, columns: Mapping[str, str | None]
) -> None:
    """Labels images by their scores, and says how well where their labels are known."""
    import pandas as pd

    from taxtune.answers.classifier_scores import few, read_truth
    from taxtune.classifier.labels import csv_of, label_cells, write_labels
    from taxtune.classifier.scores import ScoreCalibration
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
    pairs = [(found.nodes[one.placement], known[one.image]) for one in labels if one.placement and one.image in known]
    if not pairs:
        raise DataError("No image that was labelled has a true label.", file=truth, value=few(known))
    if len(pairs) < len(labels):
        note(f"{len(labels) - len(pairs):,} of {len(labels):,} images have no scores or no true label")
    hp, hr = precision_recall(found.tree, *(list(nodes) for nodes in zip(*pairs, strict=True)))
    loss, error = 1 - hp.mean(), hp.std(ddof=1) / len(hp) ** 0.5 if len(hp) > 1 else 0.0
    said = "kept" if loss <= found.risk else "not kept"
    print(
        f"taxtune: {len(pairs):,} images with a true label: hP {hp.mean():.3f}, hR {hr.mean():.3f}; 1 - hP is "
        f"{loss:.4f} ± {error:.4f} on average, so that the risk of {found.risk:g} is {said} on these",
        file=sys.stderr,
    )
