"""The embedded observer: turn messages into dated observations that cite the messages.

Lines about answers and tool calls are nested under the line of the user that they follow. `utterances` selects the sentences, and
`tool_calls` writes the lines about tools. The current task is the last open request of the user. The title comes from the first
user sentence with a clear subject.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from typing import Final

from memolog.core.deadline import at_once
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
    announced_subject,
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
from memolog.observer.extractive.tool_calls import Line, error_of, files_in, making_tool_lines
from memolog.observer.extractive.utterances import Kept, Utterance, keeping
from memolog.observer.prompt import ObserveInput
from memolog.observer.transcript import in_zone
from memolog.text.cut import cut
from memolog.text.escape import clean, short_line, unescape
from memolog.text.lookalikes import quoted_label
from memolog.text.redaction import REDACTION, messages_without_secrets
from memolog.text.word_lists import QUESTION_MARKS

_WRAPPED: Final = re.compile(r"\s*<([\w-]{1,60})>.{0,20000}</[\w-]{1,60}>\s*\Z", re.DOTALL)
# Maximum numbers of characters.
_MAX_TEXT: Final = 400_000  # of a message; the rest is not read
_LONGEST: Final = 9_000  # of an observation, and of a message that later messages refer to
_MAX_LINE: Final = 460  # of an observation with several sentences
_MAX_SYSTEM: Final = 160
_MAX_CONFIRMATION: Final = 240
_SNIPPET: Final = 160  # of a file name, and of the finished work in a confirmation
_MAX_NAME: Final = 60  # of the name of a speaker, and of a description such as "the blue one"
_SHORT: Final = 110  # of a statement that refers to the message before it, and of a detail of a chosen item
_MAX_TOPIC: Final = 42
_MAX_ABOUT: Final = 130
_BULLET: Final = 16  # the approximate number of other characters in a line about a tool: its bullet and citations
_NEVER: Final = -1_000  # the number of a message that does not exist
_FEW_WORDS: Final = 4  # a statement of at most this many words may be the answer to a question
_FEW_ITEMS: Final = 2  # at most this many chosen items have their details


@dataclass(frozen=True, slots=True)
class _Source:
    """A message with the sentences that are kept of it. `number` is the number by which it is cited."""

    number: int
    message: Message
    day: date
    kept: Kept

    @property
    def role(self) -> str:
        return "User" if self.message.role == "user" else "Assistant"

    @property
    def speaker(self) -> str:
        """The role, with the name of the speaker if the message has one."""
        return f"{self.role} {quoted_label(REDACTION.redact(self.message.speaker or ''), _MAX_NAME)}".rstrip()

    def line(self, text: str, category: str, lead: str = "", more: str = "", also: tuple[int, ...] = ()) -> Line:
        """Return a line about this message with its relative dates resolved. The line also cites the messages `also`."""
        found, about = dated(text, self.day)
        return Line("medium", f"{lead}{found}{more}", (*also, self.number), category, files_in(text), about=about)


@dataclass(slots=True)
class _Conversation:
    """The part of the conversation to which later messages may refer. Messages before the span have numbers below 1."""

    previous: str
    asked: tuple[int, str] = (_NEVER, "")
    """The number of the last message of a user, and its request, question or wish, or else its first sentence."""
    is_asked: bool = False
    """Whether the text in `asked` is a request, a question or a wish."""
    answer: tuple[int, str] = (_NEVER, "")
    """The number and the text of the last message of the assistant."""
    answers: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def listings(self) -> list[Listing]:
        """Return the lists of the last answer with lists. If no message was recorded yet, return the last lists in the log."""
        found = (_listings(pieces_of(text), "", number) for number, text in reversed(self.answers))
        listings = next(filter(None, found), None)
        if listings is None and (self.answers or self.asked[0] > _NEVER):
            # The lists of the log are older than these messages, or belong to another thread.
            return []
        return listings or listings_in(unescape(self.previous))

    def answered(self) -> tuple[int, list[str]]:
        """Return the number of the last answer, and its sentences. If the user has spoken since, there are no sentences."""
        number, text = self.answer
        return number, _sentences_of(text[-_LONGEST:]) if number > self.asked[0] else []


def observe(given: ObserveInput) -> Parsed:
    """Return the observations of a span. They cite the live messages by number, from 1.

    The function is deterministic, calls no model and never raises.
    """
    return at_once(observing(given))


def observing(given: ObserveInput) -> Generator[None, None, Parsed]:
    """Return what `observe` returns, and yield after each message or sentence."""
    live = [message for message in given.messages if message.state == "live"]
    utterances: dict[int, Utterance] = {}
    for number, message in enumerate(live, 1):
        if utterance := _utterance(number, message):
            utterances[number] = utterance
            yield
    tool_lines = yield from making_tool_lines(live)
    kept = yield from keeping(list(utterances.values()), given.previous, given.mode, _room(live, tool_lines))
    talk = yield from _conversation_before(given)
    drafts: list[Draft] = []
    root: int | None = None
    for number, message in enumerate(live, 1):
        utterance = utterances.get(number)
        if message.role == "user" and utterance:
            root = None
        day = in_zone(message.created_at, given.zone).date()
        source = _Source(number, message, day, kept.get(number, Kept()))
        for line in chain(_lines(source, utterance, talk), tool_lines.get(number, ())):
            if line.is_root or root is None:
                root = len(drafts)
            drafts.append(
                Draft(
                    priority=line.priority,
                    text=short_line(line.text, _LONGEST),
                    said_at=in_zone(message.created_at, given.zone),
                    about=line.about,
                    parent=None if root == len(drafts) else root,
                    cites=line.cites,
                    category=line.category,
                    files=line.files,
                )
            )
            yield
        if utterance:
            _record(talk, utterance)
            yield
    hints = yield from _hints_of(list(utterances.values()), live, given.hints)
    return Parsed(observations=tuple(drafts), hints=hints, nothing=not drafts)


def _conversation_before(given: ObserveInput) -> Generator[None, None, _Conversation]:
    talk = _Conversation(given.previous)
    if given.before and any(message.seq == given.before[-1].seq + 1 for message in given.messages):
        before = messages_without_secrets(given.before, given.redactor)
        for number, message in enumerate(before, 1 - len(before)):
            if message.state == "live" and (utterance := _utterance(number, message)):
                _record(talk, utterance)
                yield
    return talk


def _room(live: Sequence[Message], tool_lines: Mapping[int, Sequence[Line]]) -> float:
    """Return half the number of characters of tool calls and results, minus the characters of their lines. It may be negative."""
    parts = [part for message in live for part in message.parts]
    returned = sum(
        len(part.content) for part in parts if isinstance(part, ToolResultPart) and isinstance(part.content, str)
    )
    called = sum(len(str(part.arguments)) for part in parts if isinstance(part, ToolCallPart))
    return (returned + called) / 2 - sum(
        len(tool_line.text) + _BULLET for found in tool_lines.values() for tool_line in found
    )


def _utterance(number: int, message: Message) -> Utterance | None:
    if message.own or message.role not in {"user", "assistant"}:
        return None
    text = message.text
    if not text.strip():
        return None
    text = _clean(text if len(text) <= _MAX_TEXT else cut(text, _MAX_TEXT))
    acts = any(isinstance(part, ToolCallPart) for part in message.parts)
    return Utterance(number, message.role == "user", text, acts)


def _clean(text: str) -> str:
    # Most messages are plain text, and this check takes a hundredth of the time of cleaning.
    is_plain = text.replace("\n", "").replace("\t", "").isprintable()
    return REDACTION.redact(text if is_plain else clean(text))


def _record(talk: _Conversation, utterance: Utterance) -> None:
    """Record the last request of the user or the last answer of the assistant, because later messages may refer to it."""
    if utterance.is_user:
        asked = [sentence for sentence in _sentences_of(utterance.text[-_LONGEST:]) if is_ask(sentence)]
        said = _sentences_of(utterance.text[:_LONGEST])
        if answer_of(utterance.text):
            # The message is only "yes" or "no", so the request is the question that it answers.
            wanted = _question(talk.answer[1]) or talk.asked[1]
            asked = [wanted] if wanted else []
        wish = next(filter(WISHES.match, said), "")
        talk.asked = (utterance.number, asked[-1] if asked else wish or next(iter(said), ""))
        talk.is_asked = bool(asked or wish)
    else:
        talk.answer = (utterance.number, utterance.text)
        talk.answers.append(talk.answer)


def _sentences_of(text: str) -> list[str]:
    return [piece.text for piece in pieces_of(text, whole=True) if piece.kind == "sentence"]


def _lines(source: _Source, utterance: Utterance | None, talk: _Conversation) -> Iterator[Line]:
    if source.message.role == "user":
        if utterance:
            yield from _user_lines(source, utterance, talk)
    elif source.message.role == "system":
        text = short_line(_clean(source.message.text[:_MAX_TEXT]), _MAX_SYSTEM)
        if text and not source.message.own:
            yield Line("low", f"System: {text}", (source.number,), is_root=True)
    elif source.kept.pieces:
        yield from _answer_lines(source, talk)
    yield from _attached(source)


# ---------------------------------------------------------------- users


def _user_lines(source: _Source, utterance: Utterance, talk: _Conversation) -> Iterator[Line]:
    """Yield the lines about a message of a user: confirmations, statements, reported errors and questions, in this order."""
    agreed = _agreed(source, utterance, talk)
    if agreed:
        yield agreed
        return
    done, statements = _confirmed(source, utterance, talk)
    if done:
        yield done
    # Some clients send their own notices as user messages inside tags. These are not statements of the user.
    priority: Priority = "low" if _WRAPPED.match(source.message.text) else "high"
    error = error_of(utterance.text)
    if error and statements and statements[-1].endswith(":"):
        # A statement such as "The login test fails:" is joined with the error beneath it.
        statements, error = [*statements[:-1], f"{statements[-1]} {error.text}"], None
    for place, text in enumerate(_filled(statements)):
        more, also = _referents(text, source, talk, is_first=not place)
        line = source.line(text, category_of(text), f"{source.speaker}: ", more, also)
        yield replace(line, priority=priority, is_root=not place)
    if error:
        text = f"{source.speaker} reported {error.text}"
        yield Line("medium", text, (source.number,), "error", error.files, is_root=not statements)
    for place, text in enumerate(_filled(source.kept.asks)):
        line = source.line(text, "request", f"{source.speaker} asked: ")
        category = "question" if line.text.endswith(QUESTION_MARKS) else "request"
        yield replace(line, category=category, is_root=not (statements or place))


def _filled(texts: Iterable[str]) -> Iterator[str]:
    """Join sentences into lines of limited length."""
    line = ""
    for text in texts:
        joint = "" if not line else " " if line[-1] in '.!?…:。！？؟)"”' else "; "
        if line and len(line) + len(text) > _MAX_LINE:
            yield line
            line, joint = "", ""
        line += joint + text
    if line:
        yield line


def _agreed(source: _Source, utterance: Utterance, talk: _Conversation) -> Line | None:
    """Return a line with the proposal to which the user said only yes or no. Return None for any other message."""
    answer = answer_of(utterance.text)
    if answer is None:
        return None
    number, sentences = talk.answered()
    proposal = proposal_in(sentences)
    if not proposal and answer == "yes" and agrees(utterance.text):
        # "Do it like that" accepts the last sentence of the answer, even if this sentence is not worded as a proposal.
        proposal = next((one for one in reversed(sentences) if not is_filler(one)), "")
    if not proposal:
        return None
    text, about = dated(short_line(proposal.rstrip(":"), _MAX_CONFIRMATION), source.day)
    text = f"{source.speaker} said {answer} to: {text}"
    return Line("high", text, _cited(number, source.number), "decision", is_root=True, about=about)


def _cited(*numbers: int) -> tuple[int, ...]:
    """Return the numbers of messages in the span, each once. A line cites no other messages."""
    return tuple(dict.fromkeys(number for number in numbers if number > 0))


def _question(answer: str) -> str:
    last = next(reversed(_sentences_of(answer[-_LONGEST:])), "")
    return last if last.endswith(QUESTION_MARKS) else ""


def _confirmed(source: _Source, utterance: Utterance, talk: _Conversation) -> tuple[Line | None, list[str]]:
    """Return a line about finished work, and the other statements. The line is None if the user does not confirm any work."""
    text, statements = utterance.text, source.kept.statements
    number, words = talk.answer
    if len(text) > _MAX_CONFIRMATION or not confirms(text):
        return None, statements
    confirming = [sentence for sentence in _sentences_of(text) if confirms(sentence)]
    line = f"{source.speaker} confirmed: {' '.join(confirming)}"
    others = [one for one in statements if not any(one.casefold() in sentence.casefold() for sentence in confirming)]
    cites: tuple[int, ...] = (source.number,)
    if number > talk.asked[0]:
        line, cites = f"{line} (This is about: {_beginning(words)})", _cited(number, source.number)
    elif all(map(dangles, confirming)):
        # There is no line, because the message does not mention the work that is confirmed.
        return None, others
    return Line("done", line, cites, files=files_in(line), is_root=True), others


def _beginning(text: str) -> str:
    found = ""
    for piece in pieces_of(text[:_LONGEST]):
        if piece.kind == "sentence" and len(found) + len(piece.text) <= _SNIPPET:
            found = f"{found} {piece.text}".strip()
        elif found:
            break
    return found or short_line(text, _SNIPPET)


def _referents(text: str, source: _Source, talk: _Conversation, *, is_first: bool) -> tuple[str, tuple[int, ...]]:
    """Return a text to append to a line, and the messages that it comes from.

    The text contains the listed items, the question or the proposal to which the user refers. It may be empty.
    """
    chosen = _chosen(text, talk)
    if chosen:
        return f" ({'; '.join(words for _, words in chosen)})", _cited(*(number for number, _ in chosen))
    if not is_first or len(text) > _SHORT:
        return "", ()
    first = next((one for one in _sentences_of(source.message.text[:_LONGEST]) if not is_filler(one)), "")
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
    return f" (This is about: {short_line(about.rstrip(':'), _MAX_ABOUT)})", _cited(number)


def _first_sentence(text: str) -> str:
    return next(iter(_sentences_of(text)), text)


def _chosen(text: str, talk: _Conversation) -> list[tuple[int, str]]:
    """Return a text for each item of the assistant's last lists that a user chooses by number or description.

    Each text comes with the number of the message that contains the list. If a description fits several items, one text contains
    all of them.
    """
    if not any(character.isdecimal() for character in text) and not _MAY_CHOOSE.search(text):
        return []
    listings = talk.listings()
    is_last = not talk.answers or (
        talk.answer[0] > talk.asked[0] and all(one.number == talk.answer[0] for one in listings)
    )
    found = numbered(text, listings, _question(talk.answer[1]), is_last=is_last)
    if found:
        limit = _SHORT if len(found) <= _FEW_ITEMS else 0
        return [(listing.number, f"number {entry.number} is {_item(entry, limit)}") for entry, listing in found]
    items = described(text, listings) if is_last and _is_description(text) else []
    if len(items) == 1:
        return [(items[0][1].number, f"this is {_item(items[0][0], _SHORT)}")]
    heads = ", ".join(entry.text for entry, _ in items)
    return [(items[0][1].number, f"one of: {short_line(heads, _MAX_CONFIRMATION)}")] if items else []


def _is_description(text: str) -> bool:
    """Return whether a short text describes one of several things, as "the blue one" does."""
    return len(text) <= _MAX_NAME and bool(DESCRIBES.search(_first_sentence(text)))


_MAY_CHOOSE: Final = re.compile(
    r"\b(?:ones?|the|l[ae]|el|il|die|der|das|den|de|het|[ao]|celle|celui|quell[oa])\b|[番目号个個]", re.IGNORECASE
)


def _item(entry: Entry, limit: int) -> str:
    """Return the text of an item, with its first detail if the detail has at most `limit` characters."""
    more = entry.details[0] if entry.details and len(entry.details[0]) <= limit else ""
    if more.startswith(entry.text):
        return more.rstrip(". ")
    return f"{entry.text} – {more}".rstrip("– .")


# ---------------------------------------------------------------- assistants


def _answer_lines(source: _Source, talk: _Conversation) -> Iterator[Line]:
    for text in _filled(piece.text for piece in source.kept.pieces if piece.list < 0):
        yield source.line(text, "finding", f"{source.speaker}: ")
    number, asked = talk.asked
    topic = _subject(asked)
    listings = _listings(source.kept.pieces, topic, source.number, is_asked=talk.is_asked)
    if not listings:
        return
    also = _cited(number) if topic and any(topic in listing.topic for listing in listings) else ()
    for text in listing_lines(source.speaker, listings):
        yield source.line(text, "finding", also=also)


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
    return text if len(text) <= _MAX_TOPIC else cut_at_clause(text, _MAX_TOPIC)


def _listings(pieces: Sequence[Piece], question: str, number: int, *, is_asked: bool = False) -> list[Listing]:
    """Return the lists in the pieces of a message. With `is_asked`, a first list without a telling topic gets `question`."""
    by_list: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.list >= 0:
            by_list.setdefault(piece.list, []).append(piece)
    listings: list[Listing] = []
    for found in by_list.values():
        topic = found[0].topic
        if not is_telling(topic) and question and not listings and is_asked:
            topic = question
        listings.append(Listing(topic, tuple(_entries(found)), number))
    return listings


def _entries(pieces: Sequence[Piece]) -> Iterator[Entry]:
    """Yield the items of a list. The details of an item include the nested items."""
    below: dict[int, list[str]] = {}
    for piece in pieces:
        if piece.number is None:
            details = below.setdefault(piece.item, [])
            if piece.kind == "head" and details and details[-1][-1] not in ".!?":
                details[-1] = f"{details[-1].rstrip(':')}{':' if details[-1][-1] == ':' else ','} {piece.text}"
            else:
                details.append(piece.text)
    for piece in pieces:
        if piece.number is not None:
            yield Entry(piece.number, piece.text, tuple(below.get(piece.item, ())))


# ---------------------------------------------------------------- files


def _attached(source: _Source) -> Iterator[Line]:
    files = [part for part in source.message.parts if isinstance(part, FilePart)]
    if not files or source.message.own:
        return
    labels = (
        f"{quoted_label(part.name or '', _SNIPPET, is_tool=True) or 'a file'} ({quoted_label(part.media_type, is_tool=True)})"
        for part in files
    )
    text = f"{source.role} attached {', '.join(dict.fromkeys(map(REDACTION.redact, labels)))}"
    names = (REDACTION.redact(short_line(part.name or "", _SNIPPET)) for part in files)
    yield Line("medium", text, (source.number,), files=tuple(filter(None, names)))


# ---------------------------------------------------------------- current task and title

_MAX_TASK: Final = 300  # characters
_MAX_TITLE: Final = 48  # characters
# A title needs at least `_MIN_TITLE_WORDS` content words or `_MIN_TITLE` characters, unless the user announced the subject.
_MIN_TITLE_WORDS: Final = 2
_MIN_TITLE: Final = 12
_SCANNED: Final = 20_000  # characters of a message that are read


def _hints_of(
    utterances: Sequence[Utterance], messages: Sequence[Message], known: Hints
) -> Generator[None, None, HintsDraft]:
    user = [utterance for utterance in utterances if utterance.is_user]
    asked, task = None, known.current_task
    for utterance in reversed(user):
        request = _request(utterance)
        yield
        if request:
            asked, task = utterance, short_line(request, _MAX_TASK)
            break
    since = [utterance for utterance in utterances if asked is None or utterance.number > asked.number]
    title = None if known.title else _title(user)
    yield
    if task and _is_over(task, since, is_old=asked is None):
        return HintsDraft(current_task="", title=title)
    if asked is None:
        return HintsDraft(title=title)
    return HintsDraft(current_task=task, at=messages[asked.number - 1].created_at, title=title)


def _is_over(task: str, since: Sequence[Utterance], *, is_old: bool) -> bool:
    """Return whether a task is complete after these utterances, which follow the task.

    A question is complete when it is answered. A request is complete when the user confirms or thanks after an answer. A task of
    an earlier span (`is_old`) counts as answered, because the answer may be in that span.
    """
    asked = next((unit.text for unit in reversed(pieces_of(task, whole=True)) if is_ask(unit.text)), None)
    is_answered = is_old
    for utterance in since:
        if not utterance.is_user and not utterance.has_call:
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
            announced = announced_subject(sentence)
            text = announced or subject_of(sentence)
            if (
                announced is None
                and sum(word.lower() not in STOP for word in words_of(text)) < _MIN_TITLE_WORDS
                and len(text) < _MIN_TITLE
            ):
                continue
            short = text if len(text) <= _MAX_TITLE else cut_at_clause(text, _MAX_TITLE)
            words = short.split(" ")
            while len(words) > 1 and words[-1].lower().strip(",") in STOP:
                words.pop()
            title = short_line(" ".join(words).strip(" ,;:"), _MAX_TITLE + 1)
            return title[:1].upper() + title[1:]
    return None
