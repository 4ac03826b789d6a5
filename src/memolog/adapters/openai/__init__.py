"""Memory for clients of OpenAI: Responses and Chat Completions, streamed or not."""

from collections.abc import Mapping
from typing import Any, TypeVar

from memolog.adapters.exchange import OpenTurn, at, remembering
from memolog.adapters.guards import SyncGuardedTurn
from memolog.adapters.openai.chat import CHAT_API
from memolog.adapters.openai.responses import RESPONSES_API
from memolog.memory import Memory
from memolog.sync import SyncMemory, SyncTurn

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
    """Return a copy of a client that uses memory. The copy shares the connections of the client.

    `OpenAI` needs a `SyncMemory`, and `AsyncOpenAI` needs a `Memory`. Pass `**at(…)` to a call for another thread and resource.
    With `turn` all calls belong to a turn that the caller opened.
    """
    apis = (CHAT_API, RESPONSES_API)
    return remembering(client, memory, turn, apis, thread=thread, resource=resource, zone=zone, settings=settings)
