"""Where a thread stands: the task from the last request of the user, a title from the first.

Knows what users said and nothing of what tools answered: no tool's text becomes a task.
"""

from collections.abc import Sequence
from typing import Final

from memolog.domain.thread import Hints
from memolog.extractive.speech import Speech
from memolog.extractive.stances import is_ask, is_filler, without_request
from memolog.extractive.units import units_of
from memolog.extractive.words import STOP, words_of
from memolog.prompt.drafts import HintsDraft
from memolog.prompt.escape import one_line

__all__ = ["hints_of"]

_TASK: Final = 300
_TITLE_WORDS: Final = 6
_TITLE: Final = 60
_SCANNED: Final = 20_000


def hints_of(speeches: Sequence[Speech], known: Hints) -> HintsDraft:
    """Return the hints that a span gives; None where it gives none."""
    user = [speech for speech in speeches if speech.is_user]
    request = next(filter(None, map(_request, reversed(user))), None)
    return HintsDraft(
        current_task=one_line(request, _TASK) if request else None,
        title=None if known.title else _title(user),
    )


def _sentences(speech: Speech) -> list[str]:
    return [unit.text for unit in units_of(speech.text[:_SCANNED], fine=False) if not is_filler(unit.text)]


def _request(speech: Speech) -> str | None:
    asked = [sentence for sentence in _sentences(speech) if is_ask(sentence)]
    return " ".join(asked[-2:]) if asked else None


def _title(user: Sequence[Speech]) -> str | None:
    for speech in user:
        found = _sentences(speech)
        best = next((sentence for sentence in found if is_ask(sentence)), found[0] if found else "")
        words = words_of(without_request(best))
        while words and words[0].lower() in STOP:
            words = words[1:]
        if words:
            return one_line(" ".join(words[:_TITLE_WORDS]), _TITLE)
    return None
