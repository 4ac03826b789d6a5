"""Find, replace, append to and remove sections of a Markdown document."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memolog.domain.errors import DocumentInvalid, DocumentNotFound

__all__ = ["Section", "pieces_of", "section_named", "sections_of", "with_section", "without_section"]

_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_NEW_LEVEL: Final = 2
_PATH: Final = re.compile(r"[>/»›]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One heading and what stands under it: lines `first` to `end` (not included)."""

    title: str
    level: int
    path: tuple[str, ...]
    first: int
    end: int


def sections_of(text: str) -> tuple[Section, ...]:
    """Return the sections of a text in their order; an inner one lies within its outer one."""
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
    """Yield row, level and title of each heading; a line in a code block is none."""
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
    """Return a title as it is compared: without case, marks and spare blanks."""
    return " ".join(title.strip().strip("#*_`: \t").split()).casefold()


def section_named(text: str, heading: str) -> Section | None:
    """Return the section with this heading, or None; `Outer > Inner` tells sections of one name apart."""
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
            then="Name the outer one too, as in Outer > Inner.",
        )
    return found[0] if found else None


def with_section(text: str, heading: str, body: str, *, append: bool = False) -> str:
    """Return the text with a section's content replaced or added to; a section that is not there is put at the end."""
    title = heading.strip().lstrip("#").strip()
    if not title or "\n" in title:
        raise DocumentInvalid("A section needs a heading of one line.", then="Name the heading, without its marks.")
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
    """Return the text without a section, its inner ones included; raises DocumentNotFound."""
    found = section_named(text, heading)
    if found is None:
        names = ", ".join(" > ".join(section.path) for section in sections_of(text)) or "none"
        raise DocumentNotFound(f"There is no section {heading.strip()!r}.", why=f"There are: {names}.")
    lines = text.split("\n")
    return _joined(lines[: found.first], lines[found.end :])


def pieces_of(text: str) -> dict[tuple[str, ...], str]:
    """Return what stands under each heading alone, the heading with it, by path; what comes first has the empty path."""
    lines = text.split("\n")
    rows = [(section.first, section.path) for section in sections_of(text)]
    pieces: dict[tuple[str, ...], str] = {}
    for (row, path), end in zip([(0, ()), *rows], [*(row for row, _ in rows), len(lines)], strict=True):
        # Two sections of one path are told apart by their number.
        key, count = path, 1
        while key in pieces:
            count += 1
            key = (*path, f"#{count}")
        pieces[key] = "\n".join(lines[row:end]).strip("\n")
    return pieces


def _without_heading(body: str, title: str) -> str:
    """Return a body without the heading that some write down once more."""
    body = body.strip("\n").rstrip()
    first, _, rest = body.partition("\n")
    hit = _HEADING.match(first)
    return rest.strip("\n") if hit and folded(hit[2] or "") == folded(title) else body


def _check_ranks(body: str, level: int, title: str) -> None:
    for section in sections_of(body):
        if section.level <= level:
            raise DocumentInvalid(
                f"The text for {title!r} has the heading {'#' * section.level} {section.title}, which would end it.",
                then=f"Change one section at a time, or use headings of more than {level} marks inside it.",
            )


def _level_of(text: str) -> int:
    """Return the rank of a new section: that of the document's main sections."""
    levels = [section.level for section in sections_of(text)]
    if not levels:
        return _NEW_LEVEL
    top = min(levels)
    # One heading above all others is the document's title, not a section.
    return top if levels.count(top) > 1 or len(set(levels)) == 1 else min(top + 1, 6)


def _joined(before: Sequence[str], after: Sequence[str]) -> str:
    head, tail = "\n".join(before).rstrip(), "\n".join(after).strip("\n").rstrip()
    whole = f"{head}\n\n{tail}" if head and tail else head or tail
    return f"{whole}\n" if whole else ""
