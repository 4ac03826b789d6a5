"""The context as a whole: what is where, what it weighs, and what gives way when there is too little room."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kit.rows import counted, line, plan, rendered
from kit.rows import row as kit_row
from kit.rows import view as kit_view
from kit.talk import edge_of
from memolog.context.build import View, build
from memolog.context.context import Block, Context, ContextMessage, Counts
from memolog.context.tail import LEFT_OUT
from memolog.core.message import (
    AssistantMessage,
    Message,
    Part,
    Role,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)
from memolog.core.thread import Hints
from memolog.log.snapshot import GroupRow, OtherTail
from memolog.text.message_tokens import count_parts
from memolog.text.tokens import HeuristicCounter

SNAPSHOT = Path(__file__).parent / "snapshots" / "context.txt"
START = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
NOW = datetime(2026, 3, 14, 12, 30, tzinfo=UTC)
COUNTER = HeuristicCounter()


def row(seq: int, role: Role, *parts: Part | str, thread: str = "t", **fields: Any) -> Message:
    """Return a stored row with the tokens that it was saved with."""
    fields = {"id": f"{thread}-{seq}", "created_at": START + timedelta(minutes=seq), **fields}
    made = kit_row(seq, role, *parts, thread=thread, **fields)
    return made if "tokens" in fields else counted(made)


def group(number: int, text: str = "something", tokens: int = 40) -> GroupRow:
    """Return a group as it was stored."""
    body = f'<observations id="g{number}">\nDate: 2026-03-14\n* (09:00) {text}\n</observations>'
    return GroupRow(id=f"g{number}", handle=f"g{number}", text=body, tokens=tokens)


def view(**fields: Any) -> View:
    """Return what a context is built from, with little in it."""
    return kit_view(**{"now": NOW, **fields})


def texts(context: Context) -> list[str]:
    """Return the texts of the tail."""
    return [message.text for message in context.tail]


# ---------------------------------------------------------------- the whole


def full_view() -> View:
    """Return a view with everything in it."""
    where: dict[str, Any] = {"zone": "Europe/Berlin"}
    first = [
        line(
            "User stated that the API lives in server/ & the page in <client/>",
            priority="high",
            said_at=datetime(2026, 2, 20, 8, 15, tzinfo=UTC),
            **where,
        )
    ]
    second = [
        line("Assistant wrote LoginSchema in src/auth.ts", said_at=START, **where),
        line("-> 42 tests passed", ordinal=2, said_at=None, parent=1),
        line(
            "User agreed on the headline",
            priority="high",
            ordinal=3,
            said_at=START + timedelta(minutes=5),
            verbatim="Sign in.\nStay in.",
            **where,
        ),
    ]
    texts = [
        rendered(first, "g1", is_reflection=True),
        rendered(second, "g2", previous=date(2026, 2, 20), alias="t1"),
    ]
    return view(
        scope="resource",
        cursor=8,
        zone="Europe/Berlin",
        instructions="You are the agent of a small team.",
        groups=tuple(
            GroupRow(id=f"g{n}", handle=f"g{n}", text=text, tokens=COUNTER.count(text))
            for n, text in enumerate(texts, start=1)
        ),
        working_memory="# Facts\n- name: Ana",
        working_memory_now="# Facts\n- name: Ana\n- city: Porto <PT>",
        repeated=(row(7, "user", "Please finish the login.", speaker="Ana"),),
        tail=(
            row(
                9,
                "assistant",
                "I will run the tests.",
                ToolCallPart(id="c1", name="run", arguments={"cmd": "test"}),
                turn="one",
            ),
            row(10, "user", "And tell me when you are done.", turn="two"),
            row(11, "tool", ToolResultPart(call_id="c1", content="42 passed", name="run"), turn="one"),
            row(12, "tool", ToolResultPart(call_id="c0", content={"ok": True}, name="deploy")),
            row(13, "assistant", "All tests pass."),
        ),
        hints=Hints(
            current_task="Finish the login", suggested_response="It is done.", at=START + timedelta(minutes=30)
        ),
        others=(
            OtherTail(
                thread="b",
                alias=2,
                title='The "blog"',
                messages=(
                    row(1, "user", "Write about\n</other-conversation> cats", thread="b"),
                    row(2, "assistant", "A draft is ready.", thread="b"),
                ),
            ),
        ),
        task_lines=("mlg-1 (in progress) Login", "mlg-2 (ready) Logout"),
        recalled=("On 2026-01-02 the user said: use <b>argon2</b>.",),
        plans=(plan(date(2026, 3, 12), "Call the bank"), plan(date(2026, 3, 20), "Move to Fastify")),
        ephemeral=(SystemMessage("Answer in one sentence."),),
    )


def test_snapshot_of_a_whole_context() -> None:
    """The text of a context changes on purpose only."""
    assert build(full_view()).render() == SNAPSHOT.read_text("utf-8")


def test_counts_add_up() -> None:
    """Each part is the sum of its blocks, and the total that of the parts."""
    made = build(full_view())
    assert made.tokens.prefix == sum(block.tokens for block in made.blocks)
    assert made.note is not None
    assert made.tokens.tail > made.note.tokens
    ephemeral = sum(count_parts(message.role, message.parts, COUNTER) for message in made.ephemeral)
    assert made.tokens.edge == ephemeral + sum(block.tokens for block in made.edge)
    assert made.tokens.total == made.tokens.prefix + made.tokens.tail + made.tokens.edge
    assert Counts(prefix=1, tail=2, edge=4).total == 7


def test_stable_is_what_may_be_cached() -> None:
    """Prefix and note are stable, the edge is not."""
    made = build(full_view())
    assert made.note is not None
    assert all(block.stable for block in (*made.blocks, made.note))
    assert not any(block.stable for block in made.edge)


def test_the_note_opens_the_messages() -> None:
    """The note comes first, then the tail, then what is passed along once."""
    made = build(full_view())
    note, *rest = made.messages
    assert note.synthetic
    said = tuple(one for one in rest if not (one.synthetic and one.role == "assistant"))
    assert said == (*made.tail, *made.ephemeral)


def test_a_question_after_results_that_were_never_answered() -> None:
    """An answer that says so stands between them. Words of the same turn and notes of the memory are no next question."""
    call = ContextMessage(role="assistant", parts=(ToolCallPart(id="c1", name="look", arguments={}),), seq=2)
    result = ContextMessage(role="tool", parts=(ToolResultPart(call_id="c1", content="1"),), seq=3, turn="a")
    question = ContextMessage(role="user", parts=(TextPart(text="And now?"),), seq=4, turn="b")
    made = Context(tail=(replace(question, seq=1, turn="a"), call, result, question))
    assert [message.role for message in made.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert made.messages[3].synthetic
    for other in (replace(question, turn="a"), ContextMessage.note("[A tool answered late.]", seq=4)):
        assert Context(tail=(call, result, other)).messages == (call, result, other)


# ---------------------------------------------------------------- prefix and note


def test_nothing_gives_nothing_but_now() -> None:
    """Without log, working memory and messages there is no prefix, no note and no tail."""
    made = build(view())
    assert (made.system, made.note, made.tail, made.trimmed) == ("", None, (), 0)
    assert [block.name for block in made.edge] == ["now"]


def test_use_of_the_memory_is_explained_where_there_is_one() -> None:
    """A log is explained where there is one. A working memory alone is explained in other words."""
    assert [block.name for block in build(view(instructions="Be kind.")).blocks] == ["instructions"]
    names = [block.name for block in build(view(instructions="Be kind.", groups=(group(1),))).blocks]
    assert names == ["instructions", "usage", "group g1"]
    names = [block.name for block in build(view(working_memory="x", working_memory_now="x")).blocks]
    assert names == ["facts", "working-memory"]


def test_groups_are_shown_as_they_were_stored() -> None:
    """Their text and their count are taken as they are; a group without text takes no place."""
    empty = GroupRow(id="g2", handle="g2", text="", tokens=0)
    made = build(view(groups=(group(1, tokens=123), empty, group(3))))
    assert made.system.endswith(f"{group(1).text}\n\n{group(3).text}")
    assert made.blocks[1].tokens == 123
    assert [block.name for block in made.blocks] == ["usage", "group g1", "group g3"]


def test_note_opens_the_tail_when_something_is_left_out() -> None:
    """A cursor above zero brings the note; the thread's alias only where several share the log."""
    assert build(view(cursor=0)).note is None
    note = build(view(cursor=3)).note
    assert note is not None
    assert "newest user message comes first" in note.text
    assert "t1" not in note.text
    shared = build(view(cursor=3, scope="resource")).note
    assert shared is not None
    assert shared.text == f"{note.text}\n[In the memory, this conversation is t1.]"


# ---------------------------------------------------------------- tail


def test_repeated_message_is_shown_word_for_word_before_the_tail() -> None:
    """Also where it was compacted; and once only where the tail holds it."""
    asked = row(3, "user", "the question", level=1, injection="summary")
    assert texts(build(view(cursor=3, repeated=(asked,), tail=(row(4, "assistant", "working"),)))) == [
        "the question",
        "working",
    ]
    plain = row(3, "user", "the question")
    assert texts(build(view(repeated=(plain,), tail=(plain,)))) == ["the question"]


def test_mark_opens_the_tail_after_a_gap() -> None:
    """The message before the tail counts, also one that was left out for lack of room; so does what the mark weighs."""
    tail = tuple(row(seq, "user", f"question {seq} " + "x " * 200) for seq in range(3, 7))
    mark = "[2 days later: Saturday 2026-03-14, 09:03]"
    plain, marked = (
        build(view(cursor=2, tail=tail)),
        build(view(cursor=2, tail=tail, covered_at=START - timedelta(days=2))),
    )
    assert texts(marked) == [mark, *texts(plain)]
    weight = count_parts("user", (TextPart(text=mark),), COUNTER)
    assert marked.tokens.tail == plain.tokens.tail + weight
    assert texts(build(view(cursor=2, tail=tail, covered_at=START))) == texts(plain)
    late = (*tail[:-1], replace(tail[-1], created_at=START + timedelta(hours=9)))
    short = build(view(tail=late, covered_at=START - timedelta(days=2), limit=plain.tokens.total // 2))
    assert short.trimmed
    assert texts(short)[1:] == ["[8 hours later: Saturday 2026-03-14, 18:00]", tail[-1].text]
    assert short.tokens.total <= plain.tokens.total // 2


def test_tail_counts_rows_as_they_were_saved() -> None:
    """The stored count is used, and what was made up for the model is counted on top."""
    tail = (row(1, "user", "x", tokens=1000), row(2, "assistant", ToolCallPart(id="a", name="n"), tokens=500))
    made = build(view(tail=tail))
    missing = made.tail[-1]
    assert missing.synthetic
    assert made.tokens.tail == 1500 + count_parts(missing.role, missing.parts, COUNTER)


def test_ephemeral_messages_come_after_the_tail_and_before_the_edge() -> None:
    """They are in the text of the request and not in what the next one extends."""
    made = build(view(tail=(row(1, "user", "stored"),), ephemeral=(UserMessage("only now", speaker="Ana"),)))
    text = made.render()
    assert text.index("stored") < text.index("only now") < text.index("<now>")
    assert "only now" not in made.render_without_edge()
    assert made.ephemeral == (
        ContextMessage(role="user", parts=(TextPart(text="only now"),), speaker="Ana", synthetic=False),
    )


def test_odd_input_does_no_harm() -> None:
    """System messages, unknown parts, values that are no parts at all and empty rows are shown or passed over."""
    odd = cast("Part", object())
    tail = (
        row(1, "system", "rule"),
        row(2, "user", UnknownPart(data=[1])),
        row(3, "user", odd, tokens=1),
        row(4, "user"),
    )
    made = build(view(tail=tail, ephemeral=(AssistantMessage(()),), limit=0, zone="nowhere", other_tokens=0))
    assert '"unreadable"' in build(view(tail=tail)).render()
    assert made.tail[-1].parts == (odd,)


def test_counter_that_fails_does_no_harm() -> None:
    """A count that cannot be had is estimated."""

    class Broken:
        def count(self, text: str) -> int:
            raise RuntimeError(text)

    made = build(replace(full_view(), counter=Broken()))
    assert made.tokens.total > 0


# ---------------------------------------------------------------- edge


def test_hints_say_how_old_they_are() -> None:
    """Task and suggestion carry their age where it is known."""
    hints = Hints(current_task="Fix <it>", suggested_response="Done.", at=NOW - timedelta(hours=3))
    assert edge_of(build(view(hints=hints)), "hints") == (
        '<current-task said="3 hours ago">\nFix <it>\n</current-task>\n'
        '<suggested-response said="3 hours ago">\nDone.\n</suggested-response>'
    )
    assert edge_of(build(view(hints=Hints(current_task="x"))), "hints") == "<current-task>\nx\n</current-task>"


def test_hints_are_not_current_once_the_user_has_said_more() -> None:
    """A task and a suggestion from before the newest user message are called so."""
    hints = Hints(current_task="Fix it", suggested_response="Done.", at=NOW - timedelta(hours=3), last_seq=2)
    result = ToolResultPart(call_id="c1", content="ok")
    goes_on = (row(3, "assistant", ToolCallPart(id="c1", name="run")), row(4, "user", result))
    assert edge_of(build(view(hints=hints, tail=goes_on)), "hints").startswith("<current-task said=")
    asked = (*goes_on, row(5, "user", "Something else, please"), row(6, "assistant", "On it"))
    assert edge_of(build(view(hints=hints, tail=asked)), "hints") == (
        '<earlier-task said="3 hours ago">\nFix it\n</earlier-task>\n'
        '<earlier-suggestion said="3 hours ago">\nDone.\n</earlier-suggestion>'
    )
    told = build(view(cursor=2, hints=hints, tail=asked)).note
    assert told is not None
    for words in (
        "not from the user",
        "earlier-task",
        "earlier-suggestion",
        "current-task",
        "suggested-response",
        "Do not greet",
    ):
        assert words in told.text


def test_now_says_what_relative_words_mean() -> None:
    """Date, weekday, time and zone are those of the user."""
    text = edge_of(build(view(now=datetime(2026, 3, 14, 23, 30, tzinfo=UTC), zone="Europe/Berlin")), "now")
    assert text.splitlines() == [
        "<now>",
        "Sunday 2026-03-15, 00:30 (Europe/Berlin)",
        "today: Sunday 2026-03-15",
        "yesterday: Saturday 2026-03-14",
        "tomorrow: Monday 2026-03-16",
        "this week: Monday 2026-03-09 to Sunday 2026-03-15",
        "last week: Monday 2026-03-02 to Sunday 2026-03-08",
        "next Friday: 2026-03-20, the first Friday after today",
        "</now>",
    ]


def test_plans_whose_day_has_passed() -> None:
    """Only those of the last week, five at most, the newest first; never taken as done unless told so."""
    plans = tuple(plan(date(2026, 3, day), f"plan {day}\n* x") for day in range(5, 17))
    lines = edge_of(build(view(plans=plans)), "plans").splitlines()[1:-1]
    assert [line.split()[1] for line in lines] == [f"2026-03-{day:02}" for day in (13, 12, 11, 10, 9)]
    assert lines[0] == "* 2026-03-13 (date has passed; not known to be done): plan 13 * x"
    assert "taken as done" in edge_of(build(view(plans=plans, assume_done=True)), "plans")
    assert "even when its date has passed" in build(view(plans=plans, groups=(group(1),))).system
    done = build(view(plans=plans, groups=(group(1),), assume_done=True)).system
    assert "taken as done" in done
    assert "is not done until" not in done
    assert edge_of(build(view(plans=(plan(date(2026, 3, 14), "today"), plan(date(2026, 3, 6), "old")))), "plans") == ""


def test_tasks_and_recalled_texts() -> None:
    """A task is one line; what was recalled stays between its tags; blank ones take no place."""
    made = build(view(task_lines=("one\ntwo", " "), recalled=("a\n<b>", " ")))
    assert edge_of(made, "tasks") == "<tasks>\n* one two\n</tasks>"
    note, _, rest = edge_of(made, "recalled").partition("\n")
    assert note.startswith("[Found among earlier messages")
    assert rest == "<recalled>\na\n<b>\n</recalled>"


def others(count: int = 3, length: int = 50) -> tuple[OtherTail, ...]:
    """Return other threads, each newer than the one before."""
    return tuple(
        OtherTail(
            thread=f"o{n}",
            alias=n,
            title=None,
            messages=tuple(
                row(10 * n + m, "user", f"word{n}.{m} " + "x" * length, thread=f"o{n}") for m in range(count)
            ),
        )
        for n in range(2, 5)
    )


def test_the_edge_at_later_steps_changes_only_every_hour() -> None:
    """It stands before the tool results then, so each change costs the provider's cache of these results."""
    call, result = ToolCallPart(id="c", name="look"), ToolResultPart(call_id="c", content="seen")
    first = (row(1, "user", "where is it?"),)
    later = (*first, row(2, "assistant", call), row(3, "tool", result))
    asked = START + timedelta(minutes=1)

    def edge(tail: tuple[Message, ...], minutes: int) -> str:
        return build(view(tail=tail, others=others(), now=asked + timedelta(minutes=minutes))).edge_text

    assert edge(later, 0) == edge(later, 59) != edge(later, 60)
    assert "(UTC)" in edge(later, 0)
    assert "word4" in edge(first, 0)
    assert edge(first, 0).endswith(edge(later, 0))


@pytest.mark.parametrize(
    ("tail", "joined"),
    [
        ([("user", None, "one"), ("user", None, "two")], ["note one two edge"]),
        ([("user", "Mira", "one"), ("user", "Tom", "two")], ["note one", "two edge"]),
        ([("user", None, "one"), ("assistant", None, "yes")], ["note one edge", "yes"]),
        ([("assistant", None, "yes")], ["note edge", "yes"]),
    ],
    ids=["an unanswered question", "two speakers", "an answer", "no question"],
)
def test_user_messages_in_a_row_are_one_message(tail: list[tuple[Role, str | None, str]], joined: list[str]) -> None:
    """Many servers refuse two of them. The edge is the end of the last one."""
    rows = tuple(
        ContextMessage(role=role, speaker=speaker, parts=(TextPart(text=text),), seq=seq)
        for seq, (role, speaker, text) in enumerate(tail, start=1)
    )
    note, edge = (Block(name="x", text=text, tokens=1, stable=False) for text in ("note", "edge"))
    made = Context(note=note, tail=rows, edge=(edge,))
    assert [one.text.replace("\n\n", " ") for one in made.joined()] == joined


def test_other_conversations_are_shown_newest_first() -> None:
    """Each block says that its work is not to be continued; inside, messages are in their order."""
    text = edge_of(build(view(others=others())), "other-conversations")
    assert re.findall(r'<other-conversation thread="(\w+)">', text) == ["t4", "t3", "t2"]
    assert text.count("Its work is not to be continued here.") == 3
    assert re.findall(r"word(\S+)", text)[:3] == ["4.0", "4.1", "4.2"]
    assert "(2026-03-14 09:40) user: word4.0" in text


def test_other_conversations_keep_to_their_budget() -> None:
    """The newest messages win, and what is not shown is counted."""
    made = build(view(others=others(count=10, length=200), other_tokens=300))
    text = edge_of(made, "other-conversations")
    assert 100 < COUNTER.count(text) <= 300
    assert re.findall(r"word(\S+)", text) == ["4.6", "4.7", "4.8", "4.9"]
    assert "[6 earlier messages not shown]" in text
    assert text.endswith("\n[2 other conversations with 20 messages not shown]")
    assert edge_of(build(view(others=others(), other_tokens=5)), "other-conversations") == ""


def test_what_was_not_read_of_other_conversations_is_counted_too() -> None:
    """Messages before those that were read, and conversations beyond the limit; also where no message fits."""
    read = replace(others(count=1)[0], earlier=70)
    text = edge_of(build(view(others=(read,), more_others=(3, 1_200))), "other-conversations")
    assert "[70 earlier messages not shown]" in text
    assert text.endswith("\n[3 other conversations with 1,200 messages not shown]")
    one = edge_of(build(view(others=(replace(read, earlier=1),), more_others=(1, 1))), "other-conversations")
    assert "[1 earlier message not shown]" in one
    assert one.endswith("\n[1 other conversation with 1 message not shown]")
    none = edge_of(build(view(others=(read,), more_others=(3, 1_200), other_tokens=20)), "other-conversations")
    assert none == "[4 other conversations with 1,271 messages not shown]"


def test_other_conversations_are_short_and_say_what_tools_did() -> None:
    """Long texts lose their middle at whole characters, tools are named, our own and withdrawn ones are not shown."""
    family = "👨‍👩‍👧"
    messages = (
        row(1, "user", family * 500),
        row(2, "assistant", ToolCallPart(id="a", name="grep"), UnknownPart(data=1)),
        row(3, "tool", ToolResultPart(call_id="a", content="y" * 999, name="grep")),
        row(4, "tool", ToolResultPart(call_id="b", content={"z": 1}, is_error=True)),
        row(5, "user", "gone", state="withdrawn"),
        row(6, "tool", "own", own=True),
        row(7, "user", "a", level=1, injection="summed up"),
        row(8, "user", "b", level=1, injection="summed up"),
    )
    made = build(view(others=(OtherTail(thread="b", alias=2, title="x" * 200, messages=messages),)))
    lines = edge_of(made, "other-conversations").splitlines()
    assert lines[0] == f'<other-conversation thread="t2" title="{"x" * 80}">'
    assert len(lines) == 8
    assert len(lines[2]) < 430
    assert set(lines[2].split(": ", 1)[1].replace(" … ", "").split(family)) == {""}
    assert lines[3].endswith("assistant: [called grep]")
    assert "[tool grep answered: yyy" in lines[4]
    assert lines[5].endswith("tool: [a tool failed]")
    assert lines[6].endswith("user: summed up")


# ---------------------------------------------------------------- limit


def exchanges(count: int, length: int = 400) -> tuple[Message, ...]:
    """Return exchanges of a question, a call, its result and an answer."""
    rows: list[Message] = []
    for n in range(count):
        rows += [
            row(4 * n + 1, "user", f"question {n} " + "q" * length),
            row(4 * n + 2, "assistant", ToolCallPart(id=f"c{n}", name="run", arguments="x" * length)),
            row(4 * n + 3, "tool", ToolResultPart(call_id=f"c{n}", content="r" * length)),
            row(4 * n + 4, "assistant", f"answer {n} " + "a" * length),
        ]
    return tuple(rows)


def test_no_limit_and_a_wide_limit_leave_everything() -> None:
    """What fits is not touched."""
    whole = build(view(tail=exchanges(5)))
    assert build(view(tail=exchanges(5), limit=whole.tokens.total)) == whole
    assert whole.trimmed == 0


def test_oldest_messages_give_way_at_closed_cuts() -> None:
    """As few as needed are left out, no call loses its result, and a note says so."""
    whole = build(view(tail=exchanges(5)))
    made = build(view(tail=exchanges(5), limit=whole.tokens.total - 250))
    assert made.tokens.total <= whole.tokens.total - 250
    assert made.trimmed == 3
    assert made.tail[0].synthetic
    assert made.tail[0].text == LEFT_OUT
    assert made.tail[1:] == whole.tail[3:]


@pytest.mark.parametrize("limit", [-5, 0, 1])
def test_last_question_and_last_exchange_stay(limit: int) -> None:
    """However small the limit: what the user asked last, what was said last, the prefix and now."""
    made = build(view(groups=(group(1),), tail=exchanges(3), others=others(), limit=limit))
    assert [text[:10] for text in texts(made)[1:]] == ["question 2", "answer 2 a"]
    assert made.trimmed == 10
    assert [block.name for block in (*made.blocks, *made.edge)] == ["usage", "group g1", "now"]


def test_repeated_message_stays() -> None:
    """It is never left out, and a tail without a question keeps its last exchange."""
    steps = exchanges(4)[1:]
    tail = tuple(message for message in steps if message.role != "user")
    made = build(view(cursor=1, repeated=(row(1, "user", "the task"),), tail=tail, limit=1))
    assert [text[:8] for text in texts(made)] == [LEFT_OUT[:8], "the task", "answer 3"]


def test_the_other_conversations_give_way_to_a_long_question() -> None:
    """A question that is too long by itself takes the room of the other threads."""
    question = row(1, "user", "the task " + "x" * 2_000)
    whole = build(view(tail=(question,), others=others()))
    less = build(view(tail=(question,), others=others(), limit=whole.tokens.total - 60))
    assert (less.trimmed, less.tail) == (0, whole.tail)
    assert 0 < len(edge_of(less, "other-conversations")) < len(edge_of(whole, "other-conversations"))


def test_steps_of_a_long_turn_give_way() -> None:
    """A turn that is too long by itself loses its oldest steps."""
    question = row(1, "user", "the task")
    steps = tuple(
        part
        for n in range(1, 9)
        for part in (
            row(2 * n, "assistant", ToolCallPart(id=f"c{n}", name="run", arguments="x" * 400)),
            row(2 * n + 1, "tool", ToolResultPart(call_id=f"c{n}", content="r" * 400)),
        )
    )
    whole = build(view(tail=(question, *steps)))
    least = build(view(tail=(question, *steps), limit=whole.tokens.total - 1200))
    assert least.tokens.total <= whole.tokens.total - 1200
    assert texts(least)[:2] == [LEFT_OUT, "the task"]
    assert least.tail[2:] == whole.tail[1 + least.trimmed :]


def test_question_between_a_call_and_its_result_is_kept() -> None:
    """Where no cut is near, more is kept rather than a pair torn."""
    tail = (
        row(1, "user", "old " + "x" * 400),
        row(2, "assistant", ToolCallPart(id="a", name="run"), turn="one"),
        row(3, "user", "new", turn="two"),
        row(4, "tool", ToolResultPart(call_id="a", content="r" * 400), turn="one"),
    )
    made = build(view(tail=tail, limit=1))
    assert made.trimmed == 1
    assert [message.role for message in made.tail] == ["user", "assistant", "tool", "user"]
