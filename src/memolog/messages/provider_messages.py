"""Read messages in the formats of OpenAI and Anthropic.

A format is recognised by its fields, so that no provider library is imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

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
"""A message, its text, a dict in the form of OpenAI or Anthropic, an object of their libraries, or a list of these."""

_ANTHROPIC_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document", "image"}
)
_RESPONSES_BLOCKS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
# The types of blocks of a message, which are no items of Responses. Results of Anthropic's own tools end with `_tool_result`.
_BLOCKS: Final = _ANTHROPIC_BLOCKS | _RESPONSES_BLOCKS | {"text", "image_url", "input_audio", "file"}
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
        return _read_list([cast("Mapping[str, Any]", data)], is_answer=is_answer)
    if isinstance(data, list) and data and all(isinstance(item, Mapping) for item in cast("list[object]", data)):
        return _read_list(cast("list[Mapping[str, Any]]", data), is_answer=is_answer)
    # Anything else is refused by `check_messages`.
    return (cast("NewMessage", one),), None


def _read_list(given: Sequence[Mapping[str, Any]], *, is_answer: bool) -> tuple[Sequence[NewMessage], Usage | None]:
    """Read dicts, each in its own form. Consecutive items of Responses are read together, and so are blocks of one message."""
    messages: list[NewMessage] = []
    usage: Usage | None = None
    for form, same in groupby(given, key=partial(_form, has_items=any(_form(data) == "item" for data in given))):
        together = list(same)
        if form == "item" and len(given) > 1:
            messages += _adapter("openai.responses").from_items(together)
            continue
        if form == "block":
            together = [{"role": "assistant" if is_answer else "user", "content": together}]
        for data in together:
            read, reported = _read_data(data)
            if not is_answer and not read:
                raise InputError("The response has no message.", then="Pass responses of a model to record().")
            messages += read
            usage = reported or usage
    return messages, usage


def _form(data: Mapping[str, Any], *, has_items: bool = False) -> Literal["item", "block", "message"]:
    """Return whether a dict is an item of Responses, a block of a message, or a message or response."""
    kind = str(data.get("type", ""))
    if "role" not in data and "choices" not in data and kind:
        return "block" if kind in _BLOCKS or kind.endswith("_tool_result") else "item"
    if "role" not in data or "stop_reason" in data:
        return "message"
    if kind == "message" or _block_types(data) & _RESPONSES_BLOCKS:
        return "item"
    # In a list with other items, a plain answer is part of the same answer as the items beside it.
    is_plain = data.get("role") == "assistant" and not (
        data.get("tool_calls") or _block_types(data) & _ANTHROPIC_BLOCKS
    )
    return "item" if has_items and is_plain else "message"


def _block_types(data: Mapping[str, Any]) -> set[Any]:
    content = data.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return {str(cast("Mapping[str, Any]", block).get("type")) for block in blocks if isinstance(block, Mapping)}


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
    made: Sequence[NewMessage]
    if _form(data) == "item":
        made = _adapter("openai.responses").from_items([data])
    else:
        is_anthropic = _block_types(data) & _ANTHROPIC_BLOCKS
        made = _adapter("anthropic.messages" if is_anthropic else "openai.chat").from_messages([data])
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
