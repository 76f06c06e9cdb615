"""MLflow's server, started as people start it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

__all__ = ["mlflow_server", "serving"]


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """Starts a tracking server that keeps its database and artifacts in a new folder, and yields its address."""
    folder.mkdir()
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    store += ["--artifacts-destination", f"{folder}/artifacts", "--workers", "1"]
    with serving([sys.executable, "-m", "mlflow", "server", *store], folder / "log") as address:
        yield address


@contextlib.contextmanager
def serving(command: Sequence[str], log: Path) -> Iterator[str]:
    """Runs a command with a `--port`, which starts MLflow's server, and yields the address once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with log.open("w") as said:
        # A session of its own: the server starts others, which end with it.
        server = subprocess.Popen(
            [*command, "--port", str(port)],
            env=environment,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            for _ in range(600):
                with (
                    contextlib.suppress(OSError),
                    urlopen(f"http://127.0.0.1:{port}/health", timeout=5),
                ):
                    break
                assert server.poll() is None, log.read_text()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)
