"""A plain function as a model, and what tells it from others."""

from __future__ import annotations

import asyncio
import dis
import functools
import hashlib
import inspect
import reprlib
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from taxtune.errors import ImageError, ModelError, one_line
from taxtune.images import load_image
from taxtune.models.base import (
    Answer,
    Failure,
    Fault,
    Identity,
    Reply,
    Request,
    StreamingModel,
    count_fault,
)
from taxtune.models.calls import as_completed
from taxtune.untrusted import well_formed

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["FunctionModel", "function_identity"]

_FORMS = "Write answer(image, prompt) -> str or answer(prompt) -> str, which may be `async def`."


class FunctionModel(StreamingModel):
    """A function that answers.

    The function takes an image and a prompt and returns the answer as a str. An image is a
    `PIL.Image.Image` in RGB whose `filename` is the path of the file; it is None for a request
    without one. One parameter is the prompt alone; a coroutine function (`async def`) runs several
    times concurrently, also in a notebook. What answers many requests at a time is a `Model`.

    An exception is a failure of that request. A `ModelError` ends the work at once, as does a
    function that fails for all requests.

    Answers are stored under the function's name and its attribute `identity` (text, or values by
    name) if it has one, or else a hash of its code and of the constants and functions that it was
    made with, taken when the model is made, so that a changed function is asked again. Other
    functions that it calls, and an object's values, are not looked at.

    Args:
        function: The function.
        batch_size: Failures in a row, without an answer before, that end the work; of an async
            function at least twice `concurrency`.
        concurrency: Concurrent calls of an async function, at least 1.

    Raises:
        ModelError: If it is no function, or cannot be called in any of these ways.
    """

    def __init__(
        self, function: Callable[..., Any], *, batch_size: int = 8, concurrency: int = 8
    ) -> None:
        if not callable(function) or isinstance(function, type):
            message = "This is neither a model nor a function."
            raise ModelError(message, value=function, remedy=_FORMS)
        self.function = function
        self.name = _name(function)
        self._source = _digest(function)  # once: a function may add to a list that it was made with
        self.takes_images = _takes_image(function, self.name)
        call = getattr(function, "__call__", None)  # noqa: B004 - it may be `async def`
        self._is_async = any(map(inspect.iscoroutinefunction, (function, call)))
        #: Calls under way at a time.
        self.concurrency = concurrency if self._is_async else 1
        #: Requests that keep the function busy.
        self.batch_size = max(batch_size, 2 * concurrency) if self._is_async else batch_size
        self._has_answered = False

    def __repr__(self) -> str:
        return f"FunctionModel({self.name})"

    @property
    def identity(self) -> Identity:
        """The function's name, and what was given as its identity or a hash of its code."""
        identity: dict[str, Any] = {"kind": "function", "model": self.name}
        given = getattr(self.function, "identity", None)
        if given is None:
            identity["source"] = self._source
        elif isinstance(given, Mapping):
            identity |= given
        else:
            identity["identity"] = given
        return identity

    def stream(self, requests: Sequence[Request]) -> Generator[tuple[int, Reply]]:
        """Gives (place, reply) in order, or those of an async function as its calls end.

        Raises:
            ModelError: If the function says so, gives what is not text, or has failed for all of a
                batch of two or more without ever having answered.
        """
        failures: list[Failure] = []
        asked = len(requests)
        for place, (result, seconds) in self._results(requests):
            reply = self._reply(requests[place], result, seconds)
            if isinstance(reply, Answer):
                self._has_answered = True
            elif isinstance(result, ImageError):
                asked -= 1
            else:
                failures.append(reply)
            most = max(2, min(self.batch_size, asked))
            if len(failures) >= most and not self._has_answered:
                raise ModelError(
                    f"The function {self.name} failed for all {len(failures)} requests, "
                    f"first: {failures[0].reason}",
                    remedy="Fix the function, then continue; the answers so far are saved.",
                )
            yield place, reply

    def _results(self, requests: Sequence[Request]) -> Iterator[tuple[int, tuple[object, float]]]:
        if self._is_async:
            return as_completed(requests, self._call, self.concurrency)
        return enumerate(map(self._call, requests))

    def _reply(self, request: Request, result: object, seconds: float) -> Reply:
        if isinstance(result, ImageError):
            return Failure(str(result), retryable=False)
        if isinstance(result, Exception):
            count_fault(Fault.FUNCTION)
            where = f"{request.image}: " if request.image is not None else ""
            problem = f"{type(result).__name__}: {one_line(result)}".removesuffix(": ")
            reason = f"{where}the function {self.name} raised {problem}"
            return Failure(reason, retryable=Fault.FUNCTION.passes)
        if not isinstance(result, str):
            about = f"the prompt {request.prompt!r}" if request.image is None else "the image"
            raise ModelError(
                f"The function {self.name} gave {reprlib.repr(result)} for {about}, "
                "which is not text.",
                file=request.image,
                remedy="Return a str; if there is no answer, raise an exception that says why.",
            )
        return Answer(well_formed(result.strip()), seconds=seconds)

    def _call(self, request: Request, _: object = None) -> tuple[object, float]:
        """Returns the function's value, or the exception that was raised, and the seconds taken."""
        started = time.perf_counter()
        try:
            if self.takes_images:
                result = self.function(self._image(request), request.prompt)
            else:
                result = self.function(request.prompt)
            if inspect.iscoroutine(result):
                result = _wait_for(result)
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
    """Starts an event loop in its own thread.

    It outlives a call, as clients that a function keeps belong to it.
    """
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


def _takes_image(function: Callable[..., Any], name: str) -> bool:
    """Tells whether a function takes an image before the prompt."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions tell nothing
        return True
    names = []
    for parameter in parameters.values():
        is_variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_variable:
            names.append(parameter.name)
    is_image_alone = names in (["image"], ["images"])
    is_swapped = len(names) == 2 and (names[0].startswith("prompt") or names[1].startswith("image"))
    is_plural = names == ["images", "prompts"]
    if len(names) not in (1, 2) or is_image_alone or is_swapped or is_plural:
        message = "The function cannot be called with an image and a prompt."
        raise ModelError(message, value=f"{name}{inspect.signature(function)}", remedy=_FORMS)
    return len(names) == 2


def function_identity(function: Callable[..., Any]) -> Identity:
    """Identifies a function by its name and a hash of its code."""
    return {"kind": "function", "name": _name(function), "source": _digest(function)}


def _digest(function: Any) -> str:
    """Hashes a function's code and what it was made with.

    That is its defaults and closure, the arguments of a `partial`, and constants.
    """
    return hashlib.sha256(_described(function).encode("utf-8", "replace")).hexdigest()[:16]


def _described(value: object, within: tuple[object, ...] = ()) -> str:
    """Returns a plain value, or a function, as text; of anything else its type.

    (Its own text may hold its address.)
    """
    if isinstance(value, str | bytes | int | float | complex | None | PurePath | Enum):
        return repr(value)
    if isinstance(value, CodeType):
        value = [value.co_code, value.co_names, value.co_consts]
    elif isinstance(value, Mapping):
        value = list(value.items())
    elif isinstance(value, set | frozenset):
        value = sorted(_described(item, within) for item in value)
    elif callable(value) and not isinstance(value, type):
        if any(value is function for function in within):
            return "itself"
        within = (*within, value)
        value = _parts(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = [type(value).__qualname__, *(getattr(value, part.name) for part in fields(value))]
    if isinstance(value, tuple | list):
        return f"[{', '.join(_described(item, within) for item in value)}]"
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _parts(function: Any) -> list[object]:
    """Lists the parts that tell a function from another; of a callable object its methods."""
    if isinstance(function, functools.partial):
        return [function.func, function.args, function.keywords]
    if isinstance(function, FunctionType):
        code = function.__code__
        parts: list[object] = [code, function.__defaults__, function.__kwdefaults__]
        # What an inner function was made with tells it from others of the same code.
        parts += [cell.cell_contents for cell in function.__closure__ or ()]
        for name in sorted(_constants(code)):
            value = function.__globals__.get(name)
            if isinstance(value, str | bytes | int | float | tuple):
                parts.append(value)
        return parts
    owner = getattr(function, "__self__", function)
    if not isinstance(owner, type):
        owner = type(owner)
    name = getattr(function, "__name__", "")
    wrapped = getattr(function, "__wrapped__", None)
    methods = [method for method in vars(owner).values() if isinstance(method, FunctionType)]
    return [owner.__qualname__, name, wrapped, *methods]


def _constants(code: CodeType) -> set[str]:
    """Returns the names of the globals that code reads and does not assign.

    So no count of calls is among them.
    """
    read = set()
    assigned = set()
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL":
            read.add(str(step.argval))
        elif step.opname == "STORE_GLOBAL":
            assigned.add(str(step.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            read |= _constants(constant)
    return read - assigned
