"""Headers: which thread a request means, what is passed on, and who may come in.

Knows our own headers, which never leave this machine, and which headers belong to one connection only. Keys of clients are passed
on with all the rest: nothing here looks at them.
"""

import hmac
import ipaddress
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from memolog.domain.errors import InputError
from memolog.store.scope import check_id

Pairs = list[tuple[str, str]]

_OURS: Final = "x-memolog-"
_THREAD, _RESOURCE, _ZONE, _TOKEN = (f"{_OURS}{name}" for name in ("thread", "resource", "zone", "token"))
_KNOWN: Final = (_THREAD, _RESOURCE, _ZONE, _TOKEN)
# An escape that is none, or that stands for a character that is never escaped.
_ODD_ESCAPE: Final = re.compile(
    r"%(?![0-9A-Fa-f]{2})|%(?:2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
)
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
        # Whose token it is, is settled before.
        text = value if name == _TOKEN else _text(name, value)
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
    """Return the text of a header: what is not plain letters is sent escaped, as in addresses, or as UTF-8.

    Two spellings must not mean one name: somebody in front of the gateway may compare them as they are.
    """
    try:
        text = urllib.parse.unquote(value.encode("latin-1").decode("utf-8"), errors="strict")
    except UnicodeDecodeError:
        raise InputError(f"The header {name} is not UTF-8.", then="Encode it so, or use plain letters.") from None
    if _ODD_ESCAPE.search(value):
        raise InputError(
            f"The header {name} escapes what needs no escape, or has a % that begins none.",
            then="Send letters, digits and - . _ ~ as they are, and % as %25.",
        )
    if text != text.strip():
        raise InputError(f"The header {name} begins or ends with a space.", then="Leave it out.")
    return text


def is_let_in(headers: Iterable[tuple[str, str]], token: str) -> bool:
    """Tell whether a request shows the token, in our header or in that for proxies."""
    return opened_by(headers, {token: ""}) is not None


def opened_by(headers: Iterable[tuple[str, str]], tokens: Mapping[str, str]) -> str | None:
    """Return the resource that a request's token opens; None if it shows none that is known, or two that differ."""
    shown = dict(headers)
    scheme, _, given = shown.get("proxy-authorization", "").partition(" ")
    offers = (shown.get(_TOKEN, ""), given.strip() if scheme.lower() == "bearer" else "")
    # Compared in a time that does not depend on how much of it is right.
    opened = [
        resource
        for token, resource in tokens.items()
        for offer in offers
        if hmac.compare_digest(offer.encode("utf-8"), token.encode("utf-8"))
    ]
    return opened[0] if len(set(opened)) == 1 else None


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
