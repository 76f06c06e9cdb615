"""The answer store: every answer that a model gave, in a file or a database, so no request is asked twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from taxtune.models.base import Answer, Request, well_formed
from taxtune.store import Identity, Store, cache_folder

__all__ = ["AnswerStore", "Rates", "answer_key", "open_replies"]

# Part of every key; a change makes every stored answer a stranger.
_SCHEMA = 1


def answer_key(identity: Identity, request: Request) -> str:
    """Returns the key of an answer: a SHA-256, in hexadecimal, of everything that can change it."""
    what = {
        "schema": _SCHEMA,
        "vlm": _asked(identity, request),
        "prompt": request.prompt,
        "image": request.image_sha256 or "",
    }
    if request.sample:  # the first answer is the one that was stored before there were several
        what["sample"] = request.sample
    return hashlib.sha256(_canonical(what).encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Rates:
    """What an answer took, on average over some.

    Attributes:
        answers: Answers that this was measured on.
        tokens: Tokens an answer, read and written.
        usd: US dollars an answer; None where no price is known.
        seconds: Seconds an answer.
    """

    answers: int
    tokens: float
    usd: float | None
    seconds: float


class AnswerStore(Store[Request, Answer]):
    """Answers that were given, marked as cached when they are found; failures do not belong here."""

    table = "answers"
    columns: ClassVar[Mapping[str, str]] = {
        "key": "TEXT PRIMARY KEY NOT NULL",
        "model": "TEXT NOT NULL",
        "identity": "TEXT NOT NULL",
        "prompt_sha256": "TEXT NOT NULL",
        "prompt": "TEXT NOT NULL",
        "image_sha256": "TEXT NOT NULL",
        "answer": "TEXT NOT NULL",
        "prompt_tokens": "INTEGER NOT NULL",
        "completion_tokens": "INTEGER NOT NULL",
        "cost_usd": "REAL",
        "seconds": "REAL NOT NULL",
        "created": "TEXT NOT NULL",
    }
    version = 1
    precious = True

    def keys(self, identity: Identity, items: Sequence[Request]) -> list[str]:
        """Returns the key of each request."""
        return [answer_key(identity, request) for request in items]

    def row(self, identity: Identity, item: Request, value: Answer) -> tuple[Any, ...]:
        """Returns an answer with what a reader of the file wants to know of its request."""
        return (
            str(identity.get("model", "")),
            _canonical(_asked(identity, item)),
            hashlib.sha256(item.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
            well_formed(item.prompt),
            item.image_sha256 or "",
            well_formed(value.text),
            value.prompt_tokens,
            value.completion_tokens,
            value.cost_usd,
            value.seconds,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def value(self, row: Sequence[Any]) -> Answer:
        """Returns the answer of a row."""
        text, prompt_tokens, completion_tokens, cost_usd, seconds = row[5:10]
        return Answer(text, True, prompt_tokens, completion_tokens, cost_usd, seconds)

    def rates(self, identity: Identity) -> Rates | None:
        """Returns what the answers of a model about images took, whichever run asked; None where there are none.

        Raises:
            DataError: If the store cannot be read.
        """
        means = ", ".join(f"AVG({column})" for column in ("prompt_tokens", "completion_tokens", "cost_usd", "seconds"))
        rows: list[tuple[Any, ...]] = []
        with self._faults():
            rows = self._read(f"SELECT COUNT(*), {means} FROM {self.table} WHERE identity = ?", [_canonical(identity)])
        if not rows or not rows[0][0]:
            return None
        answers, read, written, usd, seconds = rows[0]
        return Rates(answers, (read or 0.0) + (written or 0.0), usd, seconds or 0.0)


def open_replies(folder: Path | None) -> AnswerStore:
    """Opens the store of what judges and chat models say.

    Args:
        folder: The folder that has it as `replies.db`; None is the user's cache folder.

    Raises:
        DataError: If it cannot be opened.
    """
    return AnswerStore(cache_folder(folder) / "replies.db")


def _asked(identity: Identity, request: Request) -> Identity:
    # A model that is asked with and without images must not give an answer of the one kind for one of the other.
    return identity if request.image is not None else {**identity, "asked": "text"}


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
