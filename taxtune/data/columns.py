"""Which column of a table holds what: told by its name and its values, alike for all commands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from taxtune.errors import DataError
from taxtune.tables import column_key

__all__ = ["ANSWERS", "BOXES", "IMAGES", "LABELS", "TRUTHS", "find_column", "like_groups", "named"]

#: Usual names of columns of image files.
IMAGES = (
    "image",
    "file",
    "filename",
    "file_name",
    "filepath",
    "file_path",
    "path",
    "image_path",
    "img_path",
    "img",
)
#: Usual names of columns of boxes.
BOXES = ("box", "bbox", "bounding_box")
#: Usual names of columns of labels.
LABELS = (
    "label",
    "class",
    "class_name",
    "category",
    "species",
    "name",
    "target",
    "category_name",
    "scientific_name",
)
#: Usual names of columns of right labels; the first that there is counts.
TRUTHS = (
    "truth",
    "target",
    "gt",
    "ground_truth",
    "groundtruth",
    "gold",
    "correct",
    "y_true",
    "true_label",
    "gt_label",
    "correct_label",
    "expected",
    "label",
)
#: Usual names of columns of models' answers; the first that there is counts.
ANSWERS = (
    "prediction",
    "pred",
    "response",
    "output",
    "filtered_resps",
    "resps",
    "generated_text",
    "completion",
    "model_output",
    "model_answer",
    "model_response",
    "y_pred",
    "predicted_label",
    "reply",
    "answer",
)
# Usual names of columns of what several images may show.
_GROUPS = re.compile(
    "(burst|seq(uence)?|event|session|deployment|camera|individual|subject|patient|specimen|product)([_-]?(id|no|nr|num|number|code|key))?"
)


def named(columns: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Returns the columns that have one of the usual names, in the order of these."""
    return [name for known in usual for name in columns if column_key(name) == known]


def like_groups(columns: Iterable[str]) -> list[str]:
    """Returns the columns that are called as if their images belong together."""
    return [name for name in columns if _GROUPS.fullmatch(column_key(name))]


def find_column(
    what: str,
    asked: str | None,
    columns: Sequence[str],
    usual: Sequence[str],
    likely: Collection[str],
    file: str | Path,
) -> str:
    """Returns the column that was asked for; else one of a usual name; else the likely one.

    Args:
        what: What the column holds, such as "image". It also names the option --image-column.
        asked: The column that a user named.
        columns: All columns.
        usual: Usual names, of which the first tells alone.
        likely: The columns whose values fit.
        file: The file, for messages.

    Raises:
        DataError: If there is no such column, or it cannot be told which it is.
    """
    listed = f"There are {', '.join(map(repr, columns))}."
    if asked is not None:
        for name in (asked, column_key(asked)):
            if name in columns:
                return name
        message = f"There is no column {asked!r} with the {what}s."
        raise DataError(message, file=file, remedy=listed)
    known = named(columns, usual)
    wanted = [name for name in known if name in likely]
    if not wanted:
        wanted = list(likely) if len(likely) == 1 else known
    if wanted and (len(wanted) == 1 or column_key(wanted[0]) == usual[0]):
        return wanted[0]
    which = f"It may be {', '.join(map(repr, wanted))}." if wanted else listed
    remedy = f"{which} Name it with --{what}-column."
    raise DataError(f"It cannot be told which column holds the {what}s.", file=file, remedy=remedy)
