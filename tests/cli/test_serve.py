"""`taxtune serve`: what it refuses at once, and a server of the field guide from its start to Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.commands import run_refused
from tests.serving.samples import BIRD, in_base64, save_field_guide


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["nowhere", "--host", "192.0.2.1"], "Cannot listen on 192.0.2.1"),
        (["nowhere", "--host", "no such host"], "Give --host an address of this machine"),
    ],
)
def test_what_cannot_be_served(arguments, said, tmp_path):
    assert said in run_refused("serve", *arguments, "--port", "0", folder=tmp_path)


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = run_refused("serve", "nowhere", "--port", port, folder=tmp_path)
    assert f"port {port}: Address already in use" in error


@pytest.mark.heavy
def test_from_its_start_to_ctrl_c(tmp_path):
    folder = save_field_guide(tmp_path)
    server = subprocess.Popen(
        [sys.executable, "-m", "taxtune", "serve", str(folder), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert server.stderr is not None
    try:
        said = []
        while "http" not in (line := server.stderr.readline()):
            said.append(line)
            assert line, said
        address = next(word for word in line.split() if word.startswith("http"))
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=10) as page:
            assert "birds" in page.read().decode()
        body = json.dumps({"inputs": [in_base64(BIRD), str(BIRD)]}).encode()
        request = urllib.request.Request(
            f"{address}/invocations", body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            sent, named = json.load(reply)["predictions"]
        assert sent["placement"].startswith("Aves")
        assert (
            "not an image file in base64" in named["failure"]
        )  # files of the server are nobody's business
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
        assert "Traceback" not in server.stderr.read()
    finally:
        server.kill()
        server.wait()
