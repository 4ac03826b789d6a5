"""Which secrets are taken out: the known shapes, and those that a configuration adds. Knows not where they are taken out."""

from functools import lru_cache

from memolog.config import Config, patterns_in
from memolog.prompt.redact import NO_REDACTION, REDACTION, Redactor, secret_patterns

__all__ = ["redactor_for"]


def redactor_for(config: Config) -> Redactor:
    """Return what takes secrets out of a text, as the configuration wants it."""
    if not config.redact:
        return NO_REDACTION
    return REDACTION if config.redact_patterns is None else _with(config.redact_patterns)


@lru_cache(maxsize=32)
def _with(text: str) -> Redactor:
    return Redactor(extra=secret_patterns(patterns_in(text)))
