"""The embedded observer: turn messages into dated lines that cite them.

A user's words come first, answers and tool calls beneath them. `utterances` selects the sentences, `tool_calls` writes the
lines about tools. The hints are the last open request and the first subject.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

from memolog.core.message import FilePart, Message, ToolCallPart, ToolResultPart
from memolog.core.observation import Priority
from memolog.core.thread import Hints
from memolog.observer.drafts import Draft, HintsDraft, Parsed
from memolog.observer.extractive.relative_dates import dated
from memolog.observer.extractive.sentences import (
    STOP,
    Entry,
    Listing,
    Piece,
    cut_at_clause,
    is_telling,
    listing_lines,
    listings_in,
    pieces_of,
    words_of,
)
from memolog.observer.extractive.statements import (
    DESCRIBES,
    REQUEST,
    WISHES,
    agrees,
    answer_of,
    asks_something,
    category_of,
    confirms,
    dangles,
    described,
    is_ask,
    is_filler,
    numbered,
    proposal_in,
    subject_of,
    without_request,
)
from memolog.observer.extractive.tool_calls import ToolLine, error_of, files_in, tool_lines_of
from memolog.observer.extractive.utterances import Kept, Utterance, kept_of
from memolog.observer.prompt import ObserveInput
from memolog.observer.transcript import in_zone
from memolog.text.cutting import cut
from memolog.text.escape import clean, short_line, unescape
from memolog.text.lookalikes import quoted_label
from memolog.text.redaction import REDACTION
from memolog.text.tokens import TokenCounter
from memolog.text.word_lists import QUESTION_MARKS

_WRAPPED: Final = re.compile(r"\s*<([\w-]{1,60})>.{0,20000}</[\w-]{1,60}>\s*\Z", re.DOTALL)
_MOST_TEXT: Final = 400_000
_LONGEST: Final = 9_000
_BULLET: Final = 16
_LONGEST_LINE: Final = 460
"""The most characters of a line of several sentences."""
_LONGEST_SYSTEM: Final = 160
_CONFIRMATION: Final = 240
_WHAT: Final = 160
_LONGEST_NAME: Final = 60
_SHORT: Final = 110
_LONGEST_TOPIC: Final = 42
_LONGEST_ABOUT: Final = 130
_NEVER: Final = -1_000
_FEW_WORDS: Final = 4
_FEW_ITEMS: Final = 2


@dataclass(frozen=True, slots=True)
class _Line:
    """A line before its parent is known."""

    priority: Priority
    text: str
    cites: tuple[int, ...]
    category: str | None = None
    files: tuple[str, ...] = ()
    is_root: bool = False
    about: date | None = None


@dataclass(frozen=True, slots=True)
class _KeptMessage:
    number: int
    message: Message
    day: date
    kept: Kept

    def who(self, mark: str) -> str:
        """Return the opening of a line, with the name of the speaker if there is one."""
        speaker = self.message.speaker
        name = quoted_label(REDACTION.redact(speaker), _LONGEST_NAME) if speaker else ""
        return mark.replace("User", f"User {name}").replace("Assistant", f"Assistant {name}") if name else mark

    def line(self, text: str, category: str, lead: str = "", more: str = "", also: tuple[int, ...] = ()) -> _Line:
        """Return a line about this message with its days written out; `also` are other messages that it cites."""
        found = dated(text, self.day)
        cites = (*also, self.number)
        return _Line("medium", f"{lead}{found.text}{more}", cites, category, files_in(text), about=found.about)


@dataclass(slots=True)
class _Conversation:
    """The part of the conversation that later words may refer to."""

    previous: str
    asked: tuple[int, str] = (_NEVER, "")
    """The last request or question of a user: the message and its words. Those before the span have numbers below 1."""
    is_asked: bool = False
    """Whether it asks for something or states a wish; else it is the first sentence of the message."""
    answer: tuple[int, str] = (_NEVER, "")
    """The last words of the assistant."""
    answers: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def listings(self) -> list[Listing]:
        """Return the lists of the last answer that has any, or of the log."""
        found = (_listings(pieces_of(text), "", number) for number, text in reversed(self.answers))
        listings = next(filter(None, found), None)
        if listings is None and (self.answers or self.asked[0] > _NEVER):
            # The end of the log is older than these messages, or of another thread.
            return []
        return listings or listings_in(unescape(self.previous))

    def answered(self) -> tuple[int, list[str]]:
        """Return the last answer since the user spoke, as sentences, and its number."""
        number, text = self.answer
        return number, _sentences_of(text[-_LONGEST:]) if number > self.asked[0] else []


def observe(given: ObserveInput, counter: TokenCounter) -> Parsed:
    """Return the observations of a span. Live messages are cited by number, from 1.

    Deterministic; calls no model and never raises.
    """
    del counter  # The size follows from the messages; only the reflector has a budget in tokens.
    live = [message for message in given.messages if message.state == "live"]
    utterances = {
        number: utterance for number, message in enumerate(live, 1) if (utterance := _utterance(number, message))
    }
    tool_lines = tool_lines_of(live)
    kept = kept_of(list(utterances.values()), given.previous, given.mode, _room(live, tool_lines))
    talk = _conversation_before(given)
    drafts: list[Draft] = []
    root: int | None = None
    for number, message in enumerate(live, 1):
        utterance = utterances.get(number)
        if message.role == "user" and utterance:
            root = None
        day = in_zone(message.created_at, given.zone).date()
        said = _KeptMessage(number, message, day, kept.get(number, Kept()))
        tools = (
            _Line(one.priority, one.text, one.cites, one.category, one.files) for one in tool_lines.get(number, ())
        )
        for line in (*_lines(said, utterance, talk), *tools):
            if line.is_root or root is None:
                root = len(drafts)
            drafts.append(_draft(line, message, given, None if root == len(drafts) else root))
        if utterance:
            _record(talk, utterance)
    hints = _hints_of(list(utterances.values()), live, given.hints)
    return Parsed(observations=tuple(drafts), hints=hints, nothing=not drafts)


def _conversation_before(given: ObserveInput) -> _Conversation:
    talk = _Conversation(given.previous)
    if given.before and any(message.seq == given.before[-1].seq + 1 for message in given.messages):
        for number, message in enumerate(given.before, 1 - len(given.before)):
            if message.state == "live" and (utterance := _utterance(number, message)):
                _record(talk, utterance)
    return talk


def _room(live: Sequence[Message], tool_lines: Mapping[int, Sequence[ToolLine]]) -> float:
    """Return half the characters of tool calls and results, less those of their lines; may be negative."""
    parts = [part for message in live for part in message.parts]
    told = sum(
        len(part.content) for part in parts if isinstance(part, ToolResultPart) and isinstance(part.content, str)
    )
    called = sum(len(str(part.arguments)) for part in parts if isinstance(part, ToolCallPart))
    return (told + called) / 2 - sum(
        len(tool_line.text) + _BULLET for found in tool_lines.values() for tool_line in found
    )


def _utterance(number: int, message: Message) -> Utterance | None:
    if message.own or message.role not in {"user", "assistant"}:
        return None
    text = message.text
    if not text.strip():
        return None
    text = _clean(text if len(text) <= _MOST_TEXT else cut(text, _MOST_TEXT))
    acts = any(isinstance(part, ToolCallPart) for part in message.parts)
    return Utterance(number, message.role == "user", text, acts)


def _clean(text: str) -> str:
    # Most messages are plain text, and this check costs a hundredth of cleaning.
    is_plain = text.replace("\n", "").replace("\t", "").isprintable()
    return REDACTION.redact(text if is_plain else clean(text))


def _draft(line: _Line, message: Message, given: ObserveInput, parent: int | None) -> Draft:
    return Draft(
        priority=line.priority,
        text=short_line(line.text, _LONGEST),
        said_at=in_zone(message.created_at, given.zone),
        about=line.about,
        parent=parent,
        cites=line.cites,
        category=line.category,
        files=line.files,
    )


def _record(talk: _Conversation, utterance: Utterance) -> None:
    """Record what later messages may refer to: the last request, the last answer, its lists."""
    if utterance.is_user:
        asked = [sentence for sentence in _sentences_of(utterance.text[-_LONGEST:]) if is_ask(sentence)]
        first = next(iter(_sentences_of(utterance.text[:_LONGEST])), "")
        if answer_of(utterance.text):
            # The work that was agreed to is the current request.
            wanted = _question(talk.answer[1]) or talk.asked[1]
            asked = [wanted] if wanted else []
        wish = next((sentence for sentence in _sentences_of(utterance.text[:_LONGEST]) if WISHES.match(sentence)), "")
        talk.asked = (utterance.number, asked[-1] if asked else wish or first)
        talk.is_asked = bool(asked or wish)
    else:
        talk.answer = (utterance.number, utterance.text)
        talk.answers.append(talk.answer)


def _sentences_of(text: str) -> list[str]:
    return [piece.text for piece in pieces_of(text, whole=True) if piece.kind == "sentence"]


def _lines(said: _KeptMessage, utterance: Utterance | None, talk: _Conversation) -> Iterator[_Line]:
    if said.message.role == "user":
        if utterance:
            yield from _user_lines(said, utterance, talk)
    elif said.message.role == "system":
        text = short_line(_clean(said.message.text[:_MOST_TEXT]), _LONGEST_SYSTEM)
        if text and not said.message.own:
            yield _Line("low", f"System: {text}", (said.number,), is_root=True)
    elif said.kept.pieces:
        yield from _answer_lines(said, talk)
    yield from _attached(said)


# ---------------------------------------------------------------- users


def _user_lines(said: _KeptMessage, utterance: Utterance, talk: _Conversation) -> Iterator[_Line]:
    """Yield what a user confirmed, stated, reported and asked, in this order."""
    agreed = _agreed(said, utterance, talk)
    if agreed:
        yield agreed
        return
    done, statements = _confirmed(said, utterance, talk)
    if done:
        yield done
    # Clients send their own notices as user messages, wrapped in tags: they are no statements.
    priority: Priority = "low" if _WRAPPED.match(said.message.text) else "high"
    error = error_of(utterance.text)
    if error and statements and statements[-1].endswith(":"):
        # "The login test fails:" and the error beneath it are one statement.
        statements, error = [*statements[:-1], f"{statements[-1]} {error.text}"], None
    for place, text in enumerate(_filled(statements)):
        more, also = _referents(text, said, talk, is_first=not place)
        line = said.line(text, category_of(text), said.who("User: "), more, also)
        yield replace(line, priority=priority, is_root=not place)
    if error:
        who = said.who("User reported:").removesuffix(":")
        yield _Line("medium", f"{who} {error.text}", (said.number,), "error", error.files, is_root=not statements)
    for place, text in enumerate(_filled(said.kept.asks)):
        line = said.line(text, "request", said.who("User asked: "))
        category = "question" if line.text.endswith(QUESTION_MARKS) else "request"
        yield replace(line, category=category, is_root=not (statements or place))


def _filled(texts: Iterable[str]) -> Iterator[str]:
    """Yield the sentences as lines of bounded length."""
    line = ""
    for text in texts:
        joint = "" if not line else " " if line[-1] in '.!?…:。！？؟)"”' else "; "
        if line and len(line) + len(text) > _LONGEST_LINE:
            yield line
            line, joint = "", ""
        line += joint + text
    if line:
        yield line


def _agreed(said: _KeptMessage, utterance: Utterance, talk: _Conversation) -> _Line | None:
    """Return what a user agreed to or declined with a bare yes or no."""
    answer = answer_of(utterance.text)
    if answer is None:
        return None
    number, sentences = talk.answered()
    proposal = proposal_in(sentences)
    if not proposal and answer == "yes" and agrees(utterance.text):
        # "Do it like that" accepts the last sentence, even if it is not worded as a proposal.
        proposal = next((one for one in reversed(sentences) if not is_filler(one)), "")
    if not proposal:
        return None
    line = dated(short_line(proposal.rstrip(":"), _CONFIRMATION), said.day)
    who = said.who("User said:").removesuffix(":")
    cites = _cited(number, said.number)
    return _Line("high", f"{who} {answer} to: {line.text}", cites, "decision", is_root=True, about=line.about)


def _cited(*numbers: int) -> tuple[int, ...]:
    """Return the messages that a line may cite: those of the span, each once."""
    return tuple(dict.fromkeys(number for number in numbers if number > 0))


def _question(answer: str) -> str:
    last = next(reversed(_sentences_of(answer[-_LONGEST:])), "")
    return last if last.endswith(QUESTION_MARKS) else ""


def _confirmed(said: _KeptMessage, utterance: Utterance, talk: _Conversation) -> tuple[_Line | None, list[str]]:
    """Return the line of finished work if the user confirms that it works, and the other statements."""
    text, statements = utterance.text, said.kept.statements
    number, words = talk.answer
    if len(text) > _CONFIRMATION or not confirms(text):
        return None, statements
    confirming = [sentence for sentence in _sentences_of(text) if confirms(sentence)]
    line = f"{said.who('User confirmed:')} {' '.join(confirming)}"
    others = [one for one in statements if not any(one.casefold() in sentence.casefold() for sentence in confirming)]
    cites: tuple[int, ...] = (said.number,)
    if number > talk.asked[0]:
        line, cites = f"{line} (This is about: {_beginning(words)})", _cited(number, said.number)
    elif all(map(dangles, confirming)):
        # It does not say what works.
        return None, others
    return _Line("done", line, cites, files=files_in(line), is_root=True), others


def _beginning(text: str) -> str:
    """Return the first sentences of an answer that fit."""
    found = ""
    for piece in pieces_of(text[:_LONGEST]):
        if piece.kind == "sentence" and len(found) + len(piece.text) <= _WHAT:
            found = f"{found} {piece.text}".strip()
        elif found:
            break
    return found or short_line(text, _WHAT)


def _referents(text: str, said: _KeptMessage, talk: _Conversation, *, is_first: bool) -> tuple[str, tuple[int, ...]]:
    """Return what a user's words refer to, as text to append to their line, and the messages that contain it."""
    chosen = _chosen(text, talk)
    if chosen:
        return f" ({'; '.join(words for _, words in chosen)})", _cited(*(number for number, _ in chosen))
    if not is_first or len(text) > _SHORT:
        return "", ()
    first = next((one for one in _sentences_of(said.message.text[:_LONGEST]) if not is_filler(one)), "")
    if not first.casefold().endswith(_first_sentence(text).casefold()):
        return "", ()
    number, sentences = talk.answered()
    about = ""
    if agrees(text):
        about = proposal_in(sentences) or next(reversed(sentences), "")
    elif dangles(text) or _is_description(text) or len(words_of(text)) <= _FEW_WORDS:
        about = next(reversed(sentences), "")
        if not about.endswith(QUESTION_MARKS) and not _is_description(text):
            number, about = talk.asked if dangles(text) else (_NEVER, "")
    if not about or (not agrees(text) and not _is_description(text) and not asks_something(about)):
        return "", ()
    return f" (This is about: {short_line(about.rstrip(':'), _LONGEST_ABOUT)})", _cited(number)


def _first_sentence(text: str) -> str:
    return next(iter(_sentences_of(text)), text)


def _chosen(text: str, talk: _Conversation) -> list[tuple[int, str]]:
    """Return the items of the assistant's last lists that a user names by number or describes, with their messages."""
    if not any(character.isdecimal() for character in text) and not _MAY_CHOOSE.search(text):
        return []
    listings = talk.listings()
    is_last = not talk.answers or (
        talk.answer[0] > talk.asked[0] and all(one.number == talk.answer[0] for one in listings)
    )
    found = numbered(text, listings, _question(talk.answer[1]), is_last=is_last)
    if found:
        most = _SHORT if len(found) <= _FEW_ITEMS else 0
        return [(listing.number, f"number {entry.number} is {_item(entry, most)}") for entry, listing in found]
    items = described(text, listings) if is_last and _is_description(text) else []
    if len(items) == 1:
        return [(items[0][1].number, f"this is {_item(items[0][0], _SHORT)}")]
    heads = ", ".join(entry.text for entry, _ in items)
    return [(items[0][1].number, f"one of: {short_line(heads, _CONFIRMATION)}")] if items else []


def _is_description(text: str) -> bool:
    """Return whether a short text describes one of several things: "the blue one"."""
    return len(text) <= _LONGEST_NAME and bool(DESCRIBES.search(_first_sentence(text)))


_MAY_CHOOSE: Final = re.compile(
    r"\b(?:ones?|the|l[ae]|el|il|die|der|das|den|de|het|[ao]|celle|celui|quell[oa])\b|[番目号个個]", re.IGNORECASE
)


def _item(entry: Entry, most: int) -> str:
    """Return an item with its first detail, if that has at most so many characters."""
    more = entry.details[0] if entry.details and len(entry.details[0]) <= most else ""
    if more.startswith(entry.text):
        return more.rstrip(". ")
    return f"{entry.text} – {more}".rstrip("– .")


# ---------------------------------------------------------------- assistants


def _answer_lines(said: _KeptMessage, talk: _Conversation) -> Iterator[_Line]:
    who = said.who("Assistant:")
    for text in _filled(piece.text for piece in said.kept.pieces if piece.list < 0):
        yield said.line(text, "finding", f"{who} ")
    number, asked = talk.asked
    topic = _subject(asked)
    listings = _listings(said.kept.pieces, topic, said.number, is_asked=talk.is_asked)
    if not listings:
        return
    also = _cited(number) if topic and any(topic in listing.topic for listing in listings) else ()
    for text in listing_lines(who.removesuffix(":"), listings):
        yield said.line(text, "finding", also=also)


_ASKING: Final = re.compile(
    r"(?:(?:what|which|who|where|how|when|why)(?:['’]s| is| are| were| was| do| does| did| can| could| should| would| many"
    r"| much)?"
    r"(?: (?:i|you|we|they|the|some|a|an|any|other|there|be|of|your|my))* |(?:is|are) there (?:any |a |an |some )?|any |some "
    r"|(?:do you have |have you got )?(?:any |some )?(?:tips|advice|suggestions|recommendations|ideas)(?: on| for| about"
    r"| to)? (?:how to )?"
    r"|(?:more |a bit more )?(?:about|on) |was |wie |welche[rs]? |gibt es |qué |cuáles son |cómo |hay |quels? sont |comment "
    r"|y a-t-il )+",
    re.IGNORECASE,
)


def _subject(asked: str) -> str:
    text = without_request(asked).strip(" ?!.\"'")
    rest = text[hit.end() :] if (hit := _ASKING.match(text)) else text
    text = (rest if is_telling(rest) else text).replace(":", " –")
    return text if len(text) <= _LONGEST_TOPIC else cut_at_clause(text, _LONGEST_TOPIC)


def _listings(pieces: Sequence[Piece], question: str, number: int, *, is_asked: bool = False) -> list[Listing]:
    """Return the lists among some pieces; a list without a topic has the question as its topic."""
    by_list: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.list >= 0:
            by_list.setdefault(piece.list, []).append(piece)
    made: list[Listing] = []
    for found in by_list.values():
        topic = found[0].topic
        if not is_telling(topic) and question and not made and is_asked:
            topic = question
        made.append(Listing(topic, tuple(_entries(found)), number))
    return made


def _entries(pieces: Sequence[Piece]) -> Iterator[Entry]:
    """Yield the items, each with its details and the items beneath it."""
    below: dict[int, list[str]] = {}
    for piece in pieces:
        if piece.number is None:
            said = below.setdefault(piece.item, [])
            if piece.kind == "head" and said and said[-1][-1] not in ".!?":
                said[-1] = f"{said[-1].rstrip(':')}{':' if said[-1][-1] == ':' else ','} {piece.text}"
            else:
                said.append(piece.text)
    for piece in pieces:
        if piece.number is not None:
            yield Entry(piece.number, piece.text, tuple(below.get(piece.item, ())))


# ---------------------------------------------------------------- files


def _attached(said: _KeptMessage) -> Iterator[_Line]:
    files = [part for part in said.message.parts if isinstance(part, FilePart)]
    if not files or said.message.own:
        return
    names = [
        REDACTION.redact(
            f"{quoted_label(part.name or '', _WHAT, is_tool=True) or 'a file'} ({quoted_label(part.media_type, is_tool=True)})"
        )
        for part in files
    ]
    who = "User" if said.message.role == "user" else "Assistant"
    yield _Line(
        "medium",
        f"{who} attached {', '.join(dict.fromkeys(names))}",
        (said.number,),
        files=tuple(
            REDACTION.redact(short_line(part.name, _WHAT)) for part in files if part.name and part.name.strip()
        ),
    )


# ---------------------------------------------------------------- hints

_LONGEST_TASK: Final = 300
_LONGEST_TITLE: Final = 48
_LEAST_TITLE_WORDS: Final = 2
_SHORTEST_TITLE: Final = 12
_SCANNED: Final = 20_000


def _hints_of(utterances: Sequence[Utterance], messages: Sequence[Message], known: Hints) -> HintsDraft:
    user = [utterance for utterance in utterances if utterance.is_user]
    asked = next((utterance for utterance in reversed(user) if _request(utterance)), None)
    task = short_line(_request(asked) or "", _LONGEST_TASK) if asked else known.current_task
    since = [utterance for utterance in utterances if asked is None or utterance.number > asked.number]
    title = None if known.title else _title(user)
    if task and _is_over(task, since, is_old=asked is None):
        return HintsDraft(current_task="", title=title)
    if asked is None:
        return HintsDraft(title=title)
    return HintsDraft(current_task=task, task_at=messages[asked.number - 1].created_at, title=title)


def _is_over(task: str, since: Sequence[Utterance], *, is_old: bool) -> bool:
    """Return whether the task was answered, or confirmed by the user, in what was said since.

    A task of an earlier span may have been answered there.
    """
    asked = next((unit.text for unit in reversed(pieces_of(task, whole=True)) if is_ask(unit.text)), None)
    is_answered = is_old
    for utterance in since:
        if not utterance.is_user and not utterance.acts:
            is_answered = True
            if asked is not None and not REQUEST.match(asked):
                return True
        elif utterance.is_user and is_answered and (confirms(utterance.text) or is_filler(utterance.text)):
            return True
    return False


def _sentences_without_filler(utterance: Utterance) -> list[str]:
    return [unit.text for unit in pieces_of(utterance.text[:_SCANNED], whole=True) if not is_filler(unit.text)]


def _request(utterance: Utterance) -> str | None:
    asked = [sentence for sentence in _sentences_without_filler(utterance) if is_ask(sentence)]
    return " ".join(asked[-2:]) if asked else None


def _title(user: Sequence[Utterance]) -> str | None:
    for utterance in user:
        for sentence in _sentences_without_filler(utterance):
            text = subject_of(sentence)
            if (
                sum(word.lower() not in STOP for word in words_of(text)) < _LEAST_TITLE_WORDS
                and len(text) < _SHORTEST_TITLE
            ):
                continue
            short = text if len(text) <= _LONGEST_TITLE else cut_at_clause(text, _LONGEST_TITLE)
            words = short.split(" ")
            while len(words) > 1 and words[-1].lower().strip(",") in STOP:
                words.pop()
            title = short_line(" ".join(words).strip(" ,;:"), _LONGEST_TITLE + 1)
            return title[:1].upper() + title[1:]
    return None
