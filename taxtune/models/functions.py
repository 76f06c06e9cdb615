"""A plain function as a model."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import inspect
import reprlib
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from taxtune.data.images import load_image
from taxtune.errors import ImageError, ModelError
from taxtune.models.base import Answer, Failure, Fault, Identity, Reply, Request, count_fault, well_formed
from taxtune.models.calls import as_completed

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["FunctionModel", "function_identity"]

_FORMS = "Write answer(image, prompt) -> str or answer(prompt) -> str, which may be `async def`."


class FunctionModel:
    """A function that answers.

    The function takes an image and a prompt and returns the answer as a str. An image is a `PIL.Image.Image` in RGB
    whose `filename` is the path of the file; it is None for a request without one. One parameter is the prompt alone; a
    coroutine function (`async def`) runs several times concurrently, also in a notebook; a parameter `sample` takes the
    number of the answer that is wanted. What answers many requests at a time is a `Model`.

    An exception is a failure of that request. A `ModelError` ends the work at once, as does a function that fails for
    all requests.

    Answers are stored under the function's name and its attribute `identity` (text, or values by name) if it has one,
    or else a hash of its source, so that a changed function is asked again. What it calls is not looked at.

    Args:
        function: The function.
        batch_size: Failures in a row, without an answer before, that end the work; of an async function at least twice
            `concurrency`.
        concurrency: Concurrent calls of an async function, at least 1.

    Raises:
        ModelError: If it is no function, or cannot be called in any of these ways.
    """

    def __init__(self, function: Callable[..., Any], *, batch_size: int = 8, concurrency: int = 8) -> None:
        if not callable(function) or isinstance(function, type):
            raise ModelError("This is neither a model nor a function.", value=function, remedy=_FORMS)
        self.function = function
        self.name = _name(function)
        self.concurrency = concurrency
        self._with_image, self._with_sample = _signature(function, self.name)
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose `__call__` is `async def`
        )
        #: Requests that keep the function busy.
        self.batch_size = max(batch_size, 2 * concurrency) if self._async else batch_size
        self._has_answered = False

    def __repr__(self) -> str:
        return f"FunctionModel({self.name})"

    @property
    def identity(self) -> Identity:
        """The function's name, and what was given as its identity or a hash of its source."""
        named: Identity = {"kind": "function", "model": self.name}
        own = getattr(self.function, "identity", None)
        if own is None:
            return {**named, "source": _digest(self.function)}
        return {**named, **(own if isinstance(own, Mapping) else {"identity": own})}

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, in the same order and number; see `stream`."""
        replies = dict(self.stream(requests))
        return [replies[place] for place in range(len(requests))]

    def stream(self, requests: Sequence[Request]) -> Generator[tuple[int, Reply]]:
        """Gives (place, reply) as replies come: in order, or those of an async function as its calls end.

        Raises:
            ModelError: If the function says so, gives what is not text, or has failed for all of a batch of two or more
                without ever having answered.
        """
        failed: list[Failure] = []
        asked = len(requests)
        calls = as_completed(requests, self._call, self.concurrency) if self._async else None
        for place, (result, seconds) in calls or enumerate(map(self._call, requests)):
            reply = self._reply(requests[place], result, seconds)
            if isinstance(reply, Answer):
                self._has_answered = True
            elif isinstance(result, ImageError):
                asked -= 1
            else:
                failed.append(reply)
            if not self._has_answered and len(failed) >= max(2, min(self.batch_size, asked)):
                raise ModelError(
                    f"The function {self.name} failed for all {len(failed)} requests, first: {failed[0].reason}",
                    remedy="Fix the function, then continue; the answers so far are saved.",
                )
            yield place, reply

    def _reply(self, request: Request, result: object, seconds: float) -> Reply:
        if isinstance(result, ImageError):
            return Failure(str(result), retryable=False)
        if isinstance(result, Exception):
            count_fault(Fault.FUNCTION)
            where = f"{request.image}: " if request.image is not None else ""
            said = f"{type(result).__name__}: {' '.join(str(result).split())}".removesuffix(": ")
            return Failure(f"{where}the function {self.name} raised {said}", Fault.FUNCTION.passes)
        if not isinstance(result, str):
            about = f"the prompt {request.prompt!r}" if request.image is None else "the image"
            raise ModelError(
                f"The function {self.name} gave {reprlib.repr(result)} for {about}, which is not text.",
                file=request.image,
                remedy="Return a str; if there is no answer, raise an exception that says why.",
            )
        return Answer(well_formed(result.strip()), seconds=seconds)

    def _call(self, request: Request, _: object = None) -> tuple[object, float]:
        """Returns the function's value, or the exception that was raised, and the seconds that it took."""
        started = time.perf_counter()
        try:
            result = self.function(
                *([self._image(request)] if self._with_image else ()),
                request.prompt,
                **({"sample": request.sample} if self._with_sample else {}),
            )
            result = _wait_for(result) if inspect.iscoroutine(result) else result
        except ModelError:
            raise
        except Exception as error:
            result = error
        return result, time.perf_counter() - started

    def _image(self, request: Request) -> Image.Image | None:
        if request.image is None:
            return None
        image = load_image(request.image, sha256=request.image_sha256 or None)
        image.filename = str(request.image)  # type: ignore[attr-defined]
        return image


_LOOP_LOCK = threading.Lock()


@functools.cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Starts an event loop in its own thread; it outlives a call, as clients that a function keeps belong to it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="taxtune-async", daemon=True).start()
    return loop


def _wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine in the event loop; an interrupt cancels it."""
    with _LOOP_LOCK:
        loop = _event_loop()
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    finally:
        future.cancel()


def _name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _signature(function: Callable[..., Any], name: str) -> tuple[bool, bool]:
    """Tells whether a function takes an image before the prompt, and whether it takes the number of the sample."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions tell nothing
        return True, False
    needed = [one for one in parameters.values() if one.default is one.empty and one.name != "sample"]
    names = [one.name for one in needed if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    wrong_order = len(names) == 2 and (names[0].startswith("prompt") or names[1].startswith("image"))
    if len(names) not in (1, 2) or wrong_order or names in (["image"], ["images"], ["images", "prompts"]):
        shown = f"{name}{inspect.signature(function)}"
        raise ModelError("The function cannot be called with an image and a prompt.", value=shown, remedy=_FORMS)
    return len(names) == 2, "sample" in parameters


def function_identity(function: Callable[..., Any]) -> Identity:
    """Identifies a function by its name and a hash of its source."""
    return {"kind": "function", "name": _name(function), "source": _digest(function)}


def _digest(function: Any) -> str:
    """Hashes a function's source, defaults and closure, and the arguments of a `partial`."""
    parts = []
    while function is not None:
        if isinstance(function, functools.partial):
            parts += [_plain(function.args), _plain(function.keywords)]
            function = function.func
            continue
        bare = function if hasattr(function, "__qualname__") else type(function)
        if inspect.ismethod(function):  # its class has the source
            bare = function.__self__ if isinstance(function.__self__, type) else type(function.__self__)
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
    if isinstance(value, CodeType):
        value = [value.co_code, value.co_names, value.co_consts]
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, set | frozenset):
        value = sorted(map(_plain, value))
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_plain, value))}]"
    return repr(value) if isinstance(value, str | bytes | int | float | None) else type(value).__qualname__
