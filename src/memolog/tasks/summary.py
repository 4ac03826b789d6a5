"""Draft the summary for closing a task from the observations about it, with a citation on every line."""

import re
from collections.abc import Sequence
from typing import Final

from memolog.core.observation import TRACES, Observation, Priority
from memolog.tasks.task import DraftSummary, Task
from memolog.text.escape import fixed_text

_RANK: Final[dict[Priority, int]] = {"done": 0, "high": 1, "medium": 2, "low": 3}
_ASKED: Final = frozenset({"question", "request"})
_CITED: Final = re.compile(r"\[(\d{1,4})\]")
# The model is shown at most this many characters of the description. Its summary may have at most `_LONGEST` characters.
_DESCRIBED: Final = 2_000
_LONGEST: Final = 4_000


def draft(task: Task, observations: Sequence[Observation], *, most: int = 8) -> DraftSummary:
    """Return the most important lines about a task, completed work first, each with its citation."""
    live = [one for one in observations if one.state == "active" and one.text.strip()]
    # Some lines only tell that content was left out. Use them only if there are no others.
    live = [one for one in live if not one.text.startswith(TRACES)] or live
    chosen = _most_important(live, most)
    kept = [live[index] for index in sorted(chosen)]
    if not kept:
        return DraftSummary(text=f"{task.title}: nothing was observed about it.")
    sources, numbers = numbered_sources(kept)
    lines = [
        f"* {' '.join(one.text.split())} {_marks(marks)}".rstrip() for one, marks in zip(kept, numbers, strict=True)
    ]
    return DraftSummary(text="\n".join([f"{task.title}:", *lines]), sources=sources)


def _most_important(lines: Sequence[Observation], most: int) -> list[int]:
    """Return the indexes of the most important lines: completed work, then statements of users and findings."""
    # Later lines come first, because results are at the end of the work. Of the findings, answers come before the output of
    # tools, and questions and requests come last.
    latest = range(len(lines) - 1, -1, -1)
    done = [index for index in latest if lines[index].priority == "done"][:most]
    cited_places = {place for index in done for place in _places(lines[index])}
    stated = [index for index in latest if lines[index].priority == "high" and not cited_places & _places(lines[index])]
    found = [index for index in latest if _RANK[lines[index].priority] > _RANK["high"]]
    found.sort(key=lambda index: (lines[index].category in _ASKED, lines[index].trust == "tool"))
    room = most - len(done)
    said = stated[: max(room - room // 2, room - len(found))]
    return [*done, *said, *found[: room - len(said)]]


def _places(line: Observation) -> set[tuple[str, int]]:
    """Return the last messages that a line cites."""
    return {(source.thread, source.span.last) for source in line.sources}


def numbered_sources(
    observations: Sequence[Observation],
) -> tuple[tuple[tuple[str, int, int], ...], tuple[tuple[int, ...], ...]]:
    """Return all cited spans without repetition, and for each observation the numbers (from 1) of the spans that it cites."""
    order: dict[tuple[str, int, int], int] = {}
    numbers: list[tuple[int, ...]] = []
    for observation in observations:
        keys = [(source.thread, source.span.first, source.span.last) for source in observation.sources]
        numbers.append(tuple(order.setdefault(key, len(order) + 1) for key in dict.fromkeys(keys)))
    return tuple(order), tuple(numbers)


def _marks(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


def summary_prompt(task: Task, observations: Sequence[Observation]) -> tuple[str, str]:
    """Return the instructions and the text of the request to a model that writes the summary."""
    lines = [f"[{number}] {' '.join(one.text.split())}" for number, one in enumerate(observations, start=1)]
    described = [f"Description: {' '.join(task.description.split())[:_DESCRIBED]}"] if task.description.strip() else []
    return fixed_text("tasks/summary"), "\n".join([f"Task: {task.title}", *described, "", "Lines:", *lines])


def written(text: str, observations: Sequence[Observation], model: str) -> DraftSummary | None:
    """Return the summary of a model, with the numbers of lines replaced by citations of their sources.

    Return None if the summary is empty or too long, or cites no line or an unknown line.
    """
    body = text.strip()
    cited = {int(number) for number in _CITED.findall(body)}
    if not body or len(body) > _LONGEST or not cited or not cited <= set(range(1, len(observations) + 1)):
        return None
    used = sorted(cited)
    sources, numbers = numbered_sources([observations[number - 1] for number in used])
    marks = {number: _marks(spans) for number, spans in zip(used, numbers, strict=True)}
    return DraftSummary(text=_CITED.sub(lambda hit: marks[int(hit[1])], body), sources=sources, model=model)
