"""Boxes and groups of photos: rows for boxes before they are asked about, one label for each after."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from taxtune.classifier.classifier import BOX
from taxtune.classifier.labels import FAILURE, FILE
from taxtune.data.boxes import Boxes
from taxtune.data.grouping import BURST, FOLDER, find_bursts
from taxtune.policies.paths import weighted_paths
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GROUP", "PHOTO", "join_labels", "list_boxes", "list_groups"]

#: The columns of the photos that boxes are in, and of groups that are in no column of a table.
PHOTO = "photo"
GROUP = "group"
#: More than half of the evidence: two animals of two kinds are neither.
_MAJORITY = 0.501


def list_boxes(listed: pd.DataFrame, boxes: Boxes | None) -> pd.DataFrame:
    """Returns a row for each box of photos, "1.jpg#2", and one for each photo without any.

    Args:
        listed: See `list_images`.
        boxes: Where the boxes are; None, or a column that is not there, for whole photos.

    Returns:
        `listed` with `PHOTO`, `BOX`, and `FAILURE`: why it is not known whether there is one. Of
        whole photos `listed` as it is.

    Raises:
        DataError: If a box cannot be used; it names all such boxes.
    """
    import pandas as pd

    if boxes is None:
        return listed
    own = [column for column in (boxes.column, BOX) if column in listed]
    if boxes.file is None and not own:
        note("the run was asked about boxes, and is now asked about whole photos: see --boxes")
        return listed
    photos = listed["image"].tolist()
    cells = listed[own[0]].tolist() if own else photos
    where = [f"image {i + 1}" for i in range(len(photos))]
    kept = listed.drop(columns=[*own, PHOTO], errors="ignore").to_dict("records")
    rows = []
    for row, found in zip(kept, boxes.find(photos, cells, where), strict=True):
        photo = {**row, PHOTO: row["image"], BOX: None, FAILURE: found.failure}
        named = [{"image": name, BOX: str(box)} for name, box in found.boxes.items()]
        rows += [photo | box for box in named or [{}]]
    return pd.DataFrame(rows, dtype=object)


def list_groups(listed: pd.DataFrame, group: str | None) -> pd.DataFrame:
    """Returns images with the column `GROUP`, where a run's groups are folders or bursts.

    Args:
        listed: See `list_images`.
        group: The run's `data.group`.
    """
    import pandas as pd

    if group == FOLDER:
        names = [PurePath(name).parent.as_posix() for name in listed["image"]]
    elif group == BURST:
        names = find_bursts(listed[FILE].tolist())
    else:
        return listed
    column = pd.Series(names, dtype=object)
    return listed.assign(group=column.replace("", None))


def join_labels(
    labels: pd.DataFrame, by: str, tree: Taxonomy, threshold: float | None = None
) -> pd.DataFrame:
    """Returns one label for all labels of a photo or a group: the deepest node of most evidence.

    Each answer is one vote, divided as it is among several answers or names. Where nothing was
    detected, it is the root.

    Args:
        labels: See `label_images`.
        by: The column of the photo or the group; what has none is left out.
        tree: The label tree.
        threshold: The share that the policy of the labels asks of a node, as the joined one does.

    Returns:
        The columns `by`, placement (None if nothing was answered), rank, share (the node's, of the
        evidence), labels (how many there are) and answered (how many of them have an answer).
    """
    import pandas as pd

    needed = max(_MAJORITY, threshold or 0.0)
    rows = []
    for name, own in labels.groupby(by, sort=False):
        row: dict[str, Any] = {by: name, "placement": None, "rank": None, "share": None}
        votes = [vote for answer in own["evidence"] for vote in answer]
        if votes:
            nodes, weights = zip(*votes, strict=True)
            paths = weighted_paths(tree, [nodes], [weights])
            (node,), (share,) = paths.at(paths.depths(needed))
            row["placement"] = "/".join(tree.path(node))
            row["rank"] = tree.ranks[node]
            row["share"] = round(float(share), 4)
        elif own["failure"].isna().any():
            row["placement"] = tree.labels[tree.root]
        row["labels"] = len(own)
        row["answered"] = int(own["evidence"].map(bool).sum())
        rows.append(row)
    return pd.DataFrame(rows, dtype=object)
