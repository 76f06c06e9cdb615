"""The options that commands share, each declared once, and the checks and notes that go with them.

An option that means something else in one command is declared there, with a text of its own. Defaults stand in the
commands' signatures, since they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.errors import DataError
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.models import Model

# -- the taxonomy -----------------------------------------------------------------------------------------------------

_TAXONOMY = "The taxonomy file, or builtin:NAME for that of a built-in recipe."


def _option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text)


def taxonomy_option(more: str = "") -> Any:
    """Returns the option that names a taxonomy.

    Args:
        more: What the command has to add to its help.
    """
    return typer.Option("--taxonomy", "-t", metavar="TREE", help=f"{_TAXONOMY} {more}".rstrip())


TaxonomyOption = Annotated[str, taxonomy_option()]
TaxonomyArgument = Annotated[str, typer.Argument(metavar="TREE", help=_TAXONOMY)]
_FORMAT = "Format of the taxonomy (listed in `taxtune taxonomy check --help`); auto detects it."
FormatOption = Annotated[str, _option("--format", "FORMAT", _FORMAT)]
# taxtune.taxonomy.FORMATS, which would load numpy for the help; a test compares the two.
_FORMATS = (
    "paths, edges, inat21-csv, inat21-json, nested-json, breadcrumbs, rdf, obo, darwin-core or taxdump; auto detects it"
)
FileFormatOption = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help=f"Format of the taxonomy: {_FORMATS}.")
]
_ROOT = (
    "Use only the part of the taxonomy below this node (a label or path), which becomes the root. Scores on the "
    "whole taxonomy are reported as well."
)
RootOption = Annotated[str | None, _option("--root", "NODE", _ROOT)]
PlaceRootOption = Annotated[
    str | None, _option("--root", "NODE", "Place on the part of the taxonomy below this node (a label or path).")
]
RootLabelOption = Annotated[
    str | None, _option("--root-label", "LABEL", "Label of the root, for formats without a root of their own.")
]
EnglishNamesOption = Annotated[
    bool, typer.Option("--names/--no-names", help="Add the English names of Latin taxa that come with taxtune.")
]

# -- files of answers -------------------------------------------------------------------------------------------------


#: Takes the columns that the command needs.
ANSWERS_HELP = (
    "CSV, XLSX, Parquet or JSONL with the {}; a run as RUN, RUN:baseline or RUN:N; or what lmms-eval, "
    "VLMEvalKit or inspect_ai logged."
)


AnswerColumnOption = Annotated[str, _option("--answer-column", "COLUMN", "Column with the answer.")]
TruthColumnOption = Annotated[
    str, _option("--truth-column", "COLUMN", "Column with the true node: a label, an alias or a path.")
]
PlacementColumnOption = Annotated[
    str, _option("--placement-column", "COLUMN", "Column with the node of a prediction, read instead of the answer.")
]
NodeColumnOption = Annotated[
    str, _option("--node-column", "COLUMN", "Column with the node: a label, an alias or a path.")
]
IdColumnOption = Annotated[str, _option("--id-column", "COLUMN", "Column that identifies the example.")]
QuestionColumnOption = Annotated[
    str, _option("--question-column", "COLUMN", "Column with the question, which judges need.")
]
InputOption = Annotated[
    str,
    typer.Option(
        "--input",
        help="text, csv, jsonl, json, xlsx, parquet, lmms-eval, vlmevalkit or inspect; auto goes by the file's name "
        "and its content, and stdin is text.",
    ),
]
WhereOption = Annotated[
    list[str] | None, _option("--where", "COLUMN=VALUE", "Read only rows with this value; may be repeated.")
]
_GUESSES = "How a list of guesses becomes one answer"
GuessesOption = Annotated[str, typer.Option("--guesses", metavar="WHAT", help=f"{_GUESSES}: first or join.")]
OtherGuessesOption = Annotated[
    str, typer.Option("--guesses", metavar="WHAT", help=f"{_GUESSES} if --guess is not given: first or join.")
]
_OFF_TREE = "What to do with rows whose true label is not on the taxonomy: error or leave-out."
OffTreeOption = Annotated[str, _option("--off-tree", "WHAT", _OFF_TREE)]
MissingOption = Annotated[
    str, _option("--missing", "WHAT", "What to do with rows without an answer: error or leave-out.")
]
MissingKeptOption = Annotated[
    str, _option("--missing", "WHAT", "What to do with rows without an answer: keep (and count), error or leave-out.")
]
_MISSING_MEANS = (
    "What a row without an answer means: error, leave-out (the call failed) or abstain (the model said nothing)."
)
MissingMeansOption = Annotated[str, _option("--missing", "WHAT", _MISSING_MEANS)]
NoNodeOption = Annotated[
    str, _option("--no-node", "WHAT", "What an empty node means: root (the answer names nothing), error or leave-out.")
]
_ROWS = "What to do with examples that are not in every file: error, or common to leave them out and count them."
RowsOption = Annotated[str, _option("--rows", "WHAT", _ROWS)]

# -- measures, mappers and models -------------------------------------------------------------------------------------


def measure_option(more: str) -> Any:
    """Returns the option that names measures.

    Args:
        more: What the command has to add to its help, such as which measures it takes by default.
    """
    text = "A measure (see `taxtune score measure --list`); may be repeated."
    return typer.Option("--measure", "-m", metavar="SPEC", help=f"{text} {more}")


_SIMILARITY = (
    "Similarity that the mapper uses: lexical, sentence:MODEL or clip:MODEL (a name, a folder or hf-hub:OWNER/MODEL)."
)
SimilarityOption = Annotated[str, _option("--similarity", "SPEC", _SIMILARITY)]
_PRESET = (
    "Settings of the mapper: default, or the paper's Algorithm 1: paper-listing as printed, paper-prose as its "
    "text describes it."
)
PresetOption = Annotated[str, _option("--preset", "NAME", _PRESET)]
_OFF_TREE_AS = (
    "How to score an answer that asserts something the taxonomy lacks: child (a wrong child of the root, hP 1/2) "
    "or root (hP 1, as the paper scores whatever is there; the paper's presets always do this)."
)
OffTreeAsOption = Annotated[str, _option("--off-tree-as", "WHAT", _OFF_TREE_AS)]
DeviceOption = Annotated[str, _option("--device", "DEVICE", "Device for models on this machine: auto, cpu, cuda, ...")]
BatchSizeOption = Annotated[int, typer.Option("--batch-size", min=1, help="Batch size of models on this machine.")]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", min=1, help="Maximum number of concurrent API calls.")]
ApiBaseOption = Annotated[
    str | None, _option("--api-base", "URL", "Address of an OpenAI-compatible server for the judge.")
]
CacheDirOption = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        metavar="FOLDER",
        file_okay=False,
        show_default="the user's cache folder",
        help="Folder for cached replies, scores and embeddings.",
    ),
]
ChunkerOption = Annotated[
    str, _option("--chunker", "NAME", "How the measure concept finds concepts: spacy, spacy:MODEL or rules.")
]

FrequenciesOption = Annotated[
    str | None,
    typer.Option(
        "--frequencies",
        metavar="FILE",
        show_default="all leaves equally likely",
        help="Node frequencies for the information-weighted scores: a CSV with the columns node and count, or "
        "`targets` to count the true labels.",
    ),
]
SmoothingOption = Annotated[
    float,
    typer.Option(
        "--smoothing",
        min=0,
        metavar="N",
        help="Number of occurrences to add to every leaf when --frequencies is given.",
    ),
]

# -- chance and results -----------------------------------------------------------------------------------------------

ResamplesOption = Annotated[
    int, typer.Option("--resamples", min=1, max=1_000_000, help="Number of bootstrap resamples.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed for the bootstrap and all other random draws.")]
OutOption = Annotated[
    Path | None, _option("--out", "FOLDER", "Write report.html, tables, figures and study.json to this folder.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonRowsOption = Annotated[bool, typer.Option("--json", help="Print one JSON object with a record for each answer.")]

# -- checks and notes -------------------------------------------------------------------------------------------------


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Returns NAME=VALUE arguments as a mapping.

    Raises:
        DataError: If one has no "=" or no name, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DataError(f"{option} takes NAME=VALUE.", value=text)
        if name in found:
            raise DataError(f"{option} names {name!r} twice.", value=text)
        found[name] = value
    return found


def choice(value: str, allowed: Sequence[str], option: str) -> str:
    """Returns the value of an option with a fixed set of values.

    Raises:
        DataError: If the value is not one of them.
    """
    if value not in allowed:
        raise DataError(f"{option} has no such value.", value=value, remedy=f"Use {', '.join(allowed)}.")
    return value


def text_model(
    name: str, max_tokens: int, *, api_base: str | None, device: str, batch_size: int, concurrency: int = 8
) -> Model:
    """Returns the chat model that an option names, with what it has to say printed as notes.

    Raises:
        TaxtuneError: If there is no such model, or it cannot be used.
    """
    from taxtune.models import ModelSettings, check_model, make_model

    settings = ModelSettings(
        task="text-generation",
        max_tokens=max_tokens,
        api_base=api_base,
        concurrency=concurrency,
        device=device,
        batch_size=batch_size,
    )
    model = make_model(name, settings)
    for said in check_model(model):
        note(said)
    return model


def missing_answers(means: str) -> dict[str, Any]:
    """Returns what an `AnswerSchema` says of answers that are missing, where `--missing` may say that they abstain.

    Raises:
        DataError: If it cannot be meant so.
    """
    known = {"error": "error", "abstain": "keep", "leave-out": "leave-out"}
    if means not in known:
        raise DataError("Unknown value for --missing.", value=means, remedy=f"Use {', '.join(known)}.")
    option = "--missing leave-out (the call failed) or --missing abstain (the model said nothing)"
    return {"missing": known[means], "missing_option": option}


def check_out(out: Path | None) -> None:
    """Checks that --out can be written to before anything long is done; nothing is left there.

    Raises:
        TaxtuneError: If it cannot.
    """
    if out is not None:
        from taxtune.atomic import check_folder

        check_folder(out)
