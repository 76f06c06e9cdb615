"""Prompts that turn a label into text for an encoder: files of templates, one a line, whose embeddings are averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError
from taxtune.resources import prompts_dir
from taxtune.tables import read_text
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["LABEL_NAMES", "LabelPrompts", "label_texts", "read_label_prompts"]

_SLOT = "{label}"
#: Which of a node's names stands in a prompt.
LABEL_NAMES = ("common", "label")


@dataclass(frozen=True, slots=True)
class LabelPrompts:
    """Templates of prompts for labels.

    Attributes:
        name: The name of the set, or its file.
        templates: Texts in which `{label}` stands for the label; at least one.
    """

    name: str
    templates: tuple[str, ...]

    def texts(self, label: str) -> tuple[str, ...]:
        """Returns the prompts of a label."""
        return tuple(template.replace(_SLOT, label) for template in self.templates)

    def embed(
        self,
        encoder: TextEncoder,
        labels: Sequence[str],
        *,
        keep: bool = True,
        on_progress: Callable[[int], object] | None = None,
    ) -> FloatMatrix:
        """Returns a unit vector for each label: the normalised mean of the unit vectors of its prompts.

        Args:
            encoder: What embeds the prompts.
            labels: The labels; repeated ones are embedded once.
            keep: Whether the embeddings are kept on disk.
            on_progress: Called with 1 after each template.

        Returns:
            Shape (labels, dimensions).
        """
        distinct = list(dict.fromkeys(labels))
        total: FloatMatrix | None = None
        for template in self.templates:
            texts = [template.replace(_SLOT, label) for label in distinct]
            vectors = encoder.stored(texts) if keep else encoder.texts(texts)
            total = vectors.astype(np.float32) if total is None else total + vectors
            if on_progress is not None:
                on_progress(1)
        assert total is not None  # there is at least one template
        row = {label: i for i, label in enumerate(distinct)}
        return unit(total)[[row[label] for label in labels]]


def unit(vectors: FloatMatrix) -> FloatMatrix:
    """Returns the rows scaled to length 1; a row of zeros stays as it is."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0), dtype=np.float32)


def read_label_prompts(name: str) -> LabelPrompts:
    """Reads a set of templates.

    Args:
        name: "label", "photo" or "photos", which come with taxtune, or a text file: a template a line, with `{label}`
            where the label belongs; empty lines and lines that begin with # are passed over.

    Raises:
        DataError: If there is no such set or file, it holds no template, or a line lacks `{label}`.
    """
    own = prompts_dir() / "encoders"
    known = sorted(path.stem for path in own.glob("*.txt"))
    path = own / f"{name}.txt" if name in known else Path(name)
    if name not in known and not path.is_file():
        raise DataError(
            "There are no such prompt templates.", value=name, remedy=f"Take {', '.join(known)} or the name of a file."
        )
    templates: list[str] = []
    for row, line in enumerate(read_text(path, error=DataError, what="prompt template").splitlines(), start=1):
        template = line.strip()
        if not template or template.startswith("#"):
            continue
        if _SLOT not in template:
            raise DataError(f"The template has no {_SLOT}.", file=path, row=row, value=template, remedy="Put it in.")
        templates.append(template)
    if not templates:
        raise DataError("The file holds no prompt template.", file=path, remedy=f"Write one a line, with {_SLOT}.")
    return LabelPrompts(name, tuple(dict.fromkeys(templates)))


def label_texts(taxonomy: Taxonomy, names: str = "common") -> list[str]:
    """Returns the name of every node as it stands in a prompt; underscores become spaces.

    Args:
        taxonomy: The tree.
        names: "common" (the preferred common name where there is one) or "label".
    """
    chosen = taxonomy.labels if names == "label" else [taxonomy.common_name(i) for i in range(len(taxonomy))]
    return [" ".join(name.replace("_", " ").split()) or name for name in chosen]
