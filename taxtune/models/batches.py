"""A model of an API that is asked through its provider's batches: at half the price, within a day."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter, ValidationError

from taxtune.atomic import write_bytes
from taxtune.errors import BatchPendingError, DataError, ImageError, ModelError
from taxtune.models.api import ApiModel, Outcome
from taxtune.models.api_errors import classify, load_litellm
from taxtune.models.ask import answer_key
from taxtune.models.base import Failure, Model, Reply, Request
from taxtune.models.transport import guarded, responder

__all__ = ["BatchModel", "in_batches"]

# Those whose batches litellm lists, and whose batches are of OpenAI's chats.
_PROVIDERS = ("openai", "azure", "hosted_vllm", "litellm_proxy", "xai")
# The most requests and bytes that OpenAI takes in a file.
_REQUESTS = 50_000
_BYTES = 200 * 10**6
_SECONDS = 600.0
_JSON = {"content-type": "application/json"}
_CHATS = "/v1/chat/completions"
_ENDED = ("completed", "failed", "expired", "cancelled")


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

    Args:
        live: The model that answers at once; identity and requests are the same.
        file: Where the batches are kept.
    """

    def __init__(self, live: ApiModel, file: Path) -> None:
        super().__init__(live.model, live.settings)
        self.refusals = live.refusals
        self.batch_size = sys.maxsize
        self._file = file
        self._given: set[str] = set()

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Returns the price in a batch: litellm's where its list has one, else half the live one."""
        litellm = load_litellm()
        if super().price(prompt_tokens, completion_tokens) is None:
            return None
        usage = litellm.Usage(prompt_tokens, completion_tokens)
        return float(sum(litellm.cost_calculator.batch_cost_calculator(usage, self.model)))

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) of the batches that have ended, and submits what is in no batch.

        Raises:
            BatchPendingError: If some have not ended.
            ModelError: If the provider refuses, or is out of reach.
        """
        asked = {self._key_of(request): place for place, request in enumerate(requests)}
        for batch in self._batches_of(asked):
            for key, (status, body) in self._fetch(batch).items():
                if key in asked:
                    place = asked.pop(key)
                    yield place, self._read(requests[place], status, body)
                    self._given.add(key)
        failures = self.submit([requests[place] for place in asked.values()])
        for key, failure in failures.items():
            yield asked.pop(key), failure
        if asked:
            batches = self._batches_of(asked)
            ids = ", ".join(str(batch.id) for batch in batches)
            since = min(batch.since for batch in batches).astimezone()
            message = f"{len(asked):,} questions are with the provider since {since:%Y-%m-%d %H:%M}"
            remedy = "The same command with --resume fetches the answers, within a day."
            raise BatchPendingError(f"{message} (batch {ids}).", remedy=remedy)

    def submit(self, requests: Sequence[Request]) -> dict[str, Failure]:
        """Submits the requests that are in no batch, and returns why others cannot be, by key."""
        if not requests:
            return {}
        self._prepare(requests)
        new = {self._key_of(request): request for request in requests}
        for batch in self._batches_of(new):
            for key in batch.keys:
                new.pop(key, None)
        failures = {}
        lines: dict[str, bytes] = {}
        size = 0
        for key, request in new.items():
            try:
                line = self._line(key, request)
            except ImageError as error:
                failures[key] = Failure(str(error), retryable=False)
                continue
            if lines and (len(lines) == _REQUESTS or size + len(line) > _BYTES):
                self._submit(lines)
                lines = {}
                size = 0
            lines[key] = line
            size += len(line)
        if lines:
            self._submit(lines)
        return failures

    def forget(self) -> None:
        """Drops the requests from the file whose replies were given: the answers are stored."""
        for batch in self._batches():
            kept = tuple(key for key in batch.keys if key not in self._given)
            if len(kept) < len(batch.keys):
                self._put(batch, keys=kept)

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

    def _batches_of(self, asked: Mapping[str, object]) -> list[_Batch]:
        """Returns the batches of requests, also those that no process has lived to note."""
        batches = []
        for batch in self._batches():
            if asked.keys().isdisjoint(batch.keys):
                continue
            if batch.id is None:
                found = self._find(batch.name)
                batch = self._put(batch, id=found, keys=batch.keys if found else ())
            if batch.keys:
                batches.append(batch)
        return batches

    def _submit(self, lines: Mapping[str, bytes]) -> None:
        since = datetime.now(UTC)
        name = sha256("".join([str(since), *lines]).encode()).hexdigest()
        # First, so that it is looked for where this process ends before it has the id.
        batch = self._put(_Batch(name=name, since=since, keys=tuple(lines)))
        content = b"".join(lines.values())
        file = self._operate("create_file", file=("questions.jsonl", content), purpose="batch")
        made = self._operate(
            "create_batch",
            completion_window="24h",
            endpoint=_CHATS,
            input_file_id=file.id,
            metadata={"name": name},
        )
        self._put(batch, id=made.id)

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
        responses: dict[str, tuple[int, Any]] = dict.fromkeys(batch.keys, _lost(words))
        for file in filter(None, (found.output_file_id, found.error_file_id)):
            content = self._operate("file_content", file_id=file, replies=len(batch.keys)).content
            for text in content.splitlines():
                with suppress(ValueError, TypeError, KeyError):
                    line = json.loads(text)
                    told = line["response"]
                    response = (told["status_code"], told["body"]) if told else _lost(line["error"])
                    responses[line["custom_id"]] = response
        return responses

    def _operate(self, operation: str, *, replies: int = 1, **arguments: Any) -> Any:
        """Returns the result of one of litellm's functions on files and batches; may raise `ModelError`."""
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
            return guarded(call, self._server(), _SECONDS, replies=replies)
        except Exception as error:
            problem = classify(error, self.settings.api_key)
            if problem.fault.fatal:
                raise self._fatal(problem) from None
            remedy = "The same command with --resume goes on; nothing is submitted twice."
            raise ModelError(f"{self._sentence(problem)}.", remedy=remedy) from None

    def _line(self, key: str, request: Request) -> bytes:
        """Returns the line of a request, with the body of a live call."""
        _, body = self._exchange(request, 200, {"choices": [{"message": {"content": "-"}}]})
        line = {"custom_id": key, "method": "POST", "url": _CHATS, "body": json.loads(body)}
        return json.dumps(line).encode() + b"\n"

    def _read(self, request: Request, status: int, body: object) -> Reply:
        """Returns the reply in a response; a request that failed may be submitted again."""
        try:
            outcome, _ = self._exchange(replace(request, image=None), status, body)
        except ModelError as error:
            return Failure(str(error), retryable=True)
        completion = outcome.completion
        price = self.price(completion.prompt_tokens, completion.completion_tokens)
        outcome = outcome._replace(completion=replace(completion, cost_usd=price))
        reply = self._reply(request, outcome, seconds=0.0)
        if isinstance(reply, Failure) and status != 200:
            return replace(reply, retryable=True)
        return reply

    def _exchange(self, request: Request, status: int, reply: object) -> tuple[Outcome, bytes]:
        """Returns the outcome of a call with such a reply, and its body; nothing is sent."""
        bodies: list[bytes] = []
        content = httpx.ByteStream(json.dumps(reply).encode())

        def respond(call: httpx.Request) -> httpx.Response:
            bodies.append(call.read())
            return httpx.Response(status, headers=_JSON, stream=content)

        token = responder.set(respond)
        try:
            completion, problem = self._attempt(self._arguments(request))
        finally:
            responder.reset(token)
        return Outcome(completion, problem, attempts=1), bodies[-1]


def _lost(error: object) -> tuple[int, Any]:
    """Returns status and body for a request that a batch has not answered."""
    return 503, {"error": error if isinstance(error, dict) else {"message": str(error)}}


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
    file = answers.with_name(f"{answers.stem}-batches.json")
    if resume and not file.exists():
        message = "Nothing was submitted here."
        raise DataError(message, file=file, remedy="Submit it first, with --batch.")
    return BatchModel(model, file)
