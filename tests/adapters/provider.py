"""A provider that follows a script and the providers' published rules, behind the libraries' own clients: three APIs, no network.

What it was sent is kept for a test to look at. A request that breaks a rule is answered with HTTP status 400.
"""

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import anthropic
import openai
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from adapters.kit import line_of, split_edge, split_messages
from adapters.rules import Rules, signature
from memolog.adapters.anthropic import wrap as wrap_anthropic
from memolog.adapters.openai import wrap as wrap_openai

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model says next: words, calls as ids and names, all with the same arguments, or an error."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    arguments: str = '{"n": 1}'
    status: int = 200
    breaks: str | None = None
    """The kind of error that a stream ends with after its first word, though it began well."""
    cut: int | None = None
    """The number of events after which the connection of a stream breaks."""
    thinks: bool = True
    """Whether an API that tells what its model thought does so here."""


class Driver(ABC):
    """How one API is called, and how its requests and answers are read."""

    name: str
    form: Any
    """The form of its tools."""

    @abstractmethod
    def call(self, client: Any) -> Callable[..., Any]:
        """Return the method that asks."""

    @abstractmethod
    def said(self, text: str) -> Json:
        """Return the arguments for one message of a user, with the same instructions each time."""

    @abstractmethod
    def extend(self, whole: Json, more: Any) -> Json:
        """Return the arguments with one more message: a text of the user's, or an answer of the library's, as users append it."""

    @abstractmethod
    def results(self, results: Iterable[tuple[str, str]]) -> Json:
        """Return the arguments for results of calls."""

    @abstractmethod
    def answer(self, reply: Reply, number: int, tokens: int) -> Json:
        """Return the answer in one piece, to a request of so many tokens."""

    @abstractmethod
    def events(self, answer: Json) -> list[Json]:
        """Return the answer as events."""

    def error(self, kind: str) -> Json:
        """Return an error as an event."""
        return {"type": "error", "error": {"type": kind, "message": "out of order"}}

    @abstractmethod
    def piece(self, event: Any) -> str:
        """Return the words in an event of the library's."""

    @abstractmethod
    def text(self, result: Any) -> str:
        """Return the words in an answer of the library's."""

    @abstractmethod
    def prompt(self, body: Json) -> str:
        """Return a request as exact text, a line a message or block, without its edge and without marks of the cache."""

    def has_edge(self, body: Json) -> bool:
        """Tell whether the last user message of a request ends with the edge."""
        said = [one["content"] for one in body.get("messages") or body["input"] if one.get("role") == "user"]
        texts = [one if isinstance(one, str) else one[-1].get("text", "") for one in said]
        return [text for text in texts if text][-1].endswith("</now>")


class Chat(Driver):
    """Chat Completions."""

    name, form = "chat", "openai"

    def call(self, client: Any) -> Callable[..., Any]:
        return client.chat.completions.create

    def said(self, text: str) -> Json:
        system = {"role": "system", "content": "Be exact."}
        return {"model": "m", "messages": [system, {"role": "user", "content": text}]}

    def extend(self, whole: Json, more: Any) -> Json:
        one = {"role": "user", "content": more} if isinstance(more, str) else more.choices[0].message
        return {**whole, "messages": [*whole["messages"], one]}

    def results(self, results: Iterable[tuple[str, str]]) -> Json:
        said = [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in results]
        return {"model": "m", "messages": [{"role": "system", "content": "Be exact."}, *said]}

    def answer(self, reply: Reply, number: int, tokens: int) -> Json:
        message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.calls:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": reply.arguments}}
                for id_, name in reply.calls
            ]
        choice = {"index": 0, "finish_reason": "tool_calls" if reply.calls else "stop", "message": message}
        usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
        about = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "m-1"}
        return {**about, "choices": [choice], "usage": usage}

    def events(self, answer: Json) -> list[Json]:
        message = answer["choices"][0]["message"]
        text = message["content"] or ""
        deltas: list[Json] = [{"role": "assistant", "content": ""}, {"content": text[:3]}, {"content": text[3:]}]
        for index, call in enumerate(message.get("tool_calls", ())):
            deltas.append({"tool_calls": [{**call, "index": index}]})
        about = {**answer, "object": "chat.completion.chunk", "usage": None}
        made = [{**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        last = {"index": 0, "delta": {}, "finish_reason": answer["choices"][0]["finish_reason"]}
        return [*made, {**about, "choices": [last]}, {**about, "choices": [], "usage": answer["usage"]}]

    def piece(self, event: Any) -> str:
        return (event.choices[0].delta.content or "") if event.choices else ""

    def text(self, result: Any) -> str:
        return result.choices[0].message.content or ""

    def prompt(self, body: Json) -> str:
        return "\n\n".join(map(line_of, split_messages(body["messages"])[0]))


class Responses(Driver):
    """Responses."""

    name, form = "responses", "openai-responses"

    def error(self, kind: str) -> Json:
        """Return an error as an event, which is flat here."""
        return {"type": "error", "code": kind, "message": "out of order", "param": None, "sequence_number": 9}

    def call(self, client: Any) -> Callable[..., Any]:
        return client.responses.create

    def said(self, text: str) -> Json:
        return {"model": "m", "instructions": "Be exact.", "input": text}

    def extend(self, whole: Json, more: Any) -> Json:
        said = whole["input"]
        known = said if isinstance(said, list) else [{"role": "user", "content": said}]
        return {
            **whole,
            "input": [*known, *([{"role": "user", "content": more}] if isinstance(more, str) else more.output)],
        }

    def results(self, results: Iterable[tuple[str, str]]) -> Json:
        said = [{"type": "function_call_output", "call_id": id_, "output": text} for id_, text in results]
        return {"model": "m", "instructions": "Be exact.", "input": said}

    def answer(self, reply: Reply, number: int, tokens: int) -> Json:
        output: list[Json] = [
            {"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": f"enc-{number}"}
        ]
        if reply.text:
            block = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            about = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
            output.append({**about, "content": [block]})
        for id_, name in reply.calls:
            call = {"type": "function_call", "call_id": id_, "name": name, "arguments": reply.arguments}
            output.append({"id": f"fc_{id_}", **call, "status": "completed"})
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "model": "m-1",
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens + 5,
            },
        }

    def events(self, answer: Json) -> list[Json]:
        made: list[Json] = [{"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}]
        for place, item in enumerate(answer["output"]):
            at = {"output_index": place, "item_id": item["id"]}
            begun = {name: "" if name == "arguments" else [] for name in ("arguments", "content") if name in item}
            made.append({"type": "response.output_item.added", "output_index": place, "item": {**item, **begun}})
            for block in item.get("content", ()):
                about = {**at, "content_index": 0}
                made.append({"type": "response.content_part.added", **about, "part": {**block, "text": ""}})
                pieces = (block["text"][:3], block["text"][3:])
                said = {"type": "response.output_text.delta", **about, "logprobs": []}
                made += [{**said, "delta": piece} for piece in pieces]
                made.append({"type": "response.output_text.done", **about, "logprobs": [], "text": block["text"]})
                made.append({"type": "response.content_part.done", **about, "part": block})
            if "arguments" in item:
                about = {**at, "name": item["name"]}
                made.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
                done = {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
                made.append({**done, **about})
            made.append({"type": "response.output_item.done", "output_index": place, "item": item})
        made.append({"type": "response.completed", "response": answer})
        return [{**event, "sequence_number": number} for number, event in enumerate(made)]

    def piece(self, event: Any) -> str:
        return event.delta if event.type == "response.output_text.delta" else ""

    def text(self, result: Any) -> str:
        return result.output_text

    def prompt(self, body: Json) -> str:
        return "\n\n".join([body.get("instructions", ""), *map(line_of, split_messages(body["input"])[0])])


class Messages(Driver):
    """Messages of Anthropic."""

    name, form = "messages", "anthropic"

    def call(self, client: Any) -> Callable[..., Any]:
        return client.messages.create

    def said(self, text: str) -> Json:
        return {
            "model": "m",
            "max_tokens": 99,
            "system": "Be exact.",
            "messages": [{"role": "user", "content": text}],
        }

    def extend(self, whole: Json, more: Any) -> Json:
        role, content = ("user", more) if isinstance(more, str) else (more.role, more.content)
        return {**whole, "messages": [*whole["messages"], {"role": role, "content": content}]}

    def results(self, results: Iterable[tuple[str, str]]) -> Json:
        said = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in results]
        return {**self.said(""), "messages": [{"role": "user", "content": said}]}

    def answer(self, reply: Reply, number: int, tokens: int) -> Json:
        text = f"thought {number}"
        thought: Json = {"type": "thinking", "thinking": text, "signature": signature(text)}
        content: list[Json] = [thought] if reply.thinks else []
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content += [
            {"type": "tool_use", "id": id_, "name": name, "input": json.loads(reply.arguments)}
            for id_, name in reply.calls
        ]
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "m-1",
            "content": content,
            "stop_reason": "tool_use" if reply.calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": tokens, "output_tokens": 5},
        }

    def events(self, answer: Json) -> list[Json]:
        made: list[Json] = [{"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}]
        for index, block in enumerate(answer["content"]):
            match block["type"]:
                case "text":
                    empty, deltas = (
                        {"text": ""},
                        [{"type": "text_delta", "text": p} for p in (block["text"][:3], block["text"][3:])],
                    )
                case "thinking":
                    empty = {"thinking": "", "signature": ""}
                    deltas = [
                        {"type": "thinking_delta", "thinking": block["thinking"]},
                        {"type": "signature_delta", "signature": block["signature"]},
                    ]
                case _:
                    empty = {"input": {}}
                    deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            made.append({"type": "content_block_start", "index": index, "content_block": {**block, **empty}})
            made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            made.append({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        return [
            *made,
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]

    def piece(self, event: Any) -> str:
        return event.delta.text if event.type == "content_block_delta" and event.delta.type == "text_delta" else ""

    def text(self, result: Any) -> str:
        return "".join(block.text for block in result.content if block.type == "text")

    def prompt(self, body: Json) -> str:
        system = body.get("system") or []
        said = [("system", system), *((message["role"], message["content"]) for message in body["messages"])]
        lines: list[str] = []
        for role, content in said:
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                bare = {name: value for name, value in block.items() if name != "cache_control"}
                if role == "user" and block.get("type") == "text":
                    bare["text"] = split_edge(block["text"])[0]
                # The log grows before what was said: what a cache has of the one must not depend on the other.
                if bare.get("text") != "":
                    lines.append(f"{role} {json.dumps(bare)}\n")
        return "".join(lines)


class Gemini(Driver):
    """`generateContent` of the Gemini API. A request has `stream` here, which is in the path of the real one."""

    name, form = "gemini", "google"

    def call(self, client: Any) -> Callable[..., Any]:
        return client.models.generate_content

    def said(self, text: str) -> Json:
        return {
            "systemInstruction": {"parts": [{"text": "Be exact."}]},
            "contents": [{"role": "user", "parts": [{"text": text}]}],
        }

    def extend(self, whole: Json, more: Any) -> Json:
        one = self.said(more)["contents"][0] if isinstance(more, str) else more["candidates"][0]["content"]
        return {**whole, "contents": [*whole["contents"], one]}

    def results(self, results: Iterable[tuple[str, str]]) -> Json:
        said = [
            {"functionResponse": {"id": id_, "name": "look", "response": {"result": text}}} for id_, text in results
        ]
        return {**self.said(""), "contents": [{"role": "user", "parts": said}]}

    def answer(self, reply: Reply, number: int, tokens: int) -> Json:
        parts: list[Json] = [{"text": f"thought {number}", "thought": True}] if reply.thinks else []
        if reply.text:
            parts.append({"text": reply.text})
        for place, (id_, name) in enumerate(reply.calls):
            # Some models send calls without ids.
            named = {"id": id_} if id_ else {}
            call = {"functionCall": {**named, "name": name, "args": json.loads(reply.arguments)}}
            # Only the first call of a step has the signature.
            parts.append(
                {**call, "thoughtSignature": base64.b64encode(f"sig-{id_}".encode()).decode()} if place == 0 else call
            )
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 5, "totalTokenCount": tokens + 5}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        about = {"modelVersion": "m-1", "responseId": f"resp-{number}"}
        return {"candidates": [candidate], "usageMetadata": usage, **about}

    def events(self, answer: Json) -> list[Json]:
        pieces: list[Json] = []
        for part in answer["candidates"][0]["content"]["parts"]:
            is_said = "text" in part and not part.get("thought")
            texts = [part["text"][:3], part["text"][3:]] if is_said else []
            pieces += [{**part, "text": text} for text in texts] or [part]
        about = {name: answer[name] for name in ("modelVersion", "responseId")}
        made = [
            {"candidates": [{"content": {"role": "model", "parts": [piece]}, "index": 0}], **about} for piece in pieces
        ]
        last = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}
        return [*made, {"candidates": [last], "usageMetadata": answer["usageMetadata"], **about}]

    def error(self, kind: str) -> Json:
        """Return an error as an event."""
        code = 400 if kind.startswith("invalid") else 503
        return {"error": {"code": code, "message": "out of order", "status": kind}}

    def piece(self, event: Any) -> str:
        parts = event["candidates"][0]["content"]["parts"]
        return "".join(part.get("text", "") for part in parts if not part.get("thought"))

    def text(self, result: Any) -> str:
        return self.piece(result)

    def prompt(self, body: Json) -> str:
        system = [part["text"] for part in body.get("systemInstruction", {"parts": []})["parts"]]
        lines = [f"system {json.dumps(text)}\n" for text in system]
        for content in body["contents"]:
            for part in content["parts"]:
                bare = dict(part)
                if content["role"] == "user" and "text" in part:
                    bare["text"] = split_edge(part["text"])[0]
                if bare.get("text") != "":
                    lines.append(f"{content['role']} {json.dumps(bare)}\n")
        return "".join(lines)

    def has_edge(self, body: Json) -> bool:
        texts = [one["parts"][-1].get("text", "") for one in body["contents"] if one["role"] == "user"]
        return [text for text in texts if text][-1].endswith("</now>")


APIS: dict[str, Driver] = {"chat": Chat(), "responses": Responses(), "messages": Messages()}
GEMINI: Driver = Gemini()
"""The Gemini API, whose own client is not installed for the tests. Only its own tests use it."""


def wrap(driver: Driver, client: Any, memory: Any, **bound: Any) -> Any:
    """Wrap a client with its own adapter."""
    return (wrap_anthropic if isinstance(driver, Messages) else wrap_openai)(client, memory, **bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An answer as it goes over the wire: an error or an answer in one piece, or the lines of a stream."""

    status: int = 200
    data: Json = field(default_factory=dict[str, Any])
    lines: tuple[bytes, ...] | None = None
    is_cut: bool = False
    """Whether the connection breaks after the lines."""


def send(driver: Driver, rules: Rules, body: Json, reply: Reply, number: int, tokens: int | None = None) -> Sent:
    """Return the answer of a provider to a request. `tokens` is the number of input tokens that it reports."""
    if broken := rules.check(driver.name, body):
        error = {"type": "invalid_request_error", "message": "; ".join(broken)}
        return Sent(status=400, data={"type": "error", "error": error})
    if reply.status != 200:
        return Sent(status=reply.status, data={"error": {"type": "api_error", "message": "out of order"}})
    answer = driver.answer(reply, number, len(json.dumps(body)) // 4 if tokens is None else tokens)
    rules.remember(driver.name, answer)
    if not body.get("stream"):
        return Sent(data=answer)
    events = driver.events(answer)[: reply.cut]
    if reply.breaks is not None:
        spoken = [number for number, event in enumerate(events, start=1) if f"'{reply.text[:3]}'" in str(event)]
        events = [*(events[: spoken[0]] if reply.text else ()), driver.error(reply.breaks)]
    lines = [f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    if driver.name == "gemini":
        lines = [line.split(b"\n", 1)[1] for line in lines]
    if driver.name == "chat":
        lines = [*(line.split(b"\n", 1)[1] for line in lines), *([b"data: [DONE]\n\n"] * (reply.cut is None))]
    return Sent(lines=tuple(lines), is_cut=reply.cut is not None)


@dataclass
class Provider:
    """The server: answers with what the script says, and keeps what it was sent."""

    driver: Driver
    script: Callable[[Json], Reply | Awaitable[Reply]]
    rules: Rules = field(default_factory=Rules)
    bodies: list[Json] = field(default_factory=list[Json])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    cut_after: int | None = None
    """End a stream after so many events, as a server does that stops without an error."""

    @property
    def _http(self) -> Any:
        """Return the HTTP library that the installed client uses: `httpx` or `httpx2`."""
        library = anthropic if isinstance(self.driver, Messages) else openai
        return import_module(library.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

    def client(self) -> Any:
        """Return the library's client that does not wait."""
        http = self._http.Client(transport=self._http.MockTransport(self._answer))
        if isinstance(self.driver, Messages):
            return Anthropic(api_key="k", base_url="http://model.test", http_client=http, max_retries=0)
        return OpenAI(api_key="k", base_url="http://model.test/v1", http_client=http, max_retries=0)

    def async_client(self) -> Any:
        """Return the library's client that waits."""
        http = self._http.AsyncClient(transport=self._http.MockTransport(self._answer_later))
        if isinstance(self.driver, Messages):
            return AsyncAnthropic(api_key="k", base_url="http://model.test", http_client=http, max_retries=0)
        return AsyncOpenAI(api_key="k", base_url="http://model.test/v1", http_client=http, max_retries=0)

    def _answer(self, request: Any) -> Any:
        body = self._keep(request)
        reply = self.script(body)
        assert isinstance(reply, Reply)
        return self._response(body, reply, is_async=False)

    async def _answer_later(self, request: Any) -> Any:
        body = self._keep(request)
        reply = self.script(body)
        return self._response(body, reply if isinstance(reply, Reply) else await reply, is_async=True)

    def _keep(self, request: Any) -> Json:
        body: Json = json.loads(request.content)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        return body

    def _response(self, body: Json, reply: Reply, *, is_async: bool) -> Any:
        # Requests may be answered at the same time, so the answer has the number of its own request.
        number = 1 + next(place for place, one in enumerate(self.bodies) if one is body)
        sent = send(self.driver, self.rules, body, reply, number)
        if sent.lines is None:
            return self._http.Response(sent.status, json=sent.data, headers={"retry-after-ms": "1"})
        lines = sent.lines if self.cut_after is None else sent.lines[: self.cut_after]
        error = self._http.ReadError("the connection was closed") if sent.is_cut else None
        content = _later(lines, error) if is_async else _now(lines, error)
        return self._http.Response(200, headers={"content-type": "text/event-stream"}, content=content)


def _now(lines: Iterable[bytes], error: Exception | None) -> Iterator[bytes]:
    yield from lines
    if error is not None:
        raise error


async def _later(lines: Iterable[bytes], error: Exception | None) -> AsyncIterator[bytes]:
    for line in _now(lines, error):
        yield line
