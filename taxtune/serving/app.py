"""A classifier behind HTTP: a page for the browser, and images or MLflow's JSON for programs.

The page needs no network but this server. A content security policy fixes what it may load and run.
A request is read only as far as its limit, whatever it says of its length, and nothing of it stands
in an error. All requests together take no more memory than a few large ones.
"""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from taxtune.classifier.cascading import CascadeClassifier
from taxtune.classifier.classifier import Classifier
from taxtune.errors import DataError, ModelError
from taxtune.policies import Posterior
from taxtune.serving.pyfunc import MAX_BYTES, ServedClassifier

if TYPE_CHECKING:
    from starlette.middleware.base import RequestResponseEndpoint

__all__ = ["make_app"]

_PAGE = Path(__file__).parent / "page"
#: Of a request: one image of the most bytes in base64, and what is around it.
_MAX_REQUEST = MAX_BYTES * 4 // 3 + 1024**2
#: Of all requests that are read and answered at a time.
_MOST_AT_ONCE = 3 * _MAX_REQUEST
#: Images in a request.
_MAX_IMAGES = 1000
#: Commas and brackets in the JSON of a request; a data: address takes two, a score one.
_MAX_VALUES = 20_000
_TYPES = "Send an image (Content-Type: image/jpeg, image/png, ...) or JSON (application/json)."
_FORM = (
    'The JSON must be {"inputs": [IMAGE, ...]} or {"dataframe_records": [{"image": IMAGE, '
    f"COLUMN: VALUE, ...}}, ...]}} with 1 to {_MAX_IMAGES:,} images, each IMAGE the content of a "
    "file in base64 or as a data: address."
)


class _Bodies:
    """The bodies of the requests under way, which share `_MOST_AT_ONCE` bytes; used by one event loop."""

    def __init__(self) -> None:
        self._bytes = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Reads a body and counts it until the request is answered.

        Raises:
            HTTPException: If it is too large, by its own account or in fact, or there is no room for it now.
            ClientDisconnect: If the client goes away.
        """
        declared = request.headers.get("content-length", "")
        megabytes = _MAX_REQUEST // 1024**2
        too_large = f"The request has more than {megabytes} MB: send fewer or smaller images."
        if declared.isdecimal() and int(declared) > _MAX_REQUEST:
            raise HTTPException(413, too_large)
        chunks: list[bytes] = []
        size = 0
        held = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > _MAX_REQUEST:
                    raise HTTPException(413, too_large)
                if self._bytes + len(chunk) > _MOST_AT_ONCE:
                    # Read to its end, and not kept: a client that still sends does not listen.
                    self._bytes -= held
                    held = 0
                    chunks.clear()
                elif size == held + len(chunk):
                    self._bytes += len(chunk)
                    held = size
                    chunks.append(chunk)
            if held < size:
                message = (
                    "The server is busy with other large requests: "
                    "send this one again in a few seconds."
                )
                raise HTTPException(503, message, {"Retry-After": "5"})
            body = b"".join(chunks)
            chunks.clear()
            yield body
        finally:
            self._bytes -= held


class _Row(BaseModel):
    """An image with what is known of it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | int | float | list[str] | dict[str, float] | None] = Field(
        init=False
    )
    image: str


class _Images(BaseModel):
    """The JSON of a request, as MLflow's scoring server takes it, too: one of the two."""

    inputs: list[str] | None = Field(None, min_length=1, max_length=_MAX_IMAGES)
    dataframe_records: list[_Row] | None = Field(None, min_length=1, max_length=_MAX_IMAGES)

    @model_validator(mode="after")
    def _check_form(self) -> _Images:
        if (self.inputs is None) == (self.dataframe_records is None):
            raise ValueError("one of the two")
        return self

    @property
    def images(self) -> list[str]:
        """Returns the images, in the order of the request."""
        return [*(self.inputs or ()), *(row.image for row in self.dataframe_records or ())]

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Returns the context of each image by column; nothing if only images are given."""
        return [row.model_extra or {} for row in self.dataframe_records or ()]


def make_app(served: ServedClassifier, address: str, hosts: Iterable[str] = ()) -> Starlette:
    """Makes the server of a classifier, with its page.

    Args:
        served: The classifier that answers.
        address: Where it will be reached, for the page to show.
        hosts: Names of this machine that browsers may know it by, besides localhost, its own and
            IP addresses.
    """
    classifier = served.get_raw_model()
    page, policy = _page(classifier, address)
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    list_columns = {each.column for each in classifier.context if each.kind == "list"}
    bodies = _Bodies()

    async def home(request: Request) -> Response:
        return HTMLResponse(page, headers=headers)

    async def alive(request: Request) -> Response:
        return PlainTextResponse("\n")

    async def classify(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        known: dict[str, Any] = dict(request.query_params)
        for column in list_columns & known.keys():
            known[column] = request.query_params.getlist(column)
        try:
            # Read in any case: a client that still sends does not hear an answer.
            async with bodies.read(request) as body:
                if kind != "application/json" and not kind.startswith("image/"):
                    raise HTTPException(415, _TYPES)
                rows = await run_in_threadpool(_answer, served, body, kind, known)
        except ClientDisconnect:
            return PlainTextResponse("", 400)  # which nobody hears
        except HTTPException as refused:
            # The rest of too large a request is not read, so the connection is of no further use.
            closing = {"Connection": "close", **(refused.headers or {})}
            return JSONResponse({"message": refused.detail}, refused.status_code, closing)
        return JSONResponse({"predictions": rows})

    names = {"", "localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)}

    async def refuse_foreign(request: Request, answer: RequestResponseEndpoint) -> Response:
        host = request.headers.get("host", "")
        # A page from elsewhere whose own name is made to lead here (DNS rebinding) calls the server
        # by that name.
        if not _is_own_name(host, names):
            message = (
                "The server has no such name: use its IP address, localhost, "
                "or the name given to --host."
            )
            return JSONResponse({"message": message}, 400)
        origin = request.headers.get("origin")
        own_origins = (f"http://{host}".lower(), f"https://{host}".lower())
        if origin is not None and origin.lower() not in own_origins:
            message = (
                "The request comes from a page of another server; "
                "only the server's own page may ask it."
            )
            return JSONResponse({"message": message}, 403)
        return await answer(request)

    return Starlette(
        routes=[
            Route("/", home),
            Route("/ping", alive),
            Route("/health", alive),
            Route("/invocations", classify, methods=["POST"]),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=refuse_foreign)],
    )


def _is_own_name(host: str, names: set[str]) -> bool:
    """Tells whether a `Host` header has one of the names, or an IP address."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name not in names:
            ip_address(name)
    except ValueError:
        return False
    return True


def _answer(
    served: ServedClassifier, body: bytes, kind: str, known: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the rows for the body of a request.

    Raises:
        HTTPException: If the body cannot be used, or the model does not answer.
    """
    images: list[Any] = [body]
    cells: list[Mapping[str, Any]] = [known]
    if kind == "application/json":
        # Before it is parsed, since millions of brackets become as many objects.
        if sum(map(body.count, (b"[", b"{", b","))) > _MAX_VALUES:
            raise HTTPException(400, _FORM)
        try:
            given = _Images.model_validate_json(body)
        except ValidationError:
            raise HTTPException(400, _FORM) from None
        images = list(given.images)
        cells = list(given.cells)
    try:
        return served.rows(images, cells)
    except DataError as error:
        raise HTTPException(400, str(error)[:1000]) from error
    except ModelError as error:
        # A model's server may have sent an image back in its error.
        message = re.sub(r"[A-Za-z0-9+/=_-]{80,}", "…", str(error))
        raise HTTPException(503, message[:1000]) from error


def _page(classifier: Classifier, address: str) -> tuple[str, str]:
    """Returns the page about a classifier, and its content security policy."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from taxtune.models.local import LocalModel

    css = (_PAGE / "page.css").read_text(encoding="utf-8")
    script = (_PAGE / "page.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined
    )
    tree = classifier.taxonomy
    columns = classifier.columns
    identity = classifier.model.identity
    page = environment.get_template("page.html.j2").render(
        name=classifier.name,
        model=str(identity.get("model", identity["kind"])),
        remote=not isinstance(classifier.model, LocalModel),
        prompt=classifier.prompt,
        context=[variable for variable in classifier.context if variable.column in columns],
        query=f"?{urlencode(dict.fromkeys(columns, '...'))}" if columns else "",
        nodes=len(tree) - 1,
        root=tree.labels[tree.root],
        confidence=_confidence(classifier),
        scores=_scores(classifier),
        guarantee=classifier.guarantee,
        broken=classifier.broken,
        of_boxes=classifier.boxes is not None,
        most_bytes=MAX_BYTES,
        address=address,
        css=Markup(css),
        script=Markup(script),
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(css)}; "
        "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return page, policy


def _confidence(classifier: Classifier) -> str:
    """Returns the meaning of the confidence, in a sentence of the page."""
    calls = classifier.policy.samples
    if calls > 1:
        return (
            f"Each photo is asked about {calls} times; "
            "the share of the answers that name the label or one below it."
        )
    if isinstance(classifier.policy, Posterior):
        return "The probability that the model gives to the label's names and to those below it."
    if classifier.reliability is not None:
        return (
            "How often labels at this depth were right where answers to the run's held-out "
            "images went as deep."
        )
    return "Not known: nothing was judged with this classifier."


def _scores(classifier: Classifier) -> str:
    """Returns the fate of photos without scores, in two sentences of the page; "" for a run."""
    if not isinstance(classifier, CascadeClassifier) or classifier.cascade.chosen.first is None:
        return ""
    how = "they get no label"
    if classifier.labels_alone:
        how = "the model alone labels them"
    return f"Photos on this page have none: {how}. A program sends the score of each label."


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
