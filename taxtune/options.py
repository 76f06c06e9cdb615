"""Options that commands and studies share, each declared once, and the checks of their values.

An option that means something else in one command is declared there. Defaults stand in the
commands' signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from taxtune.errors import DataError


def opt(text: str, *names: str, shown: str | bool = True, **limits: Any) -> Any:
    """Returns an option of a command.

    Args:
        text: Its help.
        *names: Its names; the parameter's name with dashes where there are none.
        shown: What the help says of its default.
        **limits: Further arguments of `typer.Option`, such as min and max.
    """
    return typer.Option(*names, help=text, show_default=shown, **limits)


def taxonomy_option(more: str = "") -> Any:
    """Returns the option that names a taxonomy, with what a command has to add to its help."""
    return opt(f"{_TAXONOMY} {more}".rstrip(), "--taxonomy", "-t", metavar="TREE")


def measure_option(more: str) -> Any:
    """Returns the option that names measures, with what a command has to add to its help."""
    text = f"A measure (see `taxtune score measure --list`); may be repeated. {more}"
    return opt(text, "--measure", "-m", metavar="SPEC")


# -- the taxonomy ----------------------------------------------------------------------------------

_TAXONOMY = "The taxonomy file, or builtin:NAME for that of a built-in recipe."
TaxonomyOption = Annotated[str, taxonomy_option()]
TaxonomyArgument = Annotated[str, typer.Argument(metavar="TREE", help=_TAXONOMY)]
FormatOption = Annotated[str, opt("Format of the taxonomy (see `taxtune taxonomy check --help`).")]
FileFormatOption = Annotated[
    str,
    opt(
        "Format of the taxonomy: paths, edges, inat21-csv, inat21-json, nested-json, rdf or obo; "
        "auto detects it.",
    ),
]
RootOption = Annotated[
    str | None,
    opt(
        "Score on the part of the taxonomy below this node (a label or path), and on the whole "
        "as well.",
    ),
]
RootLabelOption = Annotated[
    str | None, opt("Label of the root, for formats without a root of their own.")
]
EnglishNamesOption = Annotated[
    bool, opt("Add the English names of Latin taxa that come with taxtune.", "--names/--no-names")
]

# -- files of answers ------------------------------------------------------------------------------

#: Takes the columns that the command needs.
ANSWERS_HELP = "CSV, XLSX, Parquet or JSONL with the {}; or a run as RUN, RUN:baseline or RUN:N."
AnswerColumnOption = Annotated[str, opt("Column with the answer.")]
TruthColumnOption = Annotated[str, opt("Column with the true node: a label, an alias or a path.")]
PlacementColumnOption = Annotated[
    str,
    opt("Column with the node of a prediction, read instead of the answer."),
]
IdColumnOption = Annotated[str, opt("Column that identifies the example.")]
QuestionColumnOption = Annotated[str, opt("Column with the question, which judges need.")]
InputOption = Annotated[
    str,
    opt(
        "text, csv, jsonl, json, xlsx or parquet; auto goes by the file's name and its content, "
        "and stdin is text.",
    ),
]
WhereOption = Annotated[
    list[str] | None,
    opt("Read only rows with this value; may be repeated.", "--where", metavar="COLUMN=VALUE"),
]
_GUESSES = "How a list of guesses becomes one answer"
GuessesOption = Annotated[str, opt(f"{_GUESSES}: first or join.")]
OtherGuessesOption = Annotated[str, opt(f"{_GUESSES} if --guess is not given: first or join.")]
OffTreeOption = Annotated[
    str,
    opt(
        "What to do with rows whose true label is not on the taxonomy: error or leave-out.",
    ),
]
MissingOption = Annotated[str, opt("What to do with rows without an answer: error or leave-out.")]
MissingKeptOption = Annotated[
    str,
    opt("What to do with rows without an answer: keep (and count), error or leave-out."),
]
MissingMeansOption = Annotated[
    Literal["error", "leave-out", "abstain"],
    opt("A row without an answer: error, failed call (leave-out) or abstain."),
]
#: What an `AnswerSchema` does with missing answers, by the value of `MissingMeansOption`.
MISSING_MEANS: dict[str, Any] = {"error": "error", "abstain": "keep", "leave-out": "leave-out"}
RowsOption = Annotated[
    str,
    opt(
        "What to do with examples that are not in every file: error, or common to leave them out "
        "and count them.",
    ),
]

# -- measures, mappers and models ------------------------------------------------------------------

SimilarityOption = Annotated[
    str,
    opt(
        "Similarity of the mapper: lexical, or sentence:MODEL or clip:MODEL (a name or a folder).",
    ),
]
PresetOption = Annotated[
    str,
    opt(
        "Settings of the mapper: default, or Algorithm 1 as printed (paper-listing) or told "
        "(paper-prose).",
    ),
]
ArbiterOption = Annotated[
    str | None,
    opt(
        "Chat model that reads answers that are not just a name: PROVIDER/MODEL, local:MODEL, or "
        "none.",
    ),
]
OffTreeAsOption = Annotated[
    str,
    opt(
        "Score of what the taxonomy lacks: child (a wrong child of the root) or root (hP 1, as "
        "in the paper).",
    ),
]
DeviceOption = Annotated[str, opt("Device for models on this machine: auto, cpu, cuda, ...")]
BatchSizeOption = Annotated[int, opt("Batch size of models on this machine.", min=1)]
ConcurrencyOption = Annotated[int, opt("Maximum number of concurrent API calls.", min=1)]
ApiBaseOption = Annotated[str | None, opt("Address of an OpenAI-compatible server for the judge.")]
CacheDirOption = Annotated[
    Path | None,
    opt(
        "Folder for cached replies and embeddings.",
        shown="the user's cache folder",
        file_okay=False,
    ),
]
FrequenciesOption = Annotated[
    str | None,
    opt(
        "How often nodes occur: a CSV with columns node and count, or targets (as the labels do).",
        shown="all leaves alike",
    ),
]
SmoothingOption = Annotated[
    float,
    opt(
        "Number of occurrences to add to every leaf when --frequencies is given.",
        min=0,
    ),
]

# -- chance and results ----------------------------------------------------------------------------

ResamplesOption = Annotated[int, opt("Number of bootstrap resamples.", min=1, max=1_000_000)]
SeedOption = Annotated[int, opt("Seed for the bootstrap and all other random draws.", min=0)]
ForceOption = Annotated[bool, opt("Overwrite files that are there.", "--force")]
OutOption = Annotated[
    Path | None, opt("Write report.html, tables, figures and study.json to this folder.")
]
AnswersOption = Annotated[
    Path | None,
    opt("File of the model's answers, which runs may share.", shown="answers.db beside the run"),
]
JsonOption = Annotated[bool, opt("Print one JSON object.", "--json")]
JsonRowsOption = Annotated[
    bool, opt("Print one JSON object with a record for each answer.", "--json")
]

# -- checks ----------------------------------------------------------------------------------------


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Returns NAME=VALUE arguments as a mapping.

    Raises:
        DataError: If one has no "=" or no name, or a name is given twice.
    """
    values: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DataError(f"{option} takes NAME=VALUE.", value=text)
        if name in values:
            raise DataError(f"{option} names {name!r} twice.", value=text)
        values[name] = value
    return values


def choice(value: str, allowed: Sequence[str], option: str) -> str:
    """Returns the value of an option with a fixed set of values.

    Raises:
        DataError: If the value is not one of them.
    """
    if value not in allowed:
        raise DataError(
            f"{option} has no such value.", value=value, remedy=f"Use {', '.join(allowed)}."
        )
    return value
