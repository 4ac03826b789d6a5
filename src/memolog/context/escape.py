"""Escape text between our tags, so that it can neither open nor close one."""

from memolog.domain.codec import well_formed
from memolog.domain.lookalikes import visible, with_plain_tags

__all__ = ["attribute", "element", "escape", "fold", "one_line"]


def escape(text: str) -> str:
    """Return the text with every `<` and `&` escaped, and what looks like a tag of ours; lone surrogates are replaced.

    No provider accepts those.
    """
    return with_plain_tags(well_formed(text)).replace("&", "&amp;").replace("<", "&lt;")


def fold(text: str) -> str:
    """Return the text as one line without hidden characters: each line break of any kind becomes a space."""
    return " ".join(filter(None, (line.strip() for line in visible(text).splitlines())))


def one_line(text: str) -> str:
    """Return the text escaped and as one line, so that it cannot pass for a further line of ours."""
    return escape(fold(text))


def attribute(text: str) -> str:
    """Return the text as the value of an attribute: one line, what would end it escaped too."""
    return one_line(text).replace('"', "&quot;").replace(">", "&gt;")


def element(tag: str, body: str, **attributes: str | None) -> str:
    """Return a body, escaped already, between our tags; an attribute that is None or empty is left out."""
    given = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items() if value)
    return f"<{tag}{given}>\n{body}\n</{tag}>"
