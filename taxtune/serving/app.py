"""MLflow's scoring server with a page for the browser: choose a photo, see where it belongs and how sure that is.

The page needs no network but this server. What it may load and run is fixed by a content security policy.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.serving.images import MAX_BYTES

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

    from taxtune.classifier import Classifier

__all__ = ["make_app"]

_PAGE = Path(__file__).parent / "page"
#: Of a request: one image of the most bytes in base64, and what is around it.
_MAX_REQUEST = MAX_BYTES * 4 // 3 + 1024**2
#: Seconds; MLflow's own minute is short for a large model on a CPU.
_TIMEOUT = "3600"


def make_app(model: Any, address: str) -> FastAPI:
    """Returns MLflow's scoring server for a model, with the page.

    Args:
        model: What `mlflow.pyfunc.load_model` made of a classifier.
        address: Where it will be reached, for the page to show.
    """
    os.environ.setdefault("MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT", _TIMEOUT)
    from fastapi.responses import HTMLResponse, JSONResponse
    from mlflow.pyfunc import scoring_server

    app: FastAPI = scoring_server.init(model)
    page, policy = _page(model.get_raw_model(), address)
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    async def limited(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > _MAX_REQUEST:
            message = f"The request has more than {_MAX_REQUEST // 1024**2} MB: send fewer or smaller images."
            return JSONResponse({"error_code": "BAD_REQUEST", "message": message}, status_code=413)
        return await call_next(request)

    async def home() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    app.middleware("http")(limited)
    app.get("/", include_in_schema=False)(home)
    return app


def _page(classifier: Classifier, address: str) -> tuple[str, str]:
    """Returns the page about a classifier, and its content security policy."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from taxtune.models.local import LocalModel

    css, script = ((_PAGE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = Environment(loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined)
    tree, promise = classifier.taxonomy, classifier.promise
    page = environment.get_template("page.html.j2").render(
        name=classifier.name,
        model=str(classifier.model.identity.get("model", classifier.model.identity["kind"])),
        remote=not isinstance(classifier.model, LocalModel),
        prompts=classifier.prompts,
        nodes=len(tree) - 1,
        root=tree.labels[tree.root],
        confidence=_confidence(classifier),
        promise=None if promise is None else _promise(promise.risk, promise.confidence, promise.images),
        most_bytes=MAX_BYTES,
        address=address,
        css=Markup(css),
        script=Markup(script),
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(css)}; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


def _confidence(classifier: Classifier) -> str:
    calls = classifier.policy.calls
    if calls > 1:
        return f"Each photo is asked about {calls} times; the share of the answers that name the label or one below it."
    if classifier.reliability is not None:
        return "How often labels at this depth were right where answers to the run's held-out images went as deep."
    return "Not known: nothing was judged with this classifier."


def _promise(risk: float, confidence: float | None, images: int) -> str:
    how = "in expectation" if confidence is None else f"with confidence {confidence:g}"
    return f"Mean hP of at least {1 - risk:g} on photos of the same kind, {how}, from {images:,} images."


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
