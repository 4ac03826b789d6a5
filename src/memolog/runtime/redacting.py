"""Which secrets are taken out: the known shapes, and those that a configuration adds. Knows not where they are taken out."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from memolog.config import Config, patterns_in
from memolog.prompt.redact import NO_REDACTION, REDACTION, Redactor, secret_patterns

__all__ = ["for_the_index", "redactor_for"]

_MARK: Final = re.compile(r"\[redacted: [^\]\n]*\]")


def redactor_for(config: Config) -> Redactor:
    """Return what takes secrets out of a text, as the configuration wants it."""
    if not config.redact:
        return NO_REDACTION
    return REDACTION if config.redact_patterns is None else _with(config.redact_patterns)


def for_the_index(config: Config) -> Callable[[str], str]:
    """Return what a text is indexed without: its secrets, and the words that stand in their place."""
    redact = redactor_for(config).redact
    return lambda text: _unmarked(redact(text))


def _unmarked(text: str) -> str:
    return _MARK.sub(" ", text) if "[redacted: " in text else text


@lru_cache(maxsize=32)
def _with(text: str) -> Redactor:
    return Redactor(extra=secret_patterns(patterns_in(text)))
