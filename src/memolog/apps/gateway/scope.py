"""Find the thread, the resource and the time zone of a request: in its headers, its path, or the places that the settings list.

Headers of Memolog and the path are written for the gateway, so they must not contradict each other. The places in the settings
are headers or fields that a chat program sends anyway. They are read only for a name that headers of Memolog and path leave out.
"""

import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from memolog.db.scope import check_id
from memolog.errors import ConfigError, InputError

OURS: Final = "x-memolog-"
"""Headers that begin with this text are for the gateway."""
TOKEN: Final = f"{OURS}token"

_THREAD, _RESOURCE, _ZONE = (f"{OURS}{name}" for name in ("thread", "resource", "zone"))
_KNOWN: Final = (_THREAD, _RESOURCE, _ZONE, TOKEN)
# An invalid escape, or an escape of a character that does not need escaping.
_ODD_ESCAPE: Final = re.compile(
    r"%(?![0-9A-Fa-f]{2})|%(?:2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
)
_IN_PATH: Final = re.compile(rb"(?:/r/(?P<resource>[^/]+))?(?:/t/(?P<thread>[^/]+))?(?P<rest>/.*)?", re.DOTALL)
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
# Headers with keys. A key must not become the name of a thread, which is stored and shown.
_SECRET: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Thread and resource of a request, and its time zone if the client sent one."""

    thread: str
    resource: str
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The names that a request has for the gateway. None means that the request does not have this name."""

    thread: str | None = None
    resource: str | None = None
    zone: str | None = None

    def scope(self, default_resource: str | None) -> Scope | None:
        """Return the scope; None for a request without any of these names, which has no memory.

        Raises InputError if the request has only some of the names that it needs.
        """
        if self.thread is None:
            if self.resource is None and self.zone is None:
                return None
            raise InputError(
                f"The request has a {'resource' if self.resource is not None else 'time zone'} but no thread.",
                why="Memory belongs to a thread of a resource.",
                then=f"Add {_THREAD}, or omit all headers of Memolog to send the request without memory.",
            )
        resource = self.resource if self.resource is not None else default_resource
        if resource is None:
            raise InputError(
                "The request has a thread but no resource.",
                then=f"Add {_RESOURCE} (a user, a project, a tenant), or start the proxy with --resource.",
            )
        return Scope(thread=self.thread, resource=resource, zone=self.zone)


def split_path(path: bytes) -> tuple[dict[str, bytes], bytes]:
    """Return the names in a path such as `/r/alice/t/atlas/v1/models`, still escaped, and the path without them."""
    found = _IN_PATH.fullmatch(path)
    if found is None or found["rest"] is None:
        return {}, path
    return {kind: name for kind in ("thread", "resource") if (name := found[kind]) is not None}, found["rest"]


def named_in(headers: Iterable[tuple[str, str]], in_path: Mapping[str, bytes]) -> Named:
    """Return the names in the headers of Memolog and in the path.

    Raises InputError if a header of Memolog is unknown, or if a name is invalid or occurs twice with different values.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if not name.startswith(OURS):
            continue
        if name not in _KNOWN:
            raise InputError(f"There is no header {name}.", then=f"There are {', '.join(_KNOWN)}.")
        if name == TOKEN:
            # `opened_by` has checked the token already.
            continue
        text = _text(f"header {name}", value)
        if found.setdefault(name.removeprefix(OURS), text) != text:
            raise InputError(f"The header {name} was sent twice with different values.", then="Send it once.")
    for kind, raw in in_path.items():
        text = _text(f"{kind} in the path", raw.decode("latin-1"))
        if found.setdefault(kind, text) != text:
            raise InputError(
                f"The header {OURS}{kind} and the path have different values.",
                then="Send the header, or put the name into the path, but not both.",
            )
    for kind in ("thread", "resource"):
        if kind in found:
            check_id(kind, found[kind])
    return Named(**found)


def _text(name: str, value: str) -> str:
    """Decode a value, which is UTF-8 and may have percent escapes as in URLs. `name` describes the value in errors.

    A value with unneeded escapes is refused, because a proxy in front of the gateway may compare the raw text.
    """
    try:
        text = urllib.parse.unquote(value.encode("latin-1").decode("utf-8"), errors="strict")
    except UnicodeDecodeError:
        raise InputError(f"The {name} is not UTF-8.", then="Encode it as UTF-8 or with percent escapes.") from None
    if _ODD_ESCAPE.search(value):
        raise InputError(
            f"The {name} has an invalid or unneeded percent escape.",
            then="Send letters, digits and - . _ ~ as they are, and % as %25.",
        )
    if text != text.strip():
        raise InputError(f"The {name} starts or ends with a space.", then="Remove the space.")
    return text


# ---------------------------------------------------------------- fields of a chat program


def check_source(option: str, source: str) -> str:
    """Return a place of the settings, with the name of a header in lower case. Raises ConfigError if the place is invalid."""
    kind, colon, name = source.partition(":")
    if kind == "header" and _HEADER_NAME.fullmatch(low := name.lower()):
        if low not in _SECRET and not low.startswith(OURS):
            return f"header:{low}"
        raise ConfigError(
            f"{option} cannot be the header {low}.",
            why="It may contain a key." if low in _SECRET else "The proxy always reads this header.",
            then="Use a header with the id of a conversation or of a user.",
        )
    if (kind == "metadata" and name) or (kind == "user" and not colon):
        return source
    raise ConfigError(
        f"{option} must be header:NAME, user or metadata:KEY, got {source!r}.",
        then=f"Write it like {option} header:x-openwebui-chat-id.",
    )


def is_in_body(source: str) -> bool:
    """Return whether a place of the settings is in the body of a request."""
    return not source.startswith("header:")


def completed(
    named: Named,
    sources: Mapping[str, Sequence[str]],
    headers: Iterable[tuple[str, str]],
    body: Mapping[str, object] | None,
) -> Named:
    """Return the names. Missing names are read from the places of the settings, of which the first with a value counts.

    `sources` has the places of the thread and of the resource. Without a thread, the places of the resource are not read,
    because such a field may have another purpose.
    """
    headers = list(headers)
    for kind in ("thread", "resource"):
        if getattr(named, kind) is None and (kind == "thread" or named.thread is not None):
            values = (_value(source, headers, body) for source in sources.get(kind, ()))
            found = next((value for value in values if value), None)
            named = replace(named, **{kind: None if found is None else check_id(kind, found)})
    return named


def _value(source: str, headers: Iterable[tuple[str, str]], body: Mapping[str, object] | None) -> str | None:
    kind, _, name = source.partition(":")
    if kind == "header":
        values = {value for other, value in headers if other == name}
        if len(values) > 1:
            raise InputError(f"The header {name} was sent twice with different values.", then="Send it once.")
        try:
            return values.pop().encode("latin-1").decode("utf-8") if values else None
        except UnicodeDecodeError:
            raise InputError(f"The header {name} is not UTF-8.", then="Encode it as UTF-8.") from None
    value: object = (body or {}).get(kind)
    if kind == "metadata":
        value = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, str):
        return value
    field = f"metadata.{name}" if kind == "metadata" else kind
    raise InputError(f"`{field}` must be a string, got {type(value).__name__}.", then="Send a string, or omit it.")
