"""`taxtune study NAME`: the papers' experiments, one module each."""

from __future__ import annotations

import typer

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

study_app.command()(correlation)
study_app.command()(encoder)
study_app.command()(granularity)
study_app.command()(judge)
study_app.command()(mapping)
study_app.command()(prompts)
study_app.command()(ranking)
study_app.command()(specificity)
