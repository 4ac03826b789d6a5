"""Messages of Pydantic AI into ours, each with an id that follows from it.

Knows that one request may hold what a user said, what tools returned and what the application adds: ours are one message a
speaker. The way back is in `replay`. Knows no conversation and no store.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequestPart, ModelResponse

from memolog.adapters.pydantic_ai.parts import KEY, Json, mark, marked, request_role, to_request_parts, to_response_part
from memolog.domain.codec import dumps
from memolog.domain.message import NewMessage, Part, Role, UnknownPart
from memolog.domain.run import Usage

__all__ = ["dumped", "to_messages", "usage_of"]

_ID_CHARACTERS: Final = 24
_LONGEST_RUN: Final = 64


def dumped(message: ModelMessage) -> Json:
    """Return a message as the library writes it to JSON."""
    return cast("list[Json]", ModelMessagesTypeAdapter.dump_python([message], mode="json"))[0]


def to_messages(message: ModelMessage, *, after: int = 0, again: int = 0) -> tuple[NewMessage, ...]:
    """Return our messages for one of the library's, from its part number `after` on.

    Their ids follow from what they say and from the run they belong to, so that saving them twice saves them once; `again`
    tells equal messages of one run apart.
    """
    data = dumped(message)
    parts = cast("list[Json]", data.pop("parts"))
    envelope = {name: value for name, value in data.items() if value is not None}
    if isinstance(message, ModelResponse):
        groups: list[tuple[Role, list[Part]]] = [("assistant", [to_response_part(part) for part in parts[after:]])]
    else:
        groups = _by_role(parts[after:], message.parts[after:])
    if after == 0:
        groups = _enveloped(groups, envelope, "assistant" if isinstance(message, ModelResponse) else "user")
    where = _where(message, data, parts)
    said_at = _said_at(message)
    return tuple(
        NewMessage(role=role, parts=tuple(ours), id=_id(where, after, number, again), created_at=said_at)
        for number, (role, ours) in enumerate(groups)
        if ours
    )


def _by_role(parts: Sequence[Json], objects: Sequence[ModelRequestPart]) -> list[tuple[Role, list[Part]]]:
    groups: list[tuple[Role, list[Part]]] = []
    for part, said in zip(parts, objects, strict=True):
        role = request_role(part)
        if not groups or groups[-1][0] != role:
            groups.append((role, []))
        groups[-1][1].extend(to_request_parts(part, _shown(said)))
    return groups


def _shown(part: object) -> str:
    """Return what the library would tell the model: what is wrong, and what to do about it."""
    tell: Any = getattr(part, "model_response", None)
    return str(tell()) if callable(tell) else ""


def _enveloped(groups: list[tuple[Role, list[Part]]], envelope: Json, role: Role) -> list[tuple[Role, list[Part]]]:
    """Return the groups, the first part of which also carries what is said of the message as a whole."""
    if not groups or not groups[0][1]:
        return [(role, [UnknownPart(data={}, extra=mark(message=envelope))])]
    first = groups[0][1][0]
    extra = {**(first.extra or {}), KEY: {**marked(first), "message": envelope}}
    groups[0][1][0] = replace(first, extra=extra)
    return groups


def _said_at(message: ModelMessage) -> datetime | None:
    """Return when it was said, by the library's own clock."""
    if isinstance(message, ModelResponse):
        return message.timestamp
    times = (getattr(part, "timestamp", None) for part in message.parts)
    return next((time for time in times if isinstance(time, datetime)), message.timestamp)


def _where(message: ModelMessage, data: Json, parts: Sequence[Json]) -> str:
    """Return the run and a digest of what is said. A request is sent anew with another time, and stays what it is."""
    run, at = message.run_id or "", data["timestamp"] if isinstance(message, ModelResponse) else None
    digest = hashlib.sha256(dumps([run, at, list(parts)]).encode()).hexdigest()[:_ID_CHARACTERS]
    # Callers may choose the ids of their runs: what is too long or cannot be shown is only in the digest.
    return f"{run}:{digest}" if run.isprintable() and 0 < len(run) <= _LONGEST_RUN else digest


def _id(where: str, after: int, number: int, again: int) -> str:
    tail = "".join(f"{mark_}{count}" for mark_, count in (("+", after), (".", number), ("~", again)) if count)
    return f"{where}{tail}"


def usage_of(response: ModelResponse, model: str) -> Usage:
    """Return what a response cost, as its provider reported it."""
    counted = response.usage
    read, write = counted.cache_read_tokens, counted.cache_write_tokens
    return Usage(
        model=model,
        # The library counts cached tokens as input too; our ledger keeps them apart.
        input_tokens=max(0, counted.input_tokens - read - write),
        output_tokens=counted.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cost=_cost(response),
    )


def _cost(response: ModelResponse) -> float:
    """Return the price of a response in dollars; zero where no price list knows its model."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return 0.0
