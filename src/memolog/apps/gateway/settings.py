"""Settings of the gateway: provider addresses, tokens and limits. Without a token only this machine may connect."""

import ipaddress
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from memolog.domain.errors import ConfigError
from memolog.store.scope import check_id

OPENAI: Final = "https://api.openai.com"
ANTHROPIC: Final = "https://api.anthropic.com"
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""More than the providers take: OpenAI and Anthropic refuse what is larger than 32 to 50 MB."""
_LEAST_TOKEN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How a gateway behaves."""

    openai: str = OPENAI
    """Where OpenAI-compatible requests go; a `/v1` at its end is understood."""
    anthropic: str = ANTHROPIC
    resource: str | None = None
    """Whose memory is meant by a request that names a thread and no resource."""
    token: str | None = field(default=None, repr=False)
    """What a client must show to be let in, beside its own key for the provider. It opens the memory of every resource."""
    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Instead of `token`: tokens that open the memory of one resource each, and no other."""
    max_body_bytes: int = MAX_BODY_BYTES
    """How large a request with memory may be; it is held as a whole. One that is only passed on is not held."""
    connect_seconds: float = 10.0
    read_seconds: float = 600.0
    """How long a provider may be silent: models think for minutes."""

    def __post_init__(self) -> None:
        for name in ("openai", "anthropic"):
            object.__setattr__(self, name, _address(name, getattr(self, name)))
        for token in (self.token, *self.tokens):
            if token is not None:
                _check_token(token)
        for resource in self.tokens.values():
            check_id("resource", resource)
        if self.tokens and (self.token is not None or self.resource is not None):
            raise ConfigError(
                "Tokens that open one resource each cannot be used with a token or a resource for all.",
                why="Whose memory a request means is said by its token alone.",
                then="Leave the token (MEMOLOG_PROXY_TOKEN, --token-file) and the resource (--resource) out.",
            )
        if self.max_body_bytes < 1:
            raise ConfigError(
                f"A request cannot have {self.max_body_bytes} bytes (--max-body).", then="Allow at least one."
            )

    @property
    def has_token(self) -> bool:
        """Tell whether clients must show a token."""
        return self.token is not None or bool(self.tokens)


def _check_token(token: str) -> None:
    if len(token) < _LEAST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            "The token of the proxy cannot be used.",
            why=f"It must have at least {_LEAST_TOKEN} visible ASCII characters, without a space.",
            then='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )


def _address(name: str, url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        is_good, parts = False, None
    if not is_good or parts is None:
        raise ConfigError(
            f"{url!r} is no address of a provider (--{name}).", then=f"Write it like {OPENAI}, with its scheme."
        )
    if parts.username or parts.password:
        raise ConfigError(
            f"The address of a provider (--{name}) holds a name or a password.",
            why="Keys are the client's, and are passed on from its requests.",
            then="Leave them out.",
        )
    return url.rstrip("/").removesuffix("/v1")


def read_tokens(text: str) -> dict[str, str]:
    """Return the tokens of a file with the resource that each opens: a token, a space and a resource a line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token, _, resource = line.strip().partition(" ")
        # What stands there may be a token, so it is not repeated.
        if not resource.strip() or token in found:
            what = "names no resource" if not resource.strip() else "has a token that an earlier line has too"
            raise ConfigError(
                f"Line {number} of the file with the tokens {what}.",
                then="Write a token, a space and the resource that it opens, each token once.",
            )
        found[token] = resource.strip()
    if not found:
        raise ConfigError(
            "The file with the tokens holds none.",
            why="Without a token every resource is open to whoever reaches the gateway.",
            then="Write a token, a space and the resource that it opens on each line.",
        )
    return found


def check_listening(host: str, *, has_token: bool) -> None:
    """Refuse to let the network in without a token."""
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local and not has_token:
        raise ConfigError(
            f"Anyone who reaches {host} could read every memory in this database.",
            why="Whose memory it is, a request says itself.",
            then="Listen on 127.0.0.1, or set a token (MEMOLOG_PROXY_TOKEN, or --tokens-file for one a resource).",
        )
