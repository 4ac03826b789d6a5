"""The Gemini API through the gateway: calls without ids, errors in Google's form, exact translation, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters import provider
from adapters.kit import context_of, stored, through_the_store
from adapters.provider import Gemini, Json, Reply
from gateway.upstream import Seen
from gateway.world import opened
from memolog import AssistantMessage, NewMessage, ToolCallPart, ToolResultPart, UserMessage
from memolog.adapters.google.messages import GEMINI_API, from_contents, model_in, to_contents, to_request

PATH = "/v1beta/models/gemini-test:generateContent"
NAMES = {"x-memolog-thread": "t1", "x-memolog-resource": "alice", "x-goog-api-key": "k"}
CONTENTS: list[Json] = [
    {"role": "user", "parts": [{"text": "Look:"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]},
    {"parts": [{"file_data": {"mime_type": "application/pdf", "file_uri": "https://example.org/a.pdf"}}]},
    {"role": "model", "parts": [{"text": "I think", "thought": True}, {"text": "Yes.", "thoughtSignature": "c2ln"}]},
    {
        "role": "model",
        "parts": [{"functionCall": {"name": "look"}}, {"functionCall": {"name": "look", "args": {"n": 1}}}],
    },
    {
        "role": "function",
        "parts": [
            {"functionResponse": {"name": "look", "response": {"result": 1}}},
            {"function_response": {"name": "look", "response": {"error": "gone"}}},
        ],
    },
    {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"text": ""}]},
]


def test_contents_are_written_back_unchanged() -> None:
    """Every kind of part, in both spellings of field names, and calls without ids."""
    made = [through_the_store(one) for one in from_contents(CONTENTS)]
    assert to_contents(made) == CONTENTS
    ids = [getattr(part, "id", None) or getattr(part, "call_id", None) for one in made[3:5] for part in one.parts]
    assert ids == ["look", "look-2", "look", "look-2"]
    assert [part.is_error for part in made[4].parts if isinstance(part, ToolResultPart)] == [False, True]


def test_a_response_gets_the_id_of_its_call() -> None:
    """The library of Google sends responses without ids to calls that have ids."""
    call = {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look", "args": {}}}]}
    response = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": 1}}}]}
    [_, made] = from_contents([call, response])
    assert made.parts[0] == ToolResultPart(call_id="c1", name="look", content={"result": 1}, extra=made.parts[0].extra)


def test_messages_of_another_provider() -> None:
    """A call without a signature gets Google's value for that, a text result becomes an object, and a question comes first."""
    said = [
        AssistantMessage("Hello."),
        UserMessage("Look."),
        AssistantMessage([ToolCallPart(id="c1", name="look", arguments='{"n": 1}')]),
        NewMessage(role="tool", parts=(ToolResultPart(call_id="c1", name="look", content="found"),)),
    ]
    request = to_request(context_of(said, log=["the log"], edge="<now>1</now>"), instructions=[{"text": "Be brief."}])
    assert request["systemInstruction"]["parts"] == [{"text": "Be brief."}, {"text": "the log"}]
    first, _, asked, called, result = request["contents"]
    assert first["role"] == "user"
    assert asked["parts"][-1] == {"text": "<now>1</now>"}
    assert called["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator"
    assert result["parts"][0]["functionResponse"]["response"] == {"result": "found"}


def test_an_answer_in_chunks() -> None:
    """Texts are joined, the signature of an empty chunk is kept, and a stream that ends early has no calls."""
    stream = GEMINI_API.stream()
    for parts in ([{"text": "a"}], [{"text": "b"}], [{"text": "", "thoughtSignature": "c2ln"}]):
        stream.add({"candidates": [{"content": {"role": "model", "parts": parts}}]})
    stream.add({"candidates": [{"content": {"parts": [{"functionCall": {"name": "look"}}]}}]})
    assert stream.response()["candidates"][0]["content"]["parts"] == [{"text": "ab", "thoughtSignature": "c2ln"}]
    usage = {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    stream.add({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "m-1"})
    answer = GEMINI_API.answer(stream.response())
    assert answer.message is not None
    assert len(answer.message.parts) == 2
    assert answer.usage is not None
    counts = (answer.usage.input_tokens, answer.usage.cache_read_tokens, answer.usage.output_tokens)
    assert counts == (5, 4, 5)


class EachWithReason(Gemini):
    """Sends a reason to finish in each piece, as some servers do."""

    def events(self, answer: Json) -> list[Json]:
        """Return the pieces."""
        text = answer["candidates"][0]["content"]["parts"][-1]["text"]
        return [
            {"candidates": [{"content": {"role": "model", "parts": [{"text": letter}]}, "finishReason": "STOP"}]}
            for letter in text
        ]


async def test_an_answer_whose_pieces_all_have_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is saved with all of its pieces, before the client sees the end of the stream."""
    monkeypatch.setattr(provider, "GEMINI", EachWithReason())
    asked = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    async with opened(tmp_path / "m.db", lambda _: "A long answer.") as world:
        path = PATH.replace("generate", "streamGenerate") + "?alt=sse"
        got = await world.http.post(path, json=asked, headers=NAMES)
        rows = await stored(world.memory, "alice", "t1")
    assert got.text.count("STOP") > 1
    assert rows[-1].text == "A long answer."


def test_the_model_is_in_the_path() -> None:
    """Only the two methods that generate content have memory."""
    assert model_in("/v1beta/models/gemini-3:streamGenerateContent?alt=sse") == "gemini-3"
    assert model_in("/v1beta/models/gemini-3:countTokens") is None
    assert model_in("/v1/chat/completions") is None


async def test_a_conversation_without_ids(tmp_path: Path) -> None:
    """Only new contents are sent, and neither calls nor responses have ids: the pairs stay together."""

    def script(seen: Seen) -> Any:
        has_results = "functionResponse" in json.dumps(seen.body["contents"][-1])
        return Reply(text="done") if has_results else Reply(calls=(("", "look"), ("", "look")))

    results = [{"functionResponse": {"name": "look", "response": {"result": n}}} for n in (1, 2)]
    async with opened(tmp_path / "m.db", script) as world:
        for number in (1, 2):
            asked = {"role": "user", "parts": [{"text": f"Question {number}"}]}
            called = await world.http.post(PATH, json={"contents": [asked]}, headers=NAMES)
            assert [sorted(part) for part in called.json()["candidates"][0]["content"]["parts"]][1:] == [
                ["functionCall", "thoughtSignature"],
                ["functionCall"],
            ]
            done = await world.http.post(PATH, json={"contents": {"role": "user", "parts": results}}, headers=NAMES)
            assert done.json()["candidates"][0]["content"]["parts"][-1]["text"] == "done"
        rows = await stored(world.memory, "alice", "t1")
        models = {seen.path for seen in world.upstream.seen}
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant"] * 2
    assert models == {PATH}
    assert not any("model" in seen.body for seen in world.upstream.seen)


async def test_errors_are_in_the_form_of_google(tmp_path: Path) -> None:
    """A provider that is away, a stream that is no stream of events, and cached content."""
    asked = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    async with opened(tmp_path / "m.db", lambda _: "hi", google="http://127.0.0.1:9") as world:
        away = await world.http.post(PATH, json=asked, headers=NAMES)
        array = await world.http.post(PATH.replace("generate", "streamGenerate"), json=asked, headers=NAMES)
        cached = await world.http.post(PATH, json={**asked, "cachedContent": "cachedContents/1"}, headers=NAMES)
    assert (away.status_code, away.json()["error"]["code"]) == (502, 502)
    assert (array.status_code, array.json()["error"]["status"]) in {(400, "INVALID_ARGUMENT"), (502, "INTERNAL")}
    assert cached.status_code == 400
    assert "cachedContent" in cached.json()["error"]["message"]


async def test_other_paths_are_passed_on(tmp_path: Path) -> None:
    """A list of models goes to Google, with its query."""
    async with opened(tmp_path / "m.db", lambda _: "hi") as world:
        await world.http.get("/v1beta/models?pageSize=2", headers={"x-goog-api-key": "k"})
        assert world.upstream.seen[-1].target == "/v1beta/models?pageSize=2"
