"""Settings of the gateway: provider addresses, tokens and limits."""

import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from memolog.apps.gateway.scope import check_source
from memolog.apps.network import check_token
from memolog.db.scope import check_id
from memolog.errors import ConfigError

OPENAI: Final = "https://api.openai.com/v1"
ANTHROPIC: Final = "https://api.anthropic.com"
GOOGLE: Final = "https://generativelanguage.googleapis.com"
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Default of `max_body_bytes`. OpenAI and Anthropic accept less (32 to 50 MB)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Settings of a gateway."""

    openai: str = OPENAI
    """The `base_url` of an OpenAI client. It replaces `/v1` in the path of a request. An address without a path gets `/v1`."""
    anthropic: str = ANTHROPIC
    """The `base_url` of an Anthropic client, without `/v1`."""
    google: str = GOOGLE
    """The base address of the Gemini API, without `/v1beta`."""
    resource: str | None = None
    """Resource of requests that have a thread but no resource."""
    thread_from: Sequence[str] = ()
    """Places of the thread, for clients that send neither `x-memolog-thread` nor a path with `/t/…`.

    Each place is `header:NAME`, `user` or `metadata:KEY`. The last two are fields of the body. The first place with a value
    counts.
    """
    resource_from: Sequence[str] = ()
    """Places of the resource, as in `thread_from`. Note that a client that can set such a field can name any resource."""
    token: str | None = field(default=None, repr=False)
    """Token that clients must send in addition to their key for the provider. It gives access to every resource."""
    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Used instead of `token`: maps each token to the resource that it gives access to."""
    max_body_bytes: int = MAX_BODY_BYTES
    """Maximum size of a request with memory, which is read into RAM as a whole. Other requests are streamed."""
    connect_seconds: float = 10.0
    read_seconds: float = 600.0
    """Maximum time between two pieces of an answer. Models may need minutes for the first piece."""

    def __post_init__(self) -> None:
        for name in ("openai", "anthropic", "google"):
            base = _address(name, getattr(self, name))
            has_path = bool(urllib.parse.urlsplit(base).path)
            base = base.removesuffix("/v1") if name != "openai" else base if has_path else f"{base}/v1"
            object.__setattr__(self, name, base)
        for name, option in (("thread_from", "--thread-from"), ("resource_from", "--resource-from")):
            object.__setattr__(self, name, tuple(check_source(option, one) for one in getattr(self, name)))
        for token in (self.token, *self.tokens):
            if token is not None:
                check_token(token, "The token of the proxy", ConfigError)
        for resource in self.tokens.values():
            check_id("resource", resource)
        if self.tokens and (self.token is not None or self.resource is not None or self.resource_from):
            raise ConfigError(
                "`tokens` cannot be used together with `token`, `resource` or `resource_from`.",
                why="With `tokens`, only the token of a request selects the resource.",
                then="Omit the token (MEMOLOG_PROXY_TOKEN, --token-file) and the resource (--resource, --resource-from).",
            )
        if self.max_body_bytes < 1:
            raise ConfigError(f"`max_body_bytes` (--max-body) must be 1 or more, got {self.max_body_bytes}.")

    @property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """Return the places of the thread and of the resource."""
        return {"thread": self.thread_from, "resource": self.resource_from}

    @property
    def access(self) -> Mapping[str, str | None]:
        """Return the resource that each token gives access to; None stands for all resources.

        If the result is empty, clients need no token.
        """
        return self.tokens if self.token is None else {self.token: None}


def _address(name: str, url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        is_good, parts = False, None
    if not is_good or parts is None:
        raise ConfigError(
            f"--{name} must be an http or https address without a query, got {url!r}.", then=f"Write it like {OPENAI}."
        )
    if parts.username or parts.password:
        raise ConfigError(
            f"The address of a provider (--{name}) contains a user name or a password.",
            why="Clients send their own keys, which are passed on.",
            then="Remove the user name and the password.",
        )
    return url.rstrip("/")


def read_tokens(text: str) -> dict[str, str]:
    """Return the resource of each token in a token file. Each line is a token, a space and a resource."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token, _, resource = line.strip().partition(" ")
        # The line may contain a token, so the error does not show the line.
        if not resource.strip() or token in found:
            what = "has no resource" if not resource.strip() else "repeats a token of an earlier line"
            raise ConfigError(
                f"Line {number} of the tokens file {what}.",
                then="Write a token, a space and its resource on each line, and each token only once.",
            )
        found[token] = resource.strip()
    if not found:
        raise ConfigError(
            "The tokens file is empty.",
            why="Without tokens every client could read every resource.",
            then="Write a token, a space and its resource on each line.",
        )
    return found
