"""Which secrets are taken out: the known shapes, and those that a configuration adds. Keeps them out of the logger, too."""

import logging
import re
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from memolog.config import Config, patterns_in
from memolog.prompt.redact import NO_REDACTION, REDACTION, Redactor, secret_patterns

__all__ = ["for_the_index", "redactor_for"]

# No kind is longer than this; without a limit, texts that only begin so would be gone through again and again.
_MARK: Final = re.compile(r"\[redacted: [^\]\n]{0,100}+\]")


class _Clean(logging.Filter):
    """Takes secrets out of what is logged, tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = REDACTION.redact(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None:
            text = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
            clean = REDACTION.redact(text)
            if clean != text:
                record.exc_info, record.exc_text = None, clean
        return True


logging.getLogger("memolog").addFilter(_Clean())


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
