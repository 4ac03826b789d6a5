"""What was said in words: which pieces of a span's messages are kept, and how long they may be together.

Knows that users are quoted nearly whole and assistants by their list heads, names and numbers, and that what is known already
is not said again. Knows nothing of tools or of how lines look.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from memolog.extractive.choosing import Candidate, choose
from memolog.extractive.stances import is_about_self, is_ask, is_filler, is_opening
from memolog.extractive.units import Kind, clauses, units_of
from memolog.extractive.words import is_english, shortened, weights_of
from memolog.prompt.escape import escape

__all__ = ["Piece", "Speech", "kept_pieces"]


@dataclass(frozen=True, slots=True)
class Speech:
    """The words of one message."""

    number: int
    is_user: bool
    text: str
    acts: bool = False
    """True where a tool call follows: the words before it announce what the call will tell."""


class Piece(NamedTuple):
    """A part of a message, as it may stand in a line."""

    number: int
    text: str
    asks: bool
    order: int
    joins: bool
    """True where it continues the sentence of the piece before it."""


class _Offer(NamedTuple):
    piece: Piece
    """With its words as they were said: they are shortened once it is chosen."""
    candidate: Candidate
    is_foreign: bool


_RATIO: Final = 9.0
"""How many characters of what was said stand behind one that is kept."""
_USER_SHARE: Final = 0.95
_USER_SHORT: Final = 60
_USER_LITTLE: Final = 600
_USER_WHOLE: Final = 500
_USER_REST: Final = 0.08
_ASSISTANT_LEAST: Final = 0.03
_MESSAGE_LEAST: Final = 90
_SHORT_ANSWER: Final = 160
_SELF_FACTOR: Final = 3.0
_OPENING_FACTOR: Final = 0.3
_FACTORS: Final[dict[Kind, float]] = {
    "sentence": 1.0,
    "clause": 1.0,
    "head": 1.6,
    "pair": 1.5,
    "row": 1.3,
    "code": 1.0,
    "source": 0.1,
}
_NUMBERED: Final = re.compile(r"\d{1,3}[.)] ")
_NAMED: Final = frozenset({"head", "pair", "row", "code"})
_LONGEST: Final = 600
_LONGEST_WORD: Final = 200
_REPEATED: Final = 24
# A line that stands by itself, or the end of its group.
_NEXT_ROOT: Final = re.compile(r"\n(?! )")
_SHORTENED: Final = 0.94


def kept_pieces(speeches: Sequence[Speech], previous: str) -> list[Piece]:
    """Return the pieces to keep, in the order in which they were said; what the log says already is left out."""
    total = sum(len(speech.text) for speech in speeches)
    english = is_english(" ".join(speech.text[:500] for speech in speeches[:8])) is True
    known: set[str] = set()
    user = [speech for speech in speeches if speech.is_user]
    others = [speech for speech in speeches if not speech.is_user]
    offered = list(_user_offers(user, english=english))
    offers = _fresh(offered, previous)
    kept = _of_users(user, offers, known)
    spent = sum(offer.candidate.cost for offer in kept)
    whole = _fresh(_offers((speech for speech in others if _is_short(speech)), english=english), previous)
    for offer in whole:
        known.update(offer.candidate.weights)
        spent += offer.candidate.cost
    long = [speech for speech in others if not _is_short(speech)]
    least = sum(max(_ASSISTANT_LEAST * len(speech.text), min(_MESSAGE_LEAST, len(speech.text) / 4)) for speech in long)
    rest = _fresh(_offers(long, english=english), previous)
    kept += whole + _chosen(rest, max(total / _RATIO - spent, least), known)
    if len(offers) < len(offered):
        fresh = {(offer.piece.number, offer.piece.order) for offer in offers}
        asked = [o for o in offered if o.piece.asks and (o.piece.number, o.piece.order) not in fresh]
        kept = _with_questions(kept, asked, speeches, previous)
    kept.sort(key=lambda offer: (offer.piece.number, offer.piece.order))
    worded = [offer.piece._replace(text=_worded(offer)) for offer in kept]
    return [piece for piece in worded if piece.text]


def _is_short(speech: Speech) -> bool:
    return len(speech.text) <= _SHORT_ANSWER and not speech.acts


def _chosen(offers: Sequence[_Offer], room: float, known: set[str]) -> list[_Offer]:
    chosen = choose([offer.candidate for offer in offers], room, known)
    return [offers[index] for index in sorted(chosen)]


def _of_users(speeches: Sequence[Speech], offers: Sequence[_Offer], known: set[str]) -> list[_Offer]:
    """Return what is kept of the users: all of a little, nearly all of what they say, less of what they paste."""
    whole = {speech.number for speech in speeches if len(speech.text) <= _USER_SHORT}
    if sum(len(speech.text) for speech in speeches) <= _USER_LITTLE:
        whole = {speech.number for speech in speeches}
    kept = [offer for offer in offers if offer.piece.number in whole]
    for offer in kept:
        known.update(offer.candidate.weights)
    rest = [offer for offer in offers if offer.piece.number not in whole]
    sizes = [len(speech.text) for speech in speeches if speech.number not in whole]
    room = sum(size if size <= _USER_WHOLE else _USER_WHOLE + (size - _USER_WHOLE) * _USER_REST for size in sizes)
    return kept + _chosen(rest, min(_USER_SHARE * sum(offer.candidate.cost + 2 for offer in rest), room), known)


def _fresh(offers: Iterable[_Offer], previous: str) -> list[_Offer]:
    if not previous:
        return list(offers)
    return [offer for offer in offers if len(words := _worded(offer)) < _REPEATED or escape(words) not in previous]


def _with_questions(
    kept: list[_Offer], asked: Sequence[_Offer], speeches: Sequence[Speech], previous: str
) -> list[_Offer]:
    """Return what is kept, with the questions that the log has already beside their answers.

    An answer says little without its question. Where the log has the same answer to it, both are left out.
    """
    questions = {number: list(found) for number, found in groupby(asked, lambda offer: offer.piece.number)}
    for number, answers in _answers(speeches).items():
        told = [offer for offer in kept if offer.piece.number in answers]
        if number not in questions or not told:
            continue
        before = _after(escape(_worded(questions[number][-1])), previous)
        if all(escape(_worded(offer)) in before for offer in told):
            kept = [offer for offer in kept if offer.piece.number not in answers]
        else:
            kept = [*kept, *questions[number]]
    return kept


def _answers(speeches: Sequence[Speech]) -> dict[int, set[int]]:
    """Return which messages follow each message of a user, before the next one."""
    found: dict[int, set[int]] = {}
    last: int | None = None
    for speech in speeches:
        if speech.is_user:
            last = speech.number
        elif last is not None:
            found.setdefault(last, set()).add(speech.number)
    return found


def _after(question: str, previous: str) -> str:
    """Return what the log says beneath a question, the last time that it has it."""
    return _NEXT_ROOT.split(previous[previous.rfind(question) :], 1)[0]


# ---------------------------------------------------------------- what is offered


def _user_offers(speeches: Iterable[Speech], *, english: bool) -> Iterator[_Offer]:
    for speech in speeches:
        order = 0
        is_foreign = is_english(speech.text) is False or not english
        for unit in units_of(speech.text, fine=False):
            if is_filler(unit.text):
                continue
            asks = is_ask(unit.text)
            parts = list(clauses(unit.text)) if unit.kind == "sentence" else [unit.text]
            for place, part in enumerate(parts):
                # "I moved to Oslo, can you find me a gym?" states one thing and asks another.
                states = asks and place < len(parts) - 1 and is_about_self(part[:6])
                factor = _FACTORS[unit.kind] * (_SELF_FACTOR if is_about_self(part) else 1.0)
                piece = Piece(speech.number, part, asks and not states, order, place > 0)
                yield _offer(piece, unit.kind, factor, is_foreign=is_foreign)
                order += 1


def _offers(speeches: Iterable[Speech], *, english: bool) -> Iterator[_Offer]:
    for speech in speeches:
        is_foreign = is_english(speech.text) is False or not english
        for order, unit in enumerate(units_of(speech.text, fine=True)):
            factor = _FACTORS[unit.kind]
            if unit.text[-1] == "?" or (unit.kind == "clause" and is_opening(unit.text)):
                factor *= _OPENING_FACTOR
            piece = Piece(speech.number, unit.text, asks=False, order=order, joins=False)
            yield _offer(piece, unit.kind, factor, is_foreign=is_foreign)


def _offer(piece: Piece, kind: Kind, factor: float, *, is_foreign: bool) -> _Offer:
    # The number of an item tells its place, which is worth showing and not worth choosing it for.
    hit = _NUMBERED.match(piece.text) if piece.text[:1].isdigit() else None
    weights = weights_of(piece.text[hit.end() :] if hit else piece.text, is_head=kind in _NAMED)
    cost = min(len(piece.text), _LONGEST)
    return _Offer(piece, Candidate(weights, cost if is_foreign else int(cost * _SHORTENED), factor), is_foreign)


def _worded(offer: _Offer) -> str:
    text = offer.piece.text[: 2 * _LONGEST]
    text = text.strip(" ;,\t") if offer.is_foreign else shortened(text)
    if len(text) > _LONGEST_WORD and " " not in text and text.isascii():
        return f"{text[:_LONGEST_WORD]}…"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
