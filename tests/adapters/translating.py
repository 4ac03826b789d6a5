"""What every translation must show: through the store and back, the same JSON.

Knows our messages and JSON. Knows no library.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from memolog import NewMessage
from memolog.context import Block, Context, ContextMessage
from memolog.domain.checking import check_message
from memolog.domain.message import parts_from_json

__all__ = ["JSON_VALUES", "context_of", "exact", "through_the_store"]

_TEXTS = st.text(max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


def exact(value: Any) -> str:
    """Return JSON text in which True is not 1; the order of fields means nothing in JSON."""
    return json.dumps(value, sort_keys=True)


def through_the_store(message: NewMessage) -> NewMessage:
    """Return the message as the store gives it back."""
    return replace(message, parts=parts_from_json(check_message(message)))


def context_of(messages: Sequence[NewMessage], *, log: Sequence[str] = (), edge: str = "") -> Context:
    """Return a context of these messages, with these groups in its log and this edge."""
    return Context(
        blocks=tuple(Block(name=f"group {n}", text=text, tokens=1, stable=True) for n, text in enumerate(log)),
        tail=tuple(
            ContextMessage(role=one.role, parts=through_the_store(one).parts, seq=n, speaker=one.speaker)
            for n, one in enumerate(messages, start=1)
        ),
        edge=(Block(name="now", text=edge, tokens=1, stable=False),) if edge else (),
    )
