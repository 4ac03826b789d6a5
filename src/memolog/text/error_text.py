"""Shorten the text of an error, and leave out what it quotes from the texts that were sent.

Events and logs must not contain messages, but some providers quote the request in an error.
"""

import re
from itertools import groupby
from typing import Final

_LONGEST: Final = 500  # maximum characters of an error that are shown
_QUOTED: Final = 12  # so many letters and digits that were also sent are a quote
_SHORTEST: Final = 4  # a whole text of so many letters and digits is a quote too
_LEFT_OUT: Final = "[…]"
_ESCAPE: Final = re.compile(r"\\[nrt]")
_LETTERS: Final = re.compile(r"[^\W_]+")
_WORD: Final = re.compile(r"\S+")


def error_text(error: BaseException, *sent: str) -> str:
    """Return the type and the text of an error, shortened and without passages that also occur in a text that was sent."""
    text = str(error)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    quoted = _quoted(_ESCAPE.sub("  ", text), sent)
    if quoted:
        words = (_LEFT_OUT if quoted.intersection(range(*word.span())) else word[0] for word in _WORD.finditer(text))
        text = " ".join(word for word, _ in groupby(words))
    return f"{type(error).__name__}: {text}"


def _quoted(text: str, sent: tuple[str, ...]) -> set[int]:
    """Return the places of letters that are part of a quote."""
    # A quote may have other spaces and escapes than the text that was sent, so only letters and digits are compared.
    places = [place for place, letter in enumerate(text) if letter.isalnum()]
    said = "".join(text[place] for place in places)
    quoted = set[int]()
    for one in sent:
        known = "".join(filter(str.isalnum, one))
        if _SHORTEST <= len(known) < _QUOTED:
            whole = r"[\W_]+".join(map(re.escape, _LETTERS.findall(one)))
            for found in re.finditer(rf"(?<![^\W_]){whole}(?![^\W_])", text):
                quoted.update(range(*found.span()))
        for start in range(0, len(said) - _QUOTED + 1, _QUOTED // 2):
            if said[start : start + _QUOTED] in known:
                quoted.update(places[start : start + _QUOTED])
    return quoted
