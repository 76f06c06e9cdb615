"""Models behind an API: any that litellm reaches, asked about images or text, one by one or in a conversation."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import ModuleType
from typing import Any

import tenacity

from taxtune.errors import ImageError, ModelError
from taxtune.models.api_errors import (
    CallError,
    MessageTooLongError,
    classify,
    load_litellm,
    without_credentials,
    without_secrets,
)
from taxtune.models.base import (
    Answer,
    Failure,
    Fault,
    Identity,
    ModelSettings,
    Reply,
    Request,
    count_fault,
)
from taxtune.models.functions import as_completed, bounded
from taxtune.models.image_urls import ENCODING, MAX_SIDE, ImageUrls, data_url
from taxtune.models.logprobs import read_outcomes
from taxtune.models.refusals import Refusals, refused
from taxtune.models.transport import guarded
from taxtune.progress import note
from taxtune.trust import ADDRESS_REMEDY, address_in, server_of
from taxtune.untrusted import well_formed

__all__ = ["ApiModel", "Completion", "NoAnswerError", "ToolCall"]

# Calls under way at a time where the settings say "auto".
_CALLS = 16
# Seconds between two notes that calls fail and are repeated.
_NOTES_EVERY = 15.0
# Why a completion ended, where it was at the longest that it may be.
_CUT = ("length", "max_tokens", "model_length")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a chat model asks for.

    Attributes:
        id: What the result is sent back under.
        name: The tool; it need not be one that was offered.
        arguments: The arguments as the model wrote them: JSON, unless it made a mistake.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply of a chat model, with tokens and cost over all attempts.

    Attributes:
        text: Its words, which may be none; half surrogate pairs, which no record could hold, are replaced.
        refusal: The provider's own mark of a refusal, or None.
        finish_reason: "stop", "length", "content_filter", ...; None where the provider gives none.
        tool_calls: The tools that it wants called, in order.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
        cost_usd: Cost in US dollars; None where litellm knows no price for the model.
        logprobs: Log-probabilities of its tokens, as litellm gives them, or None.
    """

    text: str
    refusal: str | None = None
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    logprobs: Any = field(default=None, repr=False, compare=False)

    @property
    def cut(self) -> bool | None:
        """Whether it was cut off at the longest reply; None where the provider does not tell."""
        return None if self.finish_reason is None else self.finish_reason in _CUT


class NoAnswerError(ModelError):
    """A model did not answer, after all attempts; it may later.

    Attributes:
        spent: What the attempts consumed; its text is empty.
    """

    def __init__(self, message: str, *, remedy: str, spent: Completion) -> None:
        super().__init__(message, remedy=remedy)
        self.spent = spent


class ApiModel:
    """A model behind an API, with several concurrent requests.

    Failed attempts are repeated as the settings' retry policy says and `Fault` allows. After the last attempt the reply
    is a failure. A refused key, an unknown model and an exhausted account end the work at once. Each failed attempt is
    counted (`count_faults`).

    Args:
        model: The model's name with its provider, as litellm writes it ("openai/gpt-4o").
        settings: How it is asked.
        role: What messages call it, such as "the proposer's model".
    """

    def __init__(
        self, model: str, settings: ModelSettings | None = None, *, role: str = "the model"
    ) -> None:
        self.model = model
        self.settings = settings or ModelSettings()
        #: Requests under way at a time.
        self.batch_size = (
            _CALLS if self.settings.concurrency == "auto" else self.settings.concurrency
        )
        self._images = ImageUrls()
        self._role = role
        self._api_base = without_credentials(self.settings.api_base)
        at = f" at {self._api_base}" if self._api_base else ""
        self._name = f"{role[0].upper()}{role[1:]} {model!r}{at}"
        #: Parameters that the model was found to refuse.
        self.refusals = Refusals()
        #: Alternatives to each token that are asked for: OpenAI gives 20 at most; where that is rejected 5, then none.
        self._alternatives = 20
        self._lock, self._noted = threading.Lock(), float("-inf")

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer, as far as this side of the API knows; never the key."""
        settings = self.settings
        temperature = None if settings.temperature is None else float(settings.temperature)
        identity: dict[str, Any] = {
            "kind": "api",
            "model": self.model,
            "api_base": self._api_base,
            "max_tokens": settings.max_tokens,
            "temperature": temperature,
            **self._seed(),
        }
        if settings.reasoning_effort is not None:
            identity["reasoning_effort"] = settings.reasoning_effort
        if settings.extra:
            identity["extra"] = json.dumps(dict(settings.extra), sort_keys=True)
        if self.refusals.names:
            identity["without"] = ", ".join(self.refusals.names)
        if (
            settings.task == "image-text-to-text"
        ):  # the constants are part of the keys of answers that are stored
            identity |= {"revision": None, "system_prompt": None}
            identity |= {"max_image_side": MAX_SIDE, "image_encoding": ENCODING}
        return identity

    @cached_property
    def _server(self) -> str | None:
        """Scheme, host and port of the server that is asked; None for the provider's own."""
        address = self._api_base or address_in(self.model)
        try:
            return None if address is None else server_of(address)
        except ValueError:
            message = f"The address of {self._role} is none."
            raise ModelError(message, value=address, remedy=ADDRESS_REMEDY) from None

    def _seed(self, sample: int = 0) -> dict[str, int]:
        """The seed that a provider is sent; none for the first answer at seed 0 or of greedy decoding."""
        seed = self.settings.seed if self.settings.temperature != 0 else 0
        # Any two pairs of a seed and a sample have different seeds; there are some hundred samples at most.
        seed = (seed * 1009 + sample) % 2**31 if sample else seed
        return {"seed": seed} if seed else {}

    def check(self) -> list[str]:
        """Checks, without calling the model, that litellm knows the provider and the key is there, or `ModelError`."""
        self._key(load_litellm())
        return []

    def gives_outcomes(self) -> bool:
        """Whether litellm's list says that the model tells alternatives to its tokens; only a reply shows it."""
        litellm = load_litellm()
        return self._knows(litellm, "logprobs", "top_logprobs")

    def _knows(self, litellm: ModuleType, *parameters: str) -> bool:
        """Whether litellm's list says that the model takes parameters."""
        model, provider, *_ = litellm.get_llm_provider(self.model, api_base=self.settings.api_base)
        known = litellm.get_supported_openai_params(model=model, custom_llm_provider=provider) or ()
        return set(parameters) <= set(known)

    @property
    def takes_images(self) -> bool:
        """Whether litellm's list does not deny it; a model that it lacks may take them."""
        litellm = load_litellm()
        model, provider, *_ = litellm.get_llm_provider(self.model, api_base=self.settings.api_base)
        known = not litellm.model_cost.keys().isdisjoint((self.model, model))
        return not known or bool(litellm.supports_vision(model=model, custom_llm_provider=provider))

    def count_image_tokens(self, side: int) -> int:
        """Returns about how many tokens a message with a square image of `side` pixels takes, by litellm's counter."""
        from PIL import Image

        image = {"url": data_url(Image.new("RGB", (side, side)), side), "detail": "high"}
        message = {"role": "user", "content": [{"type": "image_url", "image_url": image}]}
        return int(load_litellm().token_counter(model=self.model, messages=[message]))

    def count_tokens(self, text: str) -> int:
        """Returns the number of tokens of a text; an estimate where the model's tokenizer is not known."""
        try:
            return int(load_litellm().token_counter(model=self.model, text=text))
        except Exception:  # a tokenizer that cannot be had is no reason to stop
            return len(text) // 3 + 1

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Returns the price of a call in US dollars by litellm's list; None where the list lacks the model."""
        litellm = load_litellm()
        try:
            return float(sum(litellm.cost_per_token(self.model, prompt_tokens, completion_tokens)))
        except Exception:  # as `count_tokens`
            return None

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, in the same order and number; see `stream`."""
        replies = dict(self.stream(requests))
        return [replies[place] for place in range(len(requests))]

    def stream(self, requests: Sequence[Request]) -> Generator[tuple[int, Reply]]:
        """Gives (place, reply) as replies come; requests are sent in order, which a server's prefix cache may rely on.

        Raises:
            ModelError: If the key is missing or refused, the model does not exist or the account is exhausted. Requests
                under way are let go.
        """
        if not requests:
            return
        litellm = load_litellm()
        key = self._key(litellm)
        if any(request.candidates for request in requests) and not self.gives_outcomes():
            self._alternatives = 0
        yield from as_completed(
            requests,
            lambda request, stop: self._answer_one(litellm, key, request, stop),
            self.batch_size,
        )

    def _answer_one(
        self, litellm: ModuleType, key: str | None, request: Request, stop: threading.Event
    ) -> Reply:
        started = time.perf_counter()
        try:
            messages = self.messages(request)
        except ImageError as error:
            return Failure(str(error), retryable=False)
        arguments, alternatives = (
            {"messages": messages, **self._seed(request.sample)},
            self._alternatives,
        )
        if request.candidates is not None:
            told = {"logprobs": True, "top_logprobs": alternatives} if alternatives else {}
            arguments = {
                "messages": messages,
                "temperature": self.settings.temperature and 0.0,
                **told,
            }
        completion, problem, attempts = self._complete(litellm, key, arguments, stop)
        text, candidates = completion.text.strip(), request.candidates
        answer = Answer(
            text=text,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cost_usd=completion.cost_usd,
            seconds=time.perf_counter() - started,
            cut=completion.cut,
        )
        if problem is None:
            outcomes = (
                None if candidates is None else read_outcomes(text, completion.logprobs, candidates)
            )
            return replace(answer, outcomes=outcomes)
        if (
            "logprobs" in arguments
            and problem.fault is Fault.REJECTED
            and "logprob" in problem.reason.lower()
        ):
            self._alternatives = min(self._alternatives, 5 if alternatives > 5 else 0)
            return self._answer_one(litellm, key, request, stop)
        tries = f" ({attempts} attempts)" if attempts > 1 else ""
        reason = f"{self._name} {problem.reason.rstrip('.')}{tries}."
        said = answer if problem.fault is Fault.CUT_OFF else None
        return Failure(reason, retryable=problem.fault.passes, said=said)

    def messages(self, request: Request) -> list[dict[str, Any]]:
        """Makes the conversation that a request is sent as.

        Raises:
            ImageError: If its image cannot be read.
        """
        prompt = well_formed(request.prompt)
        content: str | list[dict[str, Any]] = prompt
        if request.image is not None:
            url = self._images.url(request.image, request.image_sha256 or None)
            # The image before the text: a server's prefix cache then knows the image when the next prompt comes.
            content = [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": prompt},
            ]
        return [{"role": "user", "content": content}]

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        seed: int,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Completion:
        """Asks the model for its next message in a conversation.

        What a content filter stops is a completion with the finish reason "content_filter", whichever way the provider
        says so; a refusal, and what is cut off, are completions too.

        Args:
            messages: The conversation so far, in OpenAI's form.
            seed: Seed of the sampling, for providers that take one.
            tools: The tools that it may call, in OpenAI's form: see `Completion.tool_calls`.

        Raises:
            MessageTooLongError: If the model cannot read that much.
            NoAnswerError: If the server is out of reach, or answers with errors or with nothing, after all attempts.
            ModelError: If the key is missing or refused, the model does not exist, or the request is rejected.
        """
        litellm = load_litellm()
        key = self._key(litellm)
        arguments: dict[str, Any] = {"messages": list(messages), "seed": seed % 2**31}
        if tools:
            # litellm would look for tools of MCP servers among them, for which it needs a package that it does not
            # install itself.
            arguments |= {"tools": list(tools), "_skip_mcp_handler": True}
        completion, problem, attempts = self._complete(litellm, key, arguments)
        if problem is None or problem.fault in (Fault.REFUSAL, Fault.CUT_OFF):
            return completion
        if problem.fault is Fault.CONTENT_FILTER:
            return replace(completion, finish_reason="content_filter")
        if problem.fault is Fault.TOO_LONG:
            raise MessageTooLongError(
                f"{self._name} rejected the message as too long.", remedy="Send less text."
            )
        tries = f", after {attempts} attempts" if attempts > 1 else ""
        message = f"{self._name} {problem.reason.rstrip('.')}{tries}."
        if problem.fault.retries is None:
            remedy = "Continue with --resume when the model answers again."
            raise NoAnswerError(message, remedy=remedy, spent=completion)
        raise ModelError(message, remedy=f"Check the settings of {self._role}.")

    def _complete(
        self,
        litellm: ModuleType,
        key: str | None,
        arguments: Mapping[str, Any],
        stop: threading.Event | None = None,
    ) -> tuple[Completion, CallError | None, int]:
        """Calls the model, again where that can help, until `stop` is set.

        Returns:
            The completion of the last attempt (empty where that had none) with what all attempts consumed, what made it
            fail or None, and how many attempts there were.

        Raises:
            ModelError: If every other call would fail alike.
        """
        settings, retry, stop = self.settings, self.settings.retry, stop or threading.Event()
        secrets = (key, settings.api_key)
        sampling = {
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            **arguments,
        }
        extra = dict(settings.extra)
        if settings.reasoning_effort is not None and self._knows(litellm, "reasoning_effort"):
            sampling["reasoning_effort"] = settings.reasoning_effort
        elif (
            settings.reasoning_effort is not None
        ):  # litellm would drop it of a model whose name it does not know
            extra["reasoning_effort"] = settings.reasoning_effort
        call = partial(
            litellm.completion,
            model=self.model,
            api_base=settings.api_base,
            api_key=key,
            timeout=retry.timeout,
            # tenacity alone repeats a call; two layers of retries would multiply.
            num_retries=0,
            max_retries=0,
            # A model that takes no temperature or seed is not sent one.
            drop_params=True,
        )

        def send(given: Mapping[str, Any]) -> Any:
            made_call = partial(call, **given)
            limited = partial(guarded, made_call, self._server, retry.timeout)
            return bounded(
                partial(limited, logprobs="logprobs" in given, extra=extra), retry.timeout
            )

        made: list[Completion] = []
        met: Counter[Fault] = Counter()

        def attempt() -> None:
            made.append(Completion(""))
            try:
                response = self._accepted(send, sampling)
                made[-1] = _read_completion(litellm, self.model, response, secrets)
                self._check_usable(made[-1])
            except Exception as error:
                problem = classify(error, secrets=secrets)
                met[problem.fault] += 1
                count_fault(problem.fault)
                if problem.fault.fatal:
                    raise self._fatal(litellm, problem) from None
                raise problem from None

        def worth_another(problem: BaseException) -> bool:
            if not isinstance(problem, CallError) or problem.asked > 10 * retry.longest_wait:
                return False
            return problem.fault.retries is None or met[problem.fault] <= problem.fault.retries

        retrying = tenacity.Retrying(
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(retry.max_retries + 1),
                tenacity.stop_when_event_set(stop),
            ),
            wait=lambda state: retry.wait(state.attempt_number, _problem_of(state).asked),
            sleep=tenacity.sleep_using_event(stop),
            retry=tenacity.retry_if_exception(worth_another),
            before_sleep=self._note_retry,
            reraise=True,
        )
        problem = None
        try:
            retrying(attempt)
        except CallError as error:
            problem = error
        costs = [each.cost_usd for each in made if each.cost_usd is not None]
        completion = replace(
            made[-1],
            prompt_tokens=sum(each.prompt_tokens for each in made),
            completion_tokens=sum(each.completion_tokens for each in made),
            cost_usd=sum(costs) if costs else None,
        )
        return completion, problem, len(made)

    def _accepted(
        self, send: Callable[[Mapping[str, Any]], Any], arguments: Mapping[str, Any]
    ) -> Any:
        """Sends a call, at once again without what the model refuses by name; raises what else goes wrong."""
        found: list[str] = []
        while True:
            given = self.refusals.accepted(arguments, found)
            try:
                response = send(given)
            except Exception as error:
                told = f"{error} {getattr(error, 'body', None) or ''}"
                name = refused(told, given) if classify(error).fault is Fault.REJECTED else None
                if name is None:
                    raise
                count_fault(Fault.PARAMETER, of=name)
                found.append(name)
                continue
            with self._lock:  # only now it is known that this was the reason
                new = [name for name in found if name not in self.refusals.names]
                self.refusals.add(new)
            for name in new:
                note(f"{self._name} {self.refusals.told(name)}.")
            return response

    def _fatal(self, litellm: ModuleType, problem: CallError) -> ModelError:
        """Returns the error of a call after which every other call would fail alike."""
        variables = (
            " or ".join(_missing_keys(litellm, self.model))
            or f"{self.model.split('/')[0].upper()}_API_KEY"
        )
        remedy = problem.remedy.replace("{keys}", variables)
        return ModelError(f"{self._name} {problem.reason.rstrip('.')}.", remedy=remedy)

    def _note_retry(self, state: tenacity.RetryCallState) -> None:
        """Tells the user that calls fail and are repeated, now and then for all concurrent calls."""
        with self._lock:
            if time.monotonic() - self._noted < _NOTES_EVERY:
                return
            self._noted = time.monotonic()
        seconds = max(1, round(state.next_action.sleep if state.next_action else 0))
        note(
            f"{self._name} {_problem_of(state).reason.rstrip('.')}; trying again in {seconds} s "
            f"(attempt {state.attempt_number + 1} of {self.settings.retry.max_retries + 1})."
        )

    def _check_usable(self, completion: Completion) -> None:
        """Raises `CallError` if a completion is no answer."""
        if completion.refusal is not None:
            raise CallError(Fault.REFUSAL, f"refused: {completion.refusal}")
        if completion.finish_reason == "content_filter":
            raise CallError(Fault.CONTENT_FILTER, "was stopped by its provider's content filter")
        if completion.text.strip() or completion.tool_calls:
            return
        if completion.cut:
            reason = f"returned an empty answer within max_tokens = {self.settings.max_tokens}"
            raise CallError(Fault.CUT_OFF, reason)
        raise CallError(Fault.EMPTY, "returned an empty answer")

    def _key(self, litellm: ModuleType) -> str | None:
        """Returns the key to send; None leaves it to litellm, which finds the provider's in the environment.

        Raises:
            ModelError: If the address is none, litellm does not know the provider or the key is missing.
        """
        settings = self.settings
        _ = self._server
        try:
            litellm.get_llm_provider(self.model, api_base=settings.api_base)
        except Exception:
            raise ModelError(
                f"litellm does not know the provider of {self._role} {self.model!r}.",
                remedy="Put the provider before the name, such as openai/gpt-4o (also use openai/ for your own "
                f"OpenAI-compatible server); for a file on this machine write local:{self.model}.",
            ) from None
        if settings.api_key is not None:
            return settings.api_key
        missing = _missing_keys(litellm, self.model)
        if not missing:
            return None
        if settings.api_base is not None:
            # A server of one's own often wants no key, but the client insists on sending one.
            return (
                "none"
                if all(name.endswith(("_API_KEY", "_API_BASE")) for name in missing)
                else None
            )
        raise ModelError(
            f"{self._name} needs a key: {' or '.join(missing)} is not set.",
            remedy=f"Set it (export {missing[0]}=...), or give the address of your own server (api_base).",
        )


def _problem_of(state: tenacity.RetryCallState) -> CallError:
    """Returns the error of a failed attempt."""
    problem = state.outcome.exception() if state.outcome else None
    assert isinstance(problem, CallError)
    return problem


def _missing_keys(litellm: ModuleType, model: str) -> list[str]:
    """The environment variables that a model's provider needs and that are not set."""
    return [str(name) for name in litellm.validate_environment(model).get("missing_keys", ())]


def _read_completion(
    litellm: ModuleType, model: str, response: Any, secrets: Sequence[str | None]
) -> Completion:
    """Reads a response's first choice; secrets that the server echoes are cut out, since it goes into records.

    Raises:
        CallError: If it has none.
    """

    def clean(text: object) -> str:
        return without_secrets(well_formed(str(text or "")), secrets)

    choices = getattr(response, "choices", None) or []
    if not choices:
        raise CallError(Fault.MALFORMED, "returned a response without choices")
    message, usage = choices[0].message, getattr(response, "usage", None)
    special = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or special.get("refusal")
    try:
        cost = float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:  # no price is known
        cost = None
    return Completion(
        text=clean(message.content if isinstance(message.content, str) else ""),
        refusal=clean(refusal) if refusal else None,
        finish_reason=choices[0].finish_reason,
        tool_calls=tuple(
            ToolCall(
                str(call.id or f"call-{number}"),
                clean(call.function.name),
                clean(call.function.arguments),
            )
            for number, call in enumerate(getattr(message, "tool_calls", None) or ())
        ),
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        completion_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
        cost_usd=cost,
        logprobs=getattr(choices[0], "logprobs", None),
    )
