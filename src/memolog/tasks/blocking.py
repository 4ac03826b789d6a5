"""Define when a task is blocked, and search for cycles of links.

The store keeps the result in a column; tests compare it with the definition:

1. A closed task is not blocked.
2. A task is blocked if one of its blockers is not closed.
3. A task is blocked if one of its parents is.
4. Blocking and parent links together have no cycle, so the three rules have one answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

__all__ = ["ORDERING", "CycleSearch", "Direction"]

ORDERING: Final = ("blocks", "parent-child")
"""The links that say what must come first."""

Direction: TypeAlias = Literal["forward", "backward"]


class CycleSearch:
    """Looks for a way from `target` to `source`: a link from `source` to `target` would close the circle.

    It goes from both ends, on the side with fewer open ends: a task that nothing comes after, or nothing before, is decided at
    once, however large the rest of the graph is. Ask `next`, look up those links, hand them to `feed`, until `is_over`.
    """

    def __init__(self, source: int, target: int) -> None:
        self._seen: dict[Direction, dict[int, int | None]] = {"forward": {target: None}, "backward": {source: None}}
        self._ends: dict[Direction, list[int]] = {"forward": [target], "backward": [source]}
        self._meeting: int | None = source if source == target else None

    @property
    def is_over(self) -> bool:
        """Return whether the answer is known."""
        return self._meeting is not None or not all(self._ends.values())

    def next(self) -> tuple[Direction, Sequence[int]]:
        """Return which links to look up: those out of (forward) or into (backward) these tasks."""
        forward, backward = self._ends["forward"], self._ends["backward"]
        return ("forward", forward) if len(forward) <= len(backward) else ("backward", backward)

    def feed(self, direction: Direction, found: Iterable[tuple[int, int]]) -> None:
        """Take the links that were found, as source and target."""
        seen = self._seen[direction]
        other = self._seen["backward" if direction == "forward" else "forward"]
        ends: list[int] = []
        for source, target in found:
            near, far = (source, target) if direction == "forward" else (target, source)
            if far in seen:
                continue
            seen[far] = near
            ends.append(far)
            if far in other:
                self._meeting = far
                return
        self._ends[direction] = ends

    @property
    def path(self) -> tuple[int, ...] | None:
        """Return the way from `target` to `source`, both included; None if there is none."""
        if self._meeting is None:
            return None
        before = self._back(self._seen["forward"], self._meeting)[::-1]
        return (*before, *self._back(self._seen["backward"], self._meeting)[1:])

    @staticmethod
    def _back(seen: Mapping[int, int | None], start: int) -> list[int]:
        way = [start]
        while (step := seen[way[-1]]) is not None:
            way.append(step)
        return way
