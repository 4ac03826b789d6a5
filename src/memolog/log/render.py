"""Render a group of observations as text. The text is rendered once and stored, so it does not depend on the current time."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final

from memolog.core.deadline import at_once
from memolog.core.observation import MARKS, UNVERIFIED, Observation
from memolog.text.dates import gap_mark, local
from memolog.text.escape import element, escape, one_line
from memolog.text.html import html_table

_SHOWN_MARKS: Final = frozenset({"high", "done"})
_HIDDEN_STATES: Final = frozenset({"retracted", "deleted"})
_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})
# A line at a greater depth is indented like a line at this depth.
_DEEPEST: Final = 6


class Log(tuple[Observation, ...]):
    """The lines of a log in reading order. A notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [(line.said_at, line.priority, line.text, line.trust) for line in self]
        return html_table(("said", "priority", "text", "trust"), rows)


def render_group(
    *,
    handle: str,
    observations: Sequence[Observation],
    previous: date | None,
    alias: str | None,
    is_reflection: bool,
    aliases: Mapping[str, str] = _NO_ALIASES,
) -> str:
    """Return the text of a group. The text is empty if all observations are retracted or deleted.

    `previous` is the last date of the group before this one. `alias` is the name of the group's thread in a shared log. For a
    reflection of a shared log, `aliases` has the names of all its threads, and a line about one thread begins with its name.
    """
    return at_once(
        rendering_group(
            handle=handle,
            observations=observations,
            previous=previous,
            alias=alias,
            is_reflection=is_reflection,
            aliases=aliases,
        )
    )


def rendering_group(
    *,
    handle: str,
    observations: Sequence[Observation],
    previous: date | None,
    alias: str | None,
    is_reflection: bool,
    aliases: Mapping[str, str] = _NO_ALIASES,
) -> Generator[None, None, str]:
    """Return what `render_group` returns, and yield after each line."""
    shown = [observation for observation in observations if observation.state not in _HIDDEN_STATES]
    if not shown:
        return ""
    # There is no common tag around all groups, so that another group only appends bytes to the prompt.
    tag = "reflection" if is_reflection else "observations"
    names = {line.id: name for line in shown if (name := _only_thread(line, aliases))}
    if len(names) == len(shown) and len(set(names.values())) == 1:
        # All lines are about one thread, so write its name once, in the tag.
        alias, names = next(iter(names.values())), {}
    rows: list[str] = []
    for row in _lines(shown, previous, names):
        rows.append(row)
        yield
    return element(tag, "\n".join(rows), id=handle, thread=alias)


def reading_order(observations: Iterable[Observation], groups: Sequence[str]) -> list[Observation]:
    """Return the lines of these groups in the order in which they are rendered."""
    by_group: dict[str, list[Observation]] = {group: [] for group in groups}
    for observation in observations:
        by_group.setdefault(observation.group, []).append(observation)
    ordered: list[Observation] = []
    for lines in by_group.values():
        roots, children = _tree(lines)
        todo = list(reversed(roots))
        while todo:
            ordered.append(todo.pop())
            todo.extend(reversed(children.pop(ordered[-1].ordinal, [])))
    return ordered


def _only_thread(observation: Observation, aliases: Mapping[str, str]) -> str | None:
    """Return the name of the thread that a line comes from. None if there are several threads or the thread has no alias."""
    threads = {source.thread for source in observation.sources}
    return aliases.get(threads.pop()) if len(threads) == 1 else None


def _lines(shown: list[Observation], previous: date | None, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the rows of text: for each date a heading and its observations."""
    roots, children = _tree(shown)
    heading: str | None = None
    for root in roots:
        day = _day(root)
        if heading != (heading := f"Date: {day.isoformat() if day else 'unknown'}"):
            if mark := gap_mark(previous, day):
                yield mark
            yield heading
        yield from _branch(root, children, names)
        previous = day or previous


def _tree(shown: list[Observation]) -> tuple[list[Observation], dict[int, list[Observation]]]:
    """Return the top lines, and the child lines by the ordinal of their parent. A line whose parent is missing is a top line.

    Top lines are sorted by the date that is shown, then by moment. Undated lines come last. Lines of one moment stay in the order
    of their ordinals.
    """
    ordinals = {observation.ordinal for observation in shown}
    roots: list[Observation] = []
    children: dict[int, list[Observation]] = {}
    for observation in sorted(shown, key=lambda observation: observation.ordinal):
        parent = observation.parent
        # A parent must come before its children, so that there are no cycles.
        if parent is None or parent >= observation.ordinal or parent not in ordinals:
            roots.append(observation)
        else:
            children.setdefault(parent, []).append(observation)
    roots.sort(key=_when)
    for below in children.values():
        # If one child has no date, all children stay in the order of their ordinals.
        if all(child.said_at for child in below):
            below.sort(key=_when)
    return roots, children


def _when(observation: Observation) -> tuple[bool, date, datetime]:
    """Return the sort key of a line: the date that is shown, then the moment."""
    said, day = observation.said_at, _day(observation)
    return day is None, day or date.min, said or datetime.min.replace(tzinfo=UTC)


def _branch(root: Observation, children: dict[int, list[Observation]], names: Mapping[str, str]) -> Iterator[str]:
    todo: list[tuple[Observation, Observation | None, int]] = [(root, None, 0)]
    while todo:
        observation, parent, depth = todo.pop()
        indent = "  " * min(depth, _DEEPEST)
        mark = f"{MARKS[observation.priority]} " if observation.priority in _SHOWN_MARKS else ""
        opening = f"{mark}{_time(observation, parent)}{_name(observation, parent, names)}"
        doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
        yield f"{indent}* {opening}{doubt}{one_line(observation.text)}{_meaning(observation)}"
        yield from _verbatim(observation, indent)
        below = children.pop(observation.ordinal, [])
        todo.extend((child, observation, depth + 1) for child in reversed(below))


def _name(observation: Observation, parent: Observation | None, names: Mapping[str, str]) -> str:
    """Return the name of a line's thread. The text is empty if the parent line has the same name."""
    name = names.get(observation.id)
    return f"{name}: " if name and (parent is None or names.get(parent.id) != name) else ""


def _time(observation: Observation, parent: Observation | None) -> str:
    """Return the time of a line. The text is empty if the parent line has the same time."""
    if observation.said_at is None:
        return ""
    when = local(observation.said_at, observation.zone)
    clock = f"{when.hour:02}:{when.minute:02}"
    if parent is None:
        return f"({clock}) "
    if _day(parent) != when.date():
        return f"({when.date().isoformat()} {clock}) "
    return "" if _time(parent, None) == f"({clock}) " else f"({clock}) "


def _meaning(observation: Observation) -> str:
    """Return the day that a line is about. The text is empty if the line's text or its date already shows this day."""
    about = observation.about
    if (
        about is None
        or about == _day(observation)
        or about.isoformat() in observation.text
        or "(meaning " in observation.text
    ):
        return ""
    return f" (meaning {about.isoformat()})"


def _verbatim(observation: Observation, indent: str) -> Iterator[str]:
    # The bar distinguishes quoted text from observations.
    for line in escape(observation.verbatim or "").splitlines():
        yield f"{indent}  | {line}" if line else f"{indent}  |"


def _day(observation: Observation) -> date | None:
    return local(observation.said_at, observation.zone).date() if observation.said_at else None
