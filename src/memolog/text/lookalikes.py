"""Detect disguised text: invisible characters, look-alikes of Memolog's tags and of lines of the log, and misleading names.

These functions are applied before text is escaped for a prompt or a context. Text that looks like a tag, a line or a speaker of
Memolog is then escaped or marked as the original would be.
"""

import re
import unicodedata
from typing import Final

from memolog.text.word_lists import word_set

# Marks that change the order of the displayed text, and characters without width. The two joiners (U+200C, U+200D) are not
# included, because emoji and several scripts need them.
_UNSEEN: Final = (
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
_HIDDEN: Final = re.compile(f"[{_UNSEEN}]")
_JOINERS: Final = re.compile("[\u200c\u200d\ufe00-\ufe0f]")

_OPENING: Final = "＜﹤〈《⟨⟪〈❬❮❰‹˂ᐸ≺≪⋖⧼⪡"
_CLOSING: Final = "＞﹥〉》⟩⟫〉❭❯❱›˃ᐳ≻≫⋗⧽⪢"
_SLASH: Final = "/／⁄∕⧸╱＼\\\\"
_TAGS: Final = word_set("""
    attached call calls current-task day earlier-suggestion earlier-task file hints instructions left-out log log-end memory
    message messages missing now observation observations off-track other other-conversation plans reasoning recalled
    reflection reflections result results suggested-response system target task tasks thread thread-title title transcript user
    assistant tool developer wanted working-memory think thinking
""")
"""The names of Memolog's tags, and the names of roles, which the chat templates of some models use as tags."""
_GAP: Final = rf"(?:[^\S\n]|[{_UNSEEN}\u200c\u200d]){{0,6}}"
_TAG: Final = re.compile(
    rf"[{_OPENING}]({_GAP}[{_SLASH}]?{_GAP})([\w{_UNSEEN}\u200c\u200d\ufe00-\ufe0f‐‑‒–—−_－-]{{2,80}})"
    rf"([^{_OPENING}{_CLOSING}<>\n]{{0,100}}[{_CLOSING}>])?"
)
_LETTERS: Final = str.maketrans(
    dict(zip("аеорсухіѕјһԁԛԝкмтвнпгӏѡαεοριυκντηχɡɑοսոօցһ", "aeopcyxisjhdqwkmtbhnrlwaeopiukvtnxgaounogh", strict=True))
)
"""Small letters of other alphabets, and the Latin letters that they look like."""
_DASHES: Final = re.compile("[‐‑‒–—−_－]")


def visible(text: str) -> str:
    """Return the text without direction marks and invisible characters."""
    return text if text.isascii() else _HIDDEN.sub("", text)


def _plain(text: str) -> str:
    """Return a short text in lower case, with look-alikes replaced by Latin letters."""
    return in_latin_letters(unicodedata.normalize("NFKC", _JOINERS.sub("", visible(text))).casefold())


def in_latin_letters(text: str) -> str:
    """Return a text in lower case with look-alikes replaced by Latin letters."""
    return text.translate(_LETTERS)


def with_plain_tags(text: str) -> str:
    """Return the text with `<` and `>` in place of other brackets that make a look-alike of one of Memolog's tags.

    The caller then escapes `<` and `>`. Brackets around other words are unchanged: `《红楼梦》`.
    """
    if text.isascii():
        return text

    def swap(hit: re.Match[str]) -> str:
        name = _DASHES.sub("-", _plain(hit[2])).strip("-")
        if name not in _TAGS:
            return hit[0]
        rest = hit[3] or ""
        return f"<{hit[1]}{hit[2]}{rest[:-1] + '>' if rest else ''}"

    return _TAG.sub(swap, text)


# ---------------------------------------------------------------- lines

_IMITATION: Final = re.compile(
    r"[\s>|›]*+(?:(?:[*•‣◦▪·+∗⁎⋆–—-]|\d{1,3}[.)])?\s*+[🔴🟡🟢✅🟥❗🚨☑✔]|date\s*+:|[\[(【]\s*\d{1,6}\s*[\])】]\s*\d{1,2}:\d\d"
    r"|o\d{1,6}\s+(?:t\d{1,6}\s+)?[🔴🟡🟢✅])"
)
_HEAD: Final = 60
_QUOTE: Final = "› "


def _imitates(line: str) -> bool:
    """Return whether a line begins like an observation, a date of the log or the header of a message in a transcript.

    Look-alike letters are recognised too.
    """
    head = line[:_HEAD]
    return bool(_IMITATION.match(head.casefold() if head.isascii() else _plain(head)))


def quoted(text: str) -> str:
    """Return the text with a quotation mark before each line that imitates a line of the log or the header of a message."""
    return "\n".join(f"{_QUOTE}{line}" if _imitates(line) else line for line in text.split("\n"))


# ---------------------------------------------------------------- names

_ROLES: Final = word_set(
    "user system assistant tool developer human admin administrator memory observer reflector ai agent model"
)
_IDENTIFIER: Final = re.compile(r"[\w.:/@+-]+")
# Characters that could end a name, or could make a name look like a header or a remark of Memolog.
_NOT_IN_LABELS: Final = re.compile(r"[^\w\s.,'’/@+~%=!?·-]+|_{3,}")
_SPACES: Final = re.compile(r"\s+")
# Only this multiple of the length of a label is read from a longer name.
_SCANNED: Final = 8


def label(name: str, most: int = 60) -> str:
    """Return the name of a speaker, a tool or a file in at most `most` characters, for use beside the name of a role.

    Line breaks, brackets, double quotation marks, colons and hidden characters are removed.
    """
    text = _NOT_IN_LABELS.sub(" ", _JOINERS.sub("", visible(name[: _SCANNED * most])))
    text = _SPACES.sub(" ", text).strip(" ,")
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def quoted_label(name: str, most: int = 60, *, is_tool: bool = False) -> str:
    """Return the `label` of a name in quotation marks, or an empty string if the label is empty.

    The name of a tool has no quotation marks if it is a plain identifier and not the name of a role.
    """
    text = label(name, most)
    if is_tool and _IDENTIFIER.fullmatch(text) and _plain(text) not in _ROLES:
        return text
    return f'"{text}"' if text else ""
