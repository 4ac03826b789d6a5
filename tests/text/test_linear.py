"""Work is linear and does not block the event loop: the benchmark of patterns, open calls and long messages.

No time is measured here: `make bench-patterns` and `make bench-hostile` do that.
"""

import importlib
import random
import re
import runpy
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memolog import AssistantMessage, Memory, ToolCallPart, UserMessage
from memolog.apps.hooks.events import public
from memolog.apps.hooks.reconcile import squeezed
from memolog.core.message import NewMessage, TextPart, ToolResultPart
from memolog.core.pairs import OpenCalls, PartPlace
from memolog.db.queries import MOST_INLINE, weight_of
from memolog.messages import validation as checking
from memolog.messages.store import is_much
from memolog.search import analysis
from memolog.search import index as indexing
from memolog.transfer.chat_exports import read_chatgpt
from memolog.transfer.mastra import sections

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the benchmark of patterns."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("bench_patterns")


# ---------------------------------------------------------------- the benchmark


def test_patterns_of_the_library_are_collected_with_their_use(bench: Any) -> None:
    """A named pattern is collected with the methods that its module calls, and a pattern in a string with the called function."""
    with bench.collected() as collector:
        runpy.run_path(str(bench.SOURCE / "apps" / "hooks" / "events.py"))
        runpy.run_path(str(bench.SOURCE / "observer" / "extractive" / "tool_calls.py"))
    found = {one.place: one for one in collector.patterns()}
    assert found["apps/hooks/events.py:_TAG"].methods == ("finditer",)
    assert "memory-pack" in found["apps/hooks/events.py:_TAG"].pattern.pattern
    # A loop over a table uses this pattern by the name of the loop variable.
    assert "fullmatch" in found["observer/extractive/tool_calls.py:_VERBS"].methods
    assert not any(one.pattern.pattern == "elsewhere" for one in collector.patterns())
    before = len(collector.found)
    re.compile("after")
    assert len(collector.found) == before


def test_hurting_texts_are_made_of_a_patterns_pieces(bench: Any) -> None:
    """A repeated piece comes after the text that must precede it, and the beginning of a pattern is repeated alone."""
    texts = bench.texts_for(re.compile(r"<open>[xy]{2,}</open>"))
    assert any(before == "<open>" and set(piece) <= set("xy") and piece for before, piece, _ in texts)
    assert any(not before and piece.startswith("<open>") for before, piece, _ in texts)
    assert ("", "\n", "\x00") in texts
    # A reference repeats the text of its group, and the characters for a negated class are outside the class.
    references = bench.texts_for(re.compile(r"(a|b)\1[^c]*d"))
    assert any(before in {"aa", "bb"} and "c" not in piece for before, piece, _ in references)
    assert len(bench.pumped("<", " ", ">", 1_000)) == 1_000


def test_every_repeat_of_a_sample_matches(bench: Any) -> None:
    """The pattern matches a repeated piece to its end."""
    for expression in (r"x(?:ab|c)+", r"\s*(?:\d{2},)*", r"(?:(?>a+)b)*+", r"[^\W\d]+"):
        pattern = re.compile(expression)
        pumps = list(bench.Pieces(random.Random(1)).pumps(vars(re)["_parser"].parse(expression)))
        assert any(before + piece * 40 == (pattern.match(before + piece * 40) or [""])[0] for before, piece in pumps)


# ---------------------------------------------------------------- what was quadratic


class PlainCalls:
    """A simple model of open calls, in which every question reads every call."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, place: PartPlace, turn: str | None) -> None:
        others = [
            one
            for one in self.waiting.get(name, [])
            if one["place"][0] == place[0] or (turn is not None and one["turn"] not in {None, turn})
        ]
        self.waiting[name] = [*others, {"place": place, "turn": turn, "closed": False, "asked": False}]

    def answer(self, name: str, turn: str | None) -> tuple[PartPlace, bool] | None:
        waiting = self.waiting.get(name)
        if not waiting:
            return None
        latest = next((one for one in reversed(waiting) if one["turn"] == turn), waiting[-1])
        call = next(one for one in waiting if one["place"][0] == latest["place"][0])
        self.waiting[name] = [one for one in waiting if one is not call]
        if not self.waiting[name]:
            del self.waiting[name]
        return call["place"], not call["closed"] and (not call["asked"] or turn == call["turn"])

    def ask(self, turn: str | None) -> None:
        for one in (one for calls in self.waiting.values() for one in calls):
            one["closed"] = one["closed"] or turn is None or one["turn"] in {None, turn}
            one["asked"] = True

    def unasked(self) -> list[PartPlace]:
        return [one["place"] for calls in self.waiting.values() for one in calls if not one["asked"]]


@pytest.mark.parametrize("seed", range(40))
def test_open_calls_follow_their_rules(seed: int) -> None:
    """For calls, results and questions of overlapping turns, the answers are the same as those of the simple model."""
    chance = random.Random(seed)
    quick, plain = OpenCalls(), PlainCalls()
    for message in range(60):
        turn = chance.choice((None, "t1", "t2", "t3"))
        for part in range(chance.randint(1, 3)):
            name = chance.choice("abc")
            if chance.random() < 0.55:
                quick.add(name, (message, part), turn)
                plain.add(name, (message, part), turn)
            else:
                found = quick.answer(name, turn)
                assert (None if found is None else tuple(found)) == plain.answer(name, turn)
        if chance.random() < 0.3:
            quick.add_question(turn)
            plain.ask(turn)
        assert sorted(quick.since_question()) == sorted(plain.unasked())
        assert bool(quick) == bool(plain.waiting)


class CountedTurn(str):
    """A turn that counts how often a turn is compared or hashed."""

    __slots__ = ()
    steps = 0

    def __hash__(self) -> int:
        CountedTurn.steps += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        CountedTurn.steps += 1
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        CountedTurn.steps += 1
        return super().__ne__(other)


def test_open_calls_of_many_turns_with_one_id_take_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many calls with one id in different turns need twice as many steps, and so do their results."""

    def steps(count: int) -> int:
        monkeypatch.setattr(CountedTurn, "steps", 0)
        calls = OpenCalls()
        for number in range(count):
            calls.add("c", (number, 0), CountedTurn(f"t{number}"))
            calls.add_question(CountedTurn(f"q{number}"))
        for number in range(count):
            answered = calls.answer("c", CountedTurn("elsewhere" if number % 2 else f"t{number // 2}"))
            assert answered is not None
        assert not calls
        return CountedTurn.steps

    few, many = steps(200), steps(2_000)
    assert many <= 10.5 * few, (few, many)


def test_tags_are_found_as_before() -> None:
    """Finds private tags with spaces or a slash anywhere, commands of a host, and sections of a Mastra log."""
    assert public("a < / private >b") == "a b"
    assert public("a <\n private x='1'> b </private>c") == "a c"
    assert public("a < privately") == "a < privately"
    assert squeezed("x <command-name>/go</command-name> <command-args>on  it</command-args>") == "/go on it"
    assert squeezed("<command-name>/go <command-name>") == "<command-name>/go <command-name>"
    text = 'before <thread id="a">\none\n</thread>\nbetween <thread id="b">two</thread> <thread id="c">open'
    assert sections(text) == [(None, 'before \nbetween  <thread id="c">open'), ("a", "one"), ("b", "two")]


def test_a_chatgpt_branch_that_leads_back_to_itself_ends() -> None:
    """If the parents of the nodes of an export form a circle, each node is read once."""
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["hello"]}}
    mapping = {name: {"parent": parent, "message": said} for name, parent in (("a", "b"), ("b", "a"), ("c", "a"))}
    (found,) = read_chatgpt([{"id": "t", "current_node": "a", "mapping": mapping}])
    assert [message.id for message in found.messages] == ["b", "a"]
    assert [skipped.where for skipped in found.skipped] == ["t, c"]


# ---------------------------------------------------------------- what leaves the loop


def test_what_is_much() -> None:
    """Many parts, many values or a long text count as much work. The check itself takes little time for any value."""
    assert not is_much([UserMessage("hello"), AssistantMessage("world " * 1_000)])
    assert is_much([UserMessage([TextPart(text="a")] * 1_000)])
    assert is_much([UserMessage("a" * 1_000_000)])
    assert is_much([AssistantMessage(ToolCallPart(id="c", name="n", arguments={str(n): n for n in range(10_000)}))])
    circle: list[Any] = []
    circle.append(circle)
    assert is_much([NewMessage(role="tool", parts=(ToolResultPart(call_id="c", content=circle),))])
    odd: Any = [None, 3, NewMessage(role="user", parts=7)]  # pyright: ignore[reportArgumentType]
    assert not is_much(odd)


def test_rows_weigh_their_texts() -> None:
    """The weight of a message row is the length of its texts. Keys and numbers of the index have no weight."""
    row = ("r", "t", 1, "id", 0, "user", 5, "x" * MOST_INLINE)
    assert weight_of([row]) > MOST_INLINE
    assert weight_of([(1, "x" * MOST_INLINE)]) == 0
    assert weight_of([]) == 0


async def test_long_work_leaves_the_loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The work on a message with thousands of calls and a long text runs in other threads than that of the event loop."""
    loop_thread = threading.get_ident()
    on_loop: Counter[str] = Counter()

    def watch(owner: Any, name: str) -> None:
        kept = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            on_loop[name] += threading.get_ident() == loop_thread
            return kept(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((OpenCalls, "add"), (OpenCalls, "answer"), (checking, "_check_values"), (analysis, "words_of")):
        watch(owner, name)
    watch(indexing, "grams")
    calls = [ToolCallPart(id=f"c{n}", name="read", arguments={"path": f"src/{n}.py"}) for n in range(1_500)]
    results = tuple(ToolResultPart(call_id=call.id, content="done", name="read") for call in calls)
    async with Memory(tmp_path / "m.db") as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("Read all of it: " + "wörter und worte " * 3_000))
            await turn.record(AssistantMessage(calls))
            context = await turn.prepare(NewMessage(role="tool", parts=results))
            await turn.record(AssistantMessage("It is read."))
        assert sum(len(message.parts) for message in context.tail) == 2 * len(calls) + 1
        answer = await memory.resource("alice").search("worte")
        assert answer.results
        await memory.thread("t1", resource="alice").observe()
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("And now?"))
        await memory.thread("t1", resource="alice").compact()
    # Short messages are handled in the thread of the event loop.
    assert all(times < 100 for times in on_loop.values()), on_loop
