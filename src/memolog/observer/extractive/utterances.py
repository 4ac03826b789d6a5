"""Choose which sentences and list items of a span of messages are kept, within a size limit.

Statements of users are kept word by word. Of the assistant's answers, the first parts ("heads") of list items and the sentences
with names and numbers are preferred. A sentence that the log has already is not kept again. The exception is a sentence of a
user that is followed in the log by another statement of a user, which may have changed the matter.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final, NamedTuple

from memolog.core.setting_kinds import Mode
from memolog.observer.extractive.sentences import Candidate, Kind, Piece, choosing, pieces_of, weights_of
from memolog.observer.extractive.statements import (
    ABOUT_SELF,
    OPENING,
    Act,
    act_of,
    is_ask,
    is_empty,
    names_something,
    weighs,
    without_opening,
)
from memolog.text.escape import escape, unescape


@dataclass(frozen=True, slots=True)
class Utterance:
    """The text of one message."""

    number: int
    is_user: bool
    text: str
    has_call: bool = False
    """Whether the message also has a tool call, so that its text only announces the call."""


@dataclass(slots=True)
class Kept:
    """The sentences of a user, or the pieces of an answer, that are kept of one message."""

    said: dict[int, str] = field(default_factory=dict[int, str])
    """The statements of a user, by the index of the sentence in the message."""
    asks: list[str] = field(default_factory=list[str])
    pieces: list[Piece] = field(default_factory=list[Piece])

    @property
    def statements(self) -> list[str]:
        """Return the statements of a user, in the order of the message."""
        return [self.said[order] for order in sorted(self.said)]


class _Offer(NamedTuple):
    number: int
    order: int
    piece: Piece
    candidate: Candidate
    is_ask: bool = False


# The limit for a long conversation is its number of characters divided by `_RATIO`. For list heads and questions with a name,
# which are chosen first, the number is divided by `_HEADS_RATIO`.
_RATIO: Final = 6.6
_HEADS_RATIO: Final = 4.87
# The limit is at least the smaller of two numbers: `_FLOOR`, and half of the conversation plus the `room` of `keeping`.
# `_TINY`, `_TINY_TALK` and `_MOST_DONE` can raise the limit further.
_FLOOR: Final = 1_750
_HALF: Final = 0.5
# Numbers of characters.
_TINY: Final = 400  # the limit is at least this, or about twice the length of a shorter conversation
_SMALL: Final = 1_200  # statements of users are left out only if together they are longer than this
_TINY_TALK: Final = 1_000  # in a conversation of at most this length, the share `_TOLD` of the answers can be kept
_TOLD: Final = 0.25
_SHORT_MESSAGE: Final = 300  # all statements of a message of at most this length are kept
# A message of a user with more than `_USER_WHOLE` characters counts as pasted text. Its statements are kept up to a limit:
# `_USER_WHOLE` characters, plus the share `_USER_REST` of the further characters of the message.
_USER_WHOLE: Final = 1_200
_USER_REST: Final = 0.12
_SHORT_ANSWER: Final = 160  # an answer of at most this length is short already, so its sentences are preferred
_REPEATED: Final = 24  # a shorter text is kept even if the log has it
_LONGEST: Final = 480  # a longer sentence is cut
_LONGEST_WORD: Final = 200
# Approximate overhead in characters of each group of observations, of each line, and of each list, in addition to their text.
_FRAME: Final = 60
_LINE: Final = 24
_TOPIC: Final = 12
_MOST_LISTS: Final = 10_000  # the maximum number of lists in a message
_TRACE: Final = re.compile(r"\s*(?:Traceback \(|File \"|at \S+ ?\(|at \S+:\d|\^+\s*\Z|[~^]{3,})")
_ERROR: Final = re.compile(r"[\w.]{0,80}(?:Error|Exception): ")
_HEAD_BONUS: Final = 3.0  # added to the value of the head of a list item
# Factors by which the value of a piece is multiplied.
_FACTORS: Final[dict[Kind, float]] = {
    "sentence": 1.0,
    "head": 4.0,
    "detail": 0.8,
    "row": 1.5,
    "code": 1.0,
    "source": 0.05,
}
_SHORT_FACTOR: Final = 3.0  # for the pieces of a short answer
_OPENING_FACTOR: Final = 0.2  # for questions and opening phrases of an assistant, if they have a name
_ASK_FACTOR: Final = 2.5  # for questions and requests of users
_PASTED_FACTOR: Final = 0.6  # for statements in a pasted text
_MODE_FACTOR: Final = 3.0  # for pieces with a word of the mode (`_SOUGHT`)
_DONE_FACTOR: Final = 3.0  # for reports of finished work
_LATER_ITEM: Final = 0.15  # for the items of a list after the first `_FIRST_ITEMS`
_FIRST_ITEMS: Final = 10
# Reports of finished work have room beside the statements of users, up to this share of the conversation.
_MOST_DONE: Final = 0.25
# Sentences in which an assistant reports its finished work.
_DONE: Final = re.compile(
    r"(?:(?:done|fixed|ok|okay|yes|great|good|perfect|understood|sure|noted)\b[:,.!]* )?"
    r"(?:I|we)(?:['’]ve| have)?(?: (?:also|now|just|then))? (?:added|bumped|built|changed|configured|created|defined|deleted"
    r"|deployed|disabled|dropped|enabled|extended|fixed|found|implemented|installed|introduced|merged|migrated|moved|pinned"
    r"|pushed|reduced|refactored|released|removed|renamed|replaced|reverted|rewrote|set|split|switched|tested|updated|upgraded"
    r"|wrote)\b|(?:fixed|done|released|merged|deployed): |(?:all )?(?:the )?\d* ?tests? (?:now )?(?:pass|fail)"
    r"|Ich habe .{0,200}\b(?:hinzugefügt|geändert|erstellt|angelegt|entfernt|behoben|umbenannt|aktualisiert|gebucht|verschoben)\b"
    r"|(?:he|hemos) (?:añadido|creado|cambiado|corregido|actualizado|eliminado)\b"
    r"|j['’]ai (?:ajouté|créé|changé|modifié|corrigé|supprimé|mis à jour)\b",
    re.IGNORECASE,
)
# In each mode, sentences with one of these words are preferred.
_SOUGHT: Final[dict[Mode, str]] = {
    "explore": "found|finding|not found|missing|unclear|unknown|gap|no trace",
    "bug_fixing": r"error|exception|fail|crash|bug|cause|because|fix|regress|\w+Error\b",
    "refactoring": "interface|signature|depend|rename|break|caller|import|deprecat",
    "testing": r"tests?\b|coverage|assert|pass|fail|fixture|flaky",
    "debugging": r"symptom|value|variable|trace|log|reproduc|null|undefined|\w+Error\b",
    "research": "found|finding|source|according|study|paper|report|https?:|evidence",
}
_MODES: Final = {mode: re.compile(rf"\b(?:{words})", re.IGNORECASE) for mode, words in _SOUGHT.items()}


def keeping(
    utterances: Sequence[Utterance], previous: str, mode: Mode, room: float
) -> Generator[None, None, dict[int, Kept]]:
    """Return the sentences and pieces that are kept of each message, by message number. Yield after each message.

    `previous` is the text of the log.

    `room` is the number of characters by which tool calls raise the limit (see `_FLOOR`): half the characters of tool calls and
    results, minus the characters of the lines about them. A negative `room` lowers the limit.
    """
    total = sum(len(utterance.text) for utterance in utterances)
    kept = {utterance.number: Kept() for utterance in utterances}
    said: dict[int, list[_Sentence]] = {}
    for utterance in utterances:
        if utterance.is_user:
            said[utterance.number] = _read(utterance, previous)
            yield
    spent, known = yield from _keep_statements(utterances, kept, said, total * _HALF + room)
    offers: list[_Offer] = []
    for utterance in utterances:
        if utterance.is_user:
            offers += _user_offers(utterance, kept[utterance.number], said[utterance.number])
        else:
            offers += _offers(utterance, previous, len(offers), _MODES.get(mode))
        yield
    least = max(min(_FLOOR, total * _HALF + room), min(2 * total + 4 * _LINE, _TINY))
    if total <= _TINY_TALK:
        least = max(
            least, spent + sum(len(utterance.text) for utterance in utterances if not utterance.is_user) * _TOLD
        )
    # Leave room for reports of finished work, even if the statements of users are long.
    told = (offer for offer in offers if not offer.is_ask and offer.piece.kind == "sentence")
    done = sum(offer.candidate.cost + _LINE for offer in told if _DONE.match(offer.piece.text))
    least = max(least, spent + min(done, total * _MOST_DONE))
    candidates = [offer.candidate for offer in offers]
    # List heads, and questions with a name, are chosen first, with a larger budget than the other candidates.
    heads = [
        one
        if offer.piece.kind == "head" or (offer.is_ask and names_something(offer.piece.text))
        else one._replace(factor=0.0)
        for one, offer in zip(candidates, offers, strict=True)
    ]
    most = max(total / _HEADS_RATIO, least) - spent
    chosen, left = yield from choosing(heads, most, known)
    rest, _ = yield from choosing(candidates, max(total / _RATIO, least) - spent - (most - left), known, chosen)
    for index in sorted(chosen | rest):
        offer = offers[index]
        if offer.is_ask:
            kept[offer.number].asks.append(offer.piece.text)
        elif offer.number in said:
            kept[offer.number].said[offer.order] = offer.piece.text
        else:
            kept[offer.number].pieces.append(offer.piece)
    if previous:
        _add_questions(kept, utterances, previous)
    return kept


# ---------------------------------------------------------------- users


class _Sentence(NamedTuple):
    number: int
    order: int
    """The index of the sentence in the message."""
    text: str
    act: Act

    def weight(self) -> int:
        """Return 3 for an important sentence, 2 for a sentence of users about themselves, and 1 for any other sentence."""
        return 3 if weighs(self.text) else 2 if ABOUT_SELF.search(self.text) else 1


def _read(utterance: Utterance, previous: str) -> list[_Sentence]:
    return [
        _Sentence(utterance.number, order, text, act_of(text))
        for order, text in enumerate(_sentences(utterance.text))
        # If a statement of a user (🔴) follows the text in the log, it may have changed the matter, so keep the text again.
        if _is_fresh(text, previous) or "🔴" in previous[previous.rfind(escape(text)) :]
    ]


def _keep_statements(
    utterances: Sequence[Utterance], kept: dict[int, Kept], read: Mapping[int, Sequence[_Sentence]], limit: float
) -> Generator[None, None, tuple[float, set[str]]]:
    """Store the statements of users in `kept`. Return the number of characters that they take, and their words."""
    said: list[_Sentence] = []
    for utterance in utterances:
        if utterance.is_user:
            said += _statements(utterance, read)
            yield
    lines = Counter(one.number for one in said)
    size = _FRAME + sum(len(one.text) + 1 for one in said) + _LINE * len(lines)
    # If the statements are longer than the limit, the least important and longest are left out first. All statements of short
    # messages are kept.
    long = {utterance.number for utterance in utterances if len(utterance.text) > _SHORT_MESSAGE}
    omitted: set[_Sentence] = set()
    ranked: list[tuple[int, int, int]] = []
    for place, one in enumerate(said):
        if one.number in long:
            ranked.append((one.weight(), -len(one.text), place))
            yield
    for _, _, place in sorted(ranked):
        one = said[place]
        if size <= max(limit, _SMALL):
            break
        omitted.add(one)
        lines[one.number] -= 1
        size -= len(one.text) + 1 + (0 if lines[one.number] else _LINE)
    known: set[str] = set()
    for one in said:
        if one not in omitted:
            kept[one.number].said[one.order] = one.text
            known.update(weights_of(one.text))
            yield
    return size, known


def _statements(utterance: Utterance, read: Mapping[int, Sequence[_Sentence]]) -> list[_Sentence]:
    """Return all statements of a message if they fit the limit for its length, otherwise the most important ones."""
    found = [one for one in read[utterance.number] if one.act == "statement"]
    room = _USER_WHOLE + max(0, len(utterance.text) - _USER_WHOLE) * _USER_REST
    if sum(len(one.text) + 1 for one in found) <= room:
        return found
    chosen: list[_Sentence] = []
    for one in sorted(found, key=lambda one: (not ABOUT_SELF.search(one.text), -one.weight(), one.order)):
        if len(one.text) + 1 <= room:
            chosen.append(one)
            room -= len(one.text) + 1
    return sorted(chosen)


def _sentences(text: str) -> Iterator[str]:
    for piece in pieces_of(_without_trace(text), whole=True):
        if piece.kind in {"sentence", "row"}:
            yield _bounded(without_opening(piece.text))


def _without_trace(text: str) -> str:
    if "Traceback" not in text and "\n    at " not in text:
        return text
    lines = text.split("\n")
    return "\n".join(
        line
        for place, line in enumerate(lines)
        if not _TRACE.match(line)
        and not _ERROR.match(line)
        and not (place and _TRACE.match(lines[place - 1]) and line.startswith("    "))
    )


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_WORD and " " not in text and text.isascii():
        return f"{text[:_LONGEST_WORD]}…"
    if len(text) <= _LONGEST:
        return text
    cut = max(text.rfind(", ", 0, _LONGEST), text.rfind("; ", 0, _LONGEST))
    return f"{text[: cut if cut > _LONGEST // 2 else _LONGEST]}…"


def _is_fresh(text: str, previous: str) -> bool:
    return not previous or len(text) < _REPEATED or escape(text) not in previous


def _user_offers(utterance: Utterance, kept: Kept, read: Sequence[_Sentence]) -> Iterator[_Offer]:
    """Yield the questions and requests of a user's message, and for pasted text also the statements that are not kept yet."""
    is_pasted = len(utterance.text) > _USER_WHOLE
    for number, order, text, act in read:
        if order in kept.said:
            continue
        if act in {"question", "request"}:
            candidate = Candidate(weights_of(text), len(text) + _LINE, _ASK_FACTOR, 1.0)
            yield _Offer(number, order, Piece(text, "sentence"), candidate, is_ask=True)
        elif act == "statement" and is_pasted:
            candidate = Candidate(weights_of(text), len(text) + 1, _PASTED_FACTOR)
            yield _Offer(number, order, Piece(text, "sentence"), candidate)


# ---------------------------------------------------------------- assistants


def _offers(utterance: Utterance, previous: str, first: int, wanted: re.Pattern[str] | None) -> list[_Offer]:
    """Return the pieces of an answer that may be kept. `first` is the index of the first of them among all offers."""
    places: dict[int, int] = {}
    counts: dict[int, int] = {}
    offers: list[_Offer] = []
    is_short = len(utterance.text) <= _SHORT_ANSWER and not utterance.has_call
    for order, piece in enumerate(pieces_of(utterance.text)):
        if not _is_fresh(piece.text, previous) or (piece.needs is not None and piece.needs not in places):
            continue
        counts[piece.list] = counts.get(piece.list, 0) + (piece.kind == "head")
        factor = _FACTORS[piece.kind]
        if piece.kind == "head" and counts[piece.list] > _FIRST_ITEMS:
            factor *= _LATER_ITEM
        if is_short:
            factor *= _SHORT_FACTOR
        if piece.kind == "sentence" and is_empty(piece.text):
            factor = 0.0
        elif piece.kind == "sentence" and (piece.text[-1] == "?" or OPENING.match(piece.text)):
            factor *= _OPENING_FACTOR if names_something(piece.text) else 0.0
        if piece.kind == "sentence" and _DONE.match(piece.text):
            factor *= _DONE_FACTOR
        if wanted is not None and wanted.search(piece.text):
            factor *= _MODE_FACTOR
        weights = weights_of(piece.text, is_head=piece.list >= 0)
        candidate = Candidate(
            weights,
            len(piece.text) + 2,
            factor,
            _HEAD_BONUS if piece.kind == "head" else 0.0,
            None if piece.needs is None else first + places[piece.needs],
            group=utterance.number * _MOST_LISTS + min(piece.list, _MOST_LISTS - 2) + 1,
            opening=_LINE if piece.list < 0 else len(piece.topic) + _TOPIC,
        )
        places[order] = len(offers)
        offers.append(_Offer(utterance.number, order, piece, candidate))
    return offers


# ---------------------------------------------------------------- questions that were asked before

_NEXT_ROOT: Final = re.compile(r"\n(?! )")


def _add_questions(kept: dict[int, Kept], utterances: Sequence[Utterance], previous: str) -> None:
    """Keep a question again although the log has it, because its new answer is hard to understand without the question.

    If the log already has all words of the new answer, neither the answer nor the question is kept.
    """
    for place, utterance in enumerate(utterances):
        if not utterance.is_user:
            continue
        answers = [one.number for one in takewhile(lambda one: not one.is_user, islice(utterances, place + 1, None))]
        asked = [text for text in _sentences(utterance.text) if is_ask(text) and not _is_fresh(text, previous)]
        told = [piece for number in answers for piece in kept[number].pieces]
        if not asked or not told:
            continue
        answer = previous[previous.rfind(f"asked: {escape(asked[-1])}") :]
        before = weights_of(unescape(_NEXT_ROOT.split(answer, 1)[0]))
        if all(word in before for piece in told for word in weights_of(piece.text)):
            for number in answers:
                kept[number].pieces.clear()
        else:
            kept[utterance.number].asks[:0] = asked
