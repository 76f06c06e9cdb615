"""`taxtune serve`: a classifier in the browser and over HTTP."""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.cli.classify import ClassifierBaseOption, ModelSetOption, PolicyOption, named_classifier
from taxtune.errors import DataError, TaxtuneError
from taxtune.options import opt
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.classifier import Classifier

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
    port: Annotated[int, opt("Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    host: Annotated[str, opt("Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    policy: PolicyOption = "run",
    settings: ModelSetOption = None,
    api_base: ClassifierBaseOption = None,
) -> None:
    """Serve a run's winner on a page in the browser, and over HTTP, until Ctrl-C.

    The page at / takes photos or a folder, shows where each belongs, the way there and how sure each step is, and has
    all labels as a CSV file. POST /invocations takes an image file, or images in base64 in the JSON formats of MLflow's
    scoring server. No image is kept.
    """
    import uvicorn

    from taxtune.serving.app import make_app
    from taxtune.serving.pyfunc import ServedClassifier

    with _listening(host, port) as here:
        address = f"http://{f'[{host}]' if ':' in host else host}:{here.getsockname()[1]}"
        with tempfile.TemporaryDirectory(prefix="taxtune-serve-") as folder:
            found = _classifier(classifier, policy, settings, api_base, Path(folder))
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


def _classifier(named: str, policy: str, settings: list[str] | None, api_base: str | None, folder: Path) -> Classifier:
    """Returns the classifier of a folder, or of a model in MLflow, of which only taxtune's own files are read.

    Args:
        named: The folder, or the model's address.
        policy: What --policy says.
        settings: What --set says.
        api_base: What --api-base says.
        folder: An empty folder for the files of a model in MLflow.
    """
    if not named.startswith("models:/"):
        return named_classifier(Path(named), policy, settings, api_base)
    from taxtune.tracking.store import hushed, preload, short_reason

    preload()
    import mlflow.artifacts
    from mlflow.exceptions import MlflowException
    from mlflow.models import Model

    try:
        with hushed():
            there = Path(mlflow.artifacts.download_artifacts(artifact_uri=named, dst_path=str(folder)))
            known = Model.load(there).flavors.get("python_function", {})
    except MlflowException as error:
        raise TaxtuneError(
            f"MLflow cannot load the model: {short_reason(error).rstrip('.')}.",
            value=named,
            remedy="Set MLFLOW_TRACKING_URI to the store that has it.",
        ) from error
    if known.get("loader_module") != "taxtune.serving.pyfunc":
        raise DataError("The model is not a classifier of taxtune.", value=named)
    return named_classifier(there / known["data"], policy, settings, api_base)


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
