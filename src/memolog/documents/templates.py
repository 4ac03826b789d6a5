"""Templates that a working memory may start from, read from `texts/*.md`."""

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
            f"`template` must be one of {', '.join(TEMPLATES)}, got {name!r}.", then="Or pass your own Markdown."
        )
    text = files("memolog.documents").joinpath("texts", f"{name}.md").read_text("utf-8")
    # A checkout may have turned the line ends.
    return "\n".join(text.splitlines()).strip() + "\n"
