"""`taxtune serve`: a classifier in the browser and over HTTP."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.classify import ClassifierBaseOption, ModelSetOption, PolicyOption, named_classifier
from taxtune.errors import TaxtuneError
from taxtune.options import opt
from taxtune.progress import note

__all__ = ["serve"]

_GRACE = 5  # seconds that requests have to end after Ctrl-C


def serve(
    classifier: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a finished tuning run or of a saved classifier.")
    ],
    port: Annotated[int, opt("Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    host: Annotated[str, opt("Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    policy: PolicyOption = "run",
    settings: ModelSetOption = None,
    api_base: ClassifierBaseOption = None,
) -> None:
    """Serve a run's winner on a page in the browser, and over HTTP, until Ctrl-C.

    The page at / takes photos or a folder, shows where each belongs, the way there and how sure each step is, and has
    all labels as a CSV file. POST /invocations takes an image file, or JSON: {"inputs": [IMAGE, ...]} with
    images in base64. No image is kept.
    """
    import uvicorn

    from taxtune.serving.app import make_app
    from taxtune.serving.pyfunc import ServedClassifier

    with _listening(host, port) as here:  # before anything long is started
        address = f"http://{f'[{host}]' if ':' in host else host}:{here.getsockname()[1]}"
        found = named_classifier(classifier, policy, settings, api_base)
        served = ServedClassifier(found, content_only=True)
        note("Loading the model")
        served.load()
        configured = uvicorn.Config(
            make_app(served, address, [host]), log_level="warning", access_log=False, timeout_graceful_shutdown=_GRACE
        )
        if here.getsockname()[0] in ("0.0.0.0", "::"):
            note("every machine that reaches this one can ask the model: there is no password and no encryption")
        note(f"{found.name}: {address} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):  # how a server is meant to end
            uvicorn.Server(configured).run(sockets=[here])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(where[:2], family=family)
    except OSError as error:
        remedy = "Give --host an address of this machine, and another --port; 0 takes a free one."
        message = f"Cannot listen on {host}, port {port}: {error.strerror or error}."
        raise TaxtuneError(message, remedy=remedy) from error
