"""Models behind an API: any that litellm reaches, asked about images or text or in conversation."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import tenacity

from taxtune.errors import ImageError, ModelError
from taxtune.models.api_errors import (
    MessageTooLongError,
    classify,
    load_litellm,
    without_credentials,
    without_secrets,
)
from taxtune.models.base import (
    Answer,
    CallError,
    Failure,
    Fault,
    Identity,
    ModelSettings,
    Reply,
    Request,
    StreamingModel,
    count_fault,
    total_cost,
)
from taxtune.models.calls import as_completed
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
        text: Its words, which may be none; half surrogate pairs, which no record could hold, are
            replaced.
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


class _Outcome(NamedTuple):
    """The end of a call.

    Attributes:
        completion: The completion of the last attempt, empty where that had none, with what all
            attempts consumed.
        problem: What made the last attempt fail, or None.
        attempts: How many attempts there were.
    """

    completion: Completion
    problem: CallError | None
    attempts: int


class ApiModel(StreamingModel):
    """A model behind an API, with several concurrent requests.

    Failed attempts are repeated as the settings' retry policy says and `Fault` allows. After the
    last attempt the reply is a failure. A refused key, an unknown model and an exhausted account
    end the work at once. Each failed attempt is counted (`count_faults`).

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
        concurrency = self.settings.concurrency
        #: Requests under way at a time.
        self.batch_size = self.concurrency = _CALLS if concurrency == "auto" else concurrency
        self._images = ImageUrls()
        self._role = role
        self._api_base = without_credentials(self.settings.api_base)
        address = f" at {self._api_base}" if self._api_base else ""
        self._name = f"{role[0].upper()}{role[1:]} {model!r}{address}"
        #: Parameters that the model was found to refuse.
        self.refusals = Refusals()
        #: Alternatives to each token that are asked for: OpenAI gives 20 at most; where that is
        #: rejected 5, then none.
        self._alternatives = 20
        self._lock = threading.Lock()
        self._last_note = float("-inf")

    @property
    def identity(self) -> Identity:
        """Everything on this side of the API that can change an answer; never the key."""
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
        if settings.task == "image-text-to-text":
            # The constants are part of the keys of answers that are stored.
            identity |= {"revision": None, "system_prompt": None}
            identity |= {"max_image_side": MAX_SIDE, "image_encoding": ENCODING}
        return identity

    def _seed(self, sample: int = 0) -> dict[str, int]:
        """Returns the seed to send; none for the first answer at seed 0 or of greedy decoding."""
        seed = self.settings.seed if self.settings.temperature != 0 else 0
        if sample:
            # Any two pairs of a seed and a sample have different seeds; there are some hundred
            # samples at most.
            seed = (seed * 1009 + sample) % 2**31
        return {"seed": seed} if seed else {}

    # -- what litellm knows ------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Checks the address, the provider and the key without a call; raises `ModelError`."""
        self._server()
        self._key()
        return []

    def gives_outcomes(self) -> bool:
        """Tells whether litellm lists that the model gives alternatives to its tokens.

        Only a reply shows whether it does.
        """
        return self._knows("logprobs", "top_logprobs")

    @property
    def takes_images(self) -> bool:
        """Whether litellm's list does not deny it; a model that it lacks may take them."""
        litellm = load_litellm()
        model, provider = self._provider()
        if litellm.model_cost.keys().isdisjoint((self.model, model)):
            return True
        return bool(litellm.supports_vision(model=model, custom_llm_provider=provider))

    def count_image_tokens(self, side: int) -> int:
        """Returns about how many tokens a message with a square image of `side` pixels takes."""
        from PIL import Image

        image = {"url": data_url(Image.new("RGB", (side, side)), side), "detail": "high"}
        message = {"role": "user", "content": [{"type": "image_url", "image_url": image}]}
        return int(load_litellm().token_counter(model=self.model, messages=[message]))

    def count_tokens(self, text: str) -> int:
        """Returns the number of tokens of a text; an estimate for an unknown tokenizer."""
        try:
            return int(load_litellm().token_counter(model=self.model, text=text))
        except Exception:  # a tokenizer that cannot be had is no reason to stop
            return len(text) // 3 + 1

    def count_prompt_tokens(self, request: Request) -> int | None:
        """Returns about how many tokens a request is sent as; None where litellm cannot count."""
        litellm = load_litellm()
        try:
            messages = self.messages(request)
            counted = int(litellm.token_counter(model=self.model, messages=messages))
            # That takes every image for one of GPT-4o, and GPT-4o mini counts 33 times as many. The
            # rules of some models are in another function, which older versions lack.
            from litellm.litellm_core_utils import token_counter

            estimate = getattr(token_counter, "estimate_image_tokens", None)
            if request.image is None or estimate is None:
                return counted
            tokens = int(estimate(self.model, messages[0]["content"][0]["image_url"]["url"]))
            if tokens == litellm.constants.DEFAULT_IMAGE_TOKEN_COUNT:  # of an unknown model
                return counted
            return self.count_tokens(request.prompt) + tokens
        except Exception:  # as `count_tokens`
            return None

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Returns the price of a call in US dollars; None where litellm's list lacks the model."""
        litellm = load_litellm()
        try:
            return float(sum(litellm.cost_per_token(self.model, prompt_tokens, completion_tokens)))
        except Exception:  # as `count_tokens`
            return None

    def _knows(self, *parameters: str) -> bool:
        """Tells whether litellm's list says that the model takes parameters."""
        litellm = load_litellm()
        model, provider = self._provider()
        known = litellm.get_supported_openai_params(model=model, custom_llm_provider=provider)
        return set(parameters) <= set(known or ())

    def _provider(self) -> tuple[str, str]:
        """Returns the model's name at its provider, and the provider, or raises `ModelError`."""
        litellm = load_litellm()
        try:
            model, provider, *_ = litellm.get_llm_provider(
                self.model, api_base=self.settings.api_base
            )
        except Exception:
            raise ModelError(
                f"litellm does not know the provider of {self._role} {self.model!r}.",
                remedy="Put the provider before the name, such as openai/gpt-4o (also use openai/ "
                "for your own OpenAI-compatible server); for a file on this machine write "
                f"local:{self.model}.",
            ) from None
        return model, provider

    def _server(self) -> str | None:
        """Returns scheme, host and port of the server; None for the provider's own."""
        address = self._api_base or address_in(self.model)
        try:
            return None if address is None else server_of(address)
        except ValueError:
            message = f"The address of {self._role} is none."
            raise ModelError(message, value=address, remedy=ADDRESS_REMEDY) from None

    def _key(self) -> str | None:
        """Returns the key to send; None leaves it to litellm, which looks in the environment.

        Raises:
            ModelError: If litellm does not know the provider or the key is missing.
        """
        settings = self.settings
        self._provider()
        if settings.api_key is not None:
            return settings.api_key
        missing = self._missing_keys()
        if not missing:
            return None
        if settings.api_base is not None:
            # A server of one's own often wants no key, but the client insists on sending one.
            is_plain = all(name.endswith(("_API_KEY", "_API_BASE")) for name in missing)
            return "none" if is_plain else None
        raise ModelError(
            f"{self._name} needs a key: {' or '.join(missing)} is not set.",
            remedy=f"Set it (export {missing[0]}=...), or give the address of your own server "
            "(api_base).",
        )

    def _missing_keys(self) -> list[str]:
        """Returns the environment variables that the provider needs and that are not set."""
        environment = load_litellm().validate_environment(self.model)
        return [str(name) for name in environment.get("missing_keys", ())]

    # -- answers -----------------------------------------------------------------------------------

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) as replies come.

        Requests are sent in order, which a server's prefix cache may rely on.

        Raises:
            ModelError: If the key is missing or refused, the model does not exist or the account is
                exhausted. Requests under way are let go.
        """
        if not requests:
            return
        self.check()
        if any(request.candidates for request in requests) and not self.gives_outcomes():
            self._alternatives = 0
        yield from as_completed(requests, self._answer_one, self.concurrency)

    def _answer_one(self, request: Request, stop: threading.Event) -> Reply:
        started = time.perf_counter()
        try:
            messages = self.messages(request)
        except ImageError as error:
            return Failure(str(error), retryable=False)
        candidates = request.candidates
        alternatives = self._alternatives
        arguments: dict[str, Any] = {"messages": messages}
        if candidates is None:
            arguments |= self._seed(request.sample)
        else:
            arguments["temperature"] = None if self.settings.temperature is None else 0.0
            if alternatives:
                arguments |= {"logprobs": True, "top_logprobs": alternatives}
        completion, problem, attempts = self._complete(arguments, stop)
        text = completion.text.strip()
        answer = Answer(
            text=text,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cost_usd=completion.cost_usd,
            seconds=time.perf_counter() - started,
            cut=completion.cut,
        )
        if problem is None:
            if candidates is None:
                return answer
            return replace(answer, outcomes=read_outcomes(text, completion.logprobs, candidates))
        is_about_logprobs = "logprobs" in arguments and "logprob" in problem.reason.lower()
        if is_about_logprobs and problem.fault is Fault.REJECTED:
            fewer = 5 if alternatives > 5 else 0
            self._alternatives = min(self._alternatives, fewer)
            return self._answer_one(request, stop)
        tries = f" ({attempts} attempts)" if attempts > 1 else ""
        return Failure(
            f"{self._sentence(problem)}{tries}.",
            retryable=problem.fault.passes,
            unfinished=answer if problem.fault is Fault.CUT_OFF else None,
        )

    def messages(self, request: Request) -> list[dict[str, Any]]:
        """Makes the conversation that a request is sent as.

        Raises:
            ImageError: If its image cannot be read.
        """
        prompt = well_formed(request.prompt)
        if request.image is None:
            return [{"role": "user", "content": prompt}]
        url = self._images.url(request.image, request.image_sha256 or None)
        # The image before the text: a server's prefix cache then knows the image when the next
        # prompt comes.
        image = {"type": "image_url", "image_url": {"url": url}}
        return [{"role": "user", "content": [image, {"type": "text", "text": prompt}]}]

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        seed: int,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Completion:
        """Asks the model for its next message in a conversation.

        What a content filter stops is a completion with the finish reason "content_filter",
        whichever way the provider says so; a refusal, and what is cut off, are completions too.

        Args:
            messages: The conversation so far, in OpenAI's form.
            seed: Seed of the sampling, for providers that take one.
            tools: The tools that it may call, in OpenAI's form: see `Completion.tool_calls`.

        Raises:
            MessageTooLongError: If the model cannot read that much.
            NoAnswerError: If the server is out of reach, or answers with errors or with nothing,
                after all attempts.
            ModelError: If the key is missing or refused, the model does not exist, or the request
                is rejected.
        """
        self.check()
        arguments: dict[str, Any] = {"messages": list(messages), "seed": seed % 2**31}
        if tools:
            # litellm would look for tools of MCP servers among them, for which it needs a package
            # that it does not install itself.
            arguments |= {"tools": list(tools), "_skip_mcp_handler": True}
        completion, problem, attempts = self._complete(arguments, threading.Event())
        if problem is None or problem.fault in (Fault.REFUSAL, Fault.CUT_OFF):
            return completion
        if problem.fault is Fault.CONTENT_FILTER:
            return replace(completion, finish_reason="content_filter")
        if problem.fault is Fault.TOO_LONG:
            message = f"{self._name} rejected the message as too long."
            raise MessageTooLongError(message, remedy="Send less text.")
        tries = f", after {attempts} attempts" if attempts > 1 else ""
        message = f"{self._sentence(problem)}{tries}."
        if problem.fault.retries is None:
            remedy = "Continue with --resume when the model answers again."
            raise NoAnswerError(message, remedy=remedy, spent=completion)
        raise ModelError(message, remedy=f"Check the settings of {self._role}.")

    # -- calls -------------------------------------------------------------------------------------

    def _complete(self, arguments: Mapping[str, Any], stop: threading.Event) -> _Outcome:
        """Calls the model, again where that can help, until `stop` is set.

        Raises:
            ModelError: If every other call would fail alike.
        """
        retry = self.settings.retry
        completions: list[Completion] = []
        faults: Counter[Fault] = Counter()

        def attempt() -> CallError | None:
            completion, problem = self._attempt(arguments)
            completions.append(completion)
            if problem is not None:
                faults[problem.fault] += 1
            return problem

        def is_worth_another(problem: CallError | None) -> bool:
            if problem is None or problem.asked > 10 * retry.longest_wait:
                return False
            retries = problem.fault.retries
            return retries is None or faults[problem.fault] <= retries

        # Nothing else repeats a call; two layers of retries would multiply.
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_result(is_worth_another),
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(retry.max_retries + 1),
                tenacity.stop_when_event_set(stop),
            ),
            wait=lambda state: retry.wait(state.attempt_number, _problem(state).asked),
            sleep=tenacity.sleep_using_event(stop),
            before_sleep=self._note_retry,
            retry_error_callback=_problem,
        )
        problem = retrying(attempt)
        total = replace(
            completions[-1],
            prompt_tokens=sum(completion.prompt_tokens for completion in completions),
            completion_tokens=sum(completion.completion_tokens for completion in completions),
            cost_usd=total_cost(completion.cost_usd for completion in completions),
        )
        return _Outcome(total, problem, attempts=len(completions))

    def _attempt(self, arguments: Mapping[str, Any]) -> tuple[Completion, CallError | None]:
        """Returns the completion of an attempt, empty where there is none, and what is wrong."""
        secret = self.settings.api_key
        completion = Completion("")
        try:
            response = self._send_accepted(arguments)
            completion = _read_completion(self.model, response, secret)
            self._check_usable(completion)
        except Exception as error:
            problem = classify(error, secret)
            count_fault(problem.fault)
            if problem.fault.fatal:
                raise self._fatal(problem) from None
            return completion, problem
        return completion, None

    def _send_accepted(self, arguments: Mapping[str, Any]) -> Any:
        """Sends a call, at once again without what the model refuses by name."""
        settings = self.settings
        sampling = {"max_tokens": settings.max_tokens, "temperature": settings.temperature}
        newly_refused: list[str] = []
        while True:
            accepted = self.refusals.accepted({**sampling, **arguments}, newly_refused)
            try:
                response = self._send(accepted)
            except Exception as error:
                words = f"{error} {getattr(error, 'body', None) or ''}"
                is_rejected = classify(error).fault is Fault.REJECTED
                name = refused(words, accepted) if is_rejected else None
                if name is None:
                    raise
                count_fault(Fault.PARAMETER, name)
                newly_refused.append(name)
                continue
            with self._lock:  # only now it is known that this was the reason
                new = [name for name in newly_refused if name not in self.refusals.names]
                self.refusals.add(new)
            for name in new:
                note(f"{self._name} {self.refusals.describe(name)}.")
            return response

    def _send(self, arguments: Mapping[str, Any]) -> Any:
        """Sends one call to the agreed server and returns litellm's response."""
        settings = self.settings
        fields = dict(arguments)
        extra = dict(settings.extra)
        if settings.reasoning_effort is not None:
            # litellm would drop it of a model whose name it does not know.
            target = fields if self._knows("reasoning_effort") else extra
            target["reasoning_effort"] = settings.reasoning_effort
        call = partial(
            load_litellm().completion,
            **fields,
            model=self.model,
            api_base=settings.api_base,
            api_key=self._key(),
            timeout=settings.retry.timeout,
            # `_complete` alone repeats a call; two layers of retries would multiply.
            num_retries=0,
            max_retries=0,
            # A model that takes no temperature or seed is not sent one.
            drop_params=True,
        )
        return guarded(
            call,
            self._server(),
            settings.retry.timeout,
            logprobs="logprobs" in arguments,
            extra=extra,
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

    # -- words -------------------------------------------------------------------------------------

    def _sentence(self, problem: CallError) -> str:
        """Returns a problem as a sentence without its full stop."""
        return f"{self._name} {problem.reason.rstrip('.')}"

    def _fatal(self, problem: CallError) -> ModelError:
        """Returns the error of a call after which every other call would fail alike."""
        provider = self.model.split("/")[0]
        keys = " or ".join(self._missing_keys()) or f"{provider.upper()}_API_KEY"
        remedy = problem.remedy.replace("{keys}", keys)
        return ModelError(f"{self._sentence(problem)}.", remedy=remedy)

    def _note_retry(self, state: tenacity.RetryCallState) -> None:
        """Tells the user that calls fail and are repeated, now and then for all calls under way."""
        with self._lock:
            if time.monotonic() - self._last_note < _NOTES_EVERY:
                return
            self._last_note = time.monotonic()
        note(
            f"{self._sentence(_problem(state))}; trying again in "
            f"{max(1, round(state.upcoming_sleep))} s "
            f"(attempt {state.attempt_number + 1} of {self.settings.retry.max_retries + 1})."
        )


def _problem(state: tenacity.RetryCallState) -> CallError:
    """Returns the problem of the attempt that has just failed."""
    assert state.outcome is not None
    problem: CallError = state.outcome.result()
    return problem


def _read_completion(model: str, response: Any, secret: str | None) -> Completion:
    """Reads a response's first choice; a secret that the server echoes is cut out.

    Raises:
        CallError: If it has none.
    """

    def clean(text: object) -> str:
        return without_secrets(well_formed(str(text or "")), secret)

    choices = getattr(response, "choices", None) or []
    if not choices:
        raise CallError(Fault.MALFORMED, "returned a response without choices")
    message = choices[0].message
    usage = getattr(response, "usage", None)
    special = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or special.get("refusal")
    litellm = load_litellm()
    try:
        cost = float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:  # no price is known
        cost = None
    tool_calls = []
    for number, call in enumerate(getattr(message, "tool_calls", None) or ()):
        tool_call = ToolCall(
            id=str(call.id or f"call-{number}"),
            name=clean(call.function.name),
            arguments=clean(call.function.arguments),
        )
        tool_calls.append(tool_call)
    return Completion(
        text=clean(message.content if isinstance(message.content, str) else ""),
        refusal=clean(refusal) if refusal else None,
        finish_reason=choices[0].finish_reason,
        tool_calls=tuple(tool_calls),
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        completion_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
        cost_usd=cost,
        logprobs=getattr(choices[0], "logprobs", None),
    )
