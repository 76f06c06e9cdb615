"""Which servers and keys a file may name: a recipe, or the folder of a run, may come from somebody else.

What the user types on the command line, or gives in Python, is their own and is not checked. What a file names is: data
goes only to servers that are the user's own, and only variables that are meant to hold a key are read as one.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from taxtune.errors import TaxtuneError

__all__ = ["SERVERS_VARIABLE", "check_server", "trust_server"]

#: The environment variable that lists the user's own servers, with commas or blanks between them.
SERVERS_VARIABLE = "TAXTUNE_SERVERS"

# Agreed to in this process, for a machine on which the user's settings cannot be written.
_agreed: set[str] = set()


def check_server(
    address: str | None, *, key: str, file: Path | None, sends: str = "images, prompts and your API key"
) -> None:
    """Checks that data may be sent to a server that a file names.

    It may be sent to this machine, to servers in `TAXTUNE_SERVERS`, and to those that the user agreed to before; at a
    terminal the user is asked about any other, once. Servers are compared by scheme, host and port.

    Args:
        address: The address; None, for a provider's own server, needs no check, nor does one without a host (a file).
        key: Where the file names it ("vlm.api_base"); what `--set` takes.
        file: The file.
        sends: What is sent there, for the question and the message.

    Raises:
        TaxtuneError: If it is no address, or not one that data may be sent to.
    """
    if address is None:
        return
    try:
        server = _server(address)
    except ValueError:
        remedy = "Write it as http://HOST:PORT/v1."
        raise TaxtuneError(f"{key} is not an address.", file=file, value=address, remedy=remedy) from None
    if server is None:
        return
    listed = re.split(r"[,\s]+", os.environ.get(SERVERS_VARIABLE, "").lower())
    if server in _agreed | _remembered() | {"/".join(each.split("/")[:3]) for each in listed}:
        return
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        print(f"{file or 'The recipe'} sends {sends} to {server} ({key}).", file=sys.stderr)
        print("Do you trust this server? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            _remember(server)
            return
    raise TaxtuneError(
        f"{key} sends {sends} to {server}, which you have not confirmed to be a server of yours.",
        file=file,
        remedy=f"If you trust it, export {SERVERS_VARIABLE}={server}, or give the address on the command line: "
        f"--set {key}={address}",
    )


def trust_server(address: str | None) -> None:
    """Remembers a server that the user typed: what a run was told to use, its folder may name later."""
    with suppress(ValueError):
        server = None if address is None else _server(address)
        if server is not None and server not in _agreed | _remembered():
            _remember(server)


def _server(address: str) -> str | None:
    """Returns scheme, host and port of an address, in lower case; None if that is this machine.

    Raises:
        ValueError: If it is no address, or one of which two clients may read two hosts.
    """
    parts = urlsplit(address)
    host, port = parts.hostname, parts.port
    if "://" not in address or re.search(r"[^!-~]|\\", address):
        raise ValueError
    if host is None or host == "localhost":
        return None
    with suppress(ValueError):
        if (number := ip_address(host)).is_loopback or number.is_unspecified:
            return None
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


def _file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("taxtune") / "servers"


def _remember(server: str) -> None:
    _agreed.add(server)
    with suppress(OSError):  # asked again next time
        _file().parent.mkdir(parents=True, exist_ok=True)
        with _file().open("a", encoding="utf-8") as stream:
            stream.write(server + "\n")


def _remembered() -> set[str]:
    try:
        return set(_file().read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        return set()
