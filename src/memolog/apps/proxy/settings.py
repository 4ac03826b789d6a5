"""What a gateway is told when it starts: where providers are, who may use it, whose memory is meant when nobody is named.

Knows what is safe: without a token only this machine may come in. Knows no transport.
"""

import ipaddress
import urllib.parse
from dataclasses import dataclass, field
from typing import Final

from memolog.domain.errors import ConfigError

__all__ = ["ANTHROPIC", "OPENAI", "ProxySettings", "check_listening"]

OPENAI: Final = "https://api.openai.com"
ANTHROPIC: Final = "https://api.anthropic.com"
_LEAST_TOKEN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """How a gateway behaves."""

    openai: str = OPENAI
    """Where OpenAI-compatible requests go; a `/v1` at its end is understood."""
    anthropic: str = ANTHROPIC
    resource: str | None = None
    """Whose memory is meant by a request that names a thread and no resource."""
    token: str | None = field(default=None, repr=False)
    """What a client must show to be let in, beside its own key for the provider."""
    connect_seconds: float = 10.0
    read_seconds: float = 600.0
    """How long a provider may be silent: models think for minutes."""

    def __post_init__(self) -> None:
        for name in ("openai", "anthropic"):
            object.__setattr__(self, name, _address(name, getattr(self, name)))
        if self.token is not None:
            _check_token(self.token)


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


def check_listening(host: str, token: str | None) -> None:
    """Refuse to let the network in without a token."""
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local and token is None:
        raise ConfigError(
            f"Anyone who reaches {host} could read every memory in this database.",
            why="Whose memory it is, a request says itself.",
            then="Listen on 127.0.0.1, or set a token (MEMOLOG_PROXY_TOKEN).",
        )
