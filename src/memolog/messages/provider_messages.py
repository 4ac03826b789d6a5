"""Read messages in the formats of OpenAI and Anthropic.

A format is recognised by its fields, so that no provider library is imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, cast

from memolog.core.message import ROLES, AssistantMessage, NewMessage, UserMessage
from memolog.core.run import Usage
from memolog.errors import InputError, UnknownRole


class ProviderMessage(Protocol):
    """An object of a provider's library that can be converted to JSON."""

    def model_dump(self, *, mode: str = ..., exclude_unset: bool = ...) -> dict[str, Any]:
        """Return the object as JSON."""
        ...


Given: TypeAlias = (
    NewMessage | str | Mapping[str, Any] | ProviderMessage | Sequence[Mapping[str, Any] | ProviderMessage]
)
"""A message, its text, a dict in the form of OpenAI or Anthropic, or an object of their libraries."""

_ANTHROPIC_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document", "image"}
)
# `developer` and `function` are roles of OpenAI.
_ROLES: Final = frozenset({*ROLES, "developer", "function"})


def messages_in(given: Sequence[Given]) -> tuple[NewMessage, ...]:
    """Return the messages that were passed to `prepare`. A text is a message of the user."""
    return tuple(message for one in given for message in _read(one, is_answer=False)[0])


def answers_in(given: Sequence[Given]) -> tuple[tuple[NewMessage, ...], Usage | None]:
    """Return the messages that were passed to `record`, and the usage in a response. A text is a message of the model."""
    messages: list[NewMessage] = []
    usage: Usage | None = None
    for one in given:
        read, reported = _read(one, is_answer=True)
        messages += read
        usage = reported or usage
    return tuple(messages), usage


def _read(one: Given, *, is_answer: bool) -> tuple[Sequence[NewMessage], Usage | None]:
    if isinstance(one, NewMessage):
        return (one,), None
    if isinstance(one, str):
        return (AssistantMessage(one) if is_answer else UserMessage(one),), None
    data = _data(one)
    if isinstance(data, Mapping):
        read = _read_data(cast("Mapping[str, Any]", data))
        if not is_answer and not read[0]:
            raise InputError("The response has no message.", then="Pass responses of a model to record().")
        return read
    if isinstance(data, list) and data and all(isinstance(item, Mapping) for item in cast("list[object]", data)):
        return _adapter("openai.responses").from_items(data), None
    # Anything else is refused by `check_messages`.
    return (cast("NewMessage", one),), None


def _read_data(data: Mapping[str, Any]) -> tuple[Sequence[NewMessage], Usage | None]:
    if isinstance(data.get("choices"), list):
        return _answer(_adapter("openai.chat").from_response(data))
    if isinstance(data.get("output"), list) and "role" not in data and "call_id" not in data:
        return _answer(_adapter("openai.responses").from_response(data))
    if data.get("type") == "message" and "stop_reason" in data:
        return _answer(_adapter("anthropic.messages").from_response(data))
    if "role" not in data and "type" in data:
        return _adapter("openai.responses").from_items([data]), None
    if "role" not in data:
        raise InputError(
            f"A message in the form of a dict needs a `role`, got the fields {', '.join(map(str, data)) or 'none'}.",
            then='Pass {"role": "user", "content": "…"}, a text, or UserMessage("…").',
        )
    _check_role_and_content(data)
    content = data.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    kinds = {cast("Mapping[str, Any]", block).get("type") for block in blocks if isinstance(block, Mapping)}
    reader = _adapter("anthropic.messages") if kinds & _ANTHROPIC_BLOCKS else _adapter("openai.chat")
    made: Sequence[NewMessage] = reader.from_messages([data])
    given = data.get("id")
    if isinstance(given, str) and given and len(made) == 1 and made[0].id is None:
        made = (replace(made[0], id=given),)
    return made, None


def _check_role_and_content(data: Mapping[str, Any]) -> None:
    """Raise an error for a dict with an unknown role or without content."""
    role, content = data.get("role"), data.get("content")
    if not isinstance(role, str) or role not in _ROLES:
        raise UnknownRole(role, ROLES)
    has_calls = any(data.get(name) for name in ("tool_calls", "function_call", "audio", "refusal"))
    if not isinstance(content, str | list) and not (content is None and (has_calls or role in {"assistant", "tool"})):
        raise InputError(
            f"`content` of a message must be a text or a list of parts, got {type(content).__name__}.",
            then='Pass {"role": "user", "content": "…"}.',
        )


def _answer(answer: Any) -> tuple[Sequence[NewMessage], Usage | None]:
    return (() if answer.message is None else (answer.message,)), answer.usage


def _data(one: object) -> object:
    dump = getattr(one, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_unset=True)
    if isinstance(one, list | tuple):
        return [_data(item) for item in cast("Sequence[object]", one)]
    return one


def _adapter(name: str) -> Any:
    return import_module(f"memolog.adapters.{name}")
