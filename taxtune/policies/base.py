"""The protocol of policies, and the simplest: one question, one answer, one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from taxtune.models.base import Request
from taxtune.taxonomy import Taxonomy

__all__ = ["DIRECT", "Direct", "Places", "Policy"]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


class Places(NamedTuple):
    """Where a policy puts images.

    Attributes:
        nodes: Node numbers, shape (n,).
        off_tree: Which of them count as off the tree, shape (n,); their nodes then play no part.
        shares: How much of what was said supports the node, in [0, 1], shape (n,); None where a policy does not count.
    """

    nodes: IntArray
    off_tree: BoolArray
    shares: NDArray[np.float64] | None = None


class Policy(Protocol):
    """How an image is asked about, and how the answers make one place.

    Whoever asks makes requests of an image's prompts, places each answer by itself, and has the policy make one place
    of the answers' places. A policy is pure: the same answers give the same place.
    """

    @property
    def calls(self) -> int:
        """Answers that it takes to place an image, at least 1."""
        ...

    def requests(self, prompts: Sequence[str], image: Path, sha256: str) -> list[Request]:
        """Returns as many requests about an image (its file and SHA-256) as `calls`, from one or more prompts."""
        ...

    def place(self, taxonomy: Taxonomy, nodes: IntArray, off_tree: BoolArray) -> Places:
        """Returns the places of images.

        Args:
            taxonomy: The label tree.
            nodes: The node of each answer, shape (n, calls); -1 where the model refused to answer.
            off_tree: Which answers assert something that the tree lacks, shape (n, calls); their nodes are the root.
        """
        ...

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns everything that can change where an image goes, `kind` first."""
        ...


@dataclass(frozen=True)
class Direct:
    """One answer per image, placed as it is."""

    @property
    def calls(self) -> int:
        """One."""
        return 1

    def requests(self, prompts: Sequence[str], image: Path, sha256: str) -> list[Request]:
        """Returns the one request."""
        return [Request(prompts[0], image, sha256)]

    def place(self, taxonomy: Taxonomy, nodes: IntArray, off_tree: BoolArray) -> Places:
        """Returns the answers' own places."""
        return Places(nodes[:, 0], off_tree[:, 0])

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns the kind alone."""
        return {"kind": "direct"}


DIRECT = Direct()
