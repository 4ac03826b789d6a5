"""Once: what follows from an immutable value, worked out the first time it is asked for.

Knows values by their identity, so that looking one up costs no comparison of what it holds. Knows nothing of what the values
are; all that is kept can be lost at any moment.
"""

from collections.abc import Callable
from typing import TypeVar

__all__ = ["once"]

K = TypeVar("K")
V = TypeVar("V")

# The tails of a dozen threads: each step of a turn looks at all of its tail, and hardly any of it is new.
_MOST = 2_048


def once(work_out: Callable[[K], V], keep: Callable[[K], bool] = lambda _: True) -> Callable[[K], V]:
    """Return the function with a memory for the values that it was given last, but for those that are not to be kept."""
    # The value itself is kept beside the answer: while it lives, no other one has its identity.
    known: dict[int, tuple[K, V]] = {}

    def answer(value: K) -> V:
        found = known.get(id(value))
        if found is not None and found[0] is value:
            return found[1]
        made = work_out(value)
        if len(known) >= _MOST:
            known.clear()
        if keep(value):
            known[id(value)] = value, made
        return made

    return answer
