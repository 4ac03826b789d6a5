"""The rules that providers publish for requests. A request that breaks one is answered with HTTP status 400.

Each check returns one sentence for each broken rule. `Rules` also remembers what the provider has sent, because reasoning, signed
thinking and references are compared with it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

from adapters.kit import split_edge

Json = dict[str, Any]

FAULTS: Final[list[str]] = []
"""The rules that requests of the running test have broken. A fixture checks that there are none."""

_MOST_MARKS: Final = 4
_SYSTEM: Final = ("system", "developer")


@dataclass(slots=True)
class Rules:
    """The rules of one provider."""

    alternates: bool = True
    """Whether questions and answers must alternate, as the chat templates of Gemma and Mistral demand."""
    sent: dict[str, Json] = field(default_factory=dict[str, Json])
    """The items of Responses that were sent, by id. They are stored, so that a reference finds them."""
    needs: dict[str, str] = field(default_factory=dict[str, str])
    """For an item of Responses the id of the reasoning that it needs before it."""
    thoughts: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    """For a call of Anthropic the thinking blocks of its message, by the id of the call."""

    def check(self, api: str, body: Json) -> list[str]:
        """Return the rules that a request breaks."""
        if {"responses": "input", "gemini": "contents"}.get(api, "messages") not in body:
            # The request is for another endpoint.
            return []
        checks = {"chat": self.chat, "responses": self.responses, "messages": self.messages, "gemini": self.gemini}
        found = checks[api](body)
        FAULTS.extend(f"{api}: {one}" for one in found)
        return found

    def remember(self, api: str, answer: Json) -> None:
        """Keep what later requests are compared with."""
        if api == "responses":
            for item in answer["output"]:
                self.sent[item["id"]] = item
            for before, item in pairwise(answer["output"]):
                if before["type"] == "reasoning":
                    self.needs[item["id"]] = before["id"]
        if api == "messages":
            thoughts = [block for block in answer["content"] if block["type"] in {"thinking", "redacted_thinking"}]
            calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
            self.thoughts.update(dict.fromkeys(calls, thoughts))

    # ------------------------------------------------------------ Chat Completions

    def chat(self, body: Json) -> list[str]:
        """Check a request of Chat Completions."""
        messages: list[Json] = body["messages"]
        said = messages[1:] if messages and messages[0]["role"] in _SYSTEM else messages
        found = [f"a {one['role']} message is not the first" for one in said if one["role"] in _SYSTEM]
        found += [
            f"message {place} is empty: {one}"
            for place, one in enumerate(messages)
            if _is_empty(one) and (one["role"] != "tool" or one.get("content") != "")
        ]
        found += _pairs(_chat_steps(said), "tool message")
        if self.alternates:
            spoken = [one["role"] for one in said if one["role"] in {"user", "assistant"} and not one.get("tool_calls")]
            turns = ["user" if place % 2 == 0 else "assistant" for place in range(len(spoken))]
            if spoken != turns:
                place = next(place for place, (a, b) in enumerate(zip(spoken, turns, strict=True)) if a != b)
                found.append(f"the roles do not alternate: {spoken[max(place - 3, 0) : place + 1]} at {place}")
        return [*found, *_ends(said, "tool")]

    # ------------------------------------------------------------ Responses

    def responses(self, body: Json) -> list[str]:
        """Check a request of Responses."""
        given = body["input"]
        if isinstance(given, str):
            return [] if given else ["the input is empty"]
        found = [
            f"item_reference {item['id']} is not found"
            for item in given
            if item.get("type") == "item_reference" and item["id"] not in self.sent
        ]
        items: list[Json] = [self._resolved(item) for item in given]
        ids = Counter(item["id"] for item in items if item.get("id"))
        found += [f"duplicate item {id_}" for id_, count in ids.items() if count > 1]
        found += [
            f"item {place} is empty: {one}" for place, one in enumerate(items) if _is_message(one) and _is_empty(one)
        ]
        found += _pairs(_response_steps(items), "function_call_output")
        is_stored = body.get("store") is not False
        for place, item in enumerate(items):
            after = items[place + 1] if place + 1 < len(items) else {}
            if item.get("type") == "reasoning":
                if not _is_answer(after):
                    found.append(f"reasoning {item.get('id')} is without its following item: {after}")
                if not is_stored and not item.get("encrypted_content"):
                    found.append(f"reasoning {item.get('id')} is not stored and has no encrypted content")
                if item.get("encrypted_content") != self.sent.get(item.get("id", ""), item).get("encrypted_content"):
                    found.append(f"the encrypted content of {item.get('id')} was changed")
            needed = self.needs.get(item.get("id") or "")
            if needed and (place == 0 or items[place - 1].get("id") != needed):
                found.append(f"{item['type']} {item['id']} is without its reasoning {needed}")
        roles = [{**item, "role": _role(item)} for item in items]
        if self.alternates:
            both = [place for place, (a, b) in enumerate(pairwise(roles)) if a["role"] == b["role"] == "user"]
            found += [f"two user messages in a row at {place}" for place in both]
        return [*found, *_ends(roles, "tool")]

    def _resolved(self, item: Json) -> Json:
        return self.sent.get(item["id"], item) if item.get("type") == "item_reference" else item

    # ------------------------------------------------------------ Messages

    def messages(self, body: Json) -> list[str]:
        """Check a request of Anthropic's Messages."""
        merged: list[tuple[str, list[Json]]] = []
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if merged and merged[-1][0] == message["role"]:
                merged[-1][1].extend(blocks)
            else:
                merged.append((message["role"], list(blocks)))
        system = body.get("system") or []
        prefix = [{"type": "text", "text": system}] if isinstance(system, str) else system
        found = [f"the role {role} is unknown" for role, _ in merged if role not in {"user", "assistant"}]
        if not merged or merged[0][0] != "user":
            found.append("the first message is not of the user")
        blocks = [block for _, content in merged for block in content]
        found += [
            "a text block is empty"
            for block in [*prefix, *blocks]
            if block["type"] == "text" and not str(block["text"]).strip()
        ]
        found += ["a message has no content" for _, content in merged if not content]
        marks = [one for one in [*prefix, *blocks, *body.get("tools", ())] if "cache_control" in one]
        if len(marks) > _MOST_MARKS:
            found.append(f"{len(marks)} blocks have a cache mark")
        found += [f"a {one['type']} block has a cache mark" for one in marks if "thinking" in one.get("type", "")]
        found += _pairs(_message_steps(merged), "tool_result")
        for role, content in merged:
            found += self._assistant(content) if role == "assistant" else _results_first(content)
        return found

    def _assistant(self, content: Sequence[Json]) -> Iterator[str]:
        thoughts = [block for block in content if block["type"] in {"thinking", "redacted_thinking"}]
        for block in thoughts:
            if block["type"] == "thinking" and block.get("signature") != signature(block["thinking"]):
                yield f"the signature of a thinking block is invalid: {block}"
        if content and content[-1]["type"] in {"thinking", "redacted_thinking"}:
            yield "an assistant message ends with thinking"
        for block in content:
            needed = self.thoughts.get(block.get("id", ""), [])
            if block["type"] == "tool_use" and any(one not in map(_bare, thoughts) for one in needed):
                yield f"tool_use {block['id']} is without its thinking"

    # ------------------------------------------------------------ Gemini

    def gemini(self, body: Json) -> list[str]:
        """Check a request of the Gemini API."""
        contents: list[Json] = body["contents"]
        found = [
            f"the role {one.get('role')} is unknown" for one in contents if one.get("role") not in {"user", "model"}
        ]
        if not contents or contents[0]["role"] != "user":
            found.append("the first content is not of the user")
        found += [f"content {place} has no parts" for place, one in enumerate(contents) if not one.get("parts")]
        found += _pairs(_gemini_steps(contents), "functionResponse")
        parts = [part for one in contents for part in one["parts"]]
        found += [f"a part is empty: {part}" for part in parts if not part.get("text", "x") and len(part) == 1]
        for one in contents:
            calls = [part for part in one["parts"] if "functionCall" in part]
            if calls and not calls[0].get("thoughtSignature"):
                found.append(f"the first call of a step has no signature: {calls[0]}")
            results = ["functionResponse" in part for part in one["parts"]]
            if any(results) and not all(results):
                found.append("function responses are mixed with other parts")
        # A call follows a question or function responses.
        for before, after in pairwise(contents):
            if before["role"] == "model" and any("functionCall" in part for part in after["parts"]):
                found.append("a call follows another content of the model")
        return found


def signature(thinking: str) -> str:
    """Return the signature of a thinking block."""
    return f"sig-{sha256(thinking.encode()).hexdigest()[:12]}"


def _bare(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}


def _results_first(content: Sequence[Json]) -> Iterator[str]:
    kinds = ["result" if block["type"] == "tool_result" else "other" for block in content]
    if "result" not in kinds:
        return
    if "other" in kinds and "result" in kinds[kinds.index("other") :]:
        yield f"tool results do not come first: {kinds}"
    texts = [block["text"] for block in content if block["type"] == "text"]
    if texts and not "".join(split_edge(text)[0] for text in texts).strip():
        yield "text that is not of the user follows tool results"


# ---------------------------------------------------------------- parts of the checks


Step = tuple[str, list[str]]
"""What one message does: "call" or "result" with the ids of calls, or "say"."""


def _pairs(steps: Iterable[Step], name: str) -> Iterator[str]:
    """Check that every call has exactly one result, directly after the message with the call."""
    called, waiting, answered = set[str](), set[str](), set[str]()
    for kind, ids in steps:
        if kind != "result" and waiting:
            yield f"no {name} directly after the calls {sorted(waiting)}"
            waiting = set()
        for id_ in ids:
            if kind == "call":
                if id_ in called:
                    yield f"the call {id_} is there twice"
                called.add(id_)
                waiting.add(id_)
            elif id_ in waiting:
                waiting.remove(id_)
                answered.add(id_)
            else:
                yield f"the {name} for {id_} {'is there twice' if id_ in answered else 'has no call before it'}"
    if waiting:
        yield f"no {name} after the calls {sorted(waiting)}"


def _chat_steps(messages: Iterable[Json]) -> Iterator[Step]:
    for one in messages:
        if one["role"] == "tool":
            yield "result", [one["tool_call_id"]]
        else:
            calls = [call["id"] for call in one.get("tool_calls") or ()]
            yield ("call" if calls else "say"), calls


def _response_steps(items: Iterable[Json]) -> Iterator[Step]:
    calls: list[str] = []
    for item in items:
        kind = str(item.get("type", "message"))
        if kind.endswith("_call"):
            calls.append(item["call_id"])
            continue
        if calls:
            yield "call", calls
            calls = []
        yield ("result", [item["call_id"]]) if kind.endswith("_call_output") else ("say", [])
    if calls:
        yield "call", calls


def _message_steps(merged: Iterable[tuple[str, list[Json]]]) -> Iterator[Step]:
    for role, content in merged:
        if role == "assistant":
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            yield ("call" if calls else "say"), calls
        else:
            results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
            yield ("result" if results else "say"), results
            yield from [("say", [])] * bool(results)


def _gemini_steps(contents: Iterable[Json]) -> Iterator[Step]:
    for one in contents:
        calls = [part["functionCall"].get("id") for part in one["parts"] if "functionCall" in part]
        results = [part["functionResponse"].get("id") for part in one["parts"] if "functionResponse" in part]
        if not all([*calls, *results]):
            # Without ids only the number of responses counts.
            yield from [("say", [])] * bool(calls or results)
            continue
        if calls:
            yield "call", calls
        else:
            yield ("result" if results else "say"), results


def _ends(said: Sequence[Mapping[str, Any]], tool: str) -> Iterator[str]:
    """Check that no message of ours follows tool results: only a question may."""
    for before, after in pairwise(said):
        if before["role"] == tool and after["role"] == "user":
            texts = _texts(after.get("content"))
            if texts and not "".join(split_edge(text)[0] for text in texts).strip():
                yield "text that is not of the user follows tool results"


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [block.get("text", "") for block in content or ()]


def _is_empty(message: Json) -> bool:
    if any(message.get(name) for name in ("tool_calls", "function_call", "refusal")):
        return False
    content = message.get("content")
    if isinstance(content, str):
        return not content.strip()
    return not content or any("text" in block and not str(block["text"]).strip() for block in content)


def _is_message(item: Json) -> bool:
    return item.get("type", "message") == "message"


def _is_answer(item: Json) -> bool:
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else bool(item) and not kind.endswith("_output")


def _role(item: Json) -> str:
    if str(item.get("type")).endswith("_call_output"):
        return "tool"
    return "assistant" if _is_answer(item) else str(item.get("role"))
