"""Stored values made by hand: messages, lines and groups of a log, and what a context is built from."""

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from memolog.context.build import View
from memolog.core.message import Message, Part, Role, TextPart
from memolog.core.observation import Observation, Priority, Source, Span
from memolog.log.render import render_group
from memolog.log.snapshot import GroupRow, OtherTails, Snapshot, ThreadHead
from memolog.observer.observations import NewGroup
from memolog.text.message_tokens import count_parts
from memolog.text.tokens import HeuristicCounter, TokenCounter

COUNTER = HeuristicCounter()
# A Saturday.
SAID = datetime(2026, 3, 14, 9, 15, tzinfo=UTC)


def row(seq: int, role: Role, *parts: Part | str, **fields: Any) -> Message:
    """Return a stored message, one minute after the one before it."""
    made = tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts)
    values: dict[str, Any] = {"id": f"m{seq}", "resource": "alice", "thread": "t1", "tokens": 1}
    values |= {"created_at": SAID + timedelta(minutes=seq), **fields}
    return Message(seq=seq, role=role, parts=made, **values)


def counted(message: Message, counter: TokenCounter = COUNTER) -> Message:
    """Return a stored message with the tokens of its parts."""
    return replace(message, tokens=count_parts(message.role, message.parts, counter))


def line(text: str, *cites: int, priority: Priority = "medium", ordinal: int = 1, **fields: Any) -> Observation:
    """Return a line of a log that cites these messages."""
    sources = tuple(Source(thread="t1", span=Span(first=seq, last=seq)) for seq in cites)
    values: dict[str, Any] = {"id": f"o{ordinal}", "group": "g", "sources": sources, "said_at": SAID, **fields}
    return Observation(ordinal=ordinal, priority=priority, text=text, **values)


def new_group(name: str = "g") -> NewGroup:
    """Return a group that is being written, whose lines have the ids n0, n1 and so on."""
    return NewGroup(id=name, new_id=map("n{}".format, count()).__next__, counter=HeuristicCounter())


def rendered(observations: Sequence[Observation], handle: str = "g1", **options: Any) -> str:
    """Return a group of lines as it stands in a log."""
    values: dict[str, Any] = {"previous": None, "alias": None, "is_reflection": False, **options}
    return render_group(handle=handle, observations=observations, **values)


def render_briefly(group: GroupRow, lines: Sequence[Observation], aliases: Mapping[str, str]) -> tuple[str, int]:
    """Render a group in the shortest way: its handle, the number of its lines and its aliases."""
    return f"{group.handle} {len(lines)} {aliases}", 1


def plan(about: date, text: str) -> Observation:
    """Return a line about a day."""
    return line(text, about=about)


def view(base: View | None = None, /, **fields: Any) -> View:
    """Return what a context is built from: fields of the view, its snapshot, the thread, the settings or the working memory."""
    thread = ThreadHead(id="t")
    base = base or View(snapshot=Snapshot(resource="r", scope="thread", thread=thread), now=SAID, counter=COUNTER)
    snapshot = base.snapshot
    if "hints" in fields:
        fields["thread"] = replace(snapshot.thread, hints=fields.pop("hints"))
    if others := fields.pop("others", ()):
        more = fields.pop("more_others", (0, 0))
        fields["beside"] = OtherTails(tails=others, more_threads=more[0], more_messages=more[1])
    for name, place in (("working_memory", "before"), ("working_memory_now", "now")):
        if name in fields:
            fields["facts"] = replace(fields.get("facts", snapshot.facts), **{place: {"resource": fields.pop(name)}})
    settings = {name: fields.pop(name) for name in ("other_tokens", "assume_done") if name in fields}
    stored = {field.name: fields.pop(field.name) for field in fields_of(Snapshot) if field.name in fields}
    config = base.config.with_overrides(settings)
    return replace(base, snapshot=replace(snapshot, **stored), config=config, **fields)
