"""What must not be remembered: text between `<private>` tags, and what we told the host ourselves.

Knows the tags, nested, unclosed or spread over several texts of one message. Knows no message and no host; loads nothing else.
"""

import json
import re
from typing import Any, Final, cast

__all__ = ["Curtain", "public", "public_text"]

# What we hand to a host comes back in its transcript: memory does not remember itself.
_TAG: Final = re.compile(r"<\s*+(/?)\s*+(?:private|memory-pack)(?=[\s/>]|$)[^<>]*+>?", re.IGNORECASE)


class Curtain:
    """Lets through what is public of one text after the other: what one opens, a later one may close."""

    def __init__(self) -> None:
        self.depth = 0
        """How many tags are open."""

    def through(self, text: str) -> str:
        """Return what of a text may be kept. An unclosed tag hides all that follows; a closing one alone hides only itself."""
        if not self.depth and not _might_hold(text):
            return text
        kept: list[str] = []
        at = 0
        for tag in _TAG.finditer(text):
            if not self.depth:
                kept.append(text[at : tag.start()])
            at = tag.end()
            if tag[1]:
                self.depth = max(0, self.depth - 1)
            elif not tag[0].endswith("/>"):
                self.depth += 1
        if not self.depth:
            kept.append(text[at:])
        return "".join(kept)


def _might_hold(text: str) -> bool:
    """Tell whether a closer look is worth it: outputs are long, and hardly any holds a tag."""
    low = text.lower()
    return "private" in low or "memory-pack" in low


def public_text(text: str) -> str:
    """Return what of one text may be kept."""
    return Curtain().through(text)


def public(value: Any) -> Any:
    """Return a JSON value without what is private in any text in it, also in a text that is JSON itself."""
    if isinstance(value, str):
        return _public_json(value) if value.lstrip()[:1] in {"{", "["} else public_text(value)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {public_text(key) if isinstance(key, str) else key: public(item) for key, item in items}
    if isinstance(value, list):
        return [public(item) for item in cast("list[Any]", value)]
    return value


def _public_json(text: str) -> str:
    """Return a text that may be JSON: escaped tags in it are tags too, and what is left is JSON again."""
    if not _might_hold(text) and "\\u" not in text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return public_text(text)
    kept = public(value)
    return text if kept == value else json.dumps(kept, ensure_ascii=False)
