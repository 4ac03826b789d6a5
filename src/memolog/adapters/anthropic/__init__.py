"""Memory for clients of Anthropic, streamed or not, with cache marks."""

from collections.abc import Mapping
from typing import Any, TypeVar

from memolog.adapters.anthropic.messages import MARK, messages_api
from memolog.adapters.exchange import OpenTurn, at, remembering
from memolog.adapters.guards import SyncGuardedTurn
from memolog.memory import Memory
from memolog.sync import SyncMemory, SyncTurn
from memolog.transfer.exact import Json

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
    """Return a copy of a client that uses memory. The copy shares the connections of the client.

    `Anthropic` needs a `SyncMemory`, and `AsyncAnthropic` needs a `Memory`. Pass `**at(…)` to a call for another thread and
    resource. With `turn` all calls belong to a turn that the caller opened. `cache` is the cache mark, such as
    `{"type": "ephemeral", "ttl": "1h"}`. With `cache=None` no marks are set.
    """
    apis = (messages_api(cache),)
    return remembering(client, memory, turn, apis, thread=thread, resource=resource, zone=zone, settings=settings)
