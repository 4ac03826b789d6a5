"""Share a budget among several sizes."""

from collections.abc import Sequence

__all__ = ["share"]


def share(sizes: Sequence[int], budget: int) -> int:
    """Return the most that each may take so that all fit the budget: small ones keep what they have."""
    left, count = budget, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return max(left // count, 0)
        left -= size
        count -= 1
    return max(sizes, default=0)
