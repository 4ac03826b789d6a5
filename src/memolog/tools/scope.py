"""The memory, resource, thread and session that a toolset acts on."""

from dataclasses import dataclass, field

from memolog.runtime.memory import Memory
from memolog.runtime.tasks import Tasks
from memolog.runtime.working_memory import WorkingMemory
from memolog.tools.naming import active_task

__all__ = ["Scope"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a toolset acts on."""

    memory: Memory
    resource: str
    thread: str | None = None
    session: str | None = None
    tasks: Tasks = field(init=False)

    def __post_init__(self) -> None:
        made = self.memory.resource(self.resource).tasks(session=self.session, who=self.who, thread=self.thread)
        object.__setattr__(self, "tasks", made)

    @property
    def who(self) -> str:
        """Return who is named in histories."""
        return self.session or self.thread or "agent"

    async def current(self) -> str | None:
        """Return the task in hand, or None."""
        return await active_task(self.memory, self.resource, self.thread)

    def document(self, *, of_thread: bool) -> WorkingMemory:
        """Return the working memory of the resource, or of the thread."""
        return self.memory.resource(self.resource).working_memory(thread=self.thread if of_thread else None)
