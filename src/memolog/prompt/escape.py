"""Clean and escape foreign text so that it cannot open, close or imitate one of our tags."""

import re
from typing import Final

from memolog.context.escape import escape
from memolog.domain.codec import well_formed
from memolog.domain.lookalikes import quoted, visible, with_plain_tags
from memolog.tokens import cut

__all__ = ["clean", "closed", "escape", "short_line", "quoted", "unescape"]

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
