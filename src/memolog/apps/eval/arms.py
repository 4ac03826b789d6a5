"""What a model sees when it is asked a question: the memory, search results, the whole history, a part of it, or the evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from memolog import Memory, Observation, SearchResult
from memolog.apps.eval.budget import COUNTER
from memolog.apps.eval.datasets import History, Question, Said
from memolog.apps.eval.history import question_thread
from memolog.apps.eval.string_judge import facts_of
from memolog.context.context import Context, ContextMessage
from memolog.core.message import TextPart
from memolog.errors import InputError
from memolog.text.cut import cut_middle
from memolog.text.dates import clock, day_name, local
from memolog.text.escape import fixed_text

Place: TypeAlias = Literal["log", "tail", "search", "history"]
PLACES: Final[tuple[Place, ...]] = ("log", "tail", "search", "history")

RESULTS: Final = 10
"""How many results a search for the question shows to a reader that cannot call tools."""
_RESULT_CHARACTERS: Final = 1_200
# The share of the words of a message that lines of the log must have, so that the message counts as kept there.
_KEPT: Final = 0.8
_ABOUT: Final = 0.5
_LOOKING: Final = {"read_only": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A way to give a model what it needs for a question."""

    name: str
    uses_log: bool = False
    uses_search: bool = False
    last: int | None = None
    """How many messages are shown. None means all messages."""
    only_evidence: bool = False

    @property
    def uses_memory(self) -> bool:
        """Return whether the history must be stored and observed."""
        return self.uses_log or self.uses_search


def arm_of(name: str) -> Arm:
    """Return the arm with a name, such as `memory+search` or `last:20`."""
    match name.strip().split(":"):
        case ["memory"]:
            return Arm(name="memory", uses_log=True)
        case ["memory+search"]:
            return Arm(name="memory+search", uses_log=True, uses_search=True)
        case ["search"]:
            return Arm(name="search", uses_search=True)
        case ["full"]:
            return Arm(name="full")
        case ["oracle"]:
            return Arm(name="oracle", only_evidence=True)
        case ["last", count] if count.isdecimal() and int(count) > 0:
            return Arm(name=f"last:{int(count)}", last=int(count))
        case _:
            raise InputError(
                f"{name!r} is not an arm.", then="Choose among memory, memory+search, search, full, last:20 and oracle."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a context: a line of the log, a message, or a search result."""

    place: Place
    text: str
    cites: frozenset[str] = frozenset()
    """The names of the messages that it shows or was made from."""
    is_of_user: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The context of one question: instructions, messages that end with the question, and its pieces."""

    system: str
    messages: tuple[ContextMessage, ...]
    pieces: tuple[Piece, ...]

    @property
    def tokens(self) -> int:
        """Return the size of the context."""
        return COUNTER.count(self.system) + sum(COUNTER.count(message.text) for message in self.messages)

    @property
    def text(self) -> str:
        """Return all messages as one text, for models that take only that."""
        if len(self.messages) == 1:
            return self.messages[0].text
        return "\n\n".join(f"{message.role}: {_all_text(message)}" for message in self.messages)

    def with_results(self, pieces: Sequence[Piece]) -> "Prompt":
        """Return the prompt with search results before the question."""
        *before, last = self.messages
        shown = "\n\n".join(piece.text for piece in pieces) or "Nothing was found."
        text = f"<results>\n{shown}\n</results>\n\n{last.text}"
        return replace(
            self,
            messages=(*before, replace(last, parts=(TextPart(text=text),))),
            pieces=(*self.pieces, *pieces),
        )


def _all_text(message: ContextMessage) -> str:
    return message.text or message.render()


async def prompt_for(arm: Arm, memory: Memory | None, history: History, question: Question) -> Prompt:
    """Return what an arm shows for a question, without search results."""
    if arm.uses_log and memory is not None:
        return await _remembered(memory, history, question)
    shown = () if arm.uses_memory else _chosen(arm, history, question)
    pieces = tuple(_message("history", said, history) for said in shown)
    day = day_name(local(question.at, history.zone).date())
    text = f"Today is {day}.\n\n{question.text}"
    if pieces:
        lines = "\n\n".join(piece.text for piece in pieces)
        text = f"<conversation>\n{lines}\n</conversation>\n\n{text}"
    return Prompt(system=fixed_text("apps/eval/answer"), messages=(_asked(text),), pieces=pieces)


def _asked(text: str) -> ContextMessage:
    return ContextMessage(role="user", parts=(TextPart(text=text),))


def _chosen(arm: Arm, history: History, question: Question) -> Sequence[Said]:
    if arm.last is not None:
        return history.messages[-arm.last :]
    if not arm.only_evidence:
        return history.messages
    sessions = [one for one in history.sessions if any(said.name in question.evidence for said in one.messages)]
    if history.scope == "resource":
        return [said for session in sessions for said in session.messages]
    # One long conversation has no sessions, so the neighbours of the evidence are shown.
    places = [place for place, said in enumerate(history.messages) if said.name in question.evidence]
    near = sorted({place + step for place in places for step in (-1, 0, 1)} & set(range(len(history.messages))))
    return [history.messages[place] for place in near]


def line_of(said: Said, history: History) -> str:
    """Return a message with its time and its speaker."""
    calls = "".join(f" [calls {one['name']} {one['arguments']}]" for one in said.calls)
    return f"[{clock(said.at, history.zone)}] {said.speaker or said.role}: {said.text}{calls}"


async def _remembered(memory: Memory, history: History, question: Question) -> Prompt:
    thread = question_thread(memory, history)
    async with thread.turn(settings=_LOOKING, zone=history.zone) as turn:
        context = await turn.prepare(question.text)
    log = await thread.log()
    names = {history.place_of(said.name): said.name for said in history.messages}
    # A covered message may still be shown, and a line of the log may have more than one source.
    pieces = [_line(line, names, history) for line in log]
    pieces += _tail(context, history, thread.id, names)
    pieces += [Piece(place="tail", text=row) for row in _other_conversations(context)]
    system = f"{fixed_text('apps/eval/answer')}\n\n{context.system}".strip()
    return Prompt(system=system, messages=context.joined(), pieces=tuple(pieces))


def _line(line: Observation, names: Mapping[tuple[str, int], str], history: History) -> Piece:
    cited = {
        names[source.thread, number]
        for source in line.sources
        for number in range(source.span.first, source.span.last + 1)
        if (source.thread, number) in names
    }
    said = f"[{clock(line.said_at, history.zone)}] " if line.said_at else ""
    text = f"{line.text}\n{line.verbatim}" if line.verbatim else line.text
    return Piece(place="log", text=f"{said}{text}", cites=frozenset(cited), is_of_user=line.trust == "user")


def _message(place: Place, said: Said, history: History) -> Piece:
    text = line_of(said, history)
    return Piece(place=place, text=text, cites=frozenset({said.name}), is_of_user=said.role == "user")


def _tail(context: Context, history: History, thread: str, names: Mapping[tuple[str, int], str]) -> Iterable[Piece]:
    for message in context.tail:
        name = names.get((thread, message.seq or 0))
        # The question itself is the last message, and is not part of the history.
        if name is not None:
            yield _message("tail", history.by_name[name], history)


def _other_conversations(context: Context) -> Iterable[str]:
    """Yield the lines of other conversations that the log does not cover yet."""
    for block in context.edge:
        if "conversation" in block.name:
            yield from filter(None, map(str.strip, block.text.splitlines()))


async def found_for(memory: Memory, history: History, question: Question) -> tuple[Piece, ...]:
    """Return the results of a search for the question, the best first."""
    answer = await memory.resource(history.id).search(question.text, limit=RESULTS)
    names = {history.place_of(said.name): said.name for said in history.messages}
    return tuple(_result(result, names, history) for result in answer.results)


def _result(result: SearchResult, names: Mapping[tuple[str, int], str], history: History) -> Piece:
    name = names.get((result.thread or "", result.seq or 0))
    who = result.speaker or result.role or result.source
    text = f"[{clock(result.at, history.zone)}] {who}: {cut_middle(result.content, _RESULT_CHARACTERS)}"
    cites = frozenset({name}) if name else frozenset[str]()
    return Piece(place="search", text=text, cites=cites, is_of_user=result.role == "user")


# ---------------------------------------------------------------- evidence


def evidence_in(pieces: Sequence[Piece], history: History, question: Question) -> dict[str, float]:
    """Return the share of the evidence that pieces contain, by place and in any place. Empty if there is no evidence.

    A message that is shown is there. A line of the log that was made from a message counts only together with the other such
    lines, and only if they have most of those words of the message that the answer needs, or at least half of those that the
    question has.
    """
    if not question.evidence:
        return {}
    present: dict[str, set[str]] = {place: set() for place in PLACES}
    for name in question.evidence:
        for place in ("tail", "search", "history"):
            if any(name in piece.cites for piece in pieces if piece.place == place):
                present[place].add(name)
        lines = " ".join(piece.text for piece in pieces if piece.place == "log" and name in piece.cites)
        if lines and _keeps(lines, history.by_name[name].text, question):
            present["log"].add(name)
    everywhere = set[str]().union(*present.values())
    count = len(question.evidence)
    return {**{place: len(names) / count for place, names in present.items()}, "any": len(everywhere) / count}


def _keeps(lines: str, message: str, question: Question) -> bool:
    said, kept = _terms(message), _terms(lines)
    needed = _terms(question.answer or "") & said
    if needed:
        return len(needed & kept) >= _KEPT * len(needed)
    asked = _terms(question.text) & said
    return len(asked & kept) >= _ABOUT * len(asked)


def _terms(text: str) -> frozenset[str]:
    facts = facts_of(text)
    numbers = {value for number in facts.numbers for value in number}
    days = {f"{month}-{day}" for _, month, day in facts.days}
    return frozenset({*facts.words, *numbers, *days})


def found_in_tools(answers: Sequence[Mapping[str, Any]], history: History) -> tuple[Piece, ...]:
    """Return what tools answered as pieces, with the messages that they show."""
    names = {history.place_of(said.name): said.name for said in history.messages}
    pieces: list[Piece] = []
    for answer in answers:
        for row in answer.get("results", ()):
            name = names.get((row.get("thread", ""), row.get("number", 0)))
            pieces.append(
                Piece(place="search", text=str(row.get("text", "")), cites=frozenset({name}) if name else frozenset())
            )
        if text := answer.get("text"):
            # A recalled page has the exact words of its messages.
            cited = {said.name for said in history.messages if said.text[:_QUOTED] in text}
            pieces.append(Piece(place="search", text=str(text), cites=frozenset(cited)))
    return tuple(pieces)


_QUOTED: Final = 60
