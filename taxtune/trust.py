"""Which servers a file may name: a recipe, or the folder of a run, may come from another person.

What the user types on the command line, or gives in Python, is their own and needs no consent. Data
goes to a server that a file names only where it is the user's own.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from taxtune.errors import TaxtuneError
from taxtune.untrusted import redact

__all__ = ["ADDRESS_REMEDY", "SERVERS_VARIABLE", "address_in", "check_server", "server_of"]

#: The environment variable that lists the user's own servers, with commas or blanks between them.
SERVERS_VARIABLE = "TAXTUNE_SERVERS"
#: What to write in place of a text that is no address.
ADDRESS_REMEDY = "Write it as http://HOST:PORT/v1."
# Clients differ in what they make of anything else, such as further slashes, backslashes or a
# second @.
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://([a-z0-9._~!$&'()*+,;=%-]+(:[a-z0-9._~!$&'()*+,;=%-]*)?@)?"
    r"(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?"
    r"(/|(/[!-.0-?A-\[\]-~]+)+/?)?(\?[!-\[\]-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def server_of(address: str) -> str:
    """Returns scheme, host and port of an address.

    They are in lower case, without the scheme's own port and a user.

    Raises:
        ValueError: If it is not plainly one of http or https with a host: every client reads the
            same in what passes.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"] or 0) > 65_535:
        raise ValueError(f"{address!r} is not an address")
    scheme = match["scheme"].lower()
    host = match["host"].lower()
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    return f"{scheme}://{host}" if port == _DEFAULT_PORTS[scheme] else f"{scheme}://{host}:{port}"


def address_in(model: str) -> str | None:
    """Returns the address in a model's name ("huggingface/https://HOST"), or None.

    What only resembles one is returned as well, to be refused.
    """
    match = re.search(r"(?<![a-z])https?:", model, re.IGNORECASE)
    return None if match is None else model[match.start() :]


def check_server(
    address: str | None,
    *,
    key: str,
    file: Path | None,
    sends: str = "images, prompts and your API key",
) -> None:
    """Checks that data may be sent to a server that a file names.

    It must be this machine, or one in `TAXTUNE_SERVERS`.

    Servers are compared by scheme, host and port.

    Args:
        address: The address; None, for a provider's own server, needs no check.
        key: Where the file names it ("vlm.api_base"); what `--set` takes.
        file: The file.
        sends: What is sent there, for the message.

    Raises:
        TaxtuneError: If it is no address, or not one that data may be sent to.
    """
    if address is None:
        return
    try:
        server = server_of(address)
    except ValueError:
        message = f"{key} is not an address."
        raise TaxtuneError(
            message, file=file, value=redact(address), remedy=ADDRESS_REMEDY
        ) from None
    if _is_here(server) or server in _listed():
        return
    raise TaxtuneError(
        f"{key} sends {sends} to {server}, which you have not confirmed to be a server of yours.",
        file=file,
        remedy=f"If you trust it, export {SERVERS_VARIABLE}={server}, or give the address on the "
        f"command line: --set {key}={address}",
    )


def _is_here(server: str) -> bool:
    host = re.sub(r":\d+$", "", server.partition("://")[2]).strip("[]")
    with suppress(ValueError):
        address = ip_address(host)
        return address.is_loopback or address.is_unspecified
    return host == "localhost"


def _listed() -> set[str]:
    servers = set()
    for address in re.split(r"[,\s]+", os.environ.get(SERVERS_VARIABLE, "")):
        with suppress(ValueError):
            servers.add(server_of(address))
    return servers
