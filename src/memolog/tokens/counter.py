"""Token counters: the built-in heuristic, and exact counts with `splintr-rs`."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from memolog.domain.codec import well_formed
from memolog.domain.errors import ConfigError

if TYPE_CHECKING:
    from splintr import AnyTokenizer

__all__ = ["HeuristicCounter", "SplintrCounter", "TokenCounter"]

_BYTES_PER_TOKEN: Final = 4


class TokenCounter(Protocol):
    """Anything that can say how many tokens a text is."""

    def count(self, text: str) -> int:
        """Return the number of tokens, zero for the empty text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeuristicCounter:
    """The default: a quarter of the UTF-8 bytes; by characters, Chinese would be far short."""

    def count(self, text: str) -> int:
        """Return a quarter of the text's bytes, at least one for any text that is not empty."""
        # An ASCII text has as many bytes as characters.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplintrCounter:
    """An exact count in a vocabulary of `splintr-rs`; loaded when made, so that it fails early."""

    vocabulary: str = "o200k_base"

    def __post_init__(self) -> None:
        _tokenizer(self.vocabulary)

    def count(self, text: str) -> int:
        """Return the number of tokens; control words like `<|endoftext|>` count as plain text."""
        tokenizer = _tokenizer(self.vocabulary)
        try:
            return len(tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            return len(tokenizer.encode_ordinary(well_formed(text)))


@cache
def _tokenizer(vocabulary: str) -> "AnyTokenizer":
    try:
        from splintr import Tokenizer  # noqa: PLC0415 - an extra: most users do without
    except ImportError as error:
        raise ConfigError(
            f"The token counter {vocabulary!r} needs splintr-rs, which is not installed.",
            why="Exact token counts are an extra.",
            then='Run: pip install "memolog[tokens]", or use HeuristicCounter().',
        ) from error
    try:
        return Tokenizer.from_pretrained(vocabulary)
    except ValueError as error:
        raise ConfigError(
            f"Unknown vocabulary {vocabulary!r}.",
            why=str(error),
            then="Use one of these vocabularies, or HeuristicCounter().",
        ) from error
