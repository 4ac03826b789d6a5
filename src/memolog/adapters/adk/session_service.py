"""Session service of ADK: sessions, events and state are stored in a memory.

What is said in an event is stored once, as a message of the thread. The rest of an event is an item that names the parts of the
message by their positions, so a forgotten message is gone from the session too. Each key of a state is an item of its own, so
two processes that change different keys do not overwrite each other.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any, Final, cast

from memolog import Message, NewMessage, NotFound
from memolog.adapters.adk.events import (
    Owner,
    content_json,
    is_kept,
    message_of,
    own_resource,
    resource_of,
    rewind_with,
)
from memolog.adapters.driver import Driver
from memolog.adapters.google.messages import to_contents
from memolog.adapters.guards import check_memory
from memolog.core.clock import IdMaker, SystemClock, system_chance
from memolog.core.item import Item, ItemChange, Namespace
from memolog.memory import Memory, Resource
from memolog.sync import SyncMemory
from memolog.transfer.exact import Json

_Base: Final[Any] = import_module("google.adk.sessions.base_session_service")
_BaseSessionService: Final[Any] = _Base.BaseSessionService
_Session: Final[Any] = import_module("google.adk.sessions.session").Session
_Event: Final[Any] = import_module("google.adk.events.event").Event
_AlreadyExists: Final[Any] = import_module("google.adk.errors.already_exists_error").AlreadyExistsError
_SessionNotFound: Final[Any] = import_module("google.adk.errors.session_not_found_error").SessionNotFoundError
_Stale: Final[Any] = import_module("google.adk.errors").StaleSessionError
_jsonable: Final[Any] = import_module("pydantic_core").to_jsonable_python

_APP, _USER, _TEMP = "app:", "user:", "temp:"
_PAGE: Final = 200


class MemologSessionService(_BaseSessionService):
    """Stores sessions with their resource: `Runner(session_service=MemologSessionService(memory), …)`."""

    def __init__(self, memory: Memory | SyncMemory, *, resource: Owner | None = None) -> None:
        """Set the memory. The thread of a session has its id.

        `resource` is a resource, or a function that gets the name of the app and the id of the user. The default is `app/user`.
        The state of an app belongs to no user. It is stored in the resource `app/`.
        """
        check_memory(memory, Memory, SyncMemory)
        self._driver, self._owner = Driver(memory), resource
        self._new_id = IdMaker(SystemClock().now, system_chance)

    # ------------------------------------------------------------ the protocol of the kit

    async def create_session(
        self, *, app_name: str, user_id: str, state: Mapping[str, Any] | None = None, session_id: str | None = None
    ) -> Any:
        """Create a session. Raise AlreadyExistsError if there is one with this id."""
        id_ = (session_id or "").strip() or self._new_id()
        place = self._place(app_name, user_id)
        given: Json = _jsonable(dict(state or {}), serialize_unknown=True)
        if not await self._driver.later(place.create(id_, given)):
            raise _AlreadyExists(f"Session with id {id_} already exists.")
        return await self.get_session(app_name=app_name, user_id=user_id, session_id=id_)

    async def get_session(self, *, app_name: str, user_id: str, session_id: str, config: Any = None) -> Any:
        """Return a session with its events and state, or None if it does not exist."""
        found = await self._driver.later(self._place(app_name, user_id).read(session_id.strip()))
        if found is None:
            return None
        about, state, events = found
        made = [_Event.model_validate_json(json.dumps(event)) for event in events]
        if config and config.after_timestamp is not None:
            made = [event for event in made if event.timestamp >= config.after_timestamp]
        if config and config.num_recent_events is not None:
            made = made[max(0, len(made) - config.num_recent_events) :]
        return _session(app_name, user_id, session_id.strip(), about, state, made)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> Any:
        """Return the sessions of a user, or of all users, without events. The session that was changed last is the last one."""
        found = await self._driver.later(self._list(app_name, user_id))
        made = [_session(app_name, user, id_, about, state, []) for user, id_, about, state in found]
        return _Base.ListSessionsResponse(
            sessions=sorted(made, key=lambda one: (one.last_update_time, one.user_id, one.id))
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Forget a session: its events, its state, and everything that was observed in it. This cannot be undone."""
        await self._driver.later(self._place(app_name, user_id).delete(session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user. The keys have no prefix."""
        return await self._driver.later(self._place(app_name, user_id).user_state())

    async def append_event(self, session: Any, event: Any) -> Any:
        """Store an event and add it to the session. Storing it again changes nothing."""
        if event.partial or any(one.id == event.id for one in session.events):
            return event
        place = self._place(session.app_name, session.user_id)
        since = await self._driver.later(place.updated(session.id))
        if since is None:
            raise _SessionNotFound(f"Session {session.id} not found.")
        if since > session.last_update_time:
            raise _Stale("The session was changed since it was read. Read it again with get_session.")
        await self._driver.later(place.append(session, event))
        session.last_update_time = event.timestamp
        base: Any = super()
        return await base.append_event(session=session, event=event)

    # ------------------------------------------------------------ inside

    def _place(self, app_name: str, user_id: str) -> "_Place":
        memory = self._driver.memory
        resource = memory.resource(resource_of(self._owner, app_name, user_id))
        return _Place(resource, memory.resource(own_resource(app_name, "")), app_name, user_id)

    async def _list(self, app_name: str, user_id: str | None) -> list[tuple[str, str, Json, Json]]:
        memory = self._driver.memory
        owners = await memory.resources() if user_id is None else [resource_of(self._owner, app_name, user_id)]
        found: list[tuple[str, str, Json, Json]] = []
        for owner in owners:
            names = await memory.resource(owner).items().namespaces((_KIND, app_name))
            for user in sorted({name[2] for name in names if name[2:] and user_id in {None, name[2]}}):
                app = memory.resource(own_resource(app_name, ""))
                place = _Place(memory.resource(owner), app, app_name, user)
                found += [(user, id_, about, state) for id_, about, state in await place.sessions()]
        return found


_KIND: Final = "adk"


class _Place:
    """The items of one user of an app."""

    def __init__(self, resource: Resource, app: Resource, app_name: str, user_id: str) -> None:
        self._resource, self._app = resource, app
        self._items = resource.items()
        self._of_user: Namespace = (_KIND, app_name, user_id)
        self._of_app: Namespace = (_KIND, app_name)

    def _sessions(self) -> Namespace:
        return (*self._of_user, "sessions")

    def _of(self, what: str, session: str) -> Namespace:
        return (*self._of_user, what, session)

    async def create(self, session: str, state: Json) -> bool:
        """Create a session. Return False if it exists."""
        if await self._items.get(self._sessions(), session) is not None:
            return False
        now = SystemClock().now().timestamp()
        about = ItemChange(self._sessions(), session, {"updated": now})
        await self._change(session, state, [about])
        return True

    async def updated(self, session: str) -> float | None:
        """Return when a session was changed; None if it does not exist."""
        found = await self._items.get(self._sessions(), session)
        return None if found is None else float(cast("float", found.value["updated"]))

    async def append(self, session: Any, event: Any) -> None:
        """Store an event: what it says as a message, the rest and the state as items."""
        thread = self._resource.thread(session.id)
        await rewind_with(self._resource, session.id, session.events, event)
        said = message_of(event)
        if said is not None:
            await thread.save([said])
        data = _without_words(event)
        delta: Json = data.get("actions", {}).get("state_delta") or {}
        kept = {name: value for name, value in delta.items() if not name.startswith(_TEMP)}
        if delta:
            data["actions"]["state_delta"] = kept
        changes = [
            ItemChange(self._of("events", session.id), event.id, data),
            ItemChange(self._sessions(), session.id, {"updated": event.timestamp}),
        ]
        await self._change(session.id, kept, changes)

    async def _change(self, session: str, state: Json, changes: Sequence[ItemChange]) -> None:
        """Store a state together with other changes. That of the app is stored first, because it is in another resource."""
        of_app = [
            ItemChange(self._of_app, name.removeprefix(_APP), {"value": value})
            for name, value in state.items()
            if name.startswith(_APP)
        ]
        if of_app:
            await self._app.items().change(of_app)
        own = [
            ItemChange((*self._of_user, "state"), name.removeprefix(_USER), {"value": value})
            if name.startswith(_USER)
            else ItemChange(self._of("values", session), name, {"value": value})
            for name, value in state.items()
            if not name.startswith((_APP, _TEMP))
        ]
        await self._items.change([*own, *changes])

    async def user_state(self) -> Json:
        """Return the state of the user."""
        return _values(await self._items.list((*self._of_user, "state")))

    async def state(self, session: str) -> Json:
        """Return the state that a session shows: its own, and those of the user and the app with their prefixes."""
        own = _values(await self._items.list(self._of("values", session)))
        of_user = {f"{_USER}{name}": value for name, value in (await self.user_state()).items()}
        of_app = _values([one for one in await self._app.items().list(self._of_app) if one.namespace == self._of_app])
        return {**own, **of_user, **{f"{_APP}{name}": value for name, value in of_app.items()}}

    async def sessions(self) -> list[tuple[str, Json, Json]]:
        """Return the id, the facts and the state of each session."""
        found = await self._items.list(self._sessions())
        return [(one.key, dict(one.value), await self.state(one.key)) for one in found]

    async def read(self, session: str) -> tuple[Json, Json, list[Json]] | None:
        """Return the facts, the state and the events of a session."""
        about = await self._items.get(self._sessions(), session)
        if about is None:
            return None
        said = await self._said(session)
        stored = list(await self._items.list(self._of("events", session)))
        # Events of the same time stay in the order in which they were stored.
        stored.reverse()
        stored.sort(key=_created)
        return dict(about.value), await self.state(session), [_with_words(item, said) for item in stored]

    async def _said(self, session: str) -> dict[str, list[Message]]:
        """Return the rows of each message of a thread."""
        thread, after, rows = self._resource.thread(session), 0, dict[str, list[Message]]()
        with suppress(NotFound):
            while page := (await thread.messages(after=after, limit=_PAGE)).items:
                after = page[-1].seq
                for row in page:
                    # A session shows rewound events too. The kit leaves them out of a request by itself.
                    if row.state != "forgotten":
                        rows.setdefault(row.id, []).append(row)
        return rows

    async def delete(self, session: str) -> None:
        """Forget a session."""
        with suppress(NotFound):
            await self._resource.forget(thread=session)
        gone = [one for what in ("events", "values") for one in await self._items.list(self._of(what, session))]
        changes = [ItemChange(one.namespace, one.key, None) for one in gone]
        await self._items.change([*changes, ItemChange(self._sessions(), session, None)])


def _created(item: Item) -> datetime:
    return item.created_at


def _values(items: Sequence[Item]) -> Json:
    return {item.key: item.value["value"] for item in items}


def _session(app_name: str, user_id: str, id_: str, about: Json, state: Json, events: Sequence[Any]) -> Any:
    return _Session(
        id=id_,
        app_name=app_name,
        user_id=user_id,
        state=state,
        events=list(events),
        last_update_time=about["updated"],
    )


# ---------------------------------------------------------------- events without their words


def _without_words(event: Any) -> Json:
    """Return an event as JSON. Each part that the message has is replaced by its position in the message."""
    data: Json = event.model_dump(mode="json", exclude_none=True, exclude={"content"})
    if event.content is None:
        return data
    content, count = content_json(event.content), 0
    parts: list[Any] = []
    for part in content.get("parts", ()):
        if is_kept(part, event):
            parts.append(count)
            count += 1
        else:
            parts.append(part)
    return {**data, "content": {**content, "parts": parts} if "parts" in content else content}


def _with_words(item: Item, said: Mapping[str, Sequence[Message | NewMessage]]) -> Json:
    """Return an event as the kit stored it. Parts of a message that was forgotten are missing."""
    data = dict(item.value)
    content = cast("Json | None", data.get("content"))
    if content is None or "parts" not in content:
        return data
    words: list[Any] = [part for one in to_contents(said.get(item.key, ())) for part in one["parts"]]
    wanted = sum(isinstance(part, int) for part in content["parts"])
    parts: list[Any] = []
    for part in content["parts"]:
        if not isinstance(part, int):
            parts.append(part)
        elif part == wanted - 1:
            # A long message is stored in several rows, which have more parts.
            parts += words[part:]
        else:
            parts += words[part : part + 1]
    return {**data, "content": {**content, "parts": parts}}
