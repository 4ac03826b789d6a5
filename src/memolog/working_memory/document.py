"""Change documents: replace, merge, edit a section or restore, merge concurrent changes, and check size and schema.

A change is a pure function of the present document, so it can be applied again if another writer was first.
"""

import difflib
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, TypeVar, cast

from memolog.core.document import Document, DocumentFormat, DocumentVersion
from memolog.core.exact_json import JsonObject, object_text
from memolog.errors import DocumentConflict, DocumentInvalid, DocumentNotFound, DocumentTooLarge
from memolog.working_memory.schema import check_schema, problems

_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_NEW_LEVEL: Final = 2
_PATH: Final = re.compile(r"[>/»›]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with the text under it, from line `first` to the line before `end`."""

    title: str
    level: int
    path: tuple[str, ...]
    first: int
    end: int


def sections_of(text: str) -> tuple[Section, ...]:
    """Return the sections of a text in their order, including inner sections."""
    lines = text.split("\n")
    headings = list(_headings(lines))
    found: list[Section] = []
    path: list[tuple[int, str]] = []
    for place, (row, level, title) in enumerate(headings):
        while path and path[-1][0] >= level:
            path.pop()
        path.append((level, title))
        end = next((later for later, rank, _ in headings[place + 1 :] if rank <= level), len(lines))
        names = tuple(name for _, name in path)
        found.append(Section(title=title, level=level, path=names, first=row, end=end))
    return tuple(found)


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield row, level and title of each heading outside of code blocks."""
    fence = ""
    for row, line in enumerate(lines):
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif not fence and (hit := _HEADING.match(line)):
            yield row, len(hit[1]), (hit[2] or "").strip()


def folded(title: str) -> str:
    """Return a title for comparison, without case, marks and extra spaces."""
    return " ".join(title.strip().strip("#*_`: \t").split()).casefold()


def section_named(text: str, heading: str) -> Section | None:
    """Return the section with this heading, or None. The heading of an inner section may be written `Outer > Inner`."""
    path = tuple(folded(name.strip()) for name in _PATH.split(heading))
    known = sections_of(text)
    exact = [section for section in known if folded(section.title) == folded(heading)]
    inner = [section for section in known if tuple(map(folded, section.path))[-len(path) :] == path]
    found = exact or inner
    if len(found) > 1:
        names = ", ".join(" > ".join(section.path) for section in found)
        raise DocumentInvalid(
            f"{len(found)} sections are called {heading.strip()!r}.",
            why=f"They are {names}.",
            then="Pass the outer heading too, as in Outer > Inner.",
        )
    return found[0] if found else None


def with_section(text: str, heading: str, body: str, *, append: bool = False) -> str:
    """Return the text with the content of a section replaced or extended. A missing section is added at the end."""
    title = heading.strip().lstrip("#").strip()
    if not title or "\n" in title:
        raise DocumentInvalid(
            f"`heading` must be one line of text, got {heading!r}.", then="Pass the text of the heading without #."
        )
    found = section_named(text, title)
    body = _without_heading(body, title)
    if found is None:
        level = _level_of(text)
        _check_ranks(body, level, title)
        before = f"{text.rstrip()}\n\n" if text.strip() else ""
        return f"{before}{'#' * level} {title}\n\n{body}\n" if body else f"{before}{'#' * level} {title}\n"
    _check_ranks(body, found.level, title)
    lines = text.split("\n")
    old = "\n".join(lines[found.first + 1 : found.end]).strip("\n")
    new = "\n".join(filter(None, (old, body))) if append else body
    rest = lines[found.end :]
    middle = ["", *new.split("\n")] if new else []
    return _joined([*lines[: found.first + 1], *middle], rest)


def without_section(text: str, heading: str) -> str:
    """Return the text without a section and its inner sections. Raise DocumentNotFound if there is no such section."""
    found = section_named(text, heading)
    if found is None:
        names = ", ".join(" > ".join(section.path) for section in sections_of(text)) or "none"
        raise DocumentNotFound(f"There is no section {heading.strip()!r}.", why=f"There are: {names}.")
    lines = text.split("\n")
    return _joined(lines[: found.first], lines[found.end :])


def pieces_of(text: str) -> dict[tuple[str, ...], str]:
    """Return each heading with the text directly under it, by path. The text before the first heading has an empty path."""
    lines = text.split("\n")
    rows = [(section.first, section.path) for section in sections_of(text)]
    pieces: dict[tuple[str, ...], str] = {}
    for (row, path), end in zip([(0, ()), *rows], [*(row for row, _ in rows), len(lines)], strict=True):
        # Sections with the same path get a number.
        key, count = path, 1
        while key in pieces:
            count += 1
            key = (*path, f"#{count}")
        pieces[key] = "\n".join(lines[row:end]).strip("\n")
    return pieces


def _without_heading(body: str, title: str) -> str:
    """Return a body without a repeated heading."""
    body = body.strip("\n").rstrip()
    first, _, rest = body.partition("\n")
    hit = _HEADING.match(first)
    return rest.strip("\n") if hit and folded(hit[2] or "") == folded(title) else body


def _check_ranks(body: str, level: int, title: str) -> None:
    for section in sections_of(body):
        if section.level <= level:
            raise DocumentInvalid(
                f"The text for {title!r} has the heading {'#' * section.level} {section.title}, which would end the section.",
                then=f"Change one section at a time, or use headings of more than {level} marks inside it.",
            )


def _level_of(text: str) -> int:
    """Return the level for a new section, which is the level of the main sections."""
    levels = [section.level for section in sections_of(text)]
    if not levels:
        return _NEW_LEVEL
    top = min(levels)
    # If only one heading has the highest level, it is the title of the document, not a section.
    return top if levels.count(top) > 1 or len(set(levels)) == 1 else min(top + 1, 6)


def _joined(before: Sequence[str], after: Sequence[str]) -> str:
    head, tail = "\n".join(before).rstrip(), "\n".join(after).strip("\n").rstrip()
    whole = f"{head}\n\n{tail}" if head and tail else head or tail
    return f"{whole}\n" if whole else ""


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_GONE: Final = object()
"""Marks a missing key, since None is a value."""


def merged(base: str, present: str, wanted: str) -> tuple[str, tuple[str, ...]]:
    """Return the present Markdown with the changes from `base` to `wanted`, and the sections that were changed on both sides."""
    if wanted in {base, present}:
        return present, ()
    if present == base:
        return wanted, ()
    pieces, both = _three(pieces_of(base), pieces_of(present), pieces_of(wanted))
    text = "\n\n".join(piece.strip("\n") for piece in pieces.values() if piece.strip())
    return (f"{text}\n" if text else ""), tuple(" > ".join(path) or "the beginning" for path in both)


def _three(base: Mapping[K, V], present: Mapping[K, V], wanted: Mapping[K, V]) -> tuple[dict[K, V], tuple[K, ...]]:
    """Merge three mappings by key. Return the result in the present order, and the keys that were changed on both sides.

    A new key is inserted before the key that follows it in `wanted`.
    """
    order = list(present)
    place = len(order)
    for key in reversed(list(wanted)):
        if key in order:
            place = order.index(key)
        else:
            order.insert(place, key)
    result: dict[K, V] = {}
    both: list[K] = []
    for key in order:
        was, now, new = base.get(key, _GONE), present.get(key, _GONE), wanted.get(key, _GONE)
        is_ours, is_theirs = new != was, now != was
        if is_ours and is_theirs and new != now:
            both.append(key)
        kept = now if is_theirs else new
        if kept is not _GONE:
            result[key] = cast("V", kept)
    return result, tuple(both)


SectionMode: TypeAlias = Literal["replace", "append", "remove"]
_MOST_TOLD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContent:
    """The text, format and schema that a change gives a document."""

    text: str
    format: DocumentFormat = "markdown"
    schema: JsonObject | None = None


Change: TypeAlias = Callable[[Document | None], NewContent]


def value_of(text: str) -> JsonObject:
    """Return the object of a JSON document. An empty text means an empty object."""
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentInvalid(
            f"The text is not valid JSON: {error}.",
            why="This working memory is JSON.",
            then="Pass an object, or its JSON.",
        ) from error
    if not isinstance(value, Mapping):
        raise DocumentInvalid("The working memory must be one JSON object.", then="Pass an object with named fields.")
    return cast("JsonObject", value)


def _json(value: JsonObject) -> str:
    object_text("The working memory", value)
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def replaced(content: str | JsonObject, schema: JsonObject | None = None) -> Change:
    """Return the change to a new content, which is Markdown or an object. `schema` sets a new schema."""
    if schema is not None:
        check_schema(schema)

    def change(present: Document | None) -> NewContent:
        held = None if present is None else present.schema
        has_text = present is not None and bool(present.current.text.strip())
        was_json = present is not None and has_text and present.format == "json"
        is_json = was_json or not isinstance(content, str) or schema is not None or held is not None
        if has_text and not was_json and schema is None and not isinstance(content, str):
            raise DocumentInvalid(
                "This working memory is Markdown, not JSON.", then="Pass text, or a schema to turn it into JSON."
            )
        if not is_json:
            return NewContent(text=_text(content))
        value = value_of(content) if isinstance(content, str) else content
        return NewContent(text=_json(value), format="json", schema=held if schema is None else schema)

    return change


def merged_patch(patch: JsonObject) -> Change:
    """Return the change by a JSON merge patch. A field of the patch replaces the old field, and null removes it."""
    if not isinstance(patch, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DocumentInvalid(
            f"`patch` must be an object, got {type(patch).__name__}.",
            then="Pass the fields to change. null removes a field.",
        )

    def change(present: Document | None) -> NewContent:
        if present is not None and present.format != "json" and present.current.text.strip():
            raise DocumentInvalid("Only a JSON working memory can be merged.", then="Edit a section of this one.")
        value: JsonObject = value_of(present.current.text) if present is not None else {}
        schema = present.schema if present is not None else None
        return NewContent(text=_json(_patched(value, patch)), format="json", schema=schema)

    return change


def _patched(value: object, patch: object) -> JsonObject:
    # RFC 7396: a value that is not an object replaces the old value. A missing target counts as an empty object.
    result = dict(cast("JsonObject", value)) if isinstance(value, Mapping) else {}
    for name, item in cast("JsonObject", patch).items():
        if item is None:
            result.pop(name, None)
        elif isinstance(item, Mapping):
            result[name] = _patched(result.get(name), cast("JsonObject", item))
        else:
            result[name] = item
    return result


def edited_section(heading: str, text: str | None, mode: SectionMode = "replace") -> Change:
    """Return the change of one section: replace its content, append to it, or remove the section."""
    if mode not in {"replace", "append", "remove"}:
        raise DocumentInvalid(f"`mode` must be 'replace', 'append' or 'remove', got {mode!r}.")

    def change(present: Document | None) -> NewContent:
        if present is not None and present.format == "json":
            raise DocumentInvalid("A JSON working memory has fields, not sections.", then="Merge a patch instead.")
        old = present.current.text if present is not None else ""
        if mode == "remove":
            return NewContent(text=without_section(old, heading))
        return NewContent(text=with_section(old, heading, _text(text or ""), append=mode == "append"))

    return change


class KnownLine(Exception):
    """The line to add is in the document already."""


def list_item(line: str) -> str:
    """Return a text as an item of a Markdown list. Its later lines are indented, so that none of them is a heading."""
    return "- " + _text(line).replace("\n", "\n    ")


def added_line(section: str, line: str, known: str) -> Change:
    """Return the change that adds a line to the list in a section of Markdown, or in a field of JSON.

    The change raises KnownLine if a line of the document begins with `known`.
    """
    appended = edited_section(section, list_item(line), "append")

    def change(present: Document | None) -> NewContent:
        if present is None or present.format != "json":
            if present is not None and f"\n{list_item(known)}" in f"\n{present.current.text}":
                raise KnownLine
            return appended(present)
        value = value_of(present.current.text)
        held = value.get(section, [])
        if not isinstance(held, list):
            raise DocumentInvalid(
                f"The field {section[:80]!r} of this JSON working memory is not a list.",
                then="Choose another field, or change this one with update_context or merge().",
            )
        lists = [cast("list[object]", one) for one in value.values() if isinstance(one, list)]
        if any(isinstance(item, str) and item.startswith(known) for items in lists for item in items):
            raise KnownLine
        items = [*cast("list[object]", held), line]
        return NewContent(text=_json({**value, section: items}), format="json", schema=present.schema)

    return change


def restored(version: DocumentVersion) -> Change:
    """Return the change back to the text of an old version."""

    def change(present: Document | None) -> NewContent:
        if present is None:
            raise DocumentNotFound("There is no working memory yet.", then="Write one first.")
        return NewContent(text=version.text, format=present.format, schema=present.schema)

    return change


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise DocumentInvalid(f"The working memory must be a string, got {type(text).__name__}.", then="Pass a string.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def settled(present: Document, base: DocumentVersion, change: Change) -> NewContent:
    """Apply a change that was made from version `base`. Raise DocumentConflict if a later version changed the same part."""
    wanted = change(replace(present, current=base))
    if wanted.format != present.format or wanted.schema != present.schema:
        raise _conflict(present, base, ())
    if wanted.format == "json":
        value, both = _three(*map(value_of, (base.text, present.current.text, wanted.text)))
        text = _json(value)
    else:
        text, both = merged(base.text, present.current.text, wanted.text)
    if both:
        raise _conflict(present, base, both)
    return replace(wanted, text=text)


def _conflict(present: Document, base: DocumentVersion, parts: tuple[str, ...]) -> DocumentConflict:
    return DocumentConflict(base.number, present.current.number, present.current.by, parts)


def author_of_conflict(
    present: Document, base: DocumentVersion, between: Sequence[DocumentVersion], change: Change
) -> str:
    """Return the author of the first later version that conflicts with a change. The oldest version in `between` is first."""
    for version in between:
        try:
            settled(replace(present, current=version), base, change)
        except (DocumentConflict, DocumentInvalid):
            return version.by
    return present.current.by


def checked(wanted: NewContent, most: int) -> NewContent:
    """Return the content if it has an allowed size and matches its schema. Raise DocumentTooLarge or DocumentInvalid."""
    if len(wanted.text) > most:
        raise DocumentTooLarge(len(wanted.text), most)
    wrong = problems(value_of(wanted.text), wanted.schema) if wanted.schema is not None else ()
    if wrong:
        more = f"; and {len(wrong) - _MOST_TOLD} more" if len(wrong) > _MOST_TOLD else ""
        raise DocumentInvalid(
            f"The working memory does not match its schema: {'; '.join(wrong[:_MOST_TOLD])}{more}.",
            then="Correct these fields. The working memory is unchanged.",
        )
    return wanted


def unified(old: DocumentVersion, new: DocumentVersion) -> str:
    """Return the difference of two versions in the form of `diff -u`."""
    names = (f"version {old.number}", f"version {new.number}")
    lines = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), *names, lineterm="", n=2)
    return "".join(f"{line}\n" for line in lines)
