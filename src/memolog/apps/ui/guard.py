"""Decide which requests the inspector answers, and set the headers that keep a page to itself.

The address that `memolog ui` prints has a token. A request with the token gets a cookie and is sent to the same address without
the token, so that the token is in no history and in no screenshot. All other requests need the cookie. A request must name this
server in `host` (DNS rebinding), and a request that writes must come from a page of this server and have the token of its forms.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from memolog.apps.network import is_loopback

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Refuse: TypeAlias = Callable[["Refusal"], App]
"""Returns the page that says why a request was refused."""

STATIC: Final = "/static/"
TOKEN: Final = "token"  # noqa: S105 - the name of a parameter
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = b"x-csrf-token"
# A form of the inspector is a few fields. The largest is a working memory.
_MAX_BODY: Final = 4 * 1024 * 1024
_READING: Final = frozenset({"GET", "HEAD"})
HEADERS: Final[dict[bytes, bytes]] = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        b"base-uri 'none'; frame-ancestors 'none'"
    ),
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    # With `no-referrer`, browsers would send forms with the origin `null`.
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
"""Headers of every answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """What the inspector may do, and who may use it."""

    token: str = field(repr=False)
    """The token in the address that is printed."""
    write: bool = False
    """Whether pages may change the database."""
    hosts: tuple[str, ...] = ()
    """Host names, besides those of this machine, under which the server may be used."""
    only_here: bool = True
    """Whether the server listens on a loopback address. Otherwise requests may also name it by its IP address."""
    every: float = 1.0
    """Seconds between two looks for changes by other processes."""

    def derived(self, purpose: str) -> str:
        """Return a value that follows from the token and does not reveal it."""
        return hmac.digest(self.token.encode(), purpose.encode(), sha256).hex()

    @property
    def csrf(self) -> str:
        """Return the value that every form sends."""
        return self.derived("csrf")


class Refusal(Exception):
    """A request that is not answered: the status, what is wrong, what to do, and whether the page asks for the token."""

    def __init__(self, status: int, what: str, then: str = "", *, asks: bool = False) -> None:
        super().__init__(what)
        self.status, self.what, self.then, self.asks = status, what, then, asks


class Guard:
    """An ASGI application that checks requests, and passes those that are allowed on to the pages."""

    def __init__(self, app: App, settings: UiSettings, refuse: Refuse) -> None:
        self._app, self._settings, self._refuse = app, settings, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                sent = {name.lower() for name, _ in message["headers"]}
                added = {**HEADERS, b"cache-control": b"no-store"}
                message["headers"] = [*message["headers"], *((n, v) for n, v in added.items() if n not in sent)]
            await send(message)

        try:
            answer, receive = await self._checked(scope, receive)
        except Refusal as refusal:
            answer = self._refuse(refusal)
        await answer(scope, receive, guarded)

    async def _checked(self, scope: Scope, receive: Receive) -> tuple[App, Receive]:
        """Return the application that answers, and the body of the request for it. Raise Refusal if it is not answered."""
        if scope["type"] != "http":
            raise Refusal(400, "The inspector answers only HTTP.")
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        is_reading = scope["method"] in _READING
        origin = self._check_sender(scope["scheme"], headers)
        if is_reading and scope["path"].startswith(STATIC):
            return self._app, receive
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)).get(TOKEN)
        if given is not None and is_reading:
            if not hmac.compare_digest(given.encode(), self._settings.token.encode()):
                raise Refusal(403, "The token is wrong.", _ADVICE, asks=True)
            return self._entered, receive
        if not hmac.compare_digest(_cookie(headers, _cookie_name(scope)).encode(), self._cookie_value().encode()):
            raise Refusal(401, "This browser has not been let in yet.", _ADVICE, asks=True)
        if is_reading:
            return self._app, receive
        if not self._settings.write:
            advice = "Start it with `memolog ui --write` to correct what is stored."
            raise Refusal(403, "This inspector only reads.", advice)
        if origin is None:
            raise Refusal(403, "The request does not say from which page it comes.", "Use a web browser.")
        return self._app, await self._with_csrf(headers, receive)

    def _check_sender(self, scheme: str, headers: list[tuple[bytes, bytes]]) -> str | None:
        """Return the origin of a request. Raise Refusal if it names another host, or comes from a page of another web site."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            advice = "Use the address that `memolog ui` printed, or allow the name with --allow-host."
            raise Refusal(403, "This name is not a name of the inspector.", advice)
        origin = next((value.decode("latin-1") for name, value in headers if name == b"origin"), None)
        site = next((value for name, value in headers if name == b"sec-fetch-site"), None)
        # Browsers that are set to send no referrer send a form with the origin `null`.
        is_own = origin == f"{scheme}://{hosts[0]}" or (origin == "null" and site == b"same-origin")
        if origin is not None and not is_own:
            raise Refusal(403, "The request comes from a page of another web site.")
        return origin

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in map(str.lower, self._settings.hosts) or is_loopback(name) or name.endswith(".localhost"):
            return True
        return not self._settings.only_here and _is_address(name)

    async def _with_csrf(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> Receive:
        """Return the body of a request that writes. Raise Refusal unless it has the token of the forms."""
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Refusal(400, "The request was broken off.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > _MAX_BODY:
                raise Refusal(413, f"The form is larger than {_MAX_BODY:,} bytes.")
        given = next((value.decode("latin-1") for name, value in headers if name == CSRF_HEADER), None)
        if given is None:
            fields = parse_qsl(bytes(body).decode("utf-8", "replace"), keep_blank_values=True)
            given = dict(fields).get(CSRF_FIELD, "")
        if not hmac.compare_digest(given.encode(), self._settings.csrf.encode()):
            raise Refusal(403, "The form is not of this inspector, or it is old.", "Reload the page.")
        messages = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> MutableMapping[str, Any]:
            return messages.pop() if messages else await receive()

        return again

    def _cookie_value(self) -> str:
        return self._settings.derived("cookie")

    async def _entered(self, scope: Scope, _: Receive, send: Send) -> None:
        """Set the cookie, and send the browser to the same address without the token."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        # A path with two slashes at its beginning would be an address of another host.
        path = "/" + quote(scope["path"].lstrip("/"))
        # Not `Strict`: the page that `memolog ui` opens in the browser is a file, which is another site.
        cookie = f"{_cookie_name(scope)}={self._cookie_value()}; HttpOnly; SameSite=Lax; Path=/"
        if scope["scheme"] == "https":
            cookie += "; Secure"
        headers = [
            (b"location", (path + (f"?{rest}" if rest else "")).encode("latin-1")),
            (b"set-cookie", cookie.encode()),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


_ADVICE: Final = (
    "Open the address that `memolog ui` printed, or enter the token: it is in that address, unless you chose one."
)


def _cookie_name(scope: Scope) -> str:
    """Return the name of the cookie. Cookies of one host are shared by all its ports, so the name has the port."""
    server = scope.get("server") or ("", 0)
    return f"memolog_ui_{server[1]}"


def _cookie(headers: list[tuple[bytes, bytes]], name: str) -> str:
    for header, value in headers:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, _, content = pair.strip().partition("=")
                if key == name:
                    return content
    return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
