"""Split the address of a PostgreSQL database into options, and remove passwords from addresses that are shown."""

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit, urlunsplit

from memolog.errors import ConfigError

_POOLERS = {"transaction": True, "none": False}
# These patterns also match mistyped addresses: with one slash or none, or without a host. A port that is not a number may be a
# password, so it is hidden too.
_LOGIN = re.compile(r"((?:\A(?![\w+.-]+:[\\/])|:/{1,2})[^:/?#@\s]{0,255}):[^:].{0,2000}@", re.DOTALL)
_NO_PORT = re.compile(r"(:/{1,2}(?:\[[^\]]{0,255}\]|[^:/?#@\s\[]{0,255})):(?!\d{0,5}(?:[,/?#]|\Z))[^/?#@]{1,2000}")
_PARAMETER = re.compile(r"([?&][^=&#?]{0,200})=[^&#]*")
_WORD = re.compile(r"\b((?:ssl)?password\s*=\s*)(?!…)(?:'[^']*'|[^\s&#]+)", re.IGNORECASE)
# The secret parameters of PostgreSQL, and the names that model servers use for a key.
_SECRETS = frozenset({"password", "sslpassword", "api_key", "api-key", "apikey", "key", "token", "access_token"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """Options of a connection to PostgreSQL. Timeouts are in seconds."""

    schema: str = "memolog"
    pool_size: int = 10
    statement_timeout: float = 30.0
    connect_timeout: float = 10.0
    pooler: bool | None = None
    """Whether a transaction pooler is used. None detects it."""


def split_url(url: str, options: PostgresOptions) -> tuple[str, PostgresOptions]:
    """Remove the parameters `schema` and `pooler` from a URL. Return the URL for the driver, and the options."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The original error may quote a part of the password, so it is not chained.
        raise ConfigError(
            f"The address {safe_url(url)} cannot be read.",
            then="Write postgresql://user:password@host:port/database. Write special characters of the password as %XX.",
        ) from None
    query = dict(parse_qsl(parts.query))
    schema = query.pop("schema", options.schema)
    if not schema.replace("_", "a").isalnum() or not schema.isascii() or schema[0].isdigit():
        raise ConfigError(f"{schema!r} is not a valid name of a schema.", then="Use letters, digits and underscores.")
    pooler = query.pop("pooler", None)
    if pooler is not None and pooler not in _POOLERS:
        raise ConfigError(f"pooler={pooler} is unknown.", then="Write pooler=transaction or pooler=none, or omit it.")
    changed = replace(options, schema=schema, pooler=options.pooler if pooler is None else _POOLERS[pooler])
    return urlunsplit(parts._replace(query=urlencode(query, safe="/"))), changed


def safe_url(url: str) -> str:
    """Return the URL of a database or a model without its password or key."""
    return _WORD.sub(r"\1…", _PARAMETER.sub(_hidden, _NO_PORT.sub(r"\1:…", _LOGIN.sub(r"\1:…@", url))))


def has_password(address: str) -> bool:
    """Return whether an address contains a password. Such an address must not be written to a file."""
    return safe_url(address) != address


def _hidden(parameter: re.Match[str]) -> str:
    name = unquote_plus(parameter[1][1:]).strip().lower()
    return f"{parameter[1]}=…" if name in _SECRETS else parameter[0]
