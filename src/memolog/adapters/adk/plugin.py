"""Plugin of ADK: the model gets the context of the memory in place of all events of the session.

The plugin saves the events of the session, whichever service keeps them. The messages have the ids of the events.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, cast

from memolog import Context, NewMessage, NotFound
from memolog.adapters.adk.events import (
    KEY,
    Owner,
    content_json,
    content_of,
    is_aside,
    message_of,
    resource_of,
    rewind_with,
    without_made_ids,
)
from memolog.adapters.alignment import after_last_answer
from memolog.adapters.driver import Driver
from memolog.adapters.google.messages import to_request
from memolog.adapters.guards import check_memory
from memolog.adapters.new_messages import AgentTurn
from memolog.adapters.provider_limits import is_refusal, usage_of_total, weight
from memolog.core.run import Usage
from memolog.errors import MemologError
from memolog.memory import Memory
from memolog.sync import SyncMemory
from memolog.transfer.conversation import as_data
from memolog.transfer.exact import Json

_BasePlugin: Final[Any] = import_module("google.adk.plugins.base_plugin").BasePlugin
_Gemini: Final[Any] = import_module("google.adk.models.google_llm").Gemini

_log = logging.getLogger("memolog")
# The kit begins the words of another agent with this text when it builds a request.
_OF_OTHERS: Final = "For context:"
# Larger than every sequence number.
_LAST: Final = 2**62
_PAGE: Final = 200


class MemologPlugin(_BasePlugin):
    """A long memory for all agents of an app: `Runner(…, plugins=[MemologPlugin(memory)])`.

    An agent of a branch (in a `ParallelAgent` or a task), and one with `include_contents="none"`, gets its request unchanged.
    """

    def __init__(
        self,
        memory: Memory | SyncMemory,
        *,
        resource: Owner | None = None,
        zone: str | None = None,
        name: str = "memolog",
    ) -> None:
        """Set the memory. The thread of a session has its id.

        `resource` is a resource, or a function that gets the name of the app and the id of the user. The default is `app/user`.
        """
        super().__init__(name=name)  # pyright: ignore[reportUnknownMemberType]
        check_memory(memory, Memory, SyncMemory)
        self._driver, self._owner, self._zone = Driver(memory), resource, zone
        self._runs: dict[str, _Run] = {}

    def _run(self, invocation: Any) -> "_Run":
        """Return the run of an invocation. A tool that runs an agent has an invocation and a session of its own."""
        if (run := self._runs.get(invocation.invocation_id)) is None:
            session = invocation.session
            resource = resource_of(self._owner, session.app_name, session.user_id)
            run = _Run(self._driver.memory, resource, session.id, zone=self._zone)
            run.invocation = invocation.invocation_id
            self._runs[invocation.invocation_id] = run
        return run

    # ------------------------------------------------------------ callbacks of the kit

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Note the invocation, so that its events are saved even if no model is called."""
        self._run(invocation_context)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Save the new events and replace the contents of the request by the context."""
        # There is no public way to the agent and the branch of a call.
        invocation = callback_context._invocation_context  # noqa: SLF001
        agent = invocation.agent
        if is_aside(invocation) or getattr(agent, "include_contents", "default") == "none":
            return
        run = self._run(invocation)
        context = await self._driver.later(run.prepare(invocation.session.events, llm_request.model))
        own = llm_request.config.system_instruction
        run.beside = weight([own] if isinstance(own, str) else [], _declared(llm_request), self._driver.memory.counter)
        _fill(llm_request, context, invocation.session.events, agent)

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
        """Withdraw a question that the provider refuses for good. After other errors it stays."""
        del llm_request
        run = self._runs.get(callback_context.invocation_id)
        if run is not None and is_refusal(error):
            await self._driver.later(run.take_back())

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Save the answer and end the turn."""
        await self._end(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Save what was answered before the error, and end the turn."""
        del error
        await self._end(invocation_context)

    async def close(self) -> None:
        """End the turns of invocations that did not end."""
        runs, self._runs = self._runs, {}
        for run in runs.values():
            await self._driver.later(run.leave())

    async def _end(self, invocation: Any) -> None:
        run = self._runs.get(invocation.invocation_id)
        if run is None:
            return
        try:
            await self._driver.later(run.end(invocation.session.events))
        finally:
            del self._runs[invocation.invocation_id]


class _Run(AgentTurn):
    """The turn of an invocation."""

    invocation = ""
    beside = 0
    """The number of tokens of the instructions and tools of the last request."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The number of events that are saved, or None before the first step.
        self._saved: int | None = None
        self._model: str | None = None
        self._is_refused = False

    async def prepare(self, events: Sequence[Any], model: str | None) -> Context:
        """Save the new events and return the context of the next request."""
        self._model = model or self._model
        said, self._saved = await self._new(events), len(events)
        turn = await self.open()
        answers = [one for one in said if one[0].role == "assistant"]
        if not answers:
            return await turn.prepare(*(message for message, _ in said), model=self._model)
        await self._record(said)
        return await turn.prepare(model=self._model)

    async def end(self, events: Sequence[Any]) -> None:
        """Save the rest of the events and end the turn."""
        if not self._is_refused:
            said, self._saved = await self._new(events), len(events)
            if said:
                await self._record(said)
        await self.leave()

    async def take_back(self) -> None:
        """Withdraw what the provider refused, and save nothing more."""
        self._is_refused = True
        # The caller must get the error of the provider, even if the database cannot be read.
        with suppress(MemologError):
            newest = await self.memory.thread(self.thread, resource=self.resource).messages(before=_LAST, limit=_PAGE)
            live = [row for row in newest.items if row.state == "live"]
            # A session service of this package saves events before the turn does.
            self._repeated += tuple(
                row.seq
                for row in after_last_answer(live)
                if as_data(row.metadata.get(KEY)).get("invocation") == self.invocation
            )
        await super().take_back()

    async def _record(self, said: Sequence[tuple[NewMessage, Usage | None]]) -> None:
        turn = await self.open()
        for message, usage in said:
            await turn.record(message, model=self._model, usage=usage, beside=self.beside)

    async def _new(self, events: Sequence[Any]) -> list[tuple[NewMessage, Usage | None]]:
        """Return the messages of the events that are not stored yet, with the usage of each."""
        if self._saved is None:
            self._saved = await self._stored(events)
        new = [(event, message_of(event)) for event in events[self._saved :]]
        return [(message, _usage(event, self._model)) for event, message in new if message is not None]

    async def _stored(self, events: Sequence[Any]) -> int:
        """Return how many events are stored: all up to the last one whose message the thread has, or had.

        If the session was rewound, the thread is rewound too.
        """
        if self.memory.config.read_only:
            return max(0, len(events) - 1)
        handle = self.memory.thread(self.thread, resource=self.resource)
        try:
            newest = {row.id for row in (await handle.messages(before=_LAST, limit=_PAGE)).items}
            count = len(events)
            while count and not (events[count - 1].id in newest or await self._is_stored(events[count - 1])):
                count -= 1
        except NotFound:
            return 0
        except MemologError as error:
            if self.memory.config.strict:
                raise
            _log.warning("stored messages cannot be read, so only the last event counts as new: %s", error)
            return max(0, len(events) - 1)
        try:
            await self._rewind(events, count)
        except MemologError as error:
            if self.memory.config.strict:
                raise
            _log.warning("the thread cannot be rewound with its session: %s", error)
        return count

    async def _is_stored(self, event: Any) -> bool:
        message = message_of(event)
        if message is None:
            return False
        handle = self.memory.thread(self.thread, resource=self.resource)
        return bool(await self.rows(event.id)) or bool(await handle.forgotten([message]))

    async def _rewind(self, events: Sequence[Any], stored: int) -> None:
        """Rewind the thread if an event after the stored ones rewinds the session."""
        resource = self.memory.resource(self.resource)
        for place in range(stored, len(events)):
            await rewind_with(resource, self.thread, events[:place], events[place])


# ---------------------------------------------------------------- requests


def _fill(request: Any, context: Context, events: Sequence[Any], agent: Any) -> None:
    """Put the context into a request: the log into the system instruction, the messages in place of the contents."""
    contents = cast("list[Json]", to_request(context)["contents"])
    added = _added(request.contents, events)
    if added:
        # The kit adds such contents, for example a changing instruction, before the last question.
        place = next(
            (
                n
                for n in range(len(contents) - 1, -1, -1)
                if contents[n]["role"] == "user" and not _has_result(contents[n])
            ),
            len(contents),
        )
        contents[place:place] = added
    if context.system:
        request.append_instructions([context.system])
    model = getattr(agent, "canonical_model", None)
    if isinstance(model, _Gemini) and not cast("Any", model).use_interactions_api:
        contents = without_made_ids(contents)
    request.contents = [content_of(one) for one in contents]


def _added(contents: Sequence[Any], events: Sequence[Any]) -> list[Json]:
    """Return the texts for the model in a request that come from no event."""
    known = {_texts(content_json(event.content)) for event in events if event.content}
    given = [content_json(one) for one in contents if one.role == "user"]
    return [
        one
        for one in given
        if (texts := _texts(one))
        and not _has_result(one)
        and texts not in known
        and not texts[0].startswith(_OF_OTHERS)
    ]


def _texts(content: Json) -> tuple[str, ...]:
    return tuple(part["text"] for part in content.get("parts", ()) if "text" in part)


def _has_result(content: Json) -> bool:
    return any("functionResponse" in part for part in content.get("parts", ()))


def _declared(request: Any) -> list[Json]:
    """Return the declarations of the tools of a request."""
    tools = [tool for tool in request.config.tools or () if getattr(tool, "function_declarations", None)]
    return [
        cast("Json", one.model_dump(mode="json", exclude_none=True))
        for tool in tools
        for one in tool.function_declarations
    ]


def _usage(event: Any, model: str | None) -> Usage | None:
    counts: Mapping[str, Any] = (
        event.usage_metadata.model_dump(exclude_none=True) if getattr(event, "usage_metadata", None) else {}
    )
    if not counts:
        return None
    total = counts.get("prompt_token_count", 0) + counts.get("tool_use_prompt_token_count", 0)
    output = counts.get("candidates_token_count", 0) + counts.get("thoughts_token_count", 0)
    named = getattr(event, "model_version", None) or model
    return usage_of_total(named, total, output, counts.get("cached_content_token_count"), 0)
