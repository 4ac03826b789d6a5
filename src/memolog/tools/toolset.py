"""The toolset: three tools over one memory, for one resource. Errors are returned, never raised into the agent."""

import logging
from typing import Any, Final

from memolog.domain.errors import MemologError
from memolog.domain.own import OWN_TOOLS, called_tool
from memolog.runtime.memory import Memory
from memolog.tools.definitions import Form, definition, guidance
from memolog.tools.mutating import mutate_tasks
from memolog.tools.querying import query_tasks
from memolog.tools.scope import Scope
from memolog.tools.searching import search_memory
from memolog.tools.showing import clip
from memolog.tools.understanding import Misunderstood, understand

__all__ = ["Toolset"]

_log = logging.getLogger("memolog")

_MOST_ERROR: Final = 2_000
_PERFORM: Final = {"task-query": query_tasks, "task-mutate": mutate_tasks, "memory-search": search_memory}


class Toolset:
    """The tools of one resource, for one thread and session."""

    def __init__(self, memory: Memory, resource: str, *, thread: str | None = None, session: str | None = None) -> None:
        """Name whose memory it is; what is claimed is claimed for the session, and is the active task of the thread."""
        self.resource, self.thread, self.session = resource, thread, session
        self._scope = Scope(memory=memory, resource=resource, thread=thread, session=session)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return OWN_TOOLS

    @property
    def guidance(self) -> str:
        """Return how to use the tools, for the system prompt."""
        return guidance()

    def definitions(self, form: Form = "openai") -> list[dict[str, Any]]:
        """Return the definitions to give to a model: in the form of `openai`, `openai-responses`, `anthropic` or `mcp`."""
        return [definition(tool, form) for tool in OWN_TOOLS]

    async def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call: `{"success": True, …}`, or `{"success": False, "error": …, "retryable": …}`."""
        try:
            return await self._call(name, arguments)
        except Misunderstood as problem:
            return _failure(str(problem), retryable=False)
        except MemologError as error:
            if error.for_outside != str(error):
                _log.warning("the tool %r failed: %s", name, error)
            return _failure(error.for_outside, retryable=error.retryable)
        except Exception:  # noqa: BLE001 - an agent is never stopped by its memory
            _log.exception("the tool %r failed in a way that it never should", name)
            return _failure("The memory failed to answer. Go on without it, or try once more.", retryable=True)

    async def _call(self, name: str, arguments: object) -> dict[str, Any]:
        tool = called_tool(name)
        if tool is None:
            raise Misunderstood(f"There is no tool {str(name)[:80]!r} here. There are {', '.join(OWN_TOOLS)}.")
        understood = understand(tool, arguments)
        perform: Any = _PERFORM[tool]
        answer: dict[str, Any] = await perform(self._scope, understood.action)
        note = {"ignored": sorted(understood.ignored)[:10]} if understood.ignored else {}
        return {"success": True, **answer, **note}


def _failure(error: str, *, retryable: bool) -> dict[str, Any]:
    return {"success": False, "error": clip(error, _MOST_ERROR), "retryable": retryable}
