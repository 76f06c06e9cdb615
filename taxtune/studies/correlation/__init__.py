"""Which measures of text follow hP and hR: paper 1, §5, Table 1 and Figure 8."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from taxtune.errors import DataError
from taxtune.options import EnglishNamesOption, SeedOption, measure_option
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, BatchSize, ModelSettings, TreeSettings

__all__ = ["CorrelationSettings", "run"]

_DEFAULT = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor")


@dataclass(frozen=True, kw_only=True)
class CorrelationSettings(ModelSettings, TreeSettings):
    """The pairs and measures: see `taxtune study correlation --help`.

    Raises:
        DataError: If a value is out of range, or the range of distances is empty.
    """

    root: Annotated[
        str | None, Option(metavar="NODE", help="Draw pairs below this node (a label or path), which becomes the root.")
    ] = None
    measure: Annotated[tuple[Any, ...], measure_option(f"Default: {', '.join(_DEFAULT)}."), NOT_RECORDED] = _DEFAULT
    pairs: Annotated[int, Option("-n", "--pairs", min=2, help="Number of pairs to draw for each of hP and hR.")] = (
        100_000
    )
    labels: Annotated[
        Literal["common", "canonical"], Option(help="Which name of a node to use: common (the first) or canonical.")
    ] = "common"
    nearest: Annotated[int, Option(min=0, help="Smallest distance in edges; 0 pairs leaves with themselves.")] = 1
    farthest: Annotated[int, Option(min=1, help="Largest distance of a pair, in edges.")] = 7
    draw: Annotated[
        Literal["nodes", "steps"],
        Option(help="How to draw a node for hP: uniformly among the nodes at the distance, or first the steps up."),
    ] = "nodes"
    names: EnglishNamesOption = True
    seed: SeedOption = 0
    batch_size: BatchSize = 64
    save_pairs: Annotated[
        Path | None, Option(metavar="FILE.csv", dir_okay=False, help="Write all pairs with their scores."), NOT_RECORDED
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.farthest < self.nearest:
            wrong = (self.nearest, self.farthest)
            raise DataError("The largest distance must be at least the smallest.", value=wrong)


def run(settings: CorrelationSettings) -> StudyReport:
    """Correlate measures of labels with hP and hR over drawn pairs of nodes (paper 1, Table 1 and Figure 8).

    The reference is a leaf's label, the answer that of a node 1 to 7 edges away (for hP) or of an ancestor (for hR).
    Prints Kendall's τ beside the paper's, with intervals and p-values; with --out also draws the figure.

    Raises:
        DataError: If a measure needs questions or images.
        TaxonomyError: If the taxonomy cannot be read, or a leaf has no node in the range of distances.
    """
    from taxtune.studies.correlation.study import correlation

    return correlation(settings)
