"""Read the headers of Memolog (thread, resource, zone, token) and select the headers that are passed on.

The headers of Memolog are never passed on. The API keys of clients are passed on and not read.
"""

import hmac
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from memolog.apps.network import is_loopback
from memolog.db.scope import check_id
from memolog.errors import InputError

Pairs = list[tuple[str, str]]

_OURS: Final = "x-memolog-"
_THREAD, _RESOURCE, _ZONE, _TOKEN = (f"{_OURS}{name}" for name in ("thread", "resource", "zone", "token"))
_KNOWN: Final = (_THREAD, _RESOURCE, _ZONE, _TOKEN)
# An invalid escape, or an escape of a character that does not need escaping.
_ODD_ESCAPE: Final = re.compile(
    r"%(?![0-9A-Fa-f]{2})|%(?:2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
)
# Hop-by-hop headers, and headers that each HTTP message must compute itself.
_HOPS: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "expect", "host", "content-length"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Thread and resource of a request, and its time zone if the client sent one."""

    thread: str
    resource: str
    zone: str | None = None


def scope_of(headers: Iterable[tuple[str, str]], default_resource: str | None) -> Scope | None:
    """Return the scope of a request. None means that the request has no header of Memolog.

    Raises InputError if a header of Memolog is unknown, repeated or missing.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if not name.startswith(_OURS):
            continue
        if name not in _KNOWN:
            raise InputError(f"There is no header {name}.", then=f"There are {', '.join(_KNOWN)}.")
        # `opened_by` has checked the token already.
        text = value if name == _TOKEN else _text(name, value)
        if found.setdefault(name, text) != text:
            raise InputError(f"The header {name} was sent twice with different values.", then="Send it once.")
    if _THREAD not in found:
        if _RESOURCE in found or _ZONE in found:
            raise InputError(
                f"The request has the header {_RESOURCE if _RESOURCE in found else _ZONE} but no {_THREAD}.",
                why="Memory belongs to a thread of a resource.",
                then=f"Add {_THREAD}, or omit all headers of Memolog to send the request without memory.",
            )
        return None
    resource = found.get(_RESOURCE, default_resource)
    if resource is None:
        raise InputError(
            f"The request has the header {_THREAD} but no {_RESOURCE}.",
            then=f"Add {_RESOURCE} (a user, a project, a tenant), or start the proxy with --resource.",
        )
    thread = check_id("thread", found[_THREAD])
    return Scope(thread=thread, resource=check_id("resource", resource), zone=found.get(_ZONE))


def _text(name: str, value: str) -> str:
    """Decode the value of a header, which is UTF-8 and may have percent escapes as in URLs.

    A value with unneeded escapes is refused, because a proxy in front of the gateway may compare the raw text.
    """
    try:
        text = urllib.parse.unquote(value.encode("latin-1").decode("utf-8"), errors="strict")
    except UnicodeDecodeError:
        raise InputError(
            f"The header {name} is not UTF-8.", then="Encode it as UTF-8 or with percent escapes."
        ) from None
    if _ODD_ESCAPE.search(value):
        raise InputError(
            f"The header {name} has an invalid or unneeded percent escape.",
            then="Send letters, digits and - . _ ~ as they are, and % as %25.",
        )
    if text != text.strip():
        raise InputError(f"The header {name} starts or ends with a space.", then="Remove the space.")
    return text


def opened_by(headers: Iterable[tuple[str, str]], tokens: Mapping[str, str | None]) -> set[str | None]:
    """Return the resources that the tokens of a request give access to; None stands for all resources.

    A token is sent in `x-memolog-token` or in `proxy-authorization`.
    """
    shown = dict(headers)
    scheme, _, given = shown.get("proxy-authorization", "").partition(" ")
    offers = (shown.get(_TOKEN, ""), given.strip() if scheme.lower() == "bearer" else "")
    # Compare in constant time, so that the duration does not reveal a part of a token.
    return {
        resource
        for token, resource in tokens.items()
        for offer in offers
        if hmac.compare_digest(offer.encode("utf-8"), token.encode("utf-8"))
    }


def is_from_here(headers: Iterable[tuple[str, str]]) -> bool:
    """Return whether `host` and `origin` of a request are this machine; a page of a web site has another origin."""
    named = [value if name == "origin" else f"//{value}" for name, value in headers if name in {"host", "origin"}]
    return all(_is_loopback(value) for value in named)


def _is_loopback(address: str) -> bool:
    try:
        name = urllib.parse.urlsplit(address).hostname or ""
    except ValueError:
        return False
    return name.endswith(".localhost") or is_loopback(name)


def passed_on(headers: Iterable[tuple[str, str]], *, is_read: bool) -> Pairs:
    """Return the headers for the provider: all except the headers of Memolog and hop-by-hop headers.

    With `is_read` the gateway parses the answer, so it asks the provider not to compress the answer.
    """
    named = _named_by_connection(headers := list(headers))
    dropped = _HOPS | named | frozenset({"accept-encoding"} if is_read else ())
    kept = [
        (name, value) for name, value in headers if (low := name.lower()) not in dropped and not low.startswith(_OURS)
    ]
    return [*kept, ("accept-encoding", "identity")] if is_read else kept


def passed_back(headers: Iterable[tuple[str, str]], *, is_read: bool) -> Pairs:
    """Return the headers of the provider's answer that are sent to the client."""
    named = _named_by_connection(headers := list(headers))
    # The server of the gateway sets its own date. With `is_read` the body is already decompressed.
    dropped = _HOPS | named | {"date", "server"} | frozenset({"content-encoding"} if is_read else ())
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _named_by_connection(headers: Pairs) -> frozenset[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    return frozenset(word.strip().lower() for value in values for word in value.split(","))
