"""Translate events of ADK to and from Memolog messages.

The type checker does not see the package, because it is not installed for it. So its values are `Any` here.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, TypeAlias

from memolog import NotFound
from memolog.adapters.google.messages import from_contents
from memolog.core.message import NewMessage
from memolog.memory import Resource
from memolog.transfer.conversation import as_data
from memolog.transfer.exact import Json

types: Final[Any] = import_module("google.genai.types")

Owner: TypeAlias = str | Callable[[str, str], str]
"""A resource, or a function that gets the name of an app and the id of a user and returns a resource."""

KEY: Final = "adk"
"""The name of the metadata of a message that came from an event."""
# Calls of the kit to its user interface, such as `adk_request_confirmation`. The kit does not show them to a model either.
_OF_THE_KIT: Final = "adk_request_"
# The kit gives such an id to a call without one. A model of Google must not get it.
_MADE_ID: Final = "adk-"


def own_resource(app_name: str, user_id: str) -> str:
    """Return the resource of a user of an app: `app/user`. Signs that would make it ambiguous are escaped."""
    return "/".join(one.replace("%", "%25").replace("/", "%2F") for one in (app_name, user_id))


def resource_of(owner: Owner | None, app_name: str, user_id: str) -> str:
    """Return the resource of a user."""
    if isinstance(owner, str):
        return owner
    return (owner or own_resource)(app_name, user_id)


def content_json(content: Any) -> Json:
    """Return a content as JSON of the API."""
    return content.model_dump(mode="json", by_alias=True, exclude_none=True)


def content_of(data: Json) -> Any:
    """Return the content of the library for JSON of the API."""
    # Only JSON text is read with bytes in base64. A dict would need them as bytes.
    return types.Content.model_validate_json(json.dumps(data))


def message_of(event: Any) -> NewMessage | None:
    """Return the message of an event; None if it says nothing.

    Of an event of a branch (a parallel agent or a task) only texts are kept. Its calls are not those of the conversation, and
    those of several branches would mix.
    """
    if event.partial or not event.content or not event.content.parts:
        return None
    data = content_json(event.content)
    parts = [part for part in data["parts"] if is_kept(part, event)]
    if not parts:
        return None
    role = "user" if event.author == "user" else data.get("role") or "model"
    [said] = from_contents([{**data, "role": role, "parts": parts}])
    return replace(
        said,
        id=event.id,
        created_at=datetime.fromtimestamp(event.timestamp, UTC),
        metadata={KEY: {"author": event.author, "invocation": event.invocation_id}},
    )


def is_aside(place: Any) -> bool:
    """Return whether an event or an invocation belongs to a branch: a parallel agent or a task."""
    return bool(place.branch or getattr(place, "isolation_scope", None))


def is_kept(part: Json, event: Any) -> bool:
    """Return whether the message of an event has this part."""
    # The last piece of a stream may have no more than an empty text.
    if part in ({}, {"text": ""}) or _is_of_the_kit(part):
        return False
    return not is_aside(event) or ("text" in part and not part.get("thought"))


async def rewind_with(resource: Resource, thread: str, events: Sequence[Any], event: Any) -> None:
    """Rewind a thread if an event rewinds the session. `events` are the events before it."""
    gone = event.actions.rewind_before_invocation_id
    first = next((n for n, one in enumerate(events) if gone and one.invocation_id == gone), None)
    if first is None:
        return
    kept = None
    for earlier in reversed(events[:first]):
        with suppress(NotFound):
            rows = await resource.message(earlier.id, thread=thread)
            if live := [row for row in rows if row.state == "live"]:
                kept = live[-1].seq
                break
    if kept is None:
        # No earlier event is stored, or the list begins here. Messages of others may stand before the first that goes.
        going: list[int] = []
        for one in events[first:]:
            with suppress(NotFound):
                rows = await resource.message(one.id, thread=thread)
                going += [row.seq for row in rows if row.state == "live"]
        if not going:
            return
        kept = min(going) - 1
    await resource.thread(thread).rewind(to=kept)


def _is_of_the_kit(part: Json) -> bool:
    named = as_data(part.get("functionCall") or part.get("functionResponse"))
    return str(named.get("name")).startswith(_OF_THE_KIT)


def without_made_ids(contents: Sequence[Json]) -> list[Json]:
    """Return contents without the ids that the kit made for calls."""
    return [{**one, "parts": [_without_made_id(part) for part in one["parts"]]} for one in contents]


def _without_made_id(part: Json) -> Json:
    for field in ("functionCall", "functionResponse"):
        named = part.get(field)
        if named and str(named.get("id", "")).startswith(_MADE_ID):
            return {**part, field: {name: value for name, value in named.items() if name != "id"}}
    return part
