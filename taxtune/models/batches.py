"""A model of an API that is asked through its provider's batches: at half the price, within a day."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter, ValidationError

from taxtune.atomic import write_bytes
from taxtune.errors import BatchPendingError, DataError, ModelError
from taxtune.models.api import ApiModel, Completion
from taxtune.models.api_errors import classify, load_litellm
from taxtune.models.ask import answer_key
from taxtune.models.base import CallError, Failure, Model, Reply, Request
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


@dataclass(frozen=True)
class _Batch:
    """A batch that was submitted, or was about to be."""

    name: str  # a hash of its time and its requests, which the provider keeps, too
    since: datetime
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
        once = replace(live.settings.retry, max_retries=0)
        super().__init__(live.model, replace(live.settings, retry=once))
        self.refusals = live.refusals
        self.batch_size = sys.maxsize
        self._file = file
        self._gives = True
        self._given: set[str] = set()
        # Of the requests in batches: status and body, None where the batch has not ended.
        self._responses: dict[str, tuple[int, Any] | None] = {}
        self._lines: dict[str, bytes] = {}
        self._held = 0  # bytes

    def submitter(self) -> BatchModel:
        """Returns a model that submits, and gives no reply."""
        model = copy(self)
        model._gives = False
        return model

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Returns the price in a batch: litellm's where its list has one, else half the live one."""
        if super().price(prompt_tokens, completion_tokens) is None:
            return None
        litellm = load_litellm()
        usage = litellm.Usage(prompt_tokens, completion_tokens)
        return float(sum(litellm.cost_calculator.batch_cost_calculator(usage, self.model)))

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) of the batches that have ended, and submits what is in no batch.

        Raises:
            BatchPendingError: If some have not ended.
            ModelError: If the provider refuses, or is out of reach.
        """
        keys = [self._key_of(request) for request in requests]
        waiting = set(keys)
        self._responses = {}
        for batch in self._batches_of(waiting):
            self._responses |= dict.fromkeys(batch.keys) | self._fetch(batch)
        for place, reply in super().stream(requests):
            if self._gives and reply is not _HELD:
                yield place, reply
                waiting.remove(keys[place])
                self._given.add(keys[place])
        self._submit()
        if waiting:
            batches = self._batches_of(waiting)
            ids = ", ".join(str(batch.id) for batch in batches)
            since = min([batch.since for batch in batches], default=datetime.now(UTC))
            message = f"{len(waiting):,} questions are with the provider since"
            moment = f"{since.astimezone():%Y-%m-%d %H:%M} (batch {ids})."
            remedy = "The same command with --resume fetches the answers, within a day."
            raise BatchPendingError(f"{message} {moment}", remedy=remedy)

    def forget(self) -> None:
        """Drops the requests from the file whose replies were given: the answers are stored."""
        for batch in self._batches():
            kept = tuple(key for key in batch.keys if key not in self._given)
            if len(kept) < len(batch.keys):
                self._put(batch, keys=kept)

    def _answer_one(self, request: Request, stop: threading.Event) -> Reply:
        """Returns the reply in a batch's response; `_HELD` where there is none, to be submitted."""
        key = self._key_of(request)
        response = self._responses.get(key)
        if response is not None:
            request = replace(request, image=None)
        elif key in self._responses:
            return _HELD
        status, reply = response or _UNREAD
        content = httpx.ByteStream(json.dumps(reply).encode())
        bodies: list[bytes] = []

        def respond(call: httpx.Request) -> httpx.Response:
            bodies.append(call.read())
            return httpx.Response(status, headers=_JSON, stream=content)

        token = responder.set(respond)
        try:
            given = super()._answer_one(request, stop)
        finally:
            responder.reset(token)
        if response is not None or not bodies:  # without a body: its image cannot be read
            return given
        line = {"custom_id": key, "method": "POST", "url": _CHATS, "body": json.loads(bodies[0])}
        self._hold(key, json.dumps(line).encode() + b"\n")
        return _HELD

    def _attempt(self, arguments: Mapping[str, Any]) -> tuple[Completion, CallError | None]:
        completion, problem = super()._attempt(arguments)
        usd = self.price(completion.prompt_tokens, completion.completion_tokens)
        return replace(completion, cost_usd=usd), problem

    def _key_of(self, request: Request) -> str:
        # A parameter that is found to be refused makes no other request of it.
        identity = {name: value for name, value in self.identity.items() if name != "without"}
        return answer_key(identity, request)

    def _batches(self) -> list[_Batch]:
        try:
            return _BATCHES.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValidationError) as error:
            message = "The record of what was submitted cannot be read."
            raise DataError(message, file=self._file, remedy="Restore it.") from error

    def _put(self, batch: _Batch, **changes: Any) -> _Batch:
        """Writes and returns a batch with changes; one without requests is dropped."""
        changed = replace(batch, **changes)
        batches = {one.name: one for one in self._batches()} | {batch.name: changed}
        kept = [one for one in batches.values() if one.keys]
        write_bytes(self._file, _BATCHES.dump_json(kept))
        return changed

    def _batches_of(self, keys: Set[str]) -> list[_Batch]:
        """Returns the batches of requests, also those that no process has lived to note."""
        batches = []
        for batch in self._batches():
            if keys.isdisjoint(batch.keys):
                continue
            if batch.id is None:
                found = self._find(batch.name)
                batch = self._put(batch, id=found, keys=batch.keys if found else ())
            if batch.keys:
                batches.append(batch)
        return batches

    def _hold(self, key: str, line: bytes) -> None:
        """Adds a line to those that are submitted together."""
        with self._lock:
            if len(self._lines) == _REQUESTS or self._held + len(line) > _BYTES:
                self._submit()
            self._lines[key] = line
            self._held += len(line)

    def _submit(self) -> None:
        """Submits the lines that are held, if any."""
        if not self._lines:
            return
        since = datetime.now(UTC)
        name = sha256("".join([str(since), *self._lines]).encode()).hexdigest()
        content = b"".join(self._lines.values())
        # First, so that it is looked for where this process ends before it has the id.
        batch = self._put(_Batch(name=name, since=since, keys=tuple(self._lines)))
        file = self._operate("create_file", file=("questions.jsonl", content), purpose="batch")
        made = self._operate(
            "create_batch",
            completion_window="24h",
            endpoint=_CHATS,
            input_file_id=file.id,
            metadata={"name": name},
        )
        self._put(batch, id=made.id)
        self._lines = {}
        self._held = 0

    def _find(self, name: str) -> str | None:
        """Returns the provider's id of the batch of a name; None where it has none."""
        after = None
        while True:
            page = self._operate("list_batches", after=after, limit=100)
            for batch in page.data:
                if (batch.metadata or {}).get("name") == name:
                    return str(batch.id)
                after = batch.id
            if not page.data or not page.has_more:
                return None

    def _fetch(self, batch: _Batch) -> dict[str, tuple[int, Any]]:
        """Returns status and body for each request of a batch; nothing while it has not ended."""
        found = self._operate("retrieve_batch", batch_id=batch.id)
        if found.status not in _ENDED:
            return {}
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
        call = partial(
            getattr(litellm, operation),
            custom_llm_provider=provider,
            api_base=base or address,
            api_key=self._key() or key,
            timeout=_SECONDS,
            max_retries=0,
            **arguments,
        )
        try:
            server = self._server()
            return guarded(call, server, _SECONDS, logprobs=True, extra={}, replies=replies)
        except Exception as error:
            problem = classify(error, self.settings.api_key)
            if problem.fault.fatal:
                raise self._fatal(problem) from None
            remedy = "The same command with --resume goes on; nothing is submitted twice."
            raise ModelError(f"{self._sentence(problem)}.", remedy=remedy) from None


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
