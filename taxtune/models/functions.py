"""A plain function as a model."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import inspect
import queue
import reprlib
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from taxtune.data.images import DEFAULT_MAX_PIXELS, load_image
from taxtune.errors import ImageError, ModelError
from taxtune.models.base import Answer, Failure, Fault, Identity, Reply, Request, count_fault, well_formed

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["FunctionModel", "function_identity"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_FORMS = (
    "Write answer(image, prompt) -> str, answer(images, prompts) -> list[str] or answer(prompt) -> str; "
    "each may be `async def`."
)


class FunctionModel:
    """A function that answers.

    The function takes an image and a prompt and returns the answer as a str. An image is a `PIL.Image.Image` in RGB
    whose `filename` is the path of the file; it is None for a request without one. Four more forms are told from the
    function's signature: with the parameters `images, prompts` it takes lists and returns a list; with one parameter it
    takes prompts alone; as a coroutine function (`async def`) it is called several times at once, also where an event
    loop runs already, as in a notebook; and `image` and `prompt` may stand in either order. A function that gives
    several answers to a question may take `sample` (or `samples`) last, the number of the answer that is wanted.

    An exception is a failure of that request, with its text as the reason; of a batch, smaller batches are tried until
    the request at fault is found. A `ModelError` ends the work at once, as does a function that fails for all.

    Args:
        function: The function.
        batched: Whether it takes lists; None tells it from the names of the parameters.
        identity: What the answers are stored under besides the function's name: text, or values by name. Left out, it
            is the function's attribute `identity` if it has one, or else a hash of its source, so that a changed
            function is asked again. Only the function itself is looked at, not what it calls.
        batch_size: Requests a call, at least 1; of an async function at least twice `concurrency`.
        concurrency: Calls of an async function under way at a time, at least 1.
        max_pixels: Largest width times height of an image file.

    Raises:
        ModelError: If it is no function, or cannot be called in any of these ways.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        batched: bool | None = None,
        identity: str | Mapping[str, str | int | float | None] | None = None,
        batch_size: int = 8,
        concurrency: int = 8,
        max_pixels: int = DEFAULT_MAX_PIXELS,
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise ModelError("This is neither a model nor a function.", value=function, remedy=_FORMS)
        self.function = function
        self.name = _name(function)
        self.concurrency = concurrency
        self.max_pixels = max_pixels
        self._roles, takes_lists, self._sample = _signature(function, self.name)
        self._batched = takes_lists if batched is None else batched
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose `__call__` is `async def`
        )
        #: Requests a call that keep the function busy.
        self.batch_size = max(batch_size, 2 * concurrency) if self._async else batch_size
        self._identity = getattr(function, "identity", None) if identity is None else identity
        self._has_answered = False

    def __repr__(self) -> str:
        return f"FunctionModel({self.name})"

    @property
    def identity(self) -> Identity:
        """The function's name, and what was given as its identity or a hash of its source."""
        named: Identity = {"kind": "function", "model": self.name}
        if self._identity is None:
            return {**named, "source": _digest(self.function)}
        return {**named, **(self._identity if isinstance(self._identity, Mapping) else {"identity": self._identity})}

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, in the same order and number; see `stream`."""
        return [reply for _, reply in sorted(self.stream(requests), key=itemgetter(0))]

    def stream(self, requests: Sequence[Request]) -> Generator[tuple[int, Reply]]:
        """Gives (place, reply) as replies come: in order, or those of an async function as its calls end.

        Raises:
            ModelError: If the function says so, gives what is not text, or has failed for all of a batch of two or more
                without ever having answered.
        """
        failed: list[Failure] = []

        def check(least: int) -> None:
            if not self._has_answered and len(failed) >= max(least, 2):
                raise ModelError(
                    f"The function {self.name} failed for all {len(failed)} requests; the first: {failed[0].reason}",
                    remedy="Fix the function, then continue; the answers so far are saved.",
                )

        for place, said, seconds in self._said(requests):
            request = requests[place]
            if isinstance(said, ImageError):
                yield place, Failure(str(said), retryable=False)
            elif isinstance(said, Exception):
                count_fault(Fault.FUNCTION)
                failed.append(Failure(self._reason(request, said), retryable=Fault.FUNCTION.passes))
                check(self.batch_size)
                yield place, failed[-1]
            else:
                text = self._text(request, said)
                self._has_answered = True
                yield place, Answer(text, seconds=seconds)
        check(0)

    def _image(self, request: Request) -> Image.Image | None:
        if request.image is None or "image" not in self._roles:
            return None
        image = load_image(request.image, max_pixels=self.max_pixels, sha256=request.image_sha256 or None)
        image.filename = str(request.image)  # type: ignore[attr-defined]
        return image

    def _call(self, image: object, prompt: object, sample: object) -> Any:
        given = {"image": image, "prompt": prompt}
        named = {} if self._sample is None else {self._sample: sample}
        return self.function(*(given[role] for role in self._roles), **named)

    def _call_one(self, request: Request) -> Any:
        return self._call(self._image(request), request.prompt, request.sample)

    def _said(self, requests: Sequence[Request]) -> Generator[tuple[int, object, float]]:
        """Gives (place, what the function gives or the exception that was raised, seconds that it took)."""
        if self._async and not self._batched:
            for place, (said, seconds) in _EVENT_LOOP.as_completed(requests, self._call_async, self.concurrency):
                yield place, said, seconds
            return
        size = self.batch_size if self._batched else 1
        for start in range(0, len(requests), size):
            started = time.perf_counter()
            part = requests[start : start + size]
            said = self._said_at_once(part) if self._batched else [_caught(self._call_one, part[0])]
            seconds = (time.perf_counter() - started) / len(part)
            yield from ((start + place, each, seconds) for place, each in enumerate(said))

    def _said_at_once(self, requests: Sequence[Request]) -> list[object]:
        images = [_caught(self._image, request) for request in requests]
        good = [place for place, image in enumerate(images) if not isinstance(image, Exception)]
        said = self._batch([(images[place], requests[place].prompt, requests[place].sample) for place in good])
        return list((dict(enumerate(images)) | dict(zip(good, said, strict=True))).values())

    def _batch(self, inputs: Sequence[tuple[object, str, int]]) -> list[object]:
        if not inputs:
            return []

        def call() -> object:
            result = self._call(*map(list, zip(*inputs, strict=True)))
            return _EVENT_LOOP.run(result) if inspect.iscoroutine(result) else result

        said = _caught(call)
        if isinstance(said, Exception):
            if len(inputs) == 1:
                return [said]
            half = len(inputs) // 2
            return self._batch(inputs[:half]) + self._batch(inputs[half:])
        answers = list(said) if isinstance(said, Iterable) and not isinstance(said, str | bytes | Mapping) else None
        if answers is None or len(answers) != len(inputs):
            raise ModelError(
                f"The function {self.name} must return a list of {len(inputs)} answers for {len(inputs)} prompts.",
                value=said,
            )
        return answers

    async def _call_async(self, request: Request) -> tuple[object, float]:
        started = time.perf_counter()
        try:
            said = await self._call_one(request)
        except ModelError:
            raise
        except Exception as error:
            said = error
        return said, time.perf_counter() - started

    def _reason(self, request: Request, error: Exception) -> str:
        where = f"{request.image}: " if request.image is not None else ""
        said = " ".join(str(error).split())
        return f"{where}the function {self.name} raised {type(error).__name__}{f': {said}' if said else ''}"

    def _text(self, request: Request, said: object) -> str:
        if not isinstance(said, str):
            about = f"the prompt {request.prompt!r}" if request.image is None else "the image"
            raise ModelError(
                f"The function {self.name} gave {reprlib.repr(said)} for {about}, which is not text.",
                file=request.image,
                remedy="Return a str; if there is no answer, raise an exception that says why.",
            )
        return well_formed(said.strip())


class _EventLoop:
    """An event loop in a thread of its own, made at first use.

    It serves where a loop runs already, and outlives a call, so that a client that an async function keeps (which
    belongs to the loop that it was first used in) can be used again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Returns what a coroutine gives; Ctrl-C cancels it."""
        future = self._start(coroutine)
        try:
            return future.result()
        finally:
            future.cancel()

    def as_completed(
        self, items: Sequence[Item], call: Callable[[Item], Coroutine[Any, Any, Result]], concurrency: int
    ) -> Generator[tuple[int, Result]]:
        """Gives (place, what an item's coroutine gives) as it comes; what ends one call ends the others."""
        finished: queue.SimpleQueue[tuple[int, Result] | BaseException] = queue.SimpleQueue()
        open_places = iter(range(len(items)))

        async def work() -> None:
            for place in open_places:
                finished.put((place, await call(items[place])))

        async def work_all() -> None:
            workers = [asyncio.ensure_future(work()) for _ in range(min(concurrency, len(items)))]
            try:
                await asyncio.gather(*workers)
            except BaseException as error:
                finished.put(error)
            finally:
                for worker in workers:
                    worker.cancel()

        future = self._start(work_all())
        try:
            for _ in items:
                got = finished.get()
                if isinstance(got, BaseException):
                    raise got
                yield got
        finally:
            future.cancel()

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="taxtune-async", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


_EVENT_LOOP = _EventLoop()


def _caught(call: Callable[..., object], *arguments: object) -> object:
    """Returns what a call gives, or the exception that it raised, unless that is a `ModelError`."""
    try:
        return call(*arguments)
    except ModelError:
        raise
    except Exception as error:
        return error


def _bare(function: Callable[..., Any]) -> Any:
    """Returns what has a source: a function, or the class of a method or of an object with `__call__`."""
    if inspect.ismethod(function):
        return function.__self__ if isinstance(function.__self__, type) else type(function.__self__)
    return function if hasattr(function, "__qualname__") else type(function)


def _name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _signature(function: Callable[..., Any], name: str) -> tuple[tuple[str, ...], bool, str | None]:
    """Returns how a function is called.

    Returns:
        What its positional parameters stand for ("image", "prompt"), whether they are lists, and the name of the one
        that takes the number of the answer, or None.
    """
    try:
        every = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built-in functions tell nothing
        return ("image", "prompt"), False, None
    parameters = [one for one in every if one.name not in ("sample", "samples") or one.kind is one.POSITIONAL_ONLY]
    sample = next((one.name for one in every if one not in parameters), None)
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    names = [one.name for one in positional if one.default is one.empty]
    if not names and any(one.kind is one.VAR_POSITIONAL for one in parameters):
        names = ["image", "prompt"]
    wanted = any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters)
    if len(names) not in (1, 2) or wanted or names in (["image"], ["images"]):
        shown = f"{name}{inspect.signature(function)}"
        raise ModelError("The function cannot be called with an image and a prompt.", value=shown, remedy=_FORMS)
    takes_lists = any(one in ("images", "prompts") for one in names)
    if len(names) == 1:
        return ("prompt",), takes_lists, sample
    prompt_first = names[0].startswith("prompt") or names[1].startswith("image")
    return ("prompt", "image") if prompt_first else ("image", "prompt"), takes_lists, sample


def function_identity(function: Callable[..., Any]) -> Identity:
    """Returns what a function is known by: its name and a hash of what it does, as far as its source tells."""
    return {"kind": "function", "name": _name(function), "source": _digest(function)}


def _digest(function: Any) -> str:
    """Returns a hash of what a function does, as far as it can be told from the function itself."""
    parts = []
    while function is not None:
        if isinstance(function, functools.partial):
            parts += [_plain(function.args), _plain(function.keywords)]
            function = function.func
            continue
        bare = _bare(function)
        if isinstance(bare, FunctionType):
            # What a lambda or an inner function was made with tells it from others of the same source.
            parts.append(_plain(bare.__defaults__))
            parts += [_plain(value) for value in inspect.getclosurevars(bare).nonlocals.values()]
        parts.append(_source(bare))
        function = getattr(function, "__wrapped__", None)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _source(bare: Any) -> str:
    """Returns the source; the bytecode where there is none, and of a lambda, of which a line may hold several."""
    with contextlib.suppress(OSError, TypeError):
        if getattr(bare, "__name__", "") != "<lambda>":
            return inspect.getsource(bare)
    return _plain(bare.__code__) if isinstance(bare, FunctionType) else ""


def _plain(value: object) -> str:
    """Returns a plain value, or code, as text; of anything else, whose text may hold its address, its type."""
    if isinstance(value, str | bytes | int | float | bool | None):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, set | frozenset):
        return _plain(sorted(map(_plain, value)))
    if isinstance(value, Mapping):
        return _plain(list(value.items()))
    if isinstance(value, CodeType):
        return _plain([value.co_code, value.co_names, value.co_consts])
    return type(value).__qualname__
