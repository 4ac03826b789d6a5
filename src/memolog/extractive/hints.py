"""Derive the current task of a thread from the user's last request, and its title from the first.

Only messages of users are read. A task ends when its question was answered, or when the user confirms or thanks.
"""

from collections.abc import Sequence
from typing import Final

from memolog.domain.message import Message
from memolog.domain.thread import Hints
from memolog.extractive.markdown import cut_at_clause, pieces_of
from memolog.extractive.statements import confirms, is_ask, is_filler, is_request, subject_of
from memolog.extractive.utterances import Utterance
from memolog.extractive.words import STOP, words_of
from memolog.prompt.drafts import HintsDraft
from memolog.prompt.escape import short_line

__all__ = ["hints_of"]

_TASK: Final = 300
_TITLE: Final = 48
_LEAST_WORDS: Final = 2
_SHORTEST: Final = 12
_SCANNED: Final = 20_000


def hints_of(utterances: Sequence[Utterance], messages: Sequence[Message], known: Hints) -> HintsDraft:
    """Return the hints of a span. Utterances refer to messages by number, from 1."""
    user = [utterance for utterance in utterances if utterance.is_user]
    asked = next((utterance for utterance in reversed(user) if _request(utterance)), None)
    task = short_line(_request(asked) or "", _TASK) if asked else known.current_task
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
            if asked is not None and not is_request(asked):
                return True
        elif utterance.is_user and is_answered and (confirms(utterance.text) or is_filler(utterance.text)):
            return True
    return False


def _sentences(utterance: Utterance) -> list[str]:
    return [unit.text for unit in pieces_of(utterance.text[:_SCANNED], whole=True) if not is_filler(unit.text)]


def _request(utterance: Utterance) -> str | None:
    asked = [sentence for sentence in _sentences(utterance) if is_ask(sentence)]
    return " ".join(asked[-2:]) if asked else None


def _title(user: Sequence[Utterance]) -> str | None:
    """Return the subject of the first sentence that has one."""
    for utterance in user:
        for sentence in _sentences(utterance):
            text = subject_of(sentence)
            if sum(word.lower() not in STOP for word in words_of(text)) < _LEAST_WORDS and len(text) < _SHORTEST:
                continue
            short = text if len(text) <= _TITLE else cut_at_clause(text, _TITLE)
            words = short.split(" ")
            while len(words) > 1 and words[-1].lower().strip(",") in STOP:
                words.pop()
            title = short_line(" ".join(words).strip(" ,;:"), _TITLE + 1)
            return title[:1].upper() + title[1:]
    return None
