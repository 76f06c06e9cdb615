"""What another prompt does to hP and hR (paper 1, §7.1, Figure 7) and to measures of text (paper 2, prompts)."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.prompts.settings import PromptsSettings

__all__ = ["PromptsSettings", "run"]


def run(settings: PromptsSettings) -> StudyReport:
    """Compare prompts in the hP-hR plane: arrows from a baseline prompt to others (paper 1, Figure 7).

    Prints hP, hR, hF and accuracy of every prompt with intervals, and the paired differences to the baseline; with
    --measure also measures of text and their gains (paper 2); with --out also draws the arrows and the gains.

    Raises:
        TaxtuneError: If files or folders of runs cannot be used, a model has a single prompt or lacks the baseline, a
            measure lacks what it needs, or no example was answered under both prompts.
    """
    from taxtune.studies.prompts.study import prompts

    return prompts(settings)
