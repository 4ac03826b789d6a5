"""Select which sentences and list items of a span's messages are kept, within a size limit.

Statements of users are kept as they are. Of the assistant, list heads, names and numbers come first. What the log says already
is left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from memolog.core.settings import Mode
from memolog.observer.extractive.sentences import Candidate, Kind, Piece, choose, pieces_of, weights_of
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
    """The words of one message."""

    number: int
    is_user: bool
    text: str
    acts: bool = False
    """True where a tool call follows: the words before it announce the call."""


@dataclass(slots=True)
class Kept:
    """What is kept of one message, each in the order in which it was said."""

    said: dict[int, str] = field(default_factory=dict[int, str])
    """A user's statements, by their place in the message."""
    asks: list[str] = field(default_factory=list[str])
    pieces: list[Piece] = field(default_factory=list[Piece])

    @property
    def statements(self) -> list[str]:
        """Return the statements in their order."""
        return [self.said[order] for order in sorted(self.said)]


class _Offer(NamedTuple):
    number: int
    order: int
    piece: Piece
    candidate: Candidate
    is_ask: bool = False


_RATIO: Final = 6.6
"""Characters of a long conversation for each character that is kept."""
_HEADS_RATIO: Final = 4.87
"""The same, if statements of users and list heads alone need more."""
_FLOOR: Final = 1_750
"""Characters kept of a short conversation, if that is at most half of it."""
_HALF: Final = 0.5
_TINY: Final = 400
"""Characters kept of any conversation."""
_SMALL: Final = 1_200
"""Characters of users' statements that are always kept."""
_TINY_TALK: Final = 1_000
"""In a conversation this short, a share of the answers is always kept."""
_TOLD: Final = 0.25
_FRAME: Final = 60
"""Approximate size of a group without its lines: its tags and its date."""
_FEW_SENTENCES: Final = 300
"""A message up to this length is short."""
_USER_WHOLE: Final = 1_200
_USER_REST: Final = 0.12
_SHORT_ANSWER: Final = 160
_LINE: Final = 24
"""Approximate size of a line without its words: indent, mark, time and speaker."""
_TOPIC: Final = 12
"""Approximate size of a list without its topic and items."""
_GROUPS: Final = 10_000
_MOST_ITEMS: Final = 10
_LATER_ITEM: Final = 0.15
_REPEATED: Final = 24
_LONGEST: Final = 480
_LONGEST_WORD: Final = 200
_TRACE: Final = re.compile(r"\s*(?:Traceback \(|File \"|at \S+ ?\(|at \S+:\d|\^+\s*\Z|[~^]{3,})")
_ERROR: Final = re.compile(r"[\w.]{0,80}(?:Error|Exception): ")
_FACTORS: Final[dict[Kind, float]] = {
    "sentence": 1.0,
    "head": 4.0,
    "detail": 0.8,
    "row": 1.5,
    "code": 1.0,
    "source": 0.05,
}
_HEAD_BONUS: Final = 3.0
_SHORT_FACTOR: Final = 3.0
"""For an answer of one line, which is short already."""
_DONE_FACTOR: Final = 3.0
_MOST_DONE: Final = 0.25
"""Share of a conversation that what was done may take beside the statements of users."""
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
"""Sentences in which an assistant reports what it did."""
_OPENING_FACTOR: Final = 0.2
_ASK_FACTOR: Final = 2.5
_PASTED_FACTOR: Final = 0.6
# Words that each mode looks for: sentences with them are preferred.
_MODE_FACTOR: Final = 3.0
_SOUGHT: Final[dict[Mode, str]] = {
    "explore": "found|finding|not found|missing|unclear|unknown|gap|no trace",
    "bug_fixing": r"error|exception|fail|crash|bug|cause|because|fix|regress|\w+Error\b",
    "refactoring": "interface|signature|depend|rename|break|caller|import|deprecat",
    "testing": r"tests?\b|coverage|assert|pass|fail|fixture|flaky",
    "debugging": r"symptom|value|variable|trace|log|reproduc|null|undefined|\w+Error\b",
    "research": "found|finding|source|according|study|paper|report|https?:|evidence",
}
_MODES: Final = {mode: re.compile(rf"\b(?:{words})", re.IGNORECASE) for mode, words in _SOUGHT.items()}


def kept_of(
    utterances: Sequence[Utterance], previous: str, mode: Mode = "default", room: float = 0.0
) -> dict[int, Kept]:
    """Return what is kept of each message; what the log says already is left out.

    `room` is added to what may be kept by the size of the messages: tool lines of the span took less, or more, than their half.
    """
    total = sum(len(utterance.text) for utterance in utterances)
    kept = {utterance.number: Kept() for utterance in utterances}
    said = {utterance.number: _read(utterance, previous) for utterance in utterances if utterance.is_user}
    spent, known = _keep_users(utterances, kept, said, total * _HALF + room)
    offers: list[_Offer] = []
    for utterance in utterances:
        if utterance.is_user:
            offers += _user_offers(utterance, kept[utterance.number], said[utterance.number])
        else:
            offers += _offers(utterance, previous, len(offers), _MODES.get(mode))
    least = max(min(_FLOOR, total * _HALF + room), min(2 * total + 4 * _LINE, _TINY))
    if total <= _TINY_TALK:
        least = max(
            least, spent + sum(len(utterance.text) for utterance in utterances if not utterance.is_user) * _TOLD
        )
    # What was done is kept beside the statements of users, however long they are.
    told = (offer for offer in offers if not offer.is_ask and offer.piece.kind == "sentence")
    done = sum(offer.candidate.cost + _LINE for offer in told if _DONE.match(offer.piece.text))
    least = max(least, spent + min(done, total * _MOST_DONE))
    candidates = [offer.candidate for offer in offers]
    # List heads and questions that name something may take more room than the rest.
    heads = [
        one
        if offer.piece.kind == "head" or (offer.is_ask and names_something(offer.piece.text))
        else one._replace(factor=0.0)
        for one, offer in zip(candidates, offers, strict=True)
    ]
    most = max(total / _HEADS_RATIO, least) - spent
    chosen, left = choose(heads, most, known)
    rest, _ = choose(candidates, max(total / _RATIO, least) - spent - (most - left), known, chosen)
    for index in sorted(chosen | rest):
        offer = offers[index]
        if offer.is_ask:
            kept[offer.number].asks.append(offer.piece.text)
        elif offer.number in said:
            kept[offer.number].said[offer.order] = offer.piece.text
        else:
            kept[offer.number].pieces.append(offer.piece)
    return _with_questions(kept, utterances, previous) if previous else kept


# ---------------------------------------------------------------- users


class _UserStatement(NamedTuple):
    number: int
    order: int
    text: str
    weight: int
    """3 for constraints, decisions and the like, 2 for what users say of themselves, 1 for the rest."""


def _read(utterance: Utterance, previous: str) -> list[tuple[int, str, Act]]:
    return [
        (order, text, act_of(text))
        for order, text in enumerate(_sentences(utterance.text))
        if not _is_settled(text, previous)
    ]


def _keep_users(
    utterances: Sequence[Utterance],
    kept: dict[int, Kept],
    read: Mapping[int, Sequence[tuple[int, str, Act]]],
    most: float,
) -> tuple[float, set[str]]:
    """Keep what users state; returns what it costs, and its words."""
    said = [
        one for utterance in utterances if utterance.is_user for one in _of_message(utterance, read[utterance.number])
    ]
    lines = Counter(one.number for one in said)
    size = _FRAME + sum(len(one.text) + 1 for one in said) + _LINE * len(lines)
    # If more than half would be kept, the least important and longest statements go first. Short messages are kept whole.
    long = {utterance.number for utterance in utterances if len(utterance.text) > _FEW_SENTENCES}
    gone: set[tuple[int, int]] = set()
    for one in sorted((one for one in said if one.number in long), key=lambda one: (one.weight, -len(one.text))):
        if size <= max(most, _SMALL):
            break
        gone.add((one.number, one.order))
        lines[one.number] -= 1
        size -= len(one.text) + 1 + (0 if lines[one.number] else _LINE)
    said = [one for one in said if (one.number, one.order) not in gone]
    known: set[str] = set()
    for one in said:
        kept[one.number].said[one.order] = one.text
        known.update(weights_of(one.text))
    return size, known


def _of_message(utterance: Utterance, read: Sequence[tuple[int, str, Act]]) -> list[_UserStatement]:
    """Return the statements of one message: all if it is short, the most important ones of a pasted text."""
    found = [
        _UserStatement(utterance.number, order, text, 3 if weighs(text) else 2 if ABOUT_SELF.search(text) else 1)
        for order, text, act in read
        if act == "statement"
    ]
    room = _USER_WHOLE + max(0, len(utterance.text) - _USER_WHOLE) * _USER_REST
    if sum(len(one.text) + 1 for one in found) <= room:
        return found
    taken: list[_UserStatement] = []
    # First sentences about the user, by weight; then by position.
    for one in sorted(found, key=lambda one: (not ABOUT_SELF.search(one.text), -one.weight, one.order)):
        if len(one.text) + 1 <= room:
            taken.append(one)
            room -= len(one.text) + 1
    return sorted(taken, key=lambda one: one.order)


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


def _is_settled(text: str, previous: str) -> bool:
    """Return whether the log has this text after all other statements of users."""
    return not _is_fresh(text, previous) and "🔴" not in previous[previous.rfind(escape(text)) :]


def _user_offers(utterance: Utterance, kept: Kept, read: Sequence[tuple[int, str, Act]]) -> Iterator[_Offer]:
    """Yield what users ask, and the rest of what they paste."""
    pasted = len(utterance.text) > _USER_WHOLE
    for order, text, act in read:
        if order in kept.said:
            continue
        if act in {"question", "request"}:
            candidate = Candidate(weights_of(text), len(text) + _LINE, _ASK_FACTOR, 1.0)
            yield _Offer(utterance.number, order, Piece(text, "sentence"), candidate, is_ask=True)
        elif act == "statement" and pasted:
            candidate = Candidate(weights_of(text), len(text) + 1, _PASTED_FACTOR)
            yield _Offer(utterance.number, order, Piece(text, "sentence"), candidate)


# ---------------------------------------------------------------- assistants


def _offers(utterance: Utterance, previous: str, first: int, wanted: re.Pattern[str] | None) -> list[_Offer]:
    """Return what may be kept of an answer; `first` is the index of its first offer among all offers."""
    places: dict[int, int] = {}
    counts: dict[int, int] = {}
    offers: list[_Offer] = []
    is_short = len(utterance.text) <= _SHORT_ANSWER and not utterance.acts
    for order, piece in enumerate(pieces_of(utterance.text)):
        if not _is_fresh(piece.text, previous) or (piece.needs is not None and piece.needs not in places):
            continue
        counts[piece.list] = counts.get(piece.list, 0) + (piece.kind == "head")
        factor = _FACTORS[piece.kind]
        if piece.kind == "head" and counts[piece.list] > _MOST_ITEMS:
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
            # Prose opens a line, each list its topic.
            group=utterance.number * _GROUPS + min(piece.list, _GROUPS - 2) + 1,
            opening=_LINE if piece.list < 0 else len(piece.topic) + _TOPIC,
        )
        places[order] = len(offers)
        offers.append(_Offer(utterance.number, order, piece, candidate))
    return offers


# ---------------------------------------------------------------- questions that were asked before

_NEXT_ROOT: Final = re.compile(r"\n(?! )")


def _with_questions(kept: dict[int, Kept], utterances: Sequence[Utterance], previous: str) -> dict[int, Kept]:
    """Return what is kept, with the questions that the log has already beside their answers.

    An answer says little without its question. Where the log has the same answer to it, both are left out.
    """
    for utterance, answers in _answers(utterances):
        asked = [text for text in _sentences(utterance.text) if is_ask(text) and not _is_fresh(text, previous)]
        told = [piece for number in answers for piece in kept[number].pieces]
        if not asked or not told:
            continue
        before = weights_of(unescape(_after(escape(asked[-1]), previous)))
        if all(word in before for piece in told for word in weights_of(piece.text)):
            for number in answers:
                kept[number].pieces.clear()
        else:
            kept[utterance.number].asks[:0] = asked
    return kept


def _answers(utterances: Iterable[Utterance]) -> list[tuple[Utterance, list[int]]]:
    """Return each message of a user with those that answer it, before the next one."""
    found: list[tuple[Utterance, list[int]]] = []
    for utterance in utterances:
        if utterance.is_user:
            found.append((utterance, []))
        elif found:
            found[-1][1].append(utterance.number)
    return found


def _after(question: str, previous: str) -> str:
    """Return the lines of the log beneath the last occurrence of a question."""
    return _NEXT_ROOT.split(previous[previous.rfind(f"asked: {question}") :], 1)[0]
