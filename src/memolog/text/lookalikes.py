"""Detect disguised text: invisible characters, look-alikes of Memolog's tags and of lines of the log, and misleading names.

Text from outside passes through these functions before it becomes part of a prompt or a context. They escape, mark or remove
what imitates a tag of Memolog, a line of the log or the name of a role.
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
TAGS: Final = word_set("""
    asked-question attached call calls conversation current-task day earlier-messages earlier-suggestion earlier-task
    expected-answer expected-statement extract file given-answer hints instructions late-result left-out log log-end
    memory memory-pack message messages missing now observation observations off-track other other-conversation plans
    reasoning recalled reflection reflections result results suggested-response system target task tasks thread
    thread-title title transcript user assistant tool developer wanted working-memory think
    thinking scratchpad tool-call tool-calls tool-response tool-responses tool-result tool-results function-call
    function-calls s bos eos start-of-turn end-of-turn private
""")
"""The names of Memolog's tags, and the names of tags in the chat templates of models, such as the names of roles."""
_BRACKETS: Final = f"<>{_OPENING}{_CLOSING}"
# `_SIGNS` are signs and hidden characters that may stand between a bracket and the name of a tag. `_LETTER` is a character of a
# name. Unicode symbols count as letters, because some look like a letter.
_SIGNS: Final = rf"\x00-/:;=?@\[-`{{-\xa0\s｜／⁄∕⧸╱＼{_UNSEEN}\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e01ef"
_LETTER: Final = rf"[^\t-\r\x1c-,./:-@\[-^`{{-~\s{_BRACKETS}／⁄∕⧸╱＼｜]"
# The patterns match an opening bracket, or an entity for one. After it there may be signs and a namespace, and then the name.
# Only the bracket is consumed, because the next bracket may follow immediately.
_BEFORE: Final = rf"(?=([{_SIGNS}]*+)(?:\w{{1,40}}:)?({_LETTER}*+))"
_ENTITY: Final = rf"&((?:amp;)*+)(lt|#(?:{'|'.join(str(ord(one)) for one in _OPENING)}));"
_OPENED: Final = re.compile(rf"(?:([<{_OPENING}])|{_ENTITY}){_BEFORE}")
_ESCAPED: Final = re.compile(_ENTITY + _BEFORE)
_END: Final = rf"(?:[>{_CLOSING}]|&(?:amp;)*(?:gt|#62|#x3e))"
# What may follow the name in an opening tag: a bracket, the end of the line, an ellipsis (where text was cut), or attributes.
_CLOSED: Final = re.compile(
    rf"[^\w{_BRACKETS}]{{0,40}}?(?:{_END}|[<{_OPENING}])|[^\S\n]{{0,40}}(?:\n|\Z|…)|\s[^{_BRACKETS}]{{0,400}}?{_END}"
    rf"|\s[\s{_UNSEEN}]{{0,40}}[\w:.{_UNSEEN}\u200c\u200d-]{{1,80}}\s{{0,9}}(?:=(?!=)|…)",
    re.IGNORECASE,
)
_CLOSED_AFTER_SPACE: Final = re.compile(
    rf"[^\w{_BRACKETS}]{{0,40}}?{_END}|\s{{1,40}}[\w:.-]{{1,40}}\s{{0,9}}=(?!=)[^{_BRACKETS}]{{0,400}}?{_END}",
    re.IGNORECASE,
)
_PATH: Final = re.compile(rf"[/.]\w[^\s{_BRACKETS}]*+(?!{_END})")
_TEMPLATE: Final = re.compile(r"[|｜][^<>\n]{1,60}[|｜]>")
_NOT_SHOWN: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_UNSEEN}\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e01ef]")
_AROUND_NAME: Final = re.compile(r"\A[\W_]+|[\W_]+\Z")
_LONGEST_NAME: Final = max(map(len, TAGS))
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
    """Return a text with look-alikes replaced by Latin letters. Capital letters are not replaced, so pass text in lower case."""
    return text.translate(_LETTERS)


def _is_tag_name(name: str) -> bool:
    """Return whether a name is, or looks like, the name of one of Memolog's tags or of a tag of a chat template."""
    name = _NOT_SHOWN.sub("", name)
    if len(name) > 2 * _LONGEST_NAME:
        return False
    if name.isascii():
        return name.lower().replace("_", "-").strip("-") in TAGS
    bare = unicodedata.normalize("NFKD", _plain(name))
    bare = _DASHES.sub("-", "".join(char for char in bare if not unicodedata.combining(char))).strip("-")
    return any(map(_looks_like_tag, {bare, _AROUND_NAME.sub("", bare)}))


def _looks_like_tag(name: str) -> bool:
    if name.isascii() or len(name) > _LONGEST_NAME:
        return name in TAGS
    # If a part of the name is ASCII, each of its other letters may stand for any letter of a tag.
    return any(char.isascii() for char in name) and any(
        len(tag) == len(name) and all(a == b or not a.isascii() for a, b in zip(name, tag, strict=True)) for tag in TAGS
    )


def _is_named(hit: re.Match[str], before: str, name: str) -> bool:
    return _is_tag_name(name) or bool(before[:1] in {"|", "｜"} and _TEMPLATE.match(hit.string, hit.end()))


def _opens_tag(hit: re.Match[str]) -> bool:
    """Return whether a bracket begins a tag, and not a comparison, a redirection or a type such as `List<User>`."""
    text, before, name = hit.string, hit[4], hit[5]
    if not _is_named(hit, before, name):
        return False
    if not _is_tag_name(name):
        return True
    end = hit.end(5)
    if any(sign in before for sign in _SLASH):
        return not _PATH.match(text, end)
    glued = text[hit.start() - 1 : hit.start()]
    if re.fullmatch("[A-Za-z0-9_:]", glued) and re.fullmatch("[A-Z][a-z]*", name):
        return False
    closed = _CLOSED_AFTER_SPACE if re.search(r"\S", visible(before)) or re.search(r"\s", before) else _CLOSED
    return bool(closed.match(text, end))


def escape_tags(text: str) -> str:
    """Return the text with an entity in place of the first bracket of each opening or closing tag: `&lt;/message>`.

    The tags are those of Memolog and of chat templates, and their look-alikes. An entity that is already in such a place gets
    `&amp;`, so that `unescape_tags` returns the original. All other text is unchanged: `a < b && c`, `<div>`, `《红楼梦》`.
    """

    def swap(hit: re.Match[str]) -> str:
        if hit[1] is None:
            return f"&amp;{hit[0][1:]}" if _is_named(hit, hit[4], hit[5]) else hit[0]
        return _entity(hit[1]) if _opens_tag(hit) else hit[0]

    return _OPENED.sub(swap, text) if _may_open(text) else text


def _may_open(text: str) -> bool:
    """Return False if a text has no character with which `_OPENED` begins. Most texts have none, and this is fast to find."""
    return not text.isascii() or "<" in text or "&" in text


def close_tags(text: str) -> str:
    """Escape brackets as `escape_tags` does, but leave entities unchanged. So a text that is escaped already does not change."""
    return _OPENED.sub(lambda hit: _entity(hit[1]) if hit[1] and _opens_tag(hit) else hit[0], text)


def _entity(bracket: str) -> str:
    return "&lt;" if bracket == "<" else f"&#{ord(bracket)};"


def unescape_tags(text: str) -> str:
    """Return the original of a text that `escape_tags` has escaped."""

    def swap(hit: re.Match[str]) -> str:
        if not _is_named(hit, hit[3], hit[4]):
            return hit[0]
        if hit[1]:
            return f"&{hit[0][5:]}"
        return "<" if hit[2] == "lt" else chr(int(hit[2][1:]))

    return _ESCAPED.sub(swap, text)


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
    """Return the text with the mark `› ` before each line that imitates a line of the log or the header of a message."""
    return "\n".join(f"{_QUOTE}{line}" if _imitates(line) else line for line in text.split("\n"))


# ---------------------------------------------------------------- names

_ROLES: Final = word_set(
    "user system assistant tool developer human admin administrator memory observer reflector ai agent model"
)
_IDENTIFIER: Final = re.compile(r"[\w.:/@+-]+")
# Characters that could end a name, or could make a name look like a header or a remark of Memolog.
_NOT_IN_LABELS: Final = re.compile(r"[^\w\s.,'’/@+~%=!?·-]+|_{3,}")
_SPACES: Final = re.compile(r"\s+")
# Only the first `_SCANNED * most` characters of a name are read for a label of at most `most` characters.
_SCANNED: Final = 8


def label(name: str, most: int = 60) -> str:
    """Return the name of a speaker, a tool or a file in at most `most` characters, for use beside the name of a role.

    Hidden characters are removed. Line breaks, brackets, double quotation marks and colons become spaces.
    """
    text = _NOT_IN_LABELS.sub(" ", _JOINERS.sub("", visible(name[: _SCANNED * most])))
    text = _SPACES.sub(" ", text).strip(" ,")
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def quoted_label(name: str, most: int = 60, *, is_tool: bool = False) -> str:
    """Return the `label` of a name in quotation marks, or an empty string if the label is empty.

    With `is_tool`, a plain identifier has no quotation marks, unless it is the name of a role.
    """
    text = label(name, most)
    if is_tool and _IDENTIFIER.fullmatch(text) and _plain(text) not in _ROLES:
        return text
    return f'"{text}"' if text else ""
