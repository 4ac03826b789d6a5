"""Plain Anthropic clients with memory: `wrap`, streamed or not, with marks for the cache.

Knows the API's path and which of its arguments hold what is said. Knows no client but by its calls.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from memolog.adapters.anthropic.messages import MARK, messages_api
from memolog.adapters.exchange import Bound, OpenTurn, at, remembering
from memolog.adapters.guards import SyncGuardedTurn
from memolog.adapters.roundtrip import Json
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
    cache: Json | None = MARK,
) -> C:
    """Return a client like this one that remembers, over the same connections.

    `Anthropic` goes with `SyncMemory`, `AsyncAnthropic` with `Memory`. Its calls are the client's own. A call may name another
    thread and resource with `**at(…)`; with `turn` all calls are steps of a turn that you opened. `cache` is what marks the
    cache, `{"type": "ephemeral", "ttl": "1h"}` for a longer one, None for none.
    """
    bound = partial(Bound, apis=(messages_api(cache),), thread=thread, resource=resource, zone=zone, settings=settings)
    return remembering(client, memory, turn, bound)
