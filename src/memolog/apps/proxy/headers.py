"""Headers: which thread a request means, what is passed on, and who may come in.

Knows our own headers, which never leave this machine, and which headers belong to one connection only. Keys of clients are passed
on with all the rest: nothing here looks at them.
"""

import hmac
import ipaddress
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from memolog.domain.errors import InputError
from memolog.store.scope import check_id

__all__ = ["Pairs", "Scope", "is_from_here", "is_let_in", "passed_back", "passed_on", "scope_of"]

Pairs = list[tuple[str, str]]

_OURS: Final = "x-memolog-"
_THREAD, _RESOURCE, _ZONE, _TOKEN = (f"{_OURS}{name}" for name in ("thread", "resource", "zone", "token"))
_KNOWN: Final = (_THREAD, _RESOURCE, _ZONE, _TOKEN)
# Between two neighbours only; and what the next request or answer counts anew.
_HOPS: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "expect", "host", "content-length"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which conversation a request belongs to, and whose it is."""

    thread: str
    resource: str
    zone: str | None = None


def scope_of(headers: Iterable[tuple[str, str]], default_resource: str | None) -> Scope | None:
    """Return the conversation that a request means; None if it means none. Raises InputError where that is not clear."""
    found: dict[str, str] = {}
    for name, value in headers:
        if not name.startswith(_OURS):
            continue
        if name not in _KNOWN:
            raise InputError(f"There is no header {name}.", then=f"There are {', '.join(_KNOWN)}.")
        text = _text(name, value)
        if found.setdefault(name, text) != text:
            raise InputError(f"The header {name} is there twice.", then="Send it once.")
    if _THREAD not in found:
        if _RESOURCE in found or _ZONE in found:
            raise InputError(
                f"The request names no thread, but has {_RESOURCE if _RESOURCE in found else _ZONE}.",
                why="Memory belongs to a thread of a resource.",
                then=f"Add {_THREAD}, or leave all of them out to pass the request on as it is.",
            )
        return None
    resource = found.get(_RESOURCE, default_resource)
    if resource is None:
        raise InputError(
            "The request names a thread, and not whose it is.",
            then=f"Add {_RESOURCE} (a user, a project, a tenant), or start the proxy with --resource.",
        )
    thread = check_id("thread", found[_THREAD])
    return Scope(thread=thread, resource=check_id("resource", resource), zone=found.get(_ZONE))


def _text(name: str, value: str) -> str:
    """Return the text of a header: what is not plain letters is sent escaped, as in addresses, or as UTF-8."""
    try:
        return urllib.parse.unquote(value.encode("latin-1").decode("utf-8"), errors="strict").strip()
    except UnicodeDecodeError:
        raise InputError(f"The header {name} is not UTF-8.", then="Encode it so, or use plain letters.") from None


def is_let_in(headers: Iterable[tuple[str, str]], token: str) -> bool:
    """Tell whether a request shows the token, in our header or in that for proxies."""
    shown = dict(headers)
    scheme, _, given = shown.get("proxy-authorization", "").partition(" ")
    offers = (shown.get(_TOKEN, ""), given.strip() if scheme.lower() == "bearer" else "")
    # Compared in a time that does not depend on how much of it is right.
    is_right = [hmac.compare_digest(offer.encode("utf-8"), token.encode("utf-8")) for offer in offers]
    return any(is_right)


def is_from_here(headers: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a request was made on this machine, and not by a web page from elsewhere in a browser on it."""
    named = [value if name == "origin" else f"//{value}" for name, value in headers if name in {"host", "origin"}]
    return all(_is_loopback(value) for value in named)


def _is_loopback(address: str) -> bool:
    try:
        name = urllib.parse.urlsplit(address).hostname or ""
        return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def passed_on(headers: Iterable[tuple[str, str]], *, is_read: bool) -> Pairs:
    """Return what the provider gets of a request's headers: all but ours and those of the connection.

    What we read ourselves (`is_read`) is asked for without compression.
    """
    named = _named_by_connection(headers := list(headers))
    dropped = _HOPS | named | frozenset({"accept-encoding"} if is_read else ())
    kept = [(name, value) for name, value in headers if name not in dropped and not name.startswith(_OURS)]
    return [*kept, ("accept-encoding", "identity")] if is_read else kept


def passed_back(headers: Iterable[tuple[str, str]], *, is_read: bool) -> Pairs:
    """Return what the client gets of an answer's headers."""
    named = _named_by_connection(headers := list(headers))
    # The server dates its answers itself; what we have read is no longer compressed.
    dropped = _HOPS | named | {"date", "server"} | frozenset({"content-encoding"} if is_read else ())
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _named_by_connection(headers: Pairs) -> frozenset[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    return frozenset(word.strip().lower() for value in values for word in value.split(","))
