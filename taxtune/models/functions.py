"""A plain function as a model."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import reprlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from taxtune.data.images import DEFAULT_MAX_PIXELS, load_image
from taxtune.errors import ImageError, ModelError
from taxtune.models.base import Answer, Failure, Identity, Reply, Request

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["FunctionModel"]

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
    loop runs already, as in a notebook; and `image` and `prompt` may stand in either order.

    An exception is a failure of that request, with its text as the reason; of a batch, smaller batches are tried until
    the request at fault is found. A `ModelError` ends the work at once, as does a function that fails for all.

    Args:
        function: The function.
        batched: Whether it takes lists; None tells it from the names of the parameters.
        identity: What the answers are stored under besides the function's name: text, or values by name. Left out, it
            is the function's attribute `identity` if it has one, or else a hash of its source, so that a changed
            function is asked anew. Only the function itself is looked at, not what it calls.
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
        self._roles, takes_lists = _signature(function, self.name)
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
        """Answers requests, in the same order and number.

        Raises:
            ModelError: If the function says so, gives what is no text, or has answered none of two requests or more.
        """
        replies: dict[int, Reply] = {}
        ready: list[tuple[int, tuple[Image.Image | None, str]]] = []
        for place, request in enumerate(requests):
            try:
                ready.append((place, (self._image(request), request.prompt)))
            except ImageError as error:
                replies[place] = Failure(str(error), retryable=False)
        failed: list[Failure] = []
        for (place, _), said in zip(ready, self._all([one for _, one in ready]), strict=True):
            if isinstance(said, Exception):
                replies[place] = Failure(self._reason(requests[place], said), retryable=True)
                failed.append(replies[place])  # type: ignore[arg-type]
            else:
                replies[place] = Answer(self._text(requests[place], said), cost_usd=None)
        self._has_answered |= len(failed) < len(ready)
        if len(failed) > 1 and not self._has_answered:
            raise ModelError(
                f"The function {self.name} failed for all of {len(failed)} requests; the first: {failed[0].reason}",
                remedy="Mend the function, then go on; the answers that came are kept.",
            )
        return [replies[place] for place in range(len(requests))]

    def _image(self, request: Request) -> Image.Image | None:
        if request.image is None or "image" not in self._roles:
            return None
        image = load_image(request.image, max_pixels=self.max_pixels, sha256=request.image_sha256 or None)
        image.filename = str(request.image)  # type: ignore[attr-defined]
        return image

    def _all(self, inputs: Sequence[tuple[Image.Image | None, str]]) -> list[object]:
        """Returns what the function gives for each input, or the exception that it raised."""
        if self._batched:
            return self._batch(inputs) if inputs else []
        if self._async:
            return list(_EVENT_LOOP.run(self._together(inputs)))
        return [_caught(self._call, *one) for one in inputs]

    def _call(self, image: object, prompt: object) -> Any:
        given = {"image": image, "prompt": prompt}
        return self.function(*(given[role] for role in self._roles))

    def _batch(self, inputs: Sequence[tuple[Image.Image | None, str]]) -> list[object]:
        def call() -> object:
            result = self._call([image for image, _ in inputs], [prompt for _, prompt in inputs])
            return _EVENT_LOOP.run(result) if inspect.iscoroutine(result) else result

        said = _caught(call)
        if isinstance(said, Exception):
            if len(inputs) == 1:
                return [said]
            half = len(inputs) // 2
            return self._batch(inputs[:half]) + self._batch(inputs[half:])
        if isinstance(said, str | bytes) or not isinstance(said, Sequence) or len(said) != len(inputs):
            raise ModelError(
                f"The function {self.name} must give a list of {len(inputs)} answers to {len(inputs)} prompts.",
                value=said,
            )
        return list(said)

    async def _together(self, inputs: Sequence[tuple[Image.Image | None, str]]) -> Sequence[object]:
        places = asyncio.Semaphore(self.concurrency)

        async def call(image: Image.Image | None, prompt: str) -> object:
            async with places:
                try:
                    return await self._call(image, prompt)
                except ModelError:
                    raise
                except Exception as error:
                    return error

        return await asyncio.gather(*(call(*one) for one in inputs))

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
                remedy="Return a str; where there is no answer, raise an exception that says why.",
            )
        # Half a surrogate pair could not be stored.
        return said.strip().encode("utf-8", "replace").decode("utf-8")


class _EventLoop:
    """An event loop in a thread of its own, made at first use.

    It serves where a loop runs already, and outlives a batch, so that a client that an async function keeps (which
    belongs to the loop that it was first used in) can be used again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Returns what a coroutine gives; Ctrl-C cancels it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="taxtune-async", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()


_EVENT_LOOP = _EventLoop()


def _caught(call: Callable[..., object], *arguments: object) -> object:
    """Returns what a call gives, or the exception that it raised, unless that is a `ModelError`."""
    try:
        return call(*arguments)
    except ModelError:
        raise
    except Exception as error:
        return error


def _name(function: Callable[..., Any]) -> str:
    plain = _plain(function)
    return f"{plain.__module__}.{plain.__qualname__}"


def _plain(function: Callable[..., Any]) -> Any:
    """Returns what has a name and a source: the function of a partial, the class of an object with `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def _signature(function: Callable[..., Any], name: str) -> tuple[tuple[str, ...], bool]:
    """Returns what a function's positional parameters stand for ("image", "prompt"), and whether they are lists."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built-in functions tell nothing
        return ("image", "prompt"), False
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
        return ("prompt",), takes_lists
    return ("prompt", "image") if names[0] in ("prompt", "prompts") else ("image", "prompt"), takes_lists


def _digest(function: Callable[..., Any]) -> str:
    """Returns a hash of what a function does, as far as it can be told from the function itself."""
    return hashlib.sha256("\0".join(_described(function)).encode("utf-8", "replace")).hexdigest()[:16]


def _described(function: Any) -> Iterator[str]:
    if isinstance(function, functools.partial):
        yield from (*map(_value, function.args), _value(function.keywords))
        yield from _described(function.func)
        return
    plain = _plain(function)
    while (inner := getattr(plain, "__wrapped__", None)) is not None:
        yield from _own(plain)
        plain = inner
    yield from _own(plain)
    if inspect.ismethod(function):
        yield from _own(type(function.__self__))


def _own(plain: Any) -> Iterator[str]:
    plain = getattr(plain, "__func__", plain)
    if isinstance(plain, FunctionType):
        # What a lambda or an inner function was made with tells it from others of the same source.
        yield _value(plain.__defaults__)
        for cell in plain.__closure__ or ():
            try:
                yield _value(cell.cell_contents)
            except ValueError:  # not bound yet
                continue
    try:
        if getattr(plain, "__name__", "") != "<lambda>":  # of which a line may hold several
            yield inspect.getsource(plain)
            return
    except (OSError, TypeError):
        pass
    if isinstance(plain, FunctionType):
        yield from _code(plain.__code__)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        yield from _code(constant) if isinstance(constant, CodeType) else (_value(constant),)


def _value(value: object) -> str:
    """Returns a plain value as text; of anything else, whose text may hold its address, its type."""
    if isinstance(value, str | bytes | int | float | bool | None):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)}: {_value(one)}' for key, one in value.items())}}}"
    return type(value).__qualname__
