"""A model of an API that is asked through its provider's batches: at half the price, within a day."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from filelock import FileLock, Timeout
from pydantic import AwareDatetime, TypeAdapter, ValidationError

from taxtune.atomic import check_in_place, write_bytes
from taxtune.errors import BatchPendingError, DataError, ModelError
from taxtune.models.api import ApiModel, Completion
from taxtune.models.api_errors import classify, load_litellm
from taxtune.models.ask import answer_key
from taxtune.models.base import CallError, Failure, Fault, Model, Reply, Request
from taxtune.models.transport import OF_FILES, guarded, responder

__all__ = ["BatchModel", "in_batches"]

# Those of which litellm lists batches, and whose batches are as OpenAI's.
_PROVIDERS = ("openai", "azure", "hosted_vllm", "litellm_proxy")
# The most requests and bytes that OpenAI takes in a file.
_REQUESTS = 50_000
_BYTES = 200 * 10**6
_SECONDS = 600.0
_CHATS = "/v1/chat/completions"
_ENDED = ("completed", "failed", "expired", "cancelled")
_FAILED = 503  # the status of what may be asked again
_JSON = {"content-type": "application/json"}
_UNREAD = 200, {"choices": [{"message": {"content": "-"}}]}
_HELD = Failure("The reply is not there yet.", retryable=True)
_GO_ON = "The same command with --resume goes on; nothing is submitted twice."
_MISSING = (
    "Check `api_base` and the key: what {file} lists was submitted with them. If that is gone for "
    "good, delete the file. If the server has no batches, ask without --batch."
)


@dataclass(frozen=True)
class _Batch:
    """A batch that was submitted, or was about to be."""

    name: str  # which the provider keeps, too
    since: AwareDatetime
    keys: tuple[str, ...]  # of its requests
    id: str | None = None  # what the provider calls it, once that is known


_BATCHES = TypeAdapter(list[_Batch])


class BatchModel(ApiModel):
    """An API's model that answers in batches, whose answers a later process fetches.

    What is submitted is kept in a file until its answers are stored, so that it is paid once.
    Requests are what the live model sends, and replies what it makes of the same responses.

    Args:
        live: The model that answers at once.
        file: Where the batches are kept.
    """

    def __init__(self, live: ApiModel, file: Path) -> None:
        vars(self).update(vars(live))  # with what it has learned of its provider
        once = replace(live.settings.retry, max_retries=0)
        self.settings = replace(live.settings, retry=once)
        self.batch_size = sys.maxsize
        self._file = file
        self._alone = FileLock(f"{file}.lock")
        self._gives = True
        self._given: set[str] = set()

    def submitter(self) -> BatchModel:
        """Returns a model that submits, and gives failures in place of replies."""
        model = copy(self)
        model._gives = False
        return model

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) once all batches have ended; first submits what is in no batch.

        Raises:
            BatchPendingError: If some have not ended, or another process submits or fetches.
            ModelError: If the provider refuses, or is out of reach.
        """
        if not requests:
            return
        keys = [self._key_of(request) for request in requests]
        check_in_place(Path(self._alone.lock_file))
        try:
            with self._alone.acquire(timeout=0):
                self._look(set(keys))
                replies = list(super().stream(requests))
                self._submit()
        except Timeout:
            message = "Another process submits or fetches questions."
            raise BatchPendingError(message, file=self._file, remedy=_GO_ON) from None
        if waiting := [self._pending[key] for key in keys if key in self._pending]:
            since = min(batch.since for batch in waiting).astimezone()
            ids = ", ".join(sorted({str(batch.id) for batch in waiting}))
            verb = "question is" if len(waiting) == 1 else "questions are"
            message = f"{len(waiting):,} {verb} with the provider since"
            moment = f"{since:%Y-%m-%d %H:%M} (batch {ids})."
            remedy = "The same command with --resume fetches the answers, within a day."
            raise BatchPendingError(f"{message} {moment}", remedy=remedy)
        for place, reply in replies:
            yield place, reply if self._gives else _HELD
            if self._gives:
                self._given.add(keys[place])

    def forget(self) -> None:
        """Drops the requests from the file whose replies were given: the answers are stored."""
        if not self._given:
            return
        with self._alone:
            for batch in self._batches():
                kept = tuple(key for key in batch.keys if key not in self._given)
                self._put(replace(batch, keys=kept))

    def _answer_one(self, request: Request, stop: threading.Event) -> Reply:
        """Returns the reply in a batch's response; `_HELD` where there is none, to be submitted."""
        key = self._key_of(request)
        if key in self._pending:
            return _HELD
        response = self._responses.get(key)
        if response is not None:
            request = replace(request, image=None)
        status, told = response or _UNREAD
        content = httpx.ByteStream(json.dumps(told).encode())
        bodies: list[bytes] = []

        def respond(call: httpx.Request) -> httpx.Response:
            bodies.append(call.read())
            return httpx.Response(status, headers=_JSON, stream=content)

        token = responder.set(respond)
        try:
            reply = super()._answer_one(request, stop)
        finally:
            responder.reset(token)
        if response is not None or not bodies:  # without a body: its image cannot be read
            return reply
        line = {"custom_id": key, "method": "POST", "url": _CHATS, "body": json.loads(bodies[0])}
        self._hold(key, json.dumps(line).encode() + b"\n")
        return _HELD

    def _attempt(self, arguments: Mapping[str, Any]) -> tuple[Completion, CallError | None]:
        completion, problem = super()._attempt(arguments)
        live = self.price(completion.prompt_tokens, completion.completion_tokens)
        return replace(completion, cost_usd=None if live is None else live / 2), problem

    def _key_of(self, request: Request) -> str:
        # A parameter that is found to be refused makes no other request of it.
        identity = {name: value for name, value in self.identity.items() if name != "without"}
        return answer_key(identity, request)

    def _batches(self) -> list[_Batch]:
        try:
            return _BATCHES.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except ValidationError as error:
            message = "The record of what was submitted cannot be read."
            raise DataError(message, file=self._file, remedy="Restore it.") from error

    def _put(self, batch: _Batch) -> None:
        """Writes a batch to the file; one without requests is dropped."""
        batches = {one.name: one for one in self._batches()} | {batch.name: batch}
        kept = [one for one in batches.values() if one.keys]
        write_bytes(self._file, _BATCHES.dump_json(kept))

    def _look(self, keys: set[str]) -> None:
        """Finds out which requests have responses (status and body), and which are in a batch."""
        self._responses: dict[str, tuple[int, Any]] = {}
        self._pending: dict[str, _Batch] = {}
        self._held: list[str] = []
        self._lines = bytearray()
        batches = []
        for batch in self._batches():
            if keys.isdisjoint(batch.keys):
                continue
            found = self._found(batch)
            if found is None:  # a process ended before it was submitted
                self._put(replace(batch, keys=()))
            else:
                batches.append((batch, found))
        have_ended = all(found.status in _ENDED for _, found in batches)
        for batch, found in batches:
            if have_ended:
                self._responses |= self._read(batch, found)
            else:  # what has ended is read with the last
                batch = replace(batch, id=found.id)
                self._pending |= dict.fromkeys(batch.keys, batch)

    def _hold(self, key: str, line: bytes) -> None:
        """Adds a line to those that are submitted together."""
        with self._lock:
            if len(self._held) == _REQUESTS or len(self._lines) + len(line) > _BYTES:
                self._submit()
            self._held.append(key)
            self._lines += line

    def _submit(self) -> None:
        """Submits the lines that are held, if any."""
        if not self._held:
            return
        batch = _Batch(name=uuid4().hex, since=datetime.now(UTC), keys=tuple(self._held))
        # First, so that it is looked for where this process ends before it has the id.
        self._put(batch)
        questions = "questions.jsonl", bytes(self._lines)
        file = self._operate("create_file", file=questions, purpose="batch")
        made = self._operate(
            "create_batch",
            completion_window="24h",
            endpoint=_CHATS,
            input_file_id=file.id,
            metadata={"name": batch.name},
        )
        batch = replace(batch, id=made.id)
        self._put(batch)
        self._pending |= dict.fromkeys(self._held, batch)
        self._held.clear()
        self._lines.clear()

    def _found(self, batch: _Batch) -> Any:
        """Returns a batch as the provider knows it; None where it has none of the name."""
        if batch.id is not None:
            return self._operate("retrieve_batch", batch_id=batch.id)
        for one in self._operate("list_batches", limit=100):
            if (one.metadata or {}).get("name") == batch.name:
                return one
        return None

    def _read(self, batch: _Batch, found: Any) -> dict[str, tuple[int, Any]]:
        """Returns status and body for each request of a batch that has ended."""
        errors = getattr(found.errors, "data", None) or []
        words = ": ".join([f"the batch is {found.status}", *(str(one.message) for one in errors)])
        lost = _FAILED, {"error": {"message": words}}
        responses: dict[str, tuple[int, Any]] = dict.fromkeys(batch.keys, lost)
        for file in filter(None, (found.output_file_id, found.error_file_id)):
            content = self._operate("file_content", file_id=file, replies=len(batch.keys)).content
            for text in content.splitlines():
                with suppress(ValueError, TypeError, KeyError, AttributeError):
                    line = json.loads(text)
                    told = line["response"] or {}
                    reply = told.get("body") or {"error": line["error"]}
                    is_whole = told.get("status_code") == 200
                    responses[line["custom_id"]] = (200 if is_whole else _FAILED, reply)
        return responses

    def _operate(self, operation: str, *, replies: int = 1, **arguments: Any) -> Any:
        """Returns the result of a function of litellm on files or batches, or raises `ModelError`."""
        litellm = load_litellm()
        base = self.settings.api_base
        _, provider, key, address = litellm.get_llm_provider(self.model, api_base=base)
        arguments |= {"custom_llm_provider": provider, "api_base": base or address}
        arguments |= {"api_key": self._key() or key, "timeout": _SECONDS, "max_retries": 0}

        def call() -> Any:
            result = getattr(litellm, operation)(**arguments)
            return list(result) if operation == "list_batches" else result  # of all pages

        try:
            server = self._server()
            return guarded(call, server, _SECONDS, logprobs=True, extra={}, replies=replies)
        except Exception as error:
            problem = classify(error, self.settings.api_key)
            if problem.fault is Fault.NOT_FOUND:
                problem.remedy = _MISSING.format(file=self._file)
            problem.remedy = problem.remedy or _GO_ON
            raise self._fatal(problem) from None


def in_batches(model: Model, answers: Path | None, *, resume: bool = False) -> BatchModel:
    """Returns a model that is asked in batches, which are kept beside its answers.

    Raises:
        ModelError: If litellm has no batches of its provider.
        DataError: If no answers are kept, or it is to resume and nothing was submitted.
    """
    if answers is None:
        message = "Batches need a file that keeps answers."
        raise DataError(message, remedy="Give --out: they are kept beside it.")
    if not isinstance(model, ApiModel) or model._provider()[1] not in _PROVIDERS:
        raise ModelError(
            "The model cannot be asked in batches.",
            value=model.identity.get("model"),
            remedy=f"Ask without --batch; in batches answer {', '.join(_PROVIDERS)}.",
        )
    if find_spec(OF_FILES) is None:
        message = "Batches need a later version of litellm."
        raise ModelError(message, remedy="Install it: pip install --upgrade litellm")
    file = answers.with_name(f"{answers.stem}-batches.json")
    if resume and not file.exists():
        message = "Nothing was submitted here."
        raise DataError(message, file=file, remedy="Submit it first, with --batch.")
    return BatchModel(model, file)
