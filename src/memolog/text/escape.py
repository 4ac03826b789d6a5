"""Escape, clean and fold text for prompts and contexts, so that it can neither open nor close one of our tags."""

import re
from typing import Final

from memolog.core.exact_json import well_formed
from memolog.text.cutting import cut
from memolog.text.lookalikes import visible, with_plain_tags


def escape(text: str) -> str:
    """Return the text with `<`, `&` and look-alikes of our tags escaped.

    Lone surrogates are replaced, because providers refuse them.
    """
    return with_plain_tags(well_formed(text)).replace("&", "&amp;").replace("<", "&lt;")


def fold(text: str) -> str:
    """Return the text as one line without hidden characters: each line break of any kind becomes a space."""
    return " ".join(filter(None, (line.strip() for line in visible(text).splitlines())))


def one_line(text: str) -> str:
    """Return the text escaped and on one line, so that it cannot imitate another line of ours."""
    return escape(fold(text))


def attribute(text: str) -> str:
    """Return the text as the value of an attribute: on one line, with quotation marks and `>` escaped too."""
    return one_line(text).replace('"', "&quot;").replace(">", "&gt;")


def element(tag: str, body: str, **attributes: str | None) -> str:
    """Return an escaped body between tags of ours; an attribute that is None or empty is left out."""
    given = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items() if value)
    return f"<{tag}{given}>\n{body}\n</{tag}>"


_LINE_ENDS: Final = re.compile("\r\n?|[\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff]")
# Invisible tag characters that models can read; their only valid use is in flags of regions.
_HIDDEN: Final = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]{1,7}\U000e007f)|[\U000e0000-\U000e007f]+")
_SPACES: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    """Return the text with plain line ends, without control and hidden characters, and always encodable."""
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    text = _HIDDEN.sub(lambda hit: hit[1] or "", text)
    return visible(well_formed(text))


def unescape(text: str) -> str:
    """Return text that a model copied from a prompt with its entities decoded."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def closed(text: str) -> str:
    """Return a text, escaped or not, without tags. Idempotent."""
    return with_plain_tags(clean(text)).replace("<", "&lt;")


def short_line(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters."""
    flat = _SPACES.sub(" ", clean(cut(text, 8 * most))).strip()
    return flat if len(flat) <= most else cut(flat, most - 1) + "…"
