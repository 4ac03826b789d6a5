"""What the MCP server and the gateway share: checks of tokens and loopback addresses, and the socket to listen on."""

import errno
import socket
from ipaddress import ip_address
from typing import Final

from memolog.errors import MemologError, StoreUnavailable

_LEAST_TOKEN: Final = 16


def is_loopback(host: str) -> bool:
    """Return whether a host can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: str, name: str, error: type[MemologError]) -> None:
    """Raise an error unless a token is long enough and can be sent in a header; `name` is what the error calls it."""
    if len(token) < _LEAST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise error(
            f"{name} cannot be used.",
            why=f"It must have at least {_LEAST_TOKEN} visible ASCII characters, without a space.",
            then='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 is any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = f"port {port} is taken by another program" if is_taken else str(error)
        raise StoreUnavailable(
            f"The server cannot listen on {host}:{port}: {why}.",
            then=f"Choose another {'--port' if is_taken else '--host or --port'}; 0 is any free port.",
        ) from error
