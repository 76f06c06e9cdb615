"""Which servers a file may name: a recipe, or the folder of a run, may come from another person.

What the user types on the command line, or gives in Python, is their own and is not checked. Data goes to a server that
a file names only where it is the user's own.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from taxtune.errors import TaxtuneError

__all__ = ["SERVERS_VARIABLE", "check_server"]

#: The environment variable that lists the user's own servers, with commas or blanks between them.
SERVERS_VARIABLE = "TAXTUNE_SERVERS"


def check_server(
    address: str | None, *, key: str, file: Path | None, sends: str = "images, prompts and your API key"
) -> None:
    """Checks that data may be sent to a server that a file names: this machine, or one in `TAXTUNE_SERVERS`.

    Servers are compared by scheme, host and port.

    Args:
        address: The address; None, for a provider's own server, needs no check, nor does one without a host (a file).
        key: Where the file names it ("vlm.api_base"); what `--set` takes.
        file: The file.
        sends: What is sent there, for the message.

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
    listed = re.split(r"[,\s]+", os.environ.get(SERVERS_VARIABLE, "").lower())
    if server is None or server in {"/".join(each.split("/")[:3]) for each in listed}:
        return
    raise TaxtuneError(
        f"{key} sends {sends} to {server}, which you have not confirmed to be a server of yours.",
        file=file,
        remedy=f"If you trust it, export {SERVERS_VARIABLE}={server}, or give the address on the command line: "
        f"--set {key}={address}",
    )


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
