"""TOML as a person wrote it: one marked block at the end is ours, and all else stays byte for byte.

Knows the marks. What comes of an edit is read again before anyone is given it: a block that does not fit is refused.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, cast

from memolog.domain.errors import InputError

__all__ = ["has_block", "with_block", "without_block"]

_BEGIN: Final = "# memolog: begin"
_END: Final = "# memolog: end"
_FIRST: Final = re.compile(rf"(?<!\n)\n*+^{_BEGIN}[^\n]*\n", re.MULTILINE)
_LAST: Final = re.compile(rf"^{_END}[^\n]*(?:\n|\Z)", re.MULTILINE)


def has_block(text: str) -> bool:
    """Tell whether our block is in a text."""
    return _block(text) is not None


def with_block(text: str, table: tuple[str, ...], fields: Mapping[str, Any], remark: str) -> str:
    """Return the text with our block at its end: one table. A table of that name that is not ours is left alone."""
    bare = without_block(text)
    present: Any = _read(bare)
    for name in table:
        present = cast("dict[str, Any]", present).get(name, {}) if isinstance(present, dict) else {}
    if present:
        return text
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    block = "\n".join([f"{_BEGIN} ({remark})", f"[{'.'.join(table)}]", *lines, _END])
    made = f"{bare.rstrip(chr(10))}\n\n{block}\n" if bare.strip() else f"{bare}{block}\n"
    try:
        _read(made)
    except InputError as error:
        raise InputError(
            f"A table [{'.'.join(table)}] cannot be added to this file.",
            why=error.why,
            then="Write that part of it as a table of its own, or add ours by hand.",
        ) from error
    return made


def without_block(text: str) -> str:
    """Return the text without our block."""
    found = _block(text)
    if found is None:
        return text
    before, after = text[: found.start], text[found.stop :]
    return f"{before}\n{after}" if before else after


def _block(text: str) -> range | None:
    """Return where our block stands, with the blank lines before it."""
    first = _FIRST.search(text)
    last = _LAST.search(text, first.end()) if first else None
    return range(first.start(), last.end()) if first and last else None


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("The file is no TOML.", why=str(error), then="Mend it first.") from error
