"""Labels beside the true ones, where these are known: counts, the share that is wrong, hP and hR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from taxtune.answers.classifier_scores import few
from taxtune.data.names import match_names
from taxtune.errors import DataError
from taxtune.metrics.outcomes import MISSING, Outcomes
from taxtune.metrics.statistics import Interval, bootstrap, hierarchical_sample
from taxtune.policies import RiskGuarantee
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy

__all__ = ["compare_labels", "match_truth"]


def match_truth(names: Iterable[str], known: Mapping[str, int], file: str | Path) -> dict[str, str]:
    """Returns for images, by name, the names under which their true labels are known.

    Raises:
        DataError: If none is known.
    """
    matches = match_names(names, known)
    if not matches:
        raise DataError(
            "None of the images has a true label.",
            file=file,
            value=few(known),
            remedy="Name the images in both files alike.",
        )
    return matches


def compare_labels(
    labels: Iterable[tuple[str, str | None, bool]],
    known: Mapping[str, int],
    tree: Taxonomy,
    file: Path,
    promise: RiskGuarantee | None = None,
) -> tuple[Outcomes, dict[str, Interval]]:
    """Compares labels with the true ones; notes how many images have none.

    Args:
        labels: For each image its name, the path of its node (None without an answer), and whether
            it counts as off the tree.
        known: The nodes of the true labels by the names of the images.
        tree: The label tree.
        file: The file of the true labels, for messages.
        promise: What was promised of them.

    Returns:
        What became of the images with a true label, and the scores ("hp", "hr") of those with an
        answer, with their 95 % intervals; of a promise, the "risk" as well, if it has a label.

    Raises:
        DataError: If no image with an answer has a true label.
    """
    given = {image: (path, off_tree) for image, path, off_tree in labels}
    matches = match_truth(given, known, file)
    numbers = {"/".join(tree.path(node)): node for node in range(len(tree))}
    nodes = []
    targets = []
    off_tree = []
    for image, name in matches.items():
        path, is_off = given[image]
        if path is not None:
            nodes.append(numbers[path])
            targets.append(known[name])
            off_tree.append(is_off)
    if not nodes:
        raise DataError("No image with a true label has an answer.", file=file)
    if len(matches) < len(given):
        lacking = len(given) - len(matches)
        note(f"{lacking:,} of {len(given):,} images have no true label")
    outcomes = Outcomes.of_nodes(tree, nodes, targets, off_tree)
    outcomes.counts[MISSING] = len(matches) - len(nodes)
    sample = hierarchical_sample(tree, nodes, targets, off_tree=np.array(off_tree))
    scores = bootstrap(sample)
    hp = scores["hp"]
    risk: Interval | None = Interval(1 - hp.estimate, 1 - hp.high, 1 - hp.low)
    if promise is not None and promise.promise == "labels":
        is_label = promise.is_label(tree)[nodes] & ~np.array(off_tree)
        placed, truths = np.array(nodes)[is_label], np.array(targets)[is_label]
        risk = Outcomes.of_nodes(tree, placed, truths).share_wrong
    if promise is not None and risk is not None:
        scores["risk"] = risk
    return outcomes, scores
