"""The templates that a working memory may start from, from `texts/*.md`, read once.

Knows which there are. Knows nothing of how they are filled in.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from memolog.domain.errors import InputError

__all__ = ["TEMPLATES", "template"]

TEMPLATES: Final = ("coding", "personal")


@cache
def template(name: str) -> str:
    """Return a template's Markdown."""
    if name not in TEMPLATES:
        raise InputError(
            f"There is no template {name!r}.", then=f"Use one of {', '.join(TEMPLATES)}, or pass your own Markdown."
        )
    text = files("memolog.documents").joinpath("texts", f"{name}.md").read_text("utf-8")
    # A checkout may have turned the line ends.
    return "\n".join(text.splitlines()).strip() + "\n"
