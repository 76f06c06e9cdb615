"""Which measures of text follow hP and hR: paper 1, §5, Table 1 and Figure 8."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.correlation.settings import CorrelationSettings

__all__ = ["CorrelationSettings", "run"]


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
