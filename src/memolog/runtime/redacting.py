"""Choose which secrets are redacted: the known shapes and those of the configuration. Also redacts what is logged."""

import logging
import re
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from memolog.config import Config, patterns_in
from memolog.domain.message import Message
from memolog.prompt.redact import NO_REDACTION, REDACTION, Redactor, secret_patterns
from memolog.prompt.without_secrets import messages_without_secrets
from memolog.runtime.patience import offload

__all__ = ["cleaned", "for_the_index", "redactor_for"]

_LONG_TOKENS: Final = 2_000
# No kind of secret has a longer name; without a limit the pattern would not be linear.
_MARK: Final = re.compile(r"\[redacted: [^\]\n]{0,100}+\]")


class _Clean(logging.Filter):
    """Redacts secrets in log records, tracebacks included."""

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
    """Return the redactor of a configuration."""
    if not config.redact:
        return NO_REDACTION
    return REDACTION if config.redact_patterns is None else _with(config.redact_patterns)


async def cleaned(messages: Sequence[Message], redactor: Redactor) -> tuple[Message, ...]:
    """Return messages without their secrets."""
    is_long = sum(message.tokens for message in messages) > _LONG_TOKENS
    return await offload(messages_without_secrets, messages, redactor, when=is_long)


def for_the_index(config: Config) -> Callable[[str], str]:
    """Return a function that removes secrets and their placeholders from a text before it is indexed."""
    redact = redactor_for(config).redact
    return lambda text: _unmarked(redact(text))


def _unmarked(text: str) -> str:
    return _MARK.sub(" ", text) if "[redacted: " in text else text


@lru_cache(maxsize=32)
def _with(text: str) -> Redactor:
    return Redactor(extra=secret_patterns(patterns_in(text)))
