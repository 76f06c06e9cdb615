"""`taxtune study NAME`: the papers' experiments, one module each."""

from __future__ import annotations

import typer

from taxtune.cli.interrupts import stoppable
from taxtune.cli.studies.correlation import correlation
from taxtune.cli.studies.encoder import encoder
from taxtune.cli.studies.granularity import granularity
from taxtune.cli.studies.judge import judge
from taxtune.cli.studies.mapping import mapping
from taxtune.cli.studies.prompts import prompts
from taxtune.cli.studies.ranking import ranking
from taxtune.cli.studies.specificity import specificity

__all__ = ["study_app"]

study_app = typer.Typer(
    name="study",
    help="Run the papers' experiments on your data: tables, figures, JSON.",
    no_args_is_help=True,
)

for study in (correlation, encoder, granularity, judge, mapping, prompts, ranking, specificity):
    study_app.command()(stoppable(study))
