"""Classify a single word by its spelling: flag, path, hash, version, symbol or name."""

import re
from typing import Final, Literal, TypeAlias

from memolog.domain.calendar_names import MONTHS, WEEKDAYS

__all__ = ["SEGMENTS", "Kind", "is_capitalised", "kind_of"]

Kind: TypeAlias = Literal[
    "path", "symbol", "command", "flag", "url", "hash", "version", "number", "date", "time", "quote", "name"
]

_FLAG: Final = re.compile(r"--?[A-Za-z][\w-]*+")
_HASH: Final = re.compile(
    r"(?:0x)?(?=[0-9a-f]{0,64}\d)(?=[0-9]{0,64}[a-f])[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
_VERSION: Final = re.compile(
    r"[vV]\d++(?:\.\d++)*+(?:[-+.][\w.+-]*+)?|\d++(?:\.\d++){2,}+(?:[-+.]?[A-Za-z][\w.+-]*+)?|\d++\.\d++(?:[-+]?[A-Za-z][\w.+-]*+)"
)
_DOTTED: Final = re.compile(r"[@$]?[\w-]++(?:(?:\.|::)[\w-]++)++")
_INNER: Final = re.compile(
    r"(?<=[^\W_])_+(?=[^\W_])|\A_+[^\W\d_]|\A\$[A-Za-z_]|\A@\w|\A#[A-Za-z_]\w|\w@\w|\A\.[A-Za-z][\w-]+"
)
_HUMP: Final = re.compile(r"[a-zß-öø-ÿ0-9][A-ZÀ-ÖØ-Þ]|[A-ZÀ-ÖØ-Þ]{2}[a-z]{2}")
_ORDINAL: Final = re.compile(r"\d++(?:st|nd|rd|th|er|re|e|º|ª)", re.IGNORECASE)
SEGMENTS: Final = re.compile(r"[/\\]+")
_PAIR: Final = 2
# Pairs of words joined by a slash in prose, which are no paths.
_PAIR_WORDS: Final = """
    and/or either/or yes/no true/false on/off his/her he/she him/her pass/fail input/output read/write in/out before/after
    start/stop open/close success/failure request/response question/answer man/woman pros/cons up/down"""
_PAIRS: Final = frozenset(_PAIR_WORDS.split())
_COMMON_WORDS: Final = """
    a ai am an and api apis app are as at be but by ci cli cpu css csv date db dns eof faq for from gpu he her his html
    http https i id ids if in ip is it its json kb llm me mr mrs ms my new no not now of ok okay on or os our pdf pm pr prs
    qa ram rest sdk she so sql ssh that the their they this to todo tls ui uri url urls us utc ux was we were will with xml
    yaml yes you your
    assistant agent developer human message messages model none null observer system team tool tools user users
    mon tue wed thu fri sat sun
    dr prof herr frau madame monsieur señor señora
    nutzer benutzer assistent werkzeug utilisateur usuario пользователь"""
_COMMON: Final = frozenset((*_COMMON_WORDS.split(), *MONTHS, *WEEKDAYS))
"""Words that are written with a capital and name nothing that could be looked up."""


def kind_of(word: str) -> Kind | None:
    """Return what a word is that could be looked up elsewhere, or None for a plain word."""
    if _FLAG.fullmatch(word):
        return "flag"
    if "/" in word or "\\" in word:
        return "path" if _is_path(word) else None
    if _HASH.fullmatch(word):
        return "hash"
    if _VERSION.fullmatch(word):
        return "version"
    if _ORDINAL.fullmatch(word):
        return None
    return "symbol" if _is_symbol(word) else None


def is_capitalised(word: str) -> bool:
    """Return whether a plain word is written like a name, and is none of the words that always are."""
    plain = word.casefold()
    return len(word) > 1 and word[0].isupper() and _COMMON.isdisjoint({plain, plain.removesuffix("s")})


def _is_path(word: str) -> bool:
    parts = [part for part in SEGMENTS.split(word) if part]
    if not any(char.isalpha() for char in word) or not parts:
        return False
    if word[0] in "/\\~." or word[-1] in "/\\" or len(parts) > _PAIR:
        return True
    if any(not part.isalpha() for part in parts):
        return True
    return min(map(len, parts)) > 1 and word.casefold() not in _PAIRS


def _is_symbol(word: str) -> bool:
    has_letter = any(char.isalpha() for char in word)
    if not has_letter:
        return False
    if _INNER.search(word):
        return True
    if "." in word or "::" in word:
        parts = re.split(r"\.|::", word.strip("."))
        # `e.g` and `U.S` are words with points, not names with parts.
        return bool(_DOTTED.fullmatch(word)) and max(map(len, parts)) > 1
    if _HUMP.search(word):
        return not (word[-1:] == "s" and word[:-1].isupper())
    if any(char.isdecimal() for char in word):
        return True
    parts = word.split("-")
    return len(parts) > 1 and all(part[:1].isupper() for part in parts)
