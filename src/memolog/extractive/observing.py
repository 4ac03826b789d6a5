"""The embedded observer: messages in, dated and cited lines out.

Knows how what was said and done becomes lines: a user's words first, answers and tool calls beneath them. The choice of words
is in `speech`, the reading of tools in `doings`. Lines that speak for a user cite that user and nobody else.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Final

from memolog.domain.message import FilePart, Message, ToolCallPart
from memolog.domain.observation import Priority
from memolog.extractive.days import dated
from memolog.extractive.doings import Doing, doings_of
from memolog.extractive.hints import hints_of
from memolog.extractive.speech import Piece, Speech, kept_pieces
from memolog.extractive.stances import category_of, confirms
from memolog.prompt.build import ObserveInput
from memolog.prompt.drafts import Draft, Parsed
from memolog.prompt.escape import clean, one_line
from memolog.prompt.redact import REDACTION
from memolog.prompt.transcript import in_zone
from memolog.tokens import TokenCounter, cut

__all__ = ["observe"]

_WRAPPED: Final = re.compile(r"\s*<([\w-]{1,60})>.{0,20000}</[\w-]{1,60}>\s*\Z", re.DOTALL)
_MOST_TEXT: Final = 400_000
_LONGEST: Final = 9_000
_SYSTEM: Final = 160
_CONFIRMATION: Final = 240
_WHAT: Final = 160
_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class _Line:
    """A line before it has its place."""

    priority: Priority
    text: str
    cites: tuple[int, ...]
    category: str | None = None
    files: tuple[str, ...] = ()
    is_root: bool = False
    about: date | None = None


@dataclass(frozen=True, slots=True)
class _Said:
    """One message with what is kept of it."""

    number: int
    message: Message
    day: date
    pieces: Sequence[Piece]
    doings: Sequence[Doing]


def observe(given: ObserveInput, counter: TokenCounter) -> Parsed:
    """Return the observations of a span; messages are cited by their place among the live ones, from 1.

    The same input gives the same lines, byte for byte. Nothing is asked of any model, and nothing raises.
    """
    del counter  # Sizes follow from what was said; a budget in tokens is the reflector's.
    live = [message for message in given.messages if message.state == "live"]
    speeches = [speech for number, message in enumerate(live, 1) if (speech := _speech(number, message))]
    pieces = {
        number: list(found)
        for number, found in groupby(kept_pieces(speeches, given.previous), lambda piece: piece.number)
    }
    doings, spoken = doings_of(live), {speech.number for speech in speeches}
    drafts: list[Draft] = []
    root: int | None = None
    for number, message in enumerate(live, 1):
        if message.role == "user" and number in spoken:
            root = None
        said = in_zone(message.created_at, given.zone).date()
        about_it = _Said(number, message, said, pieces.get(number, []), doings.get(number, []))
        for line in _lines(about_it, live, is_answer=root is not None):
            if line.is_root or root is None:
                root = len(drafts)
            drafts.append(_draft(line, message, given, None if root == len(drafts) else root))
    if not drafts:
        return Parsed(nothing=True, hints=hints_of(speeches, live, given.hints))
    return Parsed(observations=tuple(drafts), hints=hints_of(speeches, live, given.hints))


def _speech(number: int, message: Message) -> Speech | None:
    if message.own or message.role not in {"user", "assistant"}:
        return None
    text = message.text
    if not text.strip():
        return None
    text = _clean(text if len(text) <= _MOST_TEXT else cut(text, _MOST_TEXT))
    acts = any(isinstance(part, ToolCallPart) for part in message.parts)
    return Speech(number, message.role == "user", text, acts)


def _clean(text: str) -> str:
    """Return the text without what is no text and without secrets."""
    # Almost every message is plain, and seeing that costs a hundredth of looking for each thing that is not.
    is_plain = text.replace("\n", "").replace("\t", "").isprintable()
    return REDACTION.redact(text if is_plain else clean(text))


def _draft(line: _Line, message: Message, given: ObserveInput, parent: int | None) -> Draft:
    return Draft(
        priority=line.priority,
        text=one_line(line.text, _LONGEST),
        said_at=in_zone(message.created_at, given.zone),
        about=line.about,
        parent=parent,
        cites=line.cites,
        category=line.category,
        files=line.files,
    )


def _lines(said: _Said, live: Sequence[Message], *, is_answer: bool) -> Iterator[_Line]:
    """Yield the lines of one message."""
    if said.message.role == "user":
        yield from _user_lines(said, live)
    elif said.message.role == "system":
        text = one_line(_clean(said.message.text[:_MOST_TEXT]), _SYSTEM)
        if text and not said.message.own:
            yield _Line("low", f"System: {text}", (said.number,), is_root=True)
    elif said.pieces:
        mark = f"{_who(said.message, '->' if is_answer else 'Assistant:')} "
        line = dated(_joined(said.pieces), said.day)
        yield _Line("medium", mark + line.text, (said.number,), "finding", about=line.about)
    yield from _attached(said)
    for doing in said.doings:
        yield _Line(doing.priority, doing.text, doing.cites, doing.category, doing.files)


def _user_lines(said: _Said, live: Sequence[Message]) -> Iterator[_Line]:
    """Yield what a user stated, then what they asked: a question asserts nothing."""
    cites = (said.number,)
    stated = [piece for piece in said.pieces if not piece.asks]
    asked = [piece for piece in said.pieces if piece.asks]
    done = _confirmed(said, live)
    if done:
        yield done
    if stated:
        text = _joined(stated)
        line = dated(text, said.day)
        mark = _who(said.message, "User:")
        # A client wraps its own notices in tags and sends them as the user's: they state nothing.
        priority: Priority = "low" if _WRAPPED.match(said.message.text) else "high"
        yield _Line(priority, f"{mark} {line.text}", cites, category_of(text), is_root=True, about=line.about)
    if asked:
        line = dated(_joined(asked), said.day)
        mark = "asked:" if stated else _who(said.message, "User asked:")
        category = "question" if line.text.endswith(("?", "？", "؟")) else "request"
        yield _Line("medium", f"{mark} {line.text}", cites, category, is_root=not stated, about=line.about)


def _confirmed(said: _Said, live: Sequence[Message]) -> _Line | None:
    """Return a finished piece of work, if the user says in so many words that it works."""
    text = said.message.text
    before = said.number - 1
    if len(text) > _CONFIRMATION or not before or live[before - 1].role not in {"assistant", "tool"}:
        return None
    if not confirms(text):
        return None
    what = next((m.text for m in reversed(live[:before]) if m.role == "assistant" and m.text.strip()), "")
    work = one_line(_clean(what[:_MOST_TEXT]), _WHAT)
    words = one_line(_clean(text), _CONFIRMATION)
    return _Line(
        "done", f"User confirmed: {words}" + (f" (after: {work})" if work else ""), (before, said.number), is_root=True
    )


def _attached(said: _Said) -> Iterator[_Line]:
    files = [part for part in said.message.parts if isinstance(part, FilePart)]
    if not files or said.message.own:
        return
    names = [REDACTION.redact(one_line(f"{part.name or 'file'} ({part.media_type})", _WHAT)) for part in files]
    who = "User" if said.message.role == "user" else "Assistant"
    yield _Line(
        "medium",
        f"{who} attached {', '.join(dict.fromkeys(names))}",
        (said.number,),
        files=tuple(REDACTION.redact(one_line(part.name, _WHAT)) for part in files if part.name and part.name.strip()),
    )


def _who(message: Message, mark: str) -> str:
    """Return who speaks: several users or agents of a thread are told apart by name."""
    name = one_line(REDACTION.redact(message.speaker), _NAME) if message.speaker else ""
    if not name:
        return mark
    return (
        f"-> {name}:"
        if mark == "->"
        else mark.replace("User", f"User {name}").replace("Assistant", f"Assistant {name}")
    )


def _joined(pieces: Iterable[Piece]) -> str:
    text = ""
    last: Piece | None = None
    for piece in pieces:
        follows = last is not None and piece.joins and piece.order == last.order + 1
        text += (", " if follows else "; " if text else "") + piece.text
        last = piece
    return text
