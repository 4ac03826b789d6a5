"""Translate contents of the Gemini API (JSON) to and from Memolog messages, streamed or not. The package of Google is not needed.

Thought signatures are passed through unchanged. Function calls without ids get the name of the function as their id.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from memolog import Context
from memolog.adapters.exchange import Answer, Api, with_speaker
from memolog.adapters.new_messages import Said
from memolog.adapters.provider_limits import usage_of_total
from memolog.core.exact_json import JsonValue, sendable
from memolog.core.message import (
    FilePart,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.run import Usage
from memolog.errors import InputError
from memolog.transfer.conversation import Data, as_data, as_list, data_file
from memolog.transfer.exact import Json, applied, arguments_object, described, difference, note, noted, notes
from memolog.transfer.messages import anthropic_role

KEY: Final = "google"
STREAMED: Final = ":streamGenerateContent"
METHODS: Final = (":generateContent", STREAMED)
"""The methods of a model that have memory, as they end the path of a request."""
# The API requires a question first, but an imported or trimmed conversation may begin with an answer.
_BEGINNING: Final = "(The conversation goes on.)"
# Google's value for a call of another model, which has no signature.
_NO_SIGNATURE: Final = "skip_thought_signature_validator"
_CAPITAL: Final = re.compile("[A-Z]")


def _field(data: Data, name: str) -> Any:
    """Return a field. The API accepts both `functionCall` and `function_call`."""
    value = data.get(name)
    return data.get(_CAPITAL.sub(lambda hit: f"_{hit[0].lower()}", name)) if value is None else value


# ---------------------------------------------------------------- from the API


def from_contents(contents: Iterable[Data]) -> tuple[NewMessage, ...]:
    """Return one Memolog message for each content of the API. A response without an id gets that of its call, if that has one."""
    made: list[NewMessage] = []
    called: list[tuple[str, str]] = []
    for content in contents:
        parts: list[Any] = []
        for part in as_list(content.get("parts")):
            result = as_data(_field(as_data(part), "functionResponse"))
            found = next(
                (one for one in called if result and not result.get("id") and one[0] == result.get("name")), None
            )
            if found is not None:
                called.remove(found)
                parts.append({**_without_result(part), "functionResponse": {"id": found[1], **result}})
            else:
                parts.append(part)
        calls = [as_data(_field(as_data(part), "functionCall")) for part in parts]
        if content.get("role") == "model":
            called = [(str(call.get("name")), str(call["id"])) for call in calls if call.get("id")]
        made.append(_message({**content, "parts": parts} if "parts" in content else content))
    return tuple(made)


def _without_result(part: Data) -> Json:
    return {name: value for name, value in part.items() if name not in {"functionResponse", "function_response"}}


def from_response(data: Data) -> Answer:
    """Return the first candidate of an answer, and the usage."""
    candidates = as_list(data.get("candidates"))
    first: Data = as_data(candidates[0] if candidates else None)
    content = as_data(first.get("content"))
    names = {"id": "responseId", "model": "modelVersion"}
    about = {name: value for name, field in names.items() if (value := _field(data, field))}
    if finish := _field(first, "finishReason"):
        about["finish_reason"] = finish
    message = _message({"role": "model", **content}) if as_list(content.get("parts")) else None
    return Answer(
        message=None if message is None else replace(message, metadata={KEY: about}),
        usage=_usage(_field(data, "modelVersion"), as_data(_field(data, "usageMetadata"))),
    )


def _usage(model: object, counts: Data) -> Usage | None:
    if not counts:
        return None
    said, thought = _field(counts, "candidatesTokenCount") or 0, _field(counts, "thoughtsTokenCount") or 0
    total = (_field(counts, "promptTokenCount") or 0) + (_field(counts, "toolUsePromptTokenCount") or 0)
    return usage_of_total(model, total, said + thought, _field(counts, "cachedContentTokenCount"), 0)


def _message(data: Data) -> NewMessage:
    counts: Counter[str] = Counter()
    parts = [_part(part, counts) for part in as_list(data.get("parts"))] or [TextPart(text="")]
    role = anthropic_role("assistant" if data.get("role") == "model" else "user", tuple(parts))
    change = difference(_content(role, parts), dict(data))
    if change is not None:
        parts[0] = noted(parts[0], KEY, message=change)
    return NewMessage(role=role, parts=tuple(parts))


def _part(given: Any, counts: Counter[str]) -> Part:
    """Return the part for a part of the API. `counts` has the functions that the content has named so far."""
    data = as_data(given)
    call, result = as_data(_field(data, "functionCall")), as_data(_field(data, "functionResponse"))
    blob, file = as_data(_field(data, "inlineData")), as_data(_field(data, "fileData"))
    part: Part
    if call or result:
        named = call or result
        name, id_ = str(named.get("name") or ""), named.get("id")
        made = str(id_) if id_ else f"{name}-{counts[name] + 1}" if counts[name] else name or "call"
        counts[name] += 1
        if call:
            part = ToolCallPart(id=made, name=name, arguments=dict(as_data(call.get("args"))))
        else:
            response = result.get("response")
            is_error = set(as_data(response)) == {"error"}
            part = ToolResultPart(call_id=made, name=name or None, content=response, is_error=is_error)
        part = noted(part, KEY, no_id=None if id_ else True)
    elif isinstance(text := data.get("text"), str):
        part = noted(ReasoningPart(text=text), KEY) if data.get("thought") else TextPart(text=text)
    elif blob:
        part = data_file(str(_field(blob, "mimeType") or "application/octet-stream"), blob.get("data"))
    elif file and _field(file, "fileUri"):
        media_type = str(_field(file, "mimeType") or "application/octet-stream")
        part = FilePart(media_type=media_type, url=str(_field(file, "fileUri")))
    else:
        part = noted(UnknownPart(data=given), KEY)
    change = difference(_block(part), given)
    return part if change is None else noted(part, KEY, change=change)


# ---------------------------------------------------------------- to the API


def to_contents(messages: Iterable[Said]) -> list[Json]:
    """Return the contents of the API. Messages that came from the API are written back unchanged."""
    return [
        applied(_content(said.role, said.parts), notes(said.parts[0], KEY).get("message") if said.parts else None)
        for said in messages
    ]


def to_request(context: Context, *, instructions: Sequence[Json] = ()) -> Json:
    """Return instructions and contents of a request: the caller's instructions, the prefix, the messages, and the edge."""
    contents: list[Json] = sendable(_said(context))
    prefix = [{"text": block.text if n == 0 else f"\n\n{block.text}"} for n, block in enumerate(context.blocks)]
    if context.edge:
        _add_edge(contents, context.edge_text)
    system = {"systemInstruction": {"parts": [*instructions, *prefix]}} if instructions or prefix else {}
    return {**system, "contents": contents}


def _said(context: Context) -> list[Json]:
    """Return the contents of a request: without empty text, with a question first, and neighbours of one role joined."""
    contents: list[Json] = []
    last: Any = None
    for said in (message.filled for message in context.messages):
        if said.role == "assistant" and said.is_empty:
            # An answer must not consist only of thoughts.
            continue
        blocks = [block for part in with_speaker(said).parts if (block := _sendable(part)) is not None]
        if not blocks:
            continue
        role = "model" if said.role == "assistant" else "user"
        is_one = last is not None and (
            (last.role == said.role and said.role in {"tool", "user"})
            or (last.is_plain_answer and said.is_plain_answer)
            or (said.seq is not None and said.seq == last.seq)
        )
        if contents and is_one and contents[-1]["role"] == role:
            contents[-1]["parts"] += blocks
        else:
            contents.append({"role": role, "parts": blocks})
        last = said
    if contents and contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": _BEGINNING}]})
    return contents


def _sendable(part: Part) -> Json | None:
    """Return a part for a request; None if it cannot be sent."""
    own = note(part, KEY)
    if isinstance(part, ReasoningPart) and own is None:
        return None
    block = applied(_block(part), notes(part, KEY).get("change"))
    if not isinstance(block, dict):
        return None
    sent = cast("Json", block)
    if isinstance(part, ToolCallPart) and own is None:
        sent["thoughtSignature"] = _NO_SIGNATURE
    is_blank = isinstance(part, TextPart) and not part.text.strip()
    return None if is_blank and not _field(sent, "thoughtSignature") else sent


def _add_edge(contents: list[Json], edge: str) -> None:
    """Append the edge to the last question. After function responses it would interrupt the step of the model."""
    for content in reversed(contents):
        if content["role"] == "user" and not any(_field(part, "functionResponse") for part in content["parts"]):
            content["parts"].append({"text": edge})
            return
    contents.insert(0, {"role": "user", "parts": [{"text": edge}]})


def _content(role: str, parts: Sequence[Part]) -> Json:
    """Return the content as JSON of the API. Changes that a note of the message contains are not applied."""
    blocks = [applied(_block(part), notes(part, KEY).get("change")) for part in parts]
    return {
        "role": "model" if role == "assistant" else "user",
        "parts": [block for block in blocks if block is not None],
    }


def _block(part: Part) -> JsonValue:
    named: Json = {}
    match part:
        case TextPart():
            return {"text": part.text}
        case ReasoningPart():
            return {"text": part.text, "thought": True}
        case ToolCallPart():
            named = {} if notes(part, KEY).get("no_id") else {"id": part.id}
            return {"functionCall": {**named, "name": part.name, "args": arguments_object(part.arguments)}}
        case ToolResultPart():
            named = {} if notes(part, KEY).get("no_id") else {"id": part.call_id}
            return {"functionResponse": {**named, "name": part.name or "unknown", "response": _response(part)}}
        case FilePart() if part.data is not None:
            return {"inlineData": {"mimeType": part.media_type, "data": base64.b64encode(part.data).decode()}}
        case FilePart() if part.url is not None:
            return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
        case FilePart():
            return {"text": described(part)}
        case UnknownPart():
            return part.data if note(part, KEY) is not None else {"text": described(part)}


def _response(part: ToolResultPart) -> JsonValue:
    content = part.content
    if isinstance(content, Mapping):
        return content  # pyright: ignore[reportUnknownVariableType]
    return {"error" if part.is_error else "result": "" if content is None else content}


class GeminiStream:
    """Assembles a streamed answer. If the stream ends early, only its texts are returned."""

    def __init__(self) -> None:
        self._about: Json = {}
        self._parts: list[Json] = []
        self._finish: Json = {}
        self.is_whole = False

    def add(self, event: Data) -> None:
        """Add a chunk. Only its first candidate is used."""
        self._about |= {name: value for name, value in event.items() if name != "candidates" and value is not None}
        for candidate in map(as_data, as_list(event.get("candidates"))[:1]):
            for part in as_list(as_data(candidate.get("content")).get("parts")):
                self._add_part(dict(as_data(part)))
            if finish := _field(candidate, "finishReason"):
                self._finish, self.is_whole = {"finishReason": finish}, True

    def _add_part(self, part: Json) -> None:
        if part == {"text": ""}:
            # The last chunk may have no more than this.
            return
        last = self._parts[-1] if self._parts else {}
        is_more = (
            isinstance(part.get("text"), str)
            and isinstance(last.get("text"), str)
            and bool(part.get("thought")) == bool(last.get("thought"))
            and not _field(last, "thoughtSignature")
        )
        if is_more:
            self._parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            self._parts.append(part)

    def response(self) -> Json:
        """Return the answer so far."""
        parts = self._parts if self.is_whole else [part for part in self._parts if "text" in part]
        content = {"content": {"role": "model", "parts": parts}} if parts else {}
        return {**self._about, "candidates": [{**content, **self._finish}]}


# ---------------------------------------------------------------- the endpoint


def _own(body: Data) -> list[Json]:
    given: object = _field(body, "systemInstruction")
    if isinstance(given, str):
        return [{"text": given}]
    return [dict(as_data(part)) for part in as_list(as_data(given).get("parts"))]


def _contents(body: Data) -> list[Any]:
    given: object = body.get("contents")
    return [cast("object", given)] if isinstance(given, Mapping) else as_list(given)


def _given(body: Json) -> tuple[NewMessage, ...]:
    # This is asked before anything is saved, so a refused question is not in the thread.
    if _field(body, "cachedContent"):
        raise InputError(
            "A request with `cachedContent` cannot have memory.",
            why="Google refuses system instructions beside cached content, and the log is one.",
            then="Leave out cachedContent. Google caches the beginning of a request by itself.",
        )
    return from_contents(_contents(body))


def _request(body: Json, context: Context) -> Json:
    rest = {name: value for name, value in body.items() if name not in {"model", "system_instruction"}}
    return {**rest, **to_request(context, instructions=_own(body))}


GEMINI_API: Final = Api(
    path=METHODS[0],
    given=_given,
    request=_request,
    own=lambda body: list(_own(body)),
    answer=from_response,
    stream=GeminiStream,
    # The last piece has a reason, but some servers send a reason in each piece.
    has_last_event=False,
)
"""The name of the model is in the path of a request. The caller puts it into the body as `model`, and it is not sent."""


def model_in(path: str) -> str | None:
    """Return the name of the model in a path such as `/v1beta/models/NAME:generateContent`; None if it has no memory."""
    before, colon, method = path.partition("?")[0].rstrip("/").rpartition(":")
    return before.rpartition("/")[2] or None if colon and f":{method}" in METHODS else None
