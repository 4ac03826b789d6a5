"""Load, escape and clean text for prompts and contexts, so that the text can neither open nor close one of Memolog's tags."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from memolog.core.exact_json import well_formed
from memolog.text.cut import cut
from memolog.text.lookalikes import close_tags, escape_tags, unescape_tags, visible


@cache
def fixed_text(name: str) -> str:
    """Return a text that is installed with Memolog: `fixed_text("context/cut")` reads `context/texts/cut.md`."""
    room, _, file = name.rpartition("/")
    text = files("memolog").joinpath(room, "texts", f"{file}.md").read_text("utf-8")
    # The bytes of prompts and contexts must not depend on the line ends of the installed files.
    return "\n".join(text.splitlines()).strip()


def escape(text: str) -> str:
    """Return the text with each bracket escaped that could begin one of Memolog's tags. Other text does not change.

    Lone surrogates are replaced, because model providers refuse them.
    """
    return escape_tags(well_formed(text))


def fold(text: str) -> str:
    """Return the text on one line without hidden characters. Every kind of line break becomes a space."""
    return " ".join(filter(None, (line.strip() for line in visible(text).splitlines())))


def one_line(text: str) -> str:
    """Return the text escaped and on one line, so that it cannot imitate a line that Memolog writes."""
    return escape(fold(text))


def attribute(text: str) -> str:
    """Return the text as the value of an attribute, on one line. Quotation marks and all `<` and `>` are escaped."""
    return one_line(text).replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def element(tag: str, body: str, **attributes: str | None) -> str:
    """Return an element with a body that is already escaped. An attribute that is None or empty is left out."""
    given = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items() if value)
    return f"<{tag}{given}>\n{body}\n</{tag}>"


_LINE_ENDS: Final = re.compile("\r\n?|[\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff]")
# Invisible tag characters, which models can read. The first group matches their only valid use, the flag of a region.
_HIDDEN: Final = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]{1,7}\U000e007f)|[\U000e0000-\U000e007f]+")


def clean(text: str) -> str:
    """Return the text with line feeds as its only line ends, and without control characters, hidden characters and surrogates."""
    # Only `visible` changes printable text, and this test is many times faster than the patterns.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return visible(text)
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    text = _HIDDEN.sub(lambda hit: hit[1] or "", text)
    return visible(well_formed(text))


def unescape(text: str) -> str:
    """Return the original of a text that a model copied from a prompt, as it was before `escape`."""
    return unescape_tags(text)


def closed(text: str) -> str:
    """Return a text cleaned and with the tags of Memolog escaped. Text that is escaped already is not escaped again."""
    return close_tags(clean(text))


def short_line(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters."""
    flat = " ".join(clean(cut(text, 8 * most)).split())
    return flat if len(flat) <= most else cut(flat, most - 1) + "…"
