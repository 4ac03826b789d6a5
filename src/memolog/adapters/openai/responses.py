"""Translate items of the Responses API (JSON) to and from Memolog messages, streamed or not.

Consecutive items of the model become one message, so that its calls stay together. Encrypted reasoning is passed through
unchanged.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Final, cast

from memolog import Context
from memolog.adapters.exchange import Answer, Api, with_speaker
from memolog.adapters.new_messages import Said
from memolog.adapters.openai.chat import content_block, usage_from, without_nothing
from memolog.adapters.openai.chat import split as split_messages
from memolog.core.exact_json import JsonValue, sendable
from memolog.core.message import (
    FilePart,
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.transfer.conversation import Data, as_data, as_list
from memolog.transfer.exact import (
    Json,
    applied,
    difference,
    json_text,
    note,
    noted,
    notes,
    read_result,
    sent_result,
    write_result,
)
from memolog.transfer.messages import CALLS, content_part, content_parts, item_parts, openai_role

KEY: Final = "openai-responses"
# The types of items that the caller sends and that are not messages.
_FROM_CALLER: Final = ("mcp_approval_response",)
_input_block: Final = partial(content_block, key=KEY, kind="input_text")


# ---------------------------------------------------------------- from the API


def from_items(items: str | Iterable[Data]) -> tuple[NewMessage, ...]:
    """Return the Memolog messages: one for each item of the caller, and one for consecutive items of the model."""
    if isinstance(items, str):
        return (NewMessage(role="user", parts=(TextPart(text=items),)),)
    read = [_item(item) for item in items]
    messages: list[NewMessage] = []
    for role, same_role in groupby(read, key=lambda one: one[0]):
        groups = [parts for _, parts in same_role]
        if role == "assistant":
            messages.append(_joined(groups))
        else:
            messages.extend(NewMessage(role=cast("Role", role), parts=parts) for parts in groups)
    return tuple(messages)


def split(items: str | Sequence[Data]) -> tuple[tuple[Data, ...], str | tuple[Data, ...]]:
    """Return the instructions at the beginning of an input, and the items after them."""
    if isinstance(items, str):
        return (), items
    return split_messages(items)


def from_response(data: Data) -> Answer:
    """Return an answer, with all its items in one message, and the usage of the answer."""
    groups = [_item(as_data(item))[1] for item in as_list(data.get("output"))]
    about = {"id": data.get("id"), "model": data.get("model"), "status": data.get("status")}
    metadata = {"openai": {name: value for name, value in about.items() if value}}
    return Answer(
        message=replace(_joined(groups), metadata=metadata) if groups else None,
        usage=usage_from(data, "input_tokens", "output_tokens"),
    )


def _joined(groups: Sequence[tuple[Part, ...]]) -> NewMessage:
    """Return the items as one message. A note marks where the second and every later item begins."""
    parts = [
        part if number == 0 or place else noted(part, KEY)
        for number, group in enumerate(groups)
        for place, part in enumerate(group)
    ]
    return NewMessage(role="assistant", parts=tuple(parts))


def _item(item: Data) -> tuple[Role, tuple[Part, ...]]:
    role, parts = _read(item)
    if isinstance(parts[0], UnknownPart) and notes(parts[0], KEY).get("whole"):
        return role, parts
    rest = tuple(noted(part, KEY, more=True) for part in parts[1:])
    change = difference(_plain(role, (parts[0], *rest)), dict(item))
    return role, (parts[0] if change is None else noted(parts[0], KEY, change=change), *rest)


def _read(item: Data) -> tuple[Role, tuple[Part, ...]]:
    kind = item.get("type")
    if kind == "reasoning":
        return "assistant", (_reasoning(item),)
    if kind in {"message", None} and openai_role(item.get("role")):
        content = item.get("content")
        found = [noted(part, KEY) if isinstance(part, UnknownPart) else part for part in content_parts(content)]
        parts: list[Part] = [*found] or [TextPart(text="")]
        if isinstance(content, list):
            parts[0] = noted(parts[0], KEY, list=True)
        return openai_role(item.get("role")) or "user", tuple(parts)
    part = next(iter((item_parts(item) or ("user", ()))[1]), None)
    if isinstance(part, ToolCallPart):
        return "assistant", (part if kind == "function_call" else noted(part, KEY, type=kind),)
    if isinstance(part, ToolResultPart):
        content, files, shape = read_result(item.get("output"), content_part, _input_block)
        result = replace(part, content=content, files=files)
        is_plain = kind == "function_call_output" and shape is None
        return "tool", (result if is_plain else noted(result, KEY, type=kind, shape=shape),)
    role: Role = "user" if kind in _FROM_CALLER else "assistant"
    return role, (UnknownPart(data=dict(item), extra={KEY: {"whole": True}}),)


def _reasoning(item: Data) -> Part:
    summary, content = as_list(item.get("summary")), as_list(item.get("content"))
    found, _, shape = read_result([*summary, *content], _thought, _thought_block)
    text = found if shape is not None else ""
    encrypted = item.get("encrypted_content")
    part = ReasoningPart(text=text, encrypted=encrypted if isinstance(encrypted, str) else None)
    return noted(part, KEY, shape=shape, summaries=len(summary) if shape is not None else None)


def _thought(block: Data) -> Part:
    return TextPart(text=block["text"]) if isinstance(block.get("text"), str) else UnknownPart(data=dict(block))


def _thought_block(part: Part) -> JsonValue:
    return {"type": "summary_text", "text": part.text} if isinstance(part, TextPart) else None


# ---------------------------------------------------------------- to the API


def to_items(messages: Iterable[Said]) -> list[Json]:
    """Return the items of the API. Items that came from the API are written back unchanged."""
    return [item for said in messages for item in _write(said)]


def to_request(
    context: Context, *, instructions: str | None = None, opening: Sequence[Data] = (), is_stored: bool = True
) -> Json:
    """Return instructions and input of a request: the caller's instructions, the prefix, the messages, and the edge.

    `opening` are the instructions that `split` returned. The prefix follows them. `is_stored` is `store` of the request. If it is
    False, reasoning without encrypted content is left out, because the provider has not stored the reasoning.
    """
    said = [
        sendable(without_nothing(_with_output(item)))
        for message in context.joined()
        for item in _with_followers(
            item for item in _write(with_speaker(message)) if _is_sendable(item, is_stored=is_stored)
        )
    ]
    first: list[Json] = [dict(item) for item in opening]
    texts = [instructions] if instructions else []
    if context.system:
        if first:
            first.append({"role": "developer", "content": context.system})
        else:
            texts.append(context.system)
    request: Json = {"instructions": "\n\n".join(texts)} if texts else {}
    return {**request, "input": [*first, *said]}


def _with_output(item: Json) -> Json:
    """Return the item. The result of a call has an output, also if it is empty."""
    is_result = str(item.get("type")).endswith("_call_output")
    return {**item, "output": sent_result(item.get("output"))} if is_result else item


def _is_sendable(item: Json, *, is_stored: bool) -> bool:
    if item.get("type") == "reasoning":
        return is_stored or bool(item.get("encrypted_content"))
    return item.get("type", "message") != "message" or bool(item.get("content"))


def _write(said: Said) -> Iterator[Json]:
    for group in _groups(said.parts):
        first = group[0]
        kept = note(first, KEY)
        if isinstance(first, UnknownPart) and (kept or {}).get("whole"):
            yield dict(first.data)
        elif not isinstance(first, ReasoningPart) or kept is not None:
            # Reasoning of another provider has no note. It is skipped, because it cannot be sent.
            role: Role = "user" if said.role == "tool" and not isinstance(first, ToolResultPart) else said.role
            yield applied(_plain(role, group), (kept or {}).get("change"))


def _groups(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Return the parts, grouped by item."""
    groups: list[tuple[Part, ...]] = []
    for part in parts:
        kept = note(part, KEY)
        is_more = kept is None or kept.get("more")
        if groups and is_more and _is_said(part) and _is_said(groups[-1][0]):
            groups[-1] = (*groups[-1], part)
        else:
            groups.append((part,))
    return groups


def _is_said(part: Part) -> bool:
    if isinstance(part, UnknownPart):
        return not notes(part, KEY).get("whole")
    return isinstance(part, TextPart | FilePart)


def _plain(role: Role, parts: tuple[Part, ...]) -> Json:
    """Return the item as JSON of the API. Changes that a note of the item contains are not applied."""
    first = parts[0]
    kept = note(first, KEY) or {}
    match first:
        case ToolCallPart():
            return _call(first, str(kept.get("type", "function_call")))
        case ToolResultPart():
            output = write_result(first, kept.get("shape"), _input_block)
            output = "" if output is None and kept.get("type") is None else output
            return {
                "type": kept.get("type", "function_call_output"),
                "call_id": first.call_id,
                "output": json_text(output) if kept.get("type") is None and not isinstance(output, list) else output,
            }
        case ReasoningPart():
            return _reasoning_item(first, kept)
        case _:
            pass
    if len(parts) == 1 and isinstance(first, TextPart) and not kept.get("list"):
        return {"role": role, "content": first.text}
    if role == "assistant":
        return {"type": "message", "role": role, "status": "completed", "content": [_said(part) for part in parts]}
    return {"role": role, "content": [_input_block(part) for part in parts]}


def _call(part: ToolCallPart, kind: str) -> Json:
    arguments = json_text(part.arguments) if kind == "function_call" else part.arguments
    name = {"name": part.name} if kind in {"function_call", "custom_tool_call"} else {}
    return {"type": kind, "call_id": part.id, **name, CALLS[kind]: arguments}


def _reasoning_item(part: ReasoningPart, kept: Json) -> Json:
    text = ToolResultPart(call_id="", content=part.text)
    blocks = cast("list[Any]", write_result(text, kept.get("shape") or [], _thought_block))
    count = kept.get("summaries", len(blocks))
    item: Json = {"type": "reasoning", "summary": blocks[:count]}
    if blocks[count:]:
        item["content"] = blocks[count:]
    return item if part.encrypted is None else {**item, "encrypted_content": part.encrypted}


def _said(part: Part) -> JsonValue:
    block = content_block(part, KEY, "output_text")
    is_theirs = isinstance(part, UnknownPart) and note(part, KEY) is not None
    return block if block is None or is_theirs else {**cast("Json", block), "annotations": []}


class ResponseStream:
    """Assembles a streamed response. If the stream ends early, its tool calls are left out."""

    def __init__(self) -> None:
        self._response: Json = {}
        self._items: dict[int, Json] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self.is_whole = False

    def add(self, event: Data) -> None:
        """Add an event."""
        kind = str(event.get("type", ""))
        if response := as_data(event.get("response")):
            self._response = dict(response)
            self.is_whole = kind in {"response.completed", "response.incomplete", "response.failed"}
        place = event.get("output_index")
        if not isinstance(place, int):
            return
        if kind == "response.output_item.done":
            self._items[place] = dict(as_data(event.get("item")))
        elif kind in {"response.output_text.delta", "response.refusal.delta"}:
            key = (place, int(event.get("content_index") or 0))
            self._texts[key] = self._texts.get(key, "") + str(event.get("delta", ""))

    def response(self) -> Json:
        """Return the response so far: complete items, and the text of incomplete items."""
        if self.is_whole and self._response.get("output"):
            return self._response
        items = dict(self._items)
        for (place, _), text in sorted(self._texts.items()):
            if place not in self._items and text:
                said = items.setdefault(place, {"type": "message", "role": "assistant", "content": []})
                said["content"].append({"type": "output_text", "text": text, "annotations": []})
        ordered = [items[place] for place in sorted(items)]
        kept = ordered if self.is_whole else [{} if "call_id" in item else item for item in ordered]
        return {**self._response, "output": [item for item in _with_followers(kept) if item]}


def _with_followers(items: Iterable[Json]) -> list[Json]:
    """Return the items of one answer. Reasoning without a next item is left out, because the API rejects it."""
    found: list[Json] = []
    for item in reversed(list(items)):
        if item.get("type") != "reasoning" or (found and found[-1]):
            found.append(item)
    return found[::-1]


def _is_continued(body: Json) -> bool:
    """Return whether the provider adds a conversation that it has stored. Then only the prefix is added to the request."""
    return bool(body.get("previous_response_id") or body.get("conversation"))


def _with_context(body: Json, context: Context) -> Json:
    if _is_continued(body):
        texts = [text for text in (body.get("instructions"), context.system) if text]
        return {**body, "instructions": "\n\n".join(texts)} if texts else body
    opening, _ = split(body.get("input") or ())
    is_stored = body.get("store") is not False
    made = to_request(context, instructions=body.get("instructions"), opening=opening, is_stored=is_stored)
    return {**body, **made}


def _instructions(body: Json) -> list[Any] | None:
    return None if _is_continued(body) else [body.get("instructions"), *split(body.get("input") or ())[0]]


RESPONSES_API: Final = Api(
    path="/responses",
    given=lambda body: from_items(split(body.get("input") or ())[1]),
    request=_with_context,
    own=_instructions,
    answer=from_response,
    stream=ResponseStream,
)
