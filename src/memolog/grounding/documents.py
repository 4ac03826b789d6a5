"""Limit changes of the working memory to what users or the model said: text that only a tool returned is not taken over.

The change is checked line by line; parts without support stay as they were.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Final

from memolog.domain.message import Message
from memolog.grounding.evidence import Evidence, is_found
from memolog.grounding.folding import content_words
from memolog.grounding.identifiers import mentions
from memolog.grounding.trust import POINTING, Voices, voices_of

__all__ = ["trusted_document"]

_LEAST_SAID: Final = 0.5
"""How much of a new line's words must have been said."""
_LABEL: Final = re.compile(r"\s*+(?:[-*+]|\d{1,9}[.)])?\s*+(?:[^:\n]{1,60}:)?\s*+")


def trusted_document(
    old: str, new: str, messages: Sequence[Message], *, foreign: Sequence[Message] = (), whole: bool = False
) -> str:
    """Return `old` with those changes towards `new` that the messages support.

    `whole` takes all of it or nothing, for a text that is no longer sound when only some of its lines change.
    """
    voices = voices_of(messages, foreign=foreign)
    # A name that stands in the document already needs no further support.
    known = Voices(said=(*voices.said, Evidence(old)), returned=voices.returned)
    before, after = old.splitlines(), new.splitlines()
    lines: list[str] = []
    for kind, first, end, start, stop in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        gone, added = before[first:end], after[start:stop]
        if kind == "equal" or (_may_go(gone, added, voices) and _may_come(added, known)):
            lines += added
        elif whole:
            return old
        else:
            lines += gone
    return "".join(f"{line}\n" for line in lines)


def _may_come(added: Sequence[str], voices: Voices) -> bool:
    return all(_is_said(line, voices) for line in added if content_words(line))


def _is_said(line: str, voices: Voices) -> bool:
    """Return whether users or the model said the names, the numbers and most words of a line."""
    if line.lstrip().startswith("#"):
        # A heading is no claim, but must not carry a tool's words.
        return not voices.echoes_tool(line, share=1.0)
    if voices.echoes_tool(line, share=1.0) or voices.names_from_tool(line, POINTING):
        return False
    claim = _LABEL.sub("", line, count=1) or line
    if not all(is_found(mention, voices.said) for mention in mentions(claim)):
        return False
    words = content_words(claim)
    said = sum(any(text.has(f".{word}.") for text in voices.said) for word in words)
    return said >= _LEAST_SAID * len(words)


def _may_go(gone: Sequence[str], added: Sequence[str], voices: Voices) -> bool:
    """Return whether lines may be removed: each is empty, was extended, or was mentioned."""
    return all(_is_spoken_of(line, added, voices) for line in gone)


def _is_spoken_of(line: str, added: Sequence[str], voices: Voices) -> bool:
    words = content_words(_LABEL.sub("", line, count=1)) if not line.lstrip().startswith("#") else ()
    if not words or any(line.strip() and line.strip() in other for other in added):
        return True
    return any(text.has(f".{word}.") for word in content_words(line) for text in voices.said)
