"""`taxtune serve`: a classifier in the browser and over HTTP."""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from taxtune.cli.classify import ModelSetOption, PolicyOption, named_classifier
from taxtune.errors import DataError, TaxtuneError
from taxtune.progress import note

__all__ = ["serve"]

_GRACE = 5  # seconds that requests have to end after Ctrl-C


def serve(
    classifier: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The folder of a finished tuning run or of a saved classifier, or a model in MLflow such as "
            "models:/NAME@champion.",
        ),
    ],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on; 0.0.0.0 lets other machines in."),
    ] = "127.0.0.1",
    policy: PolicyOption = "run",
    settings: ModelSetOption = None,
) -> None:
    """Serve a run's winner on a page in the browser, and over HTTP as MLflow serves models, until Ctrl-C.

    The page at / takes a photo and shows where it belongs, the way there and how sure each step is.
    POST /invocations takes images in base64 or as data: addresses, in the formats of MLflow's scoring server. No image
    is kept.
    """
    import uvicorn

    from taxtune.cli.interrupts import interrupts
    from taxtune.serving.app import make_app

    with _listening(host, port) as here:
        address = f"http://{f'[{host}]' if ':' in host else host}:{here.getsockname()[1]}"
        with tempfile.TemporaryDirectory(prefix="taxtune-serve-") as folder:
            model = _model(classifier, policy, settings, Path(folder))
        configured = uvicorn.Config(
            make_app(model, address), log_level="warning", access_log=False, timeout_graceful_shutdown=_GRACE
        )
        note(f"{model.get_raw_model().name}: {address} (Ctrl-C ends it)")
        try:
            uvicorn.Server(configured).run(sockets=[here])
        except KeyboardInterrupt:  # how a server is meant to end
            interrupts.heard()


def _model(classifier: str, policy: str, settings: list[str] | None, folder: Path) -> Any:
    """Returns the classifier as MLflow serves it, its weights loaded."""
    from taxtune.tracking.store import hushed, preload, short_reason

    preload()
    import mlflow.pyfunc
    from mlflow.exceptions import MlflowException

    from taxtune.serving.pyfunc import save_mlflow_model

    address = classifier
    if not classifier.startswith("models:/"):
        found = named_classifier(Path(classifier), policy, settings)
        save_mlflow_model(found.save(folder / "classifier"), folder / "model")
        address = str(folder / "model")
    elif settings or policy != "run":
        raise DataError(
            "A model in MLflow has its own policy and settings.",
            value=classifier,
            remedy="Leave out --policy and --set.",
        )
    note("Loading the model")
    try:
        with hushed():
            return mlflow.pyfunc.load_model(address, model_config={"content_only": True})
    except MlflowException as error:
        raise TaxtuneError(
            f"MLflow cannot load the model: {short_reason(error).rstrip('.')}.",
            value=classifier,
            remedy="Set MLFLOW_TRACKING_URI to the store that has it.",
        ) from error


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Takes the port before anything long is started."""
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        here = socket.socket(family)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        here.bind(where)
        here.listen()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise TaxtuneError(
            f"Cannot listen on {host}, port {port}: {error.strerror or error}.",
            remedy="Another program uses the port; --port 0 takes a free one."
            if taken
            else "Give --host an address of this machine, and --port a number above 1023.",
        ) from error
    with here:
        yield here
