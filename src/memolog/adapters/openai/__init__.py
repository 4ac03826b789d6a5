"""Plain OpenAI clients with memory: `wrap`, for Responses and Chat Completions, streamed or not.

Knows the two APIs' paths and which of their arguments hold what is said. Knows no client but by its calls.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from memolog.adapters.exchange import Bound, OpenTurn, at, remembering
from memolog.adapters.guards import SyncGuardedTurn
from memolog.adapters.openai.chat import CHAT_API
from memolog.adapters.openai.responses import RESPONSES_API
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory, SyncTurn

__all__ = ["at", "wrap"]

C = TypeVar("C")


def wrap(
    client: C,
    memory: Memory | SyncMemory,
    *,
    thread: str | None = None,
    resource: str | None = None,
    zone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    turn: OpenTurn | SyncGuardedTurn | SyncTurn | None = None,
) -> C:
    """Return a client like this one that remembers, over the same connections.

    `OpenAI` goes with `SyncMemory`, `AsyncOpenAI` with `Memory`. Its calls are the client's own. A call may name another thread
    and resource with `**at(…)`; with `turn` all calls are steps of a turn that you opened.
    """
    bound = partial(
        Bound, apis=(CHAT_API, RESPONSES_API), thread=thread, resource=resource, zone=zone, settings=settings
    )
    return remembering(client, memory, turn, bound)
