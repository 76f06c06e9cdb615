"""What other evaluation harnesses write, as records with the columns id, question, answer, truth and reference.

Known are, by their content:

- lmms-eval's `--log_samples` (JSON lines; `save_results_samples` in its `loggers/evaluation_tracker.py`, 0.7): the
  answer is `filtered_resps`, the id `doc_id`, the question `input`;
- VLMEvalKit's predictions (XLSX, TSV or JSON; `infer_data_job` in `vlmeval/inference.py`): the data set's own table
  with the column `prediction`; its column `answer` is the target;
- inspect_ai's logs (JSON, or `.eval`, which takes inspect_ai itself to read; `EvalLog` in `inspect_ai/log`).

All columns that the harness wrote stay, beside those above. A call that failed, as each of them marks it, has no
answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from taxtune.errors import DataError, MissingExtraError

__all__ = ["HARNESSES", "eval_samples", "harness_of", "harness_records"]

Record = dict[str, Any]

#: By the name of each harness's format, the columns that it is known by.
HARNESSES: Mapping[str, tuple[str, ...]] = {
    "lmms-eval": ("doc_id", "filtered_resps"),
    "vlmevalkit": ("index", "prediction"),
    "inspect": ("input", "output", "epoch"),
}
_NAMES = {"lmms-eval": "lmms-eval", "vlmevalkit": "VLMEvalKit", "inspect": "inspect_ai"}
_OWN = frozenset({"target", "truth", "predicted", "placement", "reference", "references"})
_FAILED = {"lmms-eval": "[LMMS_EVAL_REQUEST_FAILED", "vlmevalkit": "Failed to obtain answer"}


def harness_of(records: Iterable[Mapping[str, Any]]) -> str | None:
    """Returns the harness whose columns the first record has; None if there is none."""
    first = next((record for record in records if record), {})
    for name, columns in HARNESSES.items():
        # A table with one of these names its columns as taxtune does.
        own = name == "vlmevalkit" and not _OWN.isdisjoint(first)
        if all(column in first for column in columns) and not own:
            return name
    return None


def harness_records(
    harness: str, records: Sequence[tuple[int, Record]], file: str
) -> tuple[list[tuple[int, Record]], tuple[str, ...]]:
    """Returns the records of a harness with taxtune's columns beside its own, and what the user should know.

    Args:
        harness: One of `HARNESSES`.
        records: The row of each record, and the record.
        file: Their file, for messages.

    Raises:
        DataError: If a record is not as the harness writes it; it names the row.
    """
    convert = {"lmms-eval": _lmms_eval, "vlmevalkit": _vlmevalkit, "inspect": _inspect}[harness]
    found = []
    for row, record in records:
        if not record:
            continue
        lacking = [column for column in HARNESSES[harness] if column not in record]
        if lacking:
            raise DataError(
                f"The row lacks {lacking[0]!r}, which {_NAMES[harness]} writes.",
                file=file,
                row=row,
                value=sorted(record),
            )
        found.append((row, {**record, **convert(record, file, row)}))
    notes = [f"{file} is read as output of {_NAMES[harness]}"]
    several = sum(isinstance(record["reference"], list) for _, record in found)
    if several:
        notes.append(f"{file}: {several:,} of {len(found):,} rows have several targets; the first one is used")
    letters = sum(record.pop("_letters", False) for _, record in found)
    if letters:
        notes.append(
            f"{file}: {letters:,} of {len(found):,} rows name an option by its letter; the option's text is used"
        )
    return found, tuple(notes)


def _targets(value: object) -> Record:
    """Returns the truth, the first of several, and the reference, which is the list of them where it is one."""
    if isinstance(value, str) and value.startswith("["):
        try:
            listed = ast.literal_eval(value)  # lmms-eval writes str(target)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            listed = None
        value = listed if isinstance(listed, list) else value
    if isinstance(value, list):
        texts = [str(item) for item in value]
        return {"truth": texts[0] if texts else None, "reference": texts if len(texts) > 1 else "".join(texts) or None}
    text = None if value is None else str(value)
    return {"truth": text, "reference": text}


def _said(text: object, harness: str) -> object:
    return None if isinstance(text, str) and text.startswith(_FAILED[harness]) else text


def _lmms_eval(record: Mapping[str, Any], file: str, row: int) -> Record:
    # One response is written as itself by newer versions, as a list of one by older ones.
    said = record["filtered_resps"]
    while isinstance(said, list) and len(said) == 1:
        said = said[0]
    if isinstance(said, list) and not all(isinstance(item, str) for item in said):
        raise DataError(
            "The sample has likelihoods of given options but no answer.",
            file=file,
            row=row,
            value=said,
            remedy="Log a task whose output_type is generate_until.",
        )
    if isinstance(said, list):
        answer: object = [item for item in said if _said(item, "lmms-eval") is not None] or None
    else:
        answer = _said(said, "lmms-eval")
    question = record.get("input")
    return {
        "id": str(record["doc_id"]),
        "question": question if isinstance(question, str) else None,
        "answer": answer,
        **_targets(record.get("target")),
    }


def _vlmevalkit(record: Mapping[str, Any], file: str, row: int) -> Record:
    options = {name.upper(): text for name, text in record.items() if len(name) == 1 and isinstance(text, str)}
    said, truth = _said(record["prediction"], "vlmevalkit"), record.get("answer")
    letters = [isinstance(value, str) and value.strip() in options for value in (said, truth)]
    if letters[0]:
        said = options[str(said).strip()]
    if letters[1]:
        truth = options[str(truth).strip()]
    return {"id": str(record["index"]), "answer": said, **_targets(truth), "_letters": any(letters)}


def _inspect(record: Mapping[str, Any], file: str, row: int) -> Record:
    output = record["output"]
    choices = output.get("choices") if isinstance(output, Mapping) else None
    try:
        # A sample that failed has an error and no choices; one that answered nothing has an empty text.
        answer = None if record.get("error") or not choices else _text(choices[0]["message"]["content"])
        asked = record["input"] if isinstance(record["input"], str) else _text(record["input"][-1]["content"])
        images = [] if isinstance(record["input"], str) else _images(record["input"])
    except (KeyError, TypeError, IndexError) as error:
        raise DataError("This is not a sample from inspect_ai.", file=file, row=row, value=repr(error)) from None
    epoch = record["epoch"]
    metadata = record.get("metadata")
    return {
        **(metadata if isinstance(metadata, Mapping) else {}),
        "id": str(record["id"]) if epoch == 1 else f"{record['id']}, epoch {epoch}",
        "question": asked,
        # Images that the log holds itself are no files.
        "image": next((image for image in images if not image.startswith(("attachment:", "data:"))), None),
        "answer": answer,
        **_targets(record.get("target")),
    }


def _text(content: object) -> str:
    """Returns the text of a message: its content, or of a list of parts those that are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise TypeError(f"a message's content is text or a list of parts, not {content!r}")
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _images(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    return [str(part["image"]) for part in parts if part["type"] == "image"]


def eval_samples(path: Path) -> list[Record]:
    """Returns the samples of a binary log (`.eval`) of inspect_ai.

    Raises:
        MissingExtraError: If inspect_ai is not installed.
        DataError: If it cannot read the log.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise MissingExtraError("inspect_ai", "inspect", "Reading an .eval log") from None
    try:
        samples = read_eval_log(str(path)).samples or []
    except Exception as error:  # damage shows as whatever its readers of zip, zstd and JSON raise
        raise DataError("inspect_ai cannot read the log.", file=path, value=str(error)) from None
    return [sample.model_dump(mode="json") for sample in samples]
