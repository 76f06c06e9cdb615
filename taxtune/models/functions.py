"""A plain function as a model; and calls: several under way at a time, and one that is bounded in time."""

from __future__ import annotations

import asyncio
import dis
import functools
import hashlib
import inspect
import queue
import reprlib
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from taxtune.data.images import load_image
from taxtune.errors import ImageError, ModelError
from taxtune.models.base import (
    Answer,
    Failure,
    Fault,
    Identity,
    Reply,
    Request,
    count_fault,
)
from taxtune.untrusted import well_formed

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["FunctionModel", "as_completed", "bounded", "function_identity"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_FORMS = "Write answer(image, prompt) -> str or answer(prompt) -> str, which may be `async def`."


class FunctionModel:
    """A function that answers.

    The function takes an image and a prompt and returns the answer as a str. An image is a `PIL.Image.Image` in RGB
    whose `filename` is the path of the file; it is None for a request without one. One parameter is the prompt alone; a
    coroutine function (`async def`) runs several times concurrently, also in a notebook. What answers many requests at
    a time is a `Model`.

    An exception is a failure of that request. A `ModelError` ends the work at once, as does a function that fails for
    all requests.

    Answers are stored under the function's name and its attribute `identity` (text, or values by name) if it has one,
    or else a hash of its code and of the constants and functions that it was made with, taken when the model is made,
    so that a changed function is asked again. Other functions that it calls, and an object's values, are not looked at.

    Args:
        function: The function.
        batch_size: Failures in a row, without an answer before, that end the work; of an async function at least twice
            `concurrency`.
        concurrency: Concurrent calls of an async function, at least 1.

    Raises:
        ModelError: If it is no function, or cannot be called in any of these ways.
    """

    def __init__(
        self, function: Callable[..., Any], *, batch_size: int = 8, concurrency: int = 8
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise ModelError(
                "This is neither a model nor a function.", value=function, remedy=_FORMS
            )
        self.function = function
        self.name = _name(function)
        self._source = _digest(function)  # once: a function may add to a list that it was made with
        self.concurrency = concurrency
        self.takes_images = _takes_image(function, self.name)
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
        """The function's name, and what was given as its identity or a hash of its code."""
        named: Identity = {"kind": "function", "model": self.name}
        own = getattr(self.function, "identity", None)
        if own is None:
            return {**named, "source": self._source}
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
                *([self._image(request)] if self.takes_images else ()), request.prompt
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


def _takes_image(function: Callable[..., Any], name: str) -> bool:
    """Tells whether a function takes an image before the prompt."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions tell nothing
        return True
    needed = [one for one in parameters.values() if one.default is one.empty]
    names = [one.name for one in needed if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    wrong_order = len(names) == 2 and (
        names[0].startswith("prompt") or names[1].startswith("image")
    )
    if (
        len(names) not in (1, 2)
        or wrong_order
        or names in (["image"], ["images"], ["images", "prompts"])
    ):
        shown = f"{name}{inspect.signature(function)}"
        raise ModelError(
            "The function cannot be called with an image and a prompt.", value=shown, remedy=_FORMS
        )
    return len(names) == 2


def function_identity(function: Callable[..., Any]) -> Identity:
    """Identifies a function by its name and a hash of its code."""
    return {"kind": "function", "name": _name(function), "source": _digest(function)}


def _digest(function: Any) -> str:
    """Hashes a function's code and what it was made with: defaults, closure, arguments of a `partial`, constants."""
    return hashlib.sha256(_plain(function).encode("utf-8", "replace")).hexdigest()[:16]


def _plain(value: object, within: tuple[object, ...] = ()) -> str:
    """Returns a plain value, or a function, as text; of anything else, whose text may hold its address, its type.

    Args:
        value: The value.
        within: The functions that hold it, since one may hold itself.
    """
    if isinstance(value, str | bytes | int | float | complex | None | PurePath | Enum):
        return repr(value)
    if isinstance(value, CodeType):
        value = [value.co_code, value.co_names, value.co_consts]
    elif isinstance(value, Mapping):
        value = list(value.items())
    elif isinstance(value, set | frozenset):
        value = sorted(_plain(item, within) for item in value)
    elif callable(value) and not isinstance(value, type):
        if any(value is function for function in within):
            return "itself"
        within, value = (*within, value), _parts(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = [type(value).__qualname__, *(getattr(value, each.name) for each in fields(value))]
    if isinstance(value, tuple | list):
        return f"[{', '.join(_plain(item, within) for item in value)}]"
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _parts(function: Any) -> list[object]:
    """Lists the parts that tell a function from another; of an object that can be called the methods of its class."""
    if isinstance(function, functools.partial):
        return [function.func, function.args, function.keywords]
    if isinstance(function, FunctionType):
        # What an inner function was made with tells it from others of the same code.
        made = [cell.cell_contents for cell in function.__closure__ or ()]
        constants = [
            function.__globals__.get(name) for name in sorted(_constants(function.__code__))
        ]
        constants = [
            value for value in constants if isinstance(value, str | bytes | int | float | tuple)
        ]
        return [
            function.__code__,
            function.__defaults__,
            function.__kwdefaults__,
            *made,
            *constants,
        ]
    owner = getattr(function, "__self__", function)
    owner = owner if isinstance(owner, type) else type(owner)
    methods = [method for method in vars(owner).values() if isinstance(method, FunctionType)]
    return [
        owner.__qualname__,
        getattr(function, "__name__", ""),
        getattr(function, "__wrapped__", None),
        *methods,
    ]


def _constants(code: CodeType) -> set[str]:
    """Returns the names of the globals that code reads and does not assign, so that no count of calls is among them."""
    used: dict[str, set[str]] = {"LOAD_GLOBAL": set(), "STORE_GLOBAL": set()}
    for step in dis.get_instructions(code):
        used.get(step.opname, set()).add(str(step.argval))
    inner = [_constants(each) for each in code.co_consts if isinstance(each, CodeType)]
    return used["LOAD_GLOBAL"].union(*inner) - used["STORE_GLOBAL"]


# -- calls -------------------------------------------------------------------------------------------------------------


def as_completed(
    items: Sequence[Item], work: Callable[[Item, threading.Event], Result], concurrency: int
) -> Generator[tuple[int, Result]]:
    """Gives (place, what `work` makes of the item) as it comes; the items are begun in order.

    The first error ends everything, and so do Ctrl-C and closing the generator: items under way are told by the event
    and not waited for. What was answered before, and paid for, is given first.

    Args:
        items: What to work on.
        work: Called with an item and an event that is set when no result is wanted any more.
        concurrency: Items under way at a time.
    """
    stop, places = threading.Event(), iter(range(len(items)))
    finished: queue.SimpleQueue[tuple[int, Result] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        for place in places:
            if stop.is_set():
                return
            try:
                finished.put((place, work(items[place], stop)))
            except BaseException as error:
                stop.set()  # before another call is begun
                finished.put(error)

    for _ in range(min(concurrency, len(items))):
        _in_thread(run)
    try:
        for _ in items:
            try:
                got = finished.get()
                if isinstance(got, BaseException):
                    raise got
            except BaseException:
                stop.set()
                while not finished.empty():
                    if isinstance(more := finished.get(), tuple):
                        yield more
                raise
            yield got
    finally:
        stop.set()


def bounded(call: Callable[[], Result], seconds: float) -> Result:
    """Returns the result of a call made in a thread, since the time-outs of HTTP clients begin anew with every byte.

    A thread whose time is up is left to itself.

    Raises:
        TimeoutError: If it takes longer than that.
    """
    done: queue.SimpleQueue[tuple[Result] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((call(),))
        except BaseException as error:
            done.put(error)

    _in_thread(run)
    try:
        got = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(got, BaseException):
        raise got
    return got[0]


def _in_thread(run: Callable[[], None]) -> None:
    # A daemon, unlike those of `ThreadPoolExecutor`, which the end of the program waits for; in a context of its own,
    # so that its notes go to the display in force here.
    threading.Thread(
        target=copy_context().run, args=(run,), name="taxtune-call", daemon=True
    ).start()
