"""The records of a file of answers, of a run of taxtune, or of another harness; their columns are read in `read`.

A function for each harness translates one record to the columns id, question, answer, truth and reference:

- lmms-eval's `--log_samples` (`save_results_samples` in its `loggers/evaluation_tracker.py`, 0.7);
- VLMEvalKit's predictions (`infer_data_job` in `vlmeval/inference.py`), whose column `answer` is the truth;
- inspect_ai's logs as JSON (`EvalLog` in `inspect_ai/log`).

All columns that the harness wrote stay. A call that failed, as each of them marks it, has no answer.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from taxtune.errors import DataError
from taxtune.tables import read_iterations, read_table

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]
#: A file, "-" or a run; or the records themselves.
Source: TypeAlias = "str | Path | pd.DataFrame | Iterable[Mapping[str, Any]]"
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)
_FAILED = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer")
# A table with one of these names its columns as taxtune does.
_OWN = frozenset({"target", "truth", "predicted", "placement", "reference", "references"})


class Records(NamedTuple):
    """The records of a file, for messages; the row of each and the record; and what the user should know."""

    file: str
    rows: list[tuple[int, Record]]
    notes: tuple[str, ...] = ()


def read_records(source: str | Path, *, what: str = "answers") -> list[tuple[int, Record]]:
    """The row and the record of each line of a file or run that is not blank, with its own columns alone.

    Raises:
        DataError: If it cannot be read or a row is no record; `what` says what the file holds.
    """
    return open_table(source, what=what, harnesses=False).rows


def open_table(
    source: Source, *, format: str = "auto", what: str = "answers", text: bool = False, harnesses: bool = True
) -> Records:
    """Reads the records of a source of `read_answers`.

    Args:
        source: The source.
        format: One of `FORMATS`; "auto" goes by the file's name and its content.
        what: What the file holds, for messages.
        text: Whether a file of an unknown ending is text with one answer per line, and not CSV or JSON.
        harnesses: Whether "auto" looks for other harnesses' columns.

    Raises:
        DataError: If it cannot be read or a row is no record.
        MissingExtraError: If it is XLSX and openpyxl is not installed.
    """
    if format not in FORMATS:
        raise DataError("Unknown input format.", value=format, remedy=f"Use {', '.join(FORMATS)}.")
    if not isinstance(source, str | Path):
        file, rows = "<records>", _given(source)
    elif (run := split_run(source)) is not None:
        return _run(*run)
    else:
        file = "<stdin>" if str(source) == "-" else str(source)
        if file.endswith(".eval"):
            remedy = "Give it as JSON: inspect log dump log.eval > log.json"
            raise DataError("This is a binary log of inspect_ai.", file=file, remedy=remedy)
        container = None if format == "auto" or format in HARNESSES else "jsonl" if format == "json" else format
        rows = read_table(source, container, what=what, other="text" if text else "csv")
    harness = format if format in HARNESSES else None
    if format == "auto" and harnesses:
        first = rows[0][1] if rows else {}
        known = (name for name, (columns, _) in HARNESSES.items() if all(column in first for column in columns))
        harness = next((name for name in known if name != "vlmevalkit" or _OWN.isdisjoint(first)), None)
    return Records(file, rows) if harness is None else _translated(harness, rows, file)


def _given(source: pd.DataFrame | Iterable[Mapping[str, Any]]) -> list[tuple[int, Record]]:
    if hasattr(source, "to_dict"):
        frame = cast("pd.DataFrame", source)
        # NaN is pandas' missing value, and no answer.
        source = cast("list[Record]", frame.astype(object).where(frame.notna(), None).to_dict("records"))
    return [(row, {**record}) for row, record in enumerate(source, start=1)]


def split_run(source: str | Path) -> tuple[Path, str | None] | None:
    """The folder and the evaluation that "RUN" or "RUN:EVALUATION" names; None if it names no folder."""
    path = Path(source)
    if path.is_dir():
        return path, None
    folder, colon, evaluation = str(source).rpartition(":")
    return (Path(folder), evaluation) if colon and not path.exists() and Path(folder).is_dir() else None


def run_evaluations(file: Path) -> dict[str, list[Any]]:
    """Returns the rows of each template on a run's held-out images, or of each iteration, from the file with them.

    Raises:
        DataError: If it is no `result.json` and no `history.jsonl` of a run.
    """
    if not file.exists():
        remedy = "Give a folder that taxtune tune or taxtune compare finished, or an iteration of one: RUN:0."
        raise DataError("The folder does not contain a taxtune run with such answers.", file=file, remedy=remedy)
    try:
        if file.suffix == ".jsonl":
            return {str(number): record["rows"] for number, record in read_iterations(file).items() if record["rows"]}
        return {str(entry["name"]): entry["rows"] for entry in json.loads(file.read_text("utf-8"))["heldout"]}
    except _BROKEN as error:
        raise DataError("This is not a taxtune record.", file=file, value=str(error)) from error


def _run(folder: Path, evaluation: str | None) -> Records:
    """The answers that a run recorded to one template.

    That is one on the held-out images, "winner" or "baseline", of a comparison an objective; or the number of an
    iteration on the tuning images. None is the winner, of a comparison that of its first objective.
    """
    is_iteration = evaluation is not None and evaluation.isdecimal()
    file = folder / ("history.jsonl" if is_iteration else "result.json")
    evaluations = run_evaluations(file)
    try:
        name = evaluation or next((key for key in evaluations if key != "baseline"), "winner")
        # Answers are placed again, and node numbers are those of the run's tree.
        rows = [
            {key: value for key, value in row.items() if key not in ("placement", "target")}
            | {"id": str(row["example"]), "reference": row["truth"].rpartition("/")[2], "answer": row["answer"]}
            for row in evaluations.get(name, ())
        ]
    except _BROKEN as error:
        raise DataError("This is not a taxtune record.", file=file, value=str(error)) from error
    if not rows:
        remedy = f"Use {', '.join(evaluations)}, or the number of an iteration."
        raise DataError("The run has no answers of this name.", file=file, value=name, remedy=remedy)
    split = f"iteration {name} on the tuning" if is_iteration else f"{name} on the held-out"
    note = f"{folder}: the answers are those of {split} images"
    return Records(str(file), list(enumerate(rows, start=1)), (note,))


# -- other harnesses ---------------------------------------------------------------------------------------------------


def _translated(harness: str, rows: list[tuple[int, Record]], file: str) -> Records:
    columns, convert = HARNESSES[harness]
    found = []
    for row, record in rows:
        try:
            found.append((row, {**record, **convert(record)}))
        except (KeyError, TypeError, IndexError, ValueError) as error:
            message = f"This is not a sample that {harness} wrote, with the columns {', '.join(columns)}."
            raise DataError(message, file=file, row=row, value=error) from None
    notes = [f"{file} is read as output of {harness}"]
    several = sum(isinstance(record["reference"], list) for _, record in found)
    if several:
        notes.append(f"{file}: {several:,} of {len(found):,} rows have several targets; the first one is used")
    return Records(file, found, tuple(notes))


def _truth(value: object) -> Record:
    """The truth, the first of several, and the reference, which is the list of them where it is one."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # a text with a bracket
            value = list(ast.literal_eval(value))  # lmms-eval writes str(target)
    if isinstance(value, list):
        texts = [str(item) for item in value]
        return {"truth": texts[0] if texts else None, "reference": texts if len(texts) > 1 else "".join(texts) or None}
    text = None if value is None else str(value)
    return {"truth": text, "reference": text}


def _answered(text: object) -> object:
    return None if isinstance(text, str) and text.startswith(_FAILED) else text


def _lmms_eval(record: Record) -> Record:
    answer = record["filtered_resps"]
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, list):
        if not all(isinstance(item, str) for item in answer):
            raise ValueError("likelihoods of given options and no answer; log a task of the type generate_until")
        answer = [item for item in answer if _answered(item) is not None] or None
    question = record.get("input") if isinstance(record.get("input"), str) else None
    own = {"id": str(record["doc_id"]), "question": question, "answer": _answered(answer)}
    return own | _truth(record.get("target"))


def _vlmevalkit(record: Record) -> Record:
    options = {name.upper(): text for name, text in record.items() if len(name) == 1 and isinstance(text, str)}
    answer, truth = (
        options.get(value.strip(), value) if isinstance(value, str) else value
        for value in (record["prediction"], record.get("answer"))
    )
    return {"id": str(record["index"]), "answer": _answered(answer)} | _truth(truth)


def _inspect(record: Record) -> Record:
    asked, epoch, output = record["input"], record["epoch"], record["output"]
    choices = output.get("choices") if isinstance(output, dict) else None
    return {
        **(record.get("metadata") or {}),
        "id": str(record["id"]) if epoch == 1 else f"{record['id']}, epoch {epoch}",
        "question": asked if isinstance(asked, str) else _message(asked[-1]["content"]),
        # A sample that failed has an error and no choices; one that answered nothing has an empty text.
        "answer": None if record.get("error") or not choices else _message(choices[0]["message"]["content"]),
    } | _truth(record.get("target"))


def _message(content: str | list[Record]) -> str:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


#: The columns that each harness is known by, and the function that translates a record of it.
HARNESSES = {
    "lmms-eval": (("doc_id", "filtered_resps"), _lmms_eval),
    "vlmevalkit": (("index", "prediction"), _vlmevalkit),
    "inspect": (("input", "output", "epoch"), _inspect),
}
#: What a file may be said to be; "auto" goes by its name and its content.
FORMATS = ("auto", "text", "csv", "jsonl", "json", "xlsx", "parquet", *HARNESSES)
