"""Encode a document of the index as one number: position, length and class.

A message: thread, sequence number, length, class. Anything else: minus its own key, its kind and its length; it has no
neighbours. Hits can be ranked, and neighbours found, from the keys alone. A thread has room for 33 million messages.
"""

import math
from typing import Final

__all__ = [
    "ASSISTANT",
    "LENGTHS",
    "OBSERVATION",
    "PLACE",
    "TASK",
    "TOOL",
    "USER",
    "first_key_of",
    "fits",
    "is_task",
    "key_of_message",
    "key_of_other",
    "seq_of",
    "thread_of",
]

USER: Final = 0
ASSISTANT: Final = 1
TOOL: Final = 2
OBSERVATION: Final = 3
TASK: Final = 4

_CLASS_BITS = 2
_LENGTH_BITS = 6
_SEQ_BITS = 25
_SHIFT = _CLASS_BITS + _LENGTH_BITS
_STEP = math.log(1.2)
"""Lengths are kept to within a tenth: 63 steps of a fifth reach 97,000 words."""
LENGTHS: Final = tuple(1.2**step for step in range(1 << _LENGTH_BITS))
"""What each step stands for, in words."""
PLACE: Final = 1 << _SHIFT
"""One message further on."""


def fits(thread_pk: int, seq: int) -> bool:
    """Return whether a message can have a key."""
    return 0 < seq < 1 << _SEQ_BITS and 0 < thread_pk < 1 << (63 - _SHIFT - _SEQ_BITS)


def _step(length: int) -> int:
    return min((1 << _LENGTH_BITS) - 1, round(math.log(max(1, length)) / _STEP))


def key_of_message(thread_pk: int, seq: int, length: int, kind: int) -> int:
    """Return the key of a message."""
    return thread_pk << (_SHIFT + _SEQ_BITS) | seq << _SHIFT | _step(length) << _CLASS_BITS | kind


def key_of_other(pk: int, length: int, kind: int) -> int:
    """Return the key of an observation or a task."""
    return -((2 * pk + (kind == TASK)) << _SHIFT | _step(length) << _CLASS_BITS)


def first_key_of(thread_pk: int) -> int:
    """Return a key below those of all messages of a thread, and above those of the threads before it."""
    return thread_pk << (_SHIFT + _SEQ_BITS)


def thread_of(key: int) -> int:
    """Return the thread of a message's key."""
    return key >> (_SHIFT + _SEQ_BITS)


def seq_of(key: int) -> int:
    """Return the sequence number of a message's key."""
    return (key >> _SHIFT) & ((1 << _SEQ_BITS) - 1)


def is_task(key: int) -> bool:
    """Return whether a key is a task's."""
    return key < 0 and bool(-key >> _SHIFT & 1)
