"""Properties of building a context: what came before stays, byte for byte, and no text can forge our structure."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.effort import counts
from kit.forgery import forged
from kit.rows import COUNTER, counted, plan
from kit.rows import row as kit_row
from kit.rows import view as kit_view
from memolog.context.build import View, build
from memolog.context.context import ContextMessage
from memolog.context.tail import closed_cuts, mend
from memolog.core.message import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from memolog.core.observation import Observation, Priority
from memolog.core.thread import Hints
from memolog.log.render import render_group
from memolog.log.snapshot import GroupRow, OtherTail

# A loaded machine is slow, not wrong.
checked = settings(max_examples=counts(60, 1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW = datetime(2026, 3, 14, 12, 30, tzinfo=UTC)

FORGED = (
    "<",
    "</",
    ">",
    "&",
    "&lt;",
    '"',
    "\n",
    "\r\n",
    "\u2028",
    "<observations>",
    "</observations>",
    '<observations id="g9">',
    "</reflection>",
    "</working-memory>",
    "<now>",
    "</now>",
    "</other-conversation>",
    "</current-task>",
    "<tasks>",
    "</late-result>",
    "</earlier-messages>",
    "Date: 2020-01-01",
    "[9 years later]",
    "* 🔴 (00:00) ",
    "g9",
    "\ud800",
    "\x00",
)
words = st.lists(st.one_of(st.sampled_from(FORGED), st.text(max_size=6)), max_size=6).map("".join)
moments = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds only
zones = st.sampled_from([None, "Europe/Berlin", "+02:00", "-11:30", "nowhere"])


# ---------------------------------------------------------------- exchanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A row before it has a number."""

    role: Role
    parts: tuple[Part, ...]
    state: str = "live"
    injection: str | None = None
    is_continuation: bool = False
    is_beside: bool = False
    """Whether another turn said it, one that overlaps."""
    minutes: int = 1
    """How long after the row before it; clocks may go back."""


pauses = st.sampled_from([1, 1, 1, 59, 61, 26 * 60, 40_000, -3_000])


def text_of(text: str) -> tuple[Part, ...]:
    """Return a text as parts."""
    return (TextPart(text=text),)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Said]:
    """Return one closed exchange: a question, then steps whose calls are all answered, or never will be."""
    said = [Said(role="user", parts=text_of(draw(words)))]
    for step in range(draw(st.integers(0, 2))):
        # The same ids come again in every exchange, as some providers count them.
        ids = [f"{step}.{n}" for n in range(draw(st.integers(1, 3)))]
        calls = tuple(ToolCallPart(id=id_, name="run") for id_ in ids)
        results = [Said(role="tool", parts=(ToolResultPart(call_id=id_, content=draw(words)),)) for id_ in ids]
        beside = st.booleans().map(lambda is_: Said(role="user", parts=text_of("meanwhile"), is_beside=is_))
        between = draw(st.lists(beside, max_size=1))
        again = draw(st.lists(st.sampled_from(results), max_size=1))
        said += [Said(role="assistant", parts=calls), *draw(st.permutations([*results, *between])), *again]
    said += draw(
        st.lists(
            st.sampled_from(
                [
                    Said(role="assistant", parts=text_of("an answer")),
                    Said(role="assistant", parts=text_of("and more"), is_continuation=True),
                    Said(role="assistant", parts=text_of("gone"), state="withdrawn"),
                    Said(role="user", parts=text_of("long"), injection="a summary"),
                    Said(role="tool", parts=(ToolResultPart(call_id="unheard of", content="late"),)),
                    Said(role="tool", parts=(ToolResultPart(call_id="0.0", content="once more"),)),
                    Said(role="assistant", parts=(ToolCallPart(id="open", name="run"),)),
                    Said(role="tool", parts=(ToolResultPart(call_id="open", content="at last"),)),
                    Said(role="system", parts=text_of("a rule")),
                    Said(role="user", parts=()),
                ]
            ),
            max_size=4,
        )
    )
    return [replace(one, minutes=draw(pauses)) for one in said]


def rows_of(history: list[list[Said]]) -> tuple[tuple[Message, ...], ...]:
    """Return the rows of each exchange, numbered through."""
    made: list[tuple[Message, ...]] = []
    seq, last, minutes = 0, "", 0
    for number, exchange in enumerate(history):
        rows: list[Message] = []
        for said in exchange:
            seq += 1
            # A continuation never opens an exchange, and only follows what has its role.
            last = last if said.is_continuation and rows and rows[-1].role == said.role else f"m{seq}"
            turn = "beside" if said.is_beside else f"turn {number}"
            minutes += said.minutes
            rows.append(replace(row(seq, last, said), turn=turn, created_at=NOW + timedelta(minutes=minutes)))
        made.append(tuple(rows))
    return tuple(made)


def row(seq: int, id_: str, said: Said) -> Message:
    """Return a stored row with its tokens."""
    summary = {"level": 1, "injection": said.injection} if said.injection else {}
    return counted(kit_row(seq, said.role, *said.parts, id=id_, thread="t", state=said.state, **summary))


histories = st.lists(exchanges(), min_size=1, max_size=5).map(rows_of)


def view(base: View | None = None, /, **fields: Any) -> View:
    """Return a view with little in it."""
    return kit_view(base, **fields) if base else kit_view(**{"now": NOW, **fields})


def flat(history: tuple[tuple[Message, ...], ...]) -> tuple[Message, ...]:
    """Return the rows of all exchanges."""
    return tuple(message for exchange in history for message in exchange)


# ---------------------------------------------------------------- what came before stays


@checked
@given(histories, st.data())
def test_mended_tail_of_the_shorter_is_a_prefix(history: tuple[tuple[Message, ...], ...], data: st.DataObject) -> None:
    """A tail that grows keeps the messages it had, unless a call was still open."""
    rows = flat(history)
    shorter = mend(rows[: data.draw(st.sampled_from(_closed_ends(rows)))])
    longer = mend(rows)
    assert longer[: len(shorter)] == shorter


@checked
@given(histories)
def test_every_call_is_followed_by_its_results(history: tuple[tuple[Message, ...], ...]) -> None:
    """After the message with calls come results for exactly these calls, and results come nowhere else."""
    _check_pairs(mend(flat(history)))


MARK = re.compile(r"\[\d+ (hour|day|week|month|year)s? later: \w+day \d{4}-\d\d-\d\d, \d\d:\d\d\]")


@checked
@given(histories, zones)
def test_marks_stand_where_time_has_passed(history: tuple[tuple[Message, ...], ...], zone: str | None) -> None:
    """A mark is a note of ours before a message of its time, and never between a result and the model's next words."""
    rows = tuple(replace(message, zone=zone) for message in flat(history))
    messages = mend(rows)
    marks = [place for place, message in enumerate(messages) if message.synthetic and MARK.fullmatch(message.text)]
    for place in marks:
        mark, after = messages[place], messages[place + 1]
        assert (mark.role, mark.seq) == ("user", None)
        assert after.created_at == mark.created_at
        assert after.role in {"user", "assistant"}
        assert place == 0 or messages[place - 1].role != "tool" or after.role == "user"
    users = [message for message in rows if message.role == "user" and message.state == "live" and message.parts]
    marked = {messages[place].created_at for place in marks}
    for earlier, later in pairwise(message for message in rows if message.state == "live"):
        if later in users and later.created_at - earlier.created_at > timedelta(hours=1) and later.level == 0:
            assert later.created_at in marked


def _check_pairs(messages: tuple[ContextMessage, ...]) -> None:
    mended = list(messages)
    while mended:
        message = mended.pop(0)
        assert message.role != "tool"
        calls = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
        answered: list[str] = []
        while mended and mended[0].role == "tool":
            answered += [part.call_id for part in mended.pop(0).parts if isinstance(part, ToolResultPart)]
        assert sorted(answered) == sorted(calls)


@checked
@given(histories, st.data())
def test_growing_tail_extends_the_text(history: tuple[tuple[Message, ...], ...], data: st.DataObject) -> None:
    """Between activations each context extends the last one byte for byte, whatever is at the edge or passed along."""
    base = view(groups=(group("g1", "x"),), cursor=3, working_memory="facts", working_memory_now="facts")
    base = view(base, covered_at=NOW - timedelta(minutes=data.draw(st.integers(0, 200))))
    rows = flat(history)
    earlier = build(view(base, tail=rows[: data.draw(st.sampled_from(_closed_ends(rows)))]))
    hints = Hints(current_task=data.draw(words), at=data.draw(moments))
    later = build(view(base, tail=flat(history), hints=hints, now=data.draw(moments), working_memory_now="new"))
    assert later.render_without_edge().startswith(earlier.render_without_edge())
    assert later.render().startswith(later.render_without_edge())


@checked
@given(histories, st.data())
def test_message_that_grows_extends_the_text(history: tuple[tuple[Message, ...], ...], data: st.DataObject) -> None:
    """A further row of the last message only adds to the text."""
    tail = flat(history)
    seq = len(tail) + 1
    first = row(seq, "growing", Said(role="assistant", parts=text_of(data.draw(words))))
    more = replace(first, seq=seq + 1, continuation=1)
    earlier, later = build(view(tail=(*tail, first))), build(view(tail=(*tail, first, more)))
    assert later.render_without_edge().startswith(earlier.render_without_edge())
    assert len(later.tail) == len(earlier.tail)


@checked
@given(histories)
def test_closed_cuts_make_no_notes(history: tuple[tuple[Message, ...], ...]) -> None:
    """Cut there, both halves show together what the whole shows, but for a summary that goes on and repeated results."""
    tail = flat(history)
    whole = [message for message in mend(tail) if not message.synthetic]
    for cut in closed_cuts(tail):
        halves = [*mend(tail[:cut]), *mend(tail[cut:])]
        assert [message for message in halves if not message.synthetic] == whole


@checked
@given(histories, st.integers(0, 2000))
def test_trimmed_context_keeps_its_limit_or_its_least(history: tuple[tuple[Message, ...], ...], limit: int) -> None:
    """What is over the limit is no more than what must stay; what is left out is counted."""
    tail = flat(history)
    made, whole, least = (build(view(tail=tail, limit=most)) for most in (limit, None, 0))
    assert made.tokens.total <= max(limit, least.tokens.total)
    assert (made.trimmed == made.shortened == 0) == (made == whole)
    assert made.trimmed <= len(tail)


# ---------------------------------------------------------------- messages of any size

HUGE = "a huge text"


@st.composite
def conversations(draw: st.DrawFn, most_huge: int) -> tuple[Message, ...]:
    """Return rows of many turns: calls that are answered in time, late, twice or never, and places for huge messages."""
    rows: list[Message] = []
    calls: list[str] = []
    left = most_huge

    def text() -> str:
        nonlocal left
        if left and draw(st.integers(0, 7)) == 0:
            left -= 1
            return HUGE
        return draw(words)

    def add(said: Said, turn: int) -> None:
        made = replace(row(len(rows) + 1, f"m{len(rows) + 1}", said), turn=f"turn {turn}")
        last = rows[-1].created_at if rows else NOW
        rows.append(replace(made, created_at=last + timedelta(minutes=draw(pauses))))

    for turn in range(draw(st.integers(1, 6))):
        add(Said(role="user", parts=text_of(text())), turn)
        for _ in range(draw(st.integers(0, 2))):
            ids = [f"c{len(calls) + n}" for n in range(draw(st.integers(1, 2)))]
            calls += ids
            add(Said(role="assistant", parts=tuple(ToolCallPart(id=id_, name="run") for id_ in ids)), turn)
            answered = draw(st.lists(st.sampled_from(calls), max_size=3))
            for id_ in answered:
                add(Said(role="tool", parts=(ToolResultPart(call_id=id_, content=text()),)), turn)
        if draw(st.booleans()):
            add(Said(role="assistant", parts=text_of(text())), turn)
    return tuple(rows)


def inflated(tail: tuple[Message, ...], tokens: int) -> tuple[Message, ...]:
    """Return the rows with texts of so many tokens in their places."""
    text = "".join(f"fact {n:6} of many. " for n in range(tokens // 4)) + "the end"

    def grown(part: Part) -> Part:
        if isinstance(part, TextPart) and part.text == HUGE:
            return TextPart(text=text)
        return replace(part, content=text) if isinstance(part, ToolResultPart) and part.content == HUGE else part

    made = [replace(message, parts=tuple(map(grown, message.parts))) for message in tail]
    return tuple(map(counted, made))


def _closed_ends(tail: tuple[Message, ...]) -> list[int]:
    """Return the lengths at which the tail may be shown without a call that can still be answered."""
    return [end for end in range(len(tail) + 1) if end in closed_cuts(tail[:end]) and not _is_reopened(tail, end)]


def _is_reopened(tail: tuple[Message, ...], end: int) -> bool:
    """Tell whether a turn goes on after that place that overlaps with another before it, or a message grows."""
    turns = [message.turn for message in tail]
    # From the first row on of a turn that goes on, another turn has said something.
    overlaps = any(set(turns[turns.index(turn) : end]) - {turn} for turn in set(turns[:end]) & set(turns[end:]))
    return overlaps or (0 < end < len(tail) and tail[end].id == tail[end - 1].id)


@checked
@given(conversations(most_huge=1))
def test_contexts_extend_each_other_whatever_is_in_them(tail: tuple[Message, ...]) -> None:
    """Late results and a message that breaks the limit alone change nothing of what was shown."""
    tail = inflated(tail, 6_000)
    for limit in (None, 6_000):
        last = build(view(limit=limit)).render_without_edge()
        for end in _closed_ends(tail):
            made = build(view(tail=tail[:end], limit=limit))
            _check_pairs(made.tail)
            assert made.trimmed == 0
            assert limit is None or made.tokens.total <= limit
            shown = made.render_without_edge()
            assert shown.startswith(last)
            last = shown


@checked
@given(conversations(most_huge=6), st.sampled_from([900, 3_000]), st.integers(1_000, 4_000), st.booleans())
def test_no_context_is_above_its_limit(tail: tuple[Message, ...], size: int, limit: int, is_covered: bool) -> None:
    """Whatever is said, the whole fits, no pair is torn, and what is cut or left out is counted."""
    tail = inflated(tail, size)
    given_ = row(0, "m0", Said(role="user", parts=text_of("word " * 3_000)))
    more = {"repeated": (given_,), "repeated_tokens": 2_500, "cursor": 1} if is_covered else {}
    made = build(view(tail=tail, limit=limit, **more))
    _check_pairs(made.tail)
    assert made.tokens.total <= limit
    whole = build(view(tail=tail, **more))
    assert (made.trimmed == 0 and made.shortened == whole.shortened) == (made == whole)
    if is_covered and made.trimmed and any(message.role == "user" for message in tail):
        assert not any(message.seq == 0 for message in made.tail)


# ---------------------------------------------------------------- groups


@st.composite
def observations(draw: st.DrawFn) -> tuple[Observation, ...]:
    """Return the lines of a group, with hostile texts, odd parents and missing times."""
    priorities: st.SearchStrategy[Priority] = st.sampled_from(["high", "medium", "low", "done"])
    return tuple(
        Observation(
            id=f"o{ordinal}",
            group="g",
            ordinal=ordinal,
            priority=draw(priorities),
            text=draw(words),
            said_at=draw(st.none() | moments),
            zone=draw(zones),
            about=draw(st.none() | st.dates()),
            parent=draw(st.none() | st.integers(0, 5)),
            verbatim=draw(st.none() | words),
        )
        for ordinal in range(draw(st.integers(1, 5)))
    )


def group(handle: str, text: str) -> GroupRow:
    """Return a group as it was stored."""
    return GroupRow(id=handle, handle=handle, text=f"<observations>\n{text}\n</observations>", tokens=9)


@checked
@given(st.lists(observations(), max_size=4), st.integers(0, 4), st.sampled_from([None, "Be <kind>."]))
def test_groups_only_append(lines: list[tuple[Observation, ...]], first: int, instructions: str | None) -> None:
    """An activation adds to the end of the prefix and changes nothing before it."""
    groups: list[GroupRow] = []
    previous: date | None = None
    for number, observed in enumerate(lines):
        handle = f"g{number}"
        text = render_group(handle=handle, observations=observed, previous=previous, alias=None, is_reflection=False)
        groups.append(GroupRow(id=handle, handle=handle, text=text, tokens=COUNTER.count(text)))
        said = [one.said_at.date() for one in observed if one.said_at]
        previous = max(said, default=previous)
    base = view(instructions=instructions)
    earlier, later = build(view(base, groups=tuple(groups[:first]))), build(view(base, groups=tuple(groups)))
    assert later.system.startswith(earlier.system)
    assert later.blocks[: len(earlier.blocks)] == earlier.blocks


@checked
@given(observations(), st.none() | st.dates(), words, st.none() | words, st.booleans())
def test_group_has_one_tag_and_lines_of_known_shape(
    lines: tuple[Observation, ...], previous: date | None, handle: str, alias: str | None, is_reflection: bool
) -> None:
    """No text, handle or alias opens or closes a tag, or passes for a date, a gap or a line of the log."""
    text = render_group(handle=handle, observations=lines, previous=previous, alias=alias, is_reflection=is_reflection)
    tag = "reflection" if is_reflection else "observations"
    opened, *inside, closed = text.split("\n")
    assert opened.startswith(f"<{tag} ") or opened == f"<{tag}>"
    assert closed == f"</{tag}>"
    assert not forged("\n".join(inside))
    body = text.splitlines()[1:-1]
    shapes = re.compile(
        r"Date: (\d{4}-\d\d-\d\d|unknown)|\[\d+ (day|week|month|year)s? later\]| *\* .*| +\|.*", re.DOTALL
    )
    assert all(shapes.fullmatch(line) for line in body)
    assert sum(line.lstrip().startswith("* ") for line in body) == len(lines)
    # The text could be sent: no half of a character is left in it.
    text.encode()


# ---------------------------------------------------------------- the present, and hostile texts


def everywhere(text: str) -> View:
    """Return a view with the same text in every place that takes one from outside."""
    message = row(1, "m1", Said(role="user", parts=text_of(f"said {text}")))
    line = Observation(id="o", group="g", ordinal=1, priority="high", text=text, said_at=NOW, verbatim=f"a{text}")
    rendered = render_group(handle="g1", observations=[line], previous=None, alias="t1", is_reflection=False)
    return view(
        scope="resource",
        cursor=1,
        groups=(GroupRow(id="g1", handle="g1", text=rendered, tokens=9),),
        tail=(replace(message, role="tool", parts=(ToolResultPart(call_id=text, content=text, name=text),)),),
        hints=Hints(current_task=f"a{text}", suggested_response=f"b{text}", at=NOW),
        others=(OtherTail(thread=f"t2{text}", alias=0, title=f"c{text}", messages=(replace(message, speaker=text),)),),
        working_memory=f"d{text}",
        working_memory_now=f"e{text}",
        task_lines=(f"f{text}",),
        recalled=(f"g{text}",),
        plans=(plan(NOW.date() - timedelta(days=1), f"h{text}"),),
        zone=text,
    )


def tags(text: str) -> list[str]:
    """Return every place at which something that looks like a tag begins."""
    return forged(text)


@checked
@given(words)
def test_hostile_text_cannot_open_or_close_a_tag(text: str) -> None:
    """The tags of a context are those of the same context with harmless text, in the same order."""
    hostile, harmless = build(everywhere(text)), build(everywhere("x"))
    assert tags(hostile.system) == tags(harmless.system)
    assert tags(hostile.edge_text) == tags(harmless.edge_text)
    assert hostile.note is not None
    assert harmless.note is not None
    assert tags(hostile.note.text) == tags(harmless.note.text)
    assert [tags(message.text) for message in hostile.tail] == [tags(message.text) for message in harmless.tail]


@checked
@given(words, moments, moments, zones, zones)
def test_now_changes_the_edge_alone(
    text: str, earlier: datetime, later: datetime, here: str | None, there: str | None
) -> None:
    """Time and place of the request are seen in the edge and nowhere else."""
    base = everywhere(text)
    first, second = build(view(base, now=earlier, zone=here)), build(view(base, now=later, zone=there))
    assert first.render_without_edge() == second.render_without_edge()
    assert (first.blocks, first.note, first.tail) == (second.blocks, second.note, second.tail)
