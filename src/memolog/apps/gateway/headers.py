"""Check the token of a request, and select the headers that are passed on.

The headers of Memolog are never passed on. The API keys of clients are passed on and not read.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Final

from memolog.apps.gateway.scope import OURS, TOKEN

Pairs = list[tuple[str, str]]

# Hop-by-hop headers, and headers that each HTTP message must compute itself.
_HOPS: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "expect", "host", "content-length"),
    }
)


def opened_by(headers: Iterable[tuple[str, str]], tokens: Mapping[str, str | None]) -> set[str | None]:
    """Return the resources that the tokens of a request give access to; None stands for all resources.

    A token is sent in `x-memolog-token` or in `proxy-authorization`.
    """
    shown = dict(headers)
    scheme, _, given = shown.get("proxy-authorization", "").partition(" ")
    offers = (shown.get(TOKEN, ""), given.strip() if scheme.lower() == "bearer" else "")
    # Compare in constant time, so that the duration does not reveal a part of a token.
    return {
        resource
        for token, resource in tokens.items()
        for offer in offers
        if hmac.compare_digest(offer.encode("utf-8"), token.encode("utf-8"))
    }


def passed_on(headers: Iterable[tuple[str, str]], *, is_read: bool) -> Pairs:
    """Return the headers for the provider: all except the headers of Memolog and hop-by-hop headers.

    With `is_read` the gateway parses the answer, so it asks the provider not to compress the answer.
    """
    named = _named_by_connection(headers := list(headers))
    dropped = _HOPS | named | frozenset({"accept-encoding"} if is_read else ())
    kept = [
        (name, value) for name, value in headers if (low := name.lower()) not in dropped and not low.startswith(OURS)
    ]
    return [*kept, ("accept-encoding", "identity")] if is_read else kept


def passed_back(headers: Iterable[tuple[str, str]], *, is_read: bool) -> Pairs:
    """Return the headers of the provider's answer that are sent to the client."""
    named = _named_by_connection(headers := list(headers))
    # The server of the gateway sets its own `date`. With `is_read` the gateway has already decompressed the body.
    dropped = _HOPS | named | {"date", "server"} | frozenset({"content-encoding"} if is_read else ())
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _named_by_connection(headers: Pairs) -> frozenset[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    return frozenset(word.strip().lower() for value in values for word in value.split(","))
