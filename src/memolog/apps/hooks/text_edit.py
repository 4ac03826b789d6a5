"""Add and remove entries in JSON and TOML texts. All other bytes stay the same, including comments and trailing commas."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from memolog.errors import InputError

_TRIVIA: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_INDENT: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_SAME_LINE: Final = re.compile(r",?[ \t]*//[^\n]*")

Path = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Json:
    """A JSON value with its position in the text. An object or array also has the positions of its content."""

    start: int
    end: int
    value: Any
    keys: tuple[str, ...] = ()
    """Names of the members of an object. Empty for other values."""
    places: tuple[int, ...] = ()
    """Position of each item of an array, or of the name of each member of an object."""
    items: tuple["Json", ...] = ()


def parse(text: str) -> Json:
    """Parse a JSON text, which may have comments and trailing commas. Raises InputError if it is invalid."""
    reader = _Reader(text)
    found = reader.value(reader.skip(0))
    if reader.skip(found.end) != len(text):
        raise _broken(text, found.end)
    return found


def _broken(text: str, at: int) -> InputError:
    line = text.count("\n", 0, at) + 1
    return InputError(
        f"Line {line} is not valid JSON.", why=f"Found {text[at : at + 30]!r}.", then="Correct the file first."
    )


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, at: int) -> int:
        found = _TRIVIA.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int) -> Json:
        match self.text[at : at + 1]:
            case "{" | "[":
                return self._container(at)
            case '"':
                found = _STRING.match(self.text, at)
            case _:
                found = _SCALAR.match(self.text, at)
        if found is None:
            raise _broken(self.text, at)
        try:
            value = json.loads(found[0], strict=False)
        except ValueError:
            raise _broken(self.text, at) from None
        return Json(start=at, end=found.end(), value=value)

    def _container(self, start: int) -> Json:
        is_object = self.text[start] == "{"
        closing = "}" if is_object else "]"
        keys, places, items = list[str](), list[int](), list[Json]()
        at = self.skip(start + 1)
        while self.text[at : at + 1] != closing:
            places.append(at)
            if is_object:
                name = self.value(at)
                colon = self.skip(name.end)
                if not isinstance(name.value, str) or self.text[colon : colon + 1] != ":":
                    raise _broken(self.text, at)
                keys.append(name.value)
                at = self.skip(colon + 1)
            items.append(self.value(at))
            at = self.skip(items[-1].end)
            if self.text[at : at + 1] == ",":
                at = self.skip(at + 1)
            elif self.text[at : at + 1] != closing:
                raise _broken(self.text, at)
        values = [item.value for item in items]
        value = dict(zip(keys, values, strict=True)) if is_object else values
        return Json(start=start, end=at + 1, value=value, keys=tuple(keys), places=tuple(places), items=tuple(items))


def _walk(text: str, path: Path) -> list[Json]:
    """Return the whole value, and the value of each key of a path. The list ends before the first key that is missing."""
    nodes = [parse(text)]
    for key in path:
        node = nodes[-1]
        if key not in node.keys:
            break
        nodes.append(node.items[node.keys.index(key)])
    return nodes


# ---------------------------------------------------------------- adding


def set_member(text: str, path: Path, key: str, new: Any) -> str:
    """Return the text with a member of the object at a path set to `new`. Missing objects are created."""
    text, node = _reach(text, path, dict)
    if key not in node.keys:
        return _insert(text, node, key, new)
    old = node.items[node.keys.index(key)]
    written = _dumped(text, _margin(text, old.start), new)
    return text if old.value == new else text[: old.start] + written + text[old.end :]


def add_item(text: str, path: Path, new: Any) -> str:
    """Return the text with an item appended to the array at a path. Missing objects and arrays are created."""
    text, node = _reach(text, path, list)
    return _insert(text, node, None, new)


def _reach(text: str, path: Path, kind: type[dict[str, Any] | list[Any]]) -> tuple[str, Json]:
    """Return the text, and its object or array at a path. If there is none, an empty one is added to the text."""
    text = text if text.strip() else "{}\n"
    nodes = _walk(text, path)
    for depth, node in enumerate(nodes):
        wanted = dict if depth < len(path) else kind
        if not isinstance(node.value, wanted):
            name, noun = ".".join(path[:depth]) or "the file", "object" if wanted is dict else "array"
            why = f"Memolog adds its entries to this {noun}."
            raise InputError(f"{name} is not an {noun}.", why=why, then="Correct the file first.")
    depth = len(nodes)
    if depth <= len(path):
        return _reach(_insert(text, nodes[-1], path[depth - 1], {} if depth < len(path) else kind()), path, kind)
    return text, nodes[-1]


def _insert(text: str, node: Json, key: str | None, new: Any) -> str:
    """Return the text with a member added at the end of an object. If `key` is None, add an item at the end of an array."""
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not node.items:
        outer = _margin(text, node.start)
        inner = outer + _unit(text)
        # An empty container may have comments. Keep them.
        kept = text[node.start + 1 : node.end - 1].rstrip()
        body = f"{kept}\n{inner}{name}{_dumped(text, inner, new)}\n{outer}"
        return text[: node.start + 1] + body + text[node.end - 1 :]
    last = node.items[-1]
    is_one_line = "\n" not in text[node.start : node.end]
    after = _Reader(text).skip(last.end)
    has_comma = text[after] == ","
    # If the last entry has a trailing comma, the new entry gets one, too.
    comma, own_comma = ("", ",") if has_comma else (",", "")
    behind = after + 1 if has_comma else last.end
    if is_one_line:
        return f"{text[:behind]}{comma} {name}{json.dumps(new, ensure_ascii=False)}{own_comma}{text[behind:]}"
    # A comment on the same line belongs to the last entry, so insert after the comment.
    remark = _SAME_LINE.match(text, last.end)
    at = max(remark.end() if remark else 0, behind)
    margin = _margin(text, node.places[-1])
    added = f"\n{margin}{name}{_dumped(text, margin, new)}{own_comma}"
    return f"{text[: last.end]}{comma}{text[last.end : at]}{added}{text[at:]}"


def _dumped(text: str, margin: str, new: Any) -> str:
    lines = json.dumps(new, indent=_unit(text), ensure_ascii=False).splitlines()
    return f"\n{margin}".join(lines)


def _margin(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """Return the white space that this text uses for one level of indentation."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


# ---------------------------------------------------------------- removing


def remove(text: str, path: Path, is_ours: Callable[[str | None, Any], bool]) -> str:
    """Return the text without the entries at a path for which `is_ours` returns True, and without containers left empty."""
    nodes = _walk(text, path) if text.strip() else []
    if len(nodes) <= len(path):
        return text
    node = nodes[-1]
    names = cast("Sequence[str | None]", node.keys or (None,) * len(node.items))
    ours = [index for index, item in enumerate(node.items) if is_ours(names[index], item.value)]
    if path and ours and len(ours) == len(node.items):
        parent = nodes[-2]
        shorter = _cut(text, parent, parent.keys.index(path[-1]))
        return remove(shorter, path[:-2], lambda name, item: name == path[-2] and not item) if path[1:] else shorter
    for index in reversed(ours):
        text = _cut(text, _walk(text, path)[-1], index)
    return text


def _cut(text: str, node: Json, index: int) -> str:
    """Return the text without one member or item and its comma. Comments before and after it stay."""
    start, end = node.places[index], node.items[index].end
    if len(node.items) == 1:
        after = _Reader(text).skip(end)
        end = after + 1 if text[after] == "," else end
        rest = text[node.start + 1 : start].rstrip() + text[end : node.end - 1].rstrip()
        tail = f"\n{_margin(text, node.start)}" if rest else ""
        return text[: node.start + 1] + rest + tail + text[node.end - 1 :]
    if index + 1 < len(node.items):
        following = node.places[index + 1]
        comma = _Reader(text).skip(end) + 1
        kept = text[comma:following].strip()
        return text[:start] + (text[comma:following].lstrip() if kept else "") + text[following:]
    before = node.items[index - 1].end
    comma, after = _Reader(text).skip(before), _Reader(text).skip(end)
    if text[after] == ",":
        return text[: comma + 1] + text[comma + 1 : start].rstrip() + text[end:after] + text[after + 1 :]
    return text[:comma] + text[comma + 1 : start].rstrip() + text[end:]


_BEGIN: Final = "# memolog: begin"
_END: Final = "# memolog: end"
# The first line of the block, and the blank lines before it.
_FIRST: Final = re.compile(rf"(?<!\n)\n*+^{_BEGIN}[^\n]*\n", re.MULTILINE)
_LAST: Final = re.compile(rf"^{_END}[^\n]*(?:\n|\Z)", re.MULTILINE)


def with_block(text: str, table: tuple[str, ...], fields: Mapping[str, Any], remark: str) -> str:
    """Return the TOML text with our block at its end. If the user has a table with this name, return the text unchanged."""
    bare = without_block(text)
    present: Any = _read(bare)
    for name in table:
        present = cast("dict[str, Any]", present).get(name, {}) if isinstance(present, dict) else {}
    if present:
        return text
    # Texts and lists of texts have the same form in JSON and TOML.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    block = "\n".join([f"{_BEGIN} ({remark})", f"[{'.'.join(table)}]", *lines, _END])
    made = f"{bare.rstrip(chr(10))}\n\n{block}\n" if bare.strip() else f"{bare}{block}\n"
    try:
        _read(made)
    except InputError as error:
        raise InputError(
            f"The table [{'.'.join(table)}] cannot be added to this file.",
            why=error.why,
            then=f"If the file has an inline table `{table[0]}`, write it as [{table[0]}.…] tables, or add our table by hand.",
        ) from error
    return made


def without_block(text: str) -> str:
    """Return the TOML text without our block."""
    first = _FIRST.search(text)
    last = _LAST.search(text, first.end()) if first else None
    if first is None or last is None:
        return text
    before, after = text[: first.start()], text[last.end() :]
    return f"{before}\n{after}" if before else after


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("The file is not valid TOML.", why=str(error), then="Correct the file first.") from error
