"""Requests and answers that the gateway passes on unchanged, and requests that it refuses."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from starlette.responses import JSONResponse, Response

from gateway.test_memory import echo, said_in
from gateway.upstream import PATHS, Reply, Seen
from gateway.world import APIS, KEY, World, opened
from memolog import ConfigError, InputError, Memory
from memolog.adapters.exchange import at
from memolog.apps.gateway import GatewaySettings, serve
from memolog.apps.gateway.headers import passed_back, passed_on
from memolog.apps.gateway.settings import read_tokens
from memolog.errors import ThreadNotFound

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

BODIES: dict[str, Any] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hello."}]},
    "responses": {"model": "m", "input": "Hello."},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]},
}
THREAD = {"x-memolog-thread": "t1", "x-memolog-resource": "alice"}
TWO_TURNS = ["user: One.", "assistant: You said: One.", "user: Two.", "assistant: You said: Two."]


def scripted(*replies: Reply) -> Callable[[Seen], Reply]:
    """Answer with these replies in order, then as an echo."""
    left = list(replies)
    return lambda seen: left.pop(0) if left else echo(seen)


# ---------------------------------------------------------------- errors of the provider


@pytest.mark.parametrize("api", APIS)
async def test_errors_are_passed_on_unchanged(tmp_path: Path, api: str) -> None:
    """Status, body and headers of an error are passed on byte for byte, with and without streaming."""
    body = b'{ "error" : {"type":"odd",  "message":"No \\u00fcse."} }\n'
    headers = {"retry-after": "7", "x-request-id": "req_9", "content-type": "application/json; odd=1"}
    async with opened(tmp_path / "memolog.db", echo) as world:
        for status in (400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 529):
            for is_streamed in (False, True):
                world.upstream.script = scripted(Response(body, status, headers))
                sent = {**BODIES[api], "stream": is_streamed}
                got = await world.http.post(PATHS[api], json=sent, headers=THREAD)
                assert (got.status_code, got.content) == (status, body)
                assert {name: got.headers[name] for name in headers} == headers


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_a_retry_is_not_said_twice(tmp_path: Path, api: str, is_streamed: bool) -> None:
    """If a client retries, its message is stored once."""
    script = scripted(Response(b"busy", 500), JSONResponse({}, 429, {"retry-after-ms": "1"}))
    async with opened(tmp_path / "memolog.db", script, retries=2) as world:
        talk = world.talk(api, is_streamed=is_streamed)
        assert await talk.say("Hello.") == "You said: Hello."
        assert len(world.upstream.seen) == 3
        assert await world.lines() == ["user: Hello.", "assistant: You said: Hello."]


@pytest.mark.parametrize("api", APIS)
async def test_what_the_provider_refuses_is_not_kept(tmp_path: Path, api: str) -> None:
    """A message that the provider refuses is withdrawn, also if the refusal is in a stream."""
    error = {"type": "error", "code": "invalid_prompt", "error": {"type": "invalid_request_error", "message": "Bad."}}
    stream = Response(f"event: error\ndata: {json.dumps(error)}\n\n", 200, media_type="text/event-stream")
    busy = (
        bytes(stream.body)
        .replace(b"invalid_request_error", b"overloaded_error")
        .replace(b"invalid_prompt", b"server_error")
    )
    failing = Response(busy, 200, media_type="text/event-stream")
    async with opened(tmp_path / "memolog.db", echo) as world:
        await world.talk(api).say("Good.")
        kept = await world.lines()
        for refusal in (JSONResponse({"error": {}}, 400), stream):
            world.upstream.script = scripted(Response(b"busy", 500), failing, refusal)
            for lines in ([*kept, "user: Hello."], [*kept, "user: Hello."], kept):
                sent = {**BODIES[api], "stream": True}
                await world.http.post(PATHS[api], json=sent, headers=THREAD)
                assert await world.lines() == lines


async def test_a_provider_that_is_not_there(tmp_path: Path) -> None:
    """The client gets an error with the address of the provider. Its message is stored."""
    nowhere = "http://127.0.0.1:9"
    async with opened(tmp_path / "memolog.db", echo, openai=nowhere, anthropic=nowhere) as world:
        for api in APIS:
            with pytest.raises((openai.InternalServerError, anthropic.InternalServerError), match=r"127\.0\.0\.1:9"):
                await world.talk(api, thread=api).say("Hello.")
            assert await world.lines(api) == ["user: Hello."]
        assert (await world.http.get("/v1/models")).status_code == 502


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_comes_as_it_is_made(tmp_path: Path, api: str) -> None:
    """The client gets the first piece before the provider sends the second. The stream is passed on byte for byte."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        world.upstream.pause = asyncio.Event()
        sent = {**BODIES[api], "stream": True}
        async with world.http.stream("POST", PATHS[api], json=sent, headers=THREAD) as got:
            pieces = got.aiter_bytes()
            first = await anext(pieces)
            assert world.upstream.paused.is_set()
            world.upstream.pause.set()
            whole = first + b"".join([piece async for piece in pieces])
            assert got.headers["content-type"].startswith("text/event-stream")
        world.upstream.numbers -= 1
        again = await world.http.post(world.upstream_url + PATHS[api], json=sent)
        assert whole == again.content
        assert (await world.lines())[-1] == "assistant: You said: Hello."


@pytest.mark.parametrize("api", APIS)
async def test_a_client_that_leaves_half_way(tmp_path: Path, api: str) -> None:
    """The connection to the provider is closed, the received part is stored, and the next request works."""
    before = asyncio.all_tasks()
    async with opened(tmp_path / "memolog.db", echo) as world:
        world.upstream.pause = asyncio.Event()
        sent = {**BODIES[api], "stream": True}
        async with world.http.stream("POST", PATHS[api], json=sent, headers=THREAD) as got:
            await anext(got.aiter_bytes())
        await asyncio.wait_for(world.upstream.left.wait(), 60)
        world.upstream.pause.set()
        await world.talk(api).say("Are you there?")
        lines = await world.lines()
        assert lines[0] == "user: Hello."
        assert lines[-2:] == ["user: Are you there?", "assistant: You said: Are you there?"]
    assert asyncio.all_tasks() == before


async def test_a_gateway_that_ends_in_the_middle(tmp_path: Path) -> None:
    """If the gateway stops during a stream, the message is stored and no task is left."""
    path = tmp_path / "memolog.db"
    async with opened(":memory:", echo) as world, Memory(path) as memory:
        world.upstream.pause = asyncio.Event()
        before = asyncio.all_tasks()
        sent = {**BODIES["chat"], "stream": True}
        async with serve(memory, GatewaySettings(openai=world.upstream_url), port=0, grace=0) as at:
            request = world.http.build_request("POST", at.url + PATHS["chat"], json=sent, headers=THREAD)
            got = await world.http.send(request, stream=True)
            await anext(got.aiter_bytes())
        await asyncio.wait_for(world.upstream.left.wait(), 60)
        await got.aclose()
        rows = await (await memory.open()).store.messages.after("alice", "t1")
        assert rows[0].text == "Hello."
        await memory.aclose()
        ours = {task for task in asyncio.all_tasks() - before if "memolog" in repr(task)}
        assert ours == set()


# ---------------------------------------------------------------- what is passed through


async def test_without_a_thread_nothing_is_touched(tmp_path: Path) -> None:
    """Without a thread, body and headers are passed on unchanged, and nothing is stored."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        raw = b'{ "model":"m",\n "messages":[ {"role":"user","content":"Hi \\u00e4"} ] }'
        headers = {"content-type": "application/json", "authorization": "Bearer k", "x-odd": "1", "accept": "a/b"}
        got = await world.http.post("/v1/chat/completions?a=%2F&b=+", content=raw, headers=headers)
        seen = world.upstream.seen[-1]
        assert got.status_code == 200
        assert (seen.raw, seen.target) == (raw, "/v1/chat/completions?a=%2F&b=+")
        assert {name: seen.headers[name] for name in headers} == headers
        assert "x-memolog-thread" not in got.headers
        assert await (await world.memory.open()).store.resources() == ()


async def test_other_paths_are_passed_through(tmp_path: Path) -> None:
    """Other paths are passed on with any method, body and encoding."""
    packed = gzip.compress(b'{"data": []}')
    reply = Response(packed, 200, {"content-encoding": "gzip", "content-type": "application/json", "x-odd": "2"})
    async with opened(tmp_path / "memolog.db", scripted(reply, Response(b"", 204), Response(b"\x00\xff"))) as world:
        async with world.http.stream("GET", "/v1/models?q=a%20b", headers=THREAD) as got:
            assert b"".join([piece async for piece in got.aiter_raw()]) == packed
            assert (got.headers["content-encoding"], got.headers["x-odd"]) == ("gzip", "2")
        assert (await world.http.delete("/v1/files/file%2Fa")).status_code == 204
        assert (await world.http.post("/v1/audio/speech", content=b"\xff\x00" * 70_000)).content == b"\x00\xff"
        assert [(seen.method, seen.target) for seen in world.upstream.seen] == [
            ("GET", "/v1/models?q=a%20b"),
            ("DELETE", "/v1/files/file%2Fa?"),
            ("POST", "/v1/audio/speech?"),
        ]
        assert world.upstream.seen[-1].raw == b"\xff\x00" * 70_000
        assert not any(name.startswith("x-memolog") for seen in world.upstream.seen for name in seen.headers)


NO_PATHS = ("@example.org/v1/models", "http://example.org/v1/models", "*")
CLIMBING = (
    *("/../admin", "/v1/../../admin", "/v1/./models", "/v1/..", "/.", "/v1/%2e%2e/admin", "/v1/.%2E/admin"),
    *("/v1/..%2fadmin", "/v1/%2e%2e%5cadmin", "/v1/..\\admin", "/v1/%252e%252e/admin", "/v1/..;x=1/admin"),
    *("/..%20/admin", "/v1/%" + "25" * 9 + "2e", "//../admin"),
)


async def test_no_request_leaves_the_path_of_its_provider(tmp_path: Path) -> None:
    """A path with `..` is refused in every spelling, because the provider may have other pages. So is a target with a host."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        for target in (*CLIMBING, *NO_PATHS):
            head = f"GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            status = (await spoken(world, head.encode())).split()[1]
            assert status == b"400" or (target in NO_PATHS and status == b"404"), target
        assert world.upstream.seen == []
        world.upstream.script = lambda _: JSONResponse({"ok": True})
        for target in ("/v1/files/a..b", "/v1/...", "/v1/a%2F.b", "/v1/models?to=../admin"):
            assert (await world.http.get(target)).status_code == 200, target


async def spoken(world: World, words: bytes) -> bytes:
    """Send raw bytes to the gateway, and return its answer."""
    host, port = world.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(words)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "thread", ["", "x-memolog-thread: t1\r\nx-memolog-resource: alice\r\n"], ids=["passed", "kept"]
)
async def test_a_body_has_one_length(tmp_path: Path, thread: str) -> None:
    """A request with `content-length` and `transfer-encoding` is refused, because it allows request smuggling."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{thread}connection: close\r\n"
    framing = "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    async with opened(tmp_path / "memolog.db", echo) as world:
        for lengths in (framing, framing.replace("content-length: 5", "content-length: 500")):
            assert (await spoken(world, f"{head}{lengths}".encode())).split()[1] == b"400"
        assert world.upstream.seen == []


async def pieces(raw: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces, so that its length is not sent."""
    for start in range(0, len(raw), 500):
        yield raw[start : start + 500]


@pytest.mark.parametrize("api", APIS)
async def test_a_request_may_be_too_large(tmp_path: Path, api: str) -> None:
    """A request with memory is refused if it is too large, with or without a declared length."""
    async with opened(tmp_path / "memolog.db", echo, max_body_bytes=2_000) as world:
        raw = json.dumps({**BODIES[api], "metadata": {"x": "y" * 3_000}}).encode()
        for content in (raw, pieces(raw)):
            got = await world.http.post(PATHS[api], content=content, headers=THREAD)
            assert got.status_code == 413
            assert "2,000 bytes" in got.json()["error"]["message"]
            assert "--max-body" in got.json()["error"]["message"]
        assert world.upstream.seen == []
        exactly = json.dumps(BODIES[api]).encode().ljust(2_000)
        assert (await world.http.post(PATHS[api], content=exactly, headers=THREAD)).status_code == 200
        # What is only passed on is not held, and has no limit here.
        assert (await world.http.post(PATHS[api], content=raw)).status_code == 200


async def test_each_provider_gets_its_own(tmp_path: Path) -> None:
    """The path selects the provider or, for a path that both have, the headers."""
    async with opened(tmp_path / "memolog.db", echo, openai="http://127.0.0.1:9") as world:
        for path, headers in (("/v1/messages/count_tokens", {}), ("/v1/models", {"anthropic-version": "2026-10-21"})):
            world.upstream.script = lambda _: JSONResponse({"ok": True})
            assert (await world.http.get(path, headers=headers)).json() == {"ok": True}
        assert (await world.http.get("/v1/models")).status_code == 502


async def test_what_no_provider_would_take_is_its_to_refuse(tmp_path: Path) -> None:
    """A malformed body is passed on unchanged."""
    async with opened(tmp_path / "memolog.db", lambda _: JSONResponse({"error": "what?"}, 400)) as world:
        no_messages = (b'{"model": "m"}', b'{"model": "m", "messages": "Hello."}')
        for raw in (b"not json", b"[" * 100_000, b"[]", *no_messages, b""):
            got = await world.http.post("/v1/chat/completions", content=raw, headers=THREAD)
            assert (got.status_code, got.json()) == (400, {"error": "what?"})
            assert world.upstream.seen[-1].raw == raw


# ---------------------------------------------------------------- what it refuses

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"x-memolog-thread": "t1"}, "x-memolog-resource"),
    ({"x-memolog-resource": "alice"}, "x-memolog-thread"),
    ({"x-memolog-zone": "Europe/Berlin"}, "x-memolog-thread"),
    ({"x-memolog-tread": "t1", **THREAD}, "no header x-memolog-tread"),
    ({"x-memolog-thread": "", "x-memolog-resource": "alice"}, "thread"),
    ({"x-memolog-thread": "t" * 600, "x-memolog-resource": "alice"}, "512"),
    ({"x-memolog-thread": b"\xff", "x-memolog-resource": "alice"}, "UTF-8"),
    ({**THREAD, "x-memolog-zone": "Mars/North"}, "Mars/North"),
    ({**THREAD, "content-encoding": "gzip"}, "compressed"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "b%6fb"}, "unneeded percent escape"),
    ({"x-memolog-thread": "%741", "x-memolog-resource": "bob"}, "unneeded percent escape"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "b%6Fb"}, "unneeded percent escape"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "a%2db"}, "unneeded percent escape"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "100%"}, "unneeded percent escape"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "%20bob%20"}, "starts or ends with a space"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "bob%C2%A0"}, "starts or ends with a space"),
    ({"x-memolog-thread": "t1", "x-memolog-resource": "bob%00"}, "unprintable characters"),
]


@pytest.mark.parametrize("api", APIS)
async def test_wrong_headers_are_told(tmp_path: Path, api: str) -> None:
    """The error has the format of the API, and the provider gets no request."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        for headers, words in WRONG:
            got = await world.http.post(PATHS[api], json=BODIES[api], headers=headers)
            assert got.status_code in {400, 415}, words
            assert words in got.json()["error"]["message"]
        if api == "responses":
            # The client would fetch this answer later, so the gateway could not save it.
            got = await world.http.post(PATHS[api], json={**BODIES[api], "background": True}, headers=THREAD)
            assert (got.status_code, "background" in got.json()["error"]["message"]) == (400, True)
        assert world.upstream.seen == []


async def test_names_may_be_of_any_script(tmp_path: Path) -> None:
    """Names in headers are UTF-8, with or without percent escapes."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        raw: Any = {"x-memolog-thread": "日記".encode(), "x-memolog-resource": "zoë".encode()}
        for headers in (raw, at("日記", "zoë")["extra_headers"]):
            got = await world.http.post(PATHS["chat"], json=BODIES["chat"], headers=headers)
            assert (got.status_code, got.headers["x-memolog-thread"]) == (200, "%E6%97%A5%E8%A8%98")
        # The same first question again replaces its answer.
        assert len(await world.lines("日記", "zoë")) == 2


async def test_a_conversation_that_the_provider_keeps(tmp_path: Path) -> None:
    """With `previous_response_id`, the conversation is stored, and old messages are not sent again."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        first = await world.openai.responses.create(model="m", input="One.", extra_headers=THREAD)
        sent = {"model": "m", "input": "Two.", "previous_response_id": first.id}
        assert (await world.http.post(PATHS["responses"], json=sent, headers=THREAD)).status_code == 200
        assert world.upstream.seen[-1].body["input"] == "Two."
        assert await world.lines() == TWO_TURNS


async def test_an_answer_that_the_client_began(tmp_path: Path) -> None:
    """A request may end with the start of the answer. Both parts are stored as one message."""
    reply = {"id": "m1", "model": "m", "role": "assistant", "content": [{"type": "text", "text": "goes on."}]}
    async with opened(tmp_path / "memolog.db", lambda _: JSONResponse(reply)) as world:
        begun = [{"role": "user", "content": "Tell me."}, {"role": "assistant", "content": "It "}]
        body = {**BODIES["messages"], "messages": begun}
        assert (await world.http.post(PATHS["messages"], json=body, headers=THREAD)).json() == reply
        assert said_in(world.upstream.seen[0])[-1]["role"] == "assistant"
        assert await world.lines() == ["user: Tell me.", "assistant: It goes on."]


async def test_the_gateways_own_token(tmp_path: Path) -> None:
    """Requests without the token are refused. The token is not passed on."""
    async with opened(tmp_path / "memolog.db", echo, token="open-sesame-open-sesame") as world:

        async def status(path: str = PATHS["chat"], **headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return (await world.http.post(path, json=BODIES["chat"], headers={**THREAD, **named})).status_code

        assert await status() == 401
        assert await status(x_memolog_token="open-sesame") == 401
        assert await status(authorization="Bearer open-sesame-open-sesame") == 401
        assert await status(path="/v1/embeddings") == 401
        assert world.upstream.seen == []
        assert await status(x_memolog_token="open-sesame-open-sesame") == 200
        assert await status(proxy_authorization="Bearer open-sesame-open-sesame", authorization="Bearer mine") == 200
        assert "open-sesame-open-sesame" not in str([seen.headers for seen in world.upstream.seen])
        assert world.upstream.seen[-1].headers["authorization"] == "Bearer mine"


ALICE, BOB = "alices-own-token-1234", "bobs-own-token-123456"


async def test_a_token_opens_one_resource(tmp_path: Path) -> None:
    """The token selects the resource. Other resources are refused, whether they exist or not."""
    async with opened(tmp_path / "memolog.db", echo, tokens={ALICE: "alice", BOB: "bob"}) as world:

        async def ask(token: str | None, **named: str) -> int:
            headers = {f"x-memolog-{name}": value for name, value in {"thread": "t1", **named}.items()}
            headers |= {"x-memolog-token": token} if token else {}
            return (await world.http.post(PATHS["chat"], json=BODIES["chat"], headers=headers)).status_code

        assert await ask(ALICE) == 200
        assert await ask(ALICE, resource="alice") == 200
        assert await ask(BOB, resource="bob") == 200
        before = len(world.upstream.seen)
        for resource in ("bob", "nobody", "Alice", "alice/x"):
            assert await ask(ALICE, resource=resource) == 403, resource
        for spelling in ("%61lice", "b%6fb", "%20bob"):
            assert await ask(ALICE, resource=spelling) == 400, spelling
        for token in (None, "", "x" * 20, ALICE + "x", ALICE[:-1]):
            assert await ask(token, resource="alice") == 401, token
        both = {"x-memolog-thread": "t1", "x-memolog-token": ALICE, "proxy-authorization": f"Bearer {BOB}"}
        assert (await world.http.post(PATHS["chat"], json=BODIES["chat"], headers=both)).status_code == 401
        assert (await world.http.get("/v1/models")).status_code == 401
        assert len(world.upstream.seen) == before
        assert await (await world.memory.open()).store.resources() == ("alice", "bob")
        assert len(await world.lines("t1", "bob")) == 2
        assert ALICE not in str([seen.headers for seen in world.upstream.seen])
        world.upstream.script = lambda _: JSONResponse({"ok": True})
        passed = await world.http.get("/v1/models", headers={"x-memolog-token": BOB})
        assert passed.json() == {"ok": True}


def test_a_file_of_tokens() -> None:
    """A file without tokens, a token without a resource, and a token with two resources are refused. Errors show no token."""
    assert read_tokens(f"# tenants\n{ALICE} alice\n\n  {BOB}   bob the second \n") == {
        ALICE: "alice",
        BOB: "bob the second",
    }
    for text in ("", "# none\n", f"{ALICE}\n", f"{ALICE} alice\n{ALICE} bob\n"):
        with pytest.raises(ConfigError, match="tokens") as raised:
            read_tokens(text)
        assert ALICE not in str(raised.value)


def test_header_names_have_no_case() -> None:
    """Tokens and hop-by-hop headers are removed in any spelling of their names."""
    sent = [("X-Memolog-Token", "secret"), ("Connection", "X-Hop"), ("X-Hop", "1"), ("Accept-Encoding", "gzip")]
    assert passed_on([*sent, ("X-Api-Key", KEY)], is_read=False) == [("Accept-Encoding", "gzip"), ("X-Api-Key", KEY)]
    assert passed_on(sent, is_read=True) == [("accept-encoding", "identity")]
    assert passed_back([("Connection", "X-Hop"), ("X-Hop", "1"), ("Date", "today")], is_read=True) == []


async def test_web_pages_from_elsewhere_stay_out(tmp_path: Path) -> None:
    """Requests of web pages are refused by `host` and `origin`, because a browser on this machine could send them."""
    away = [("host", "rebound.example.org"), ("origin", "https://example.org"), ("origin", "null")]
    here = [("origin", "http://localhost:3000"), ("host", "localhost:1234"), ("host", "[::1]:80")]
    async with opened(tmp_path / "memolog.db", echo) as world:
        for name, value in (*away, *here):
            is_refused = (name, value) in away
            got = await world.http.post(PATHS["chat"], json=BODIES["chat"], headers={**THREAD, name: value})
            assert got.status_code == (403 if is_refused else 200), value
            asked = {name: value, "access-control-request-headers": "x"}
            assert ((await world.http.options(PATHS["chat"], headers=asked)).status_code == 403) == is_refused, value


async def test_a_resource_for_those_who_name_none(tmp_path: Path) -> None:
    """With a default resource, requests need only a thread."""
    async with opened(tmp_path / "memolog.db", echo, resource="bob") as world:
        got = await world.http.post(PATHS["chat"], json=BODIES["chat"], headers={"x-memolog-thread": "t1"})
        assert (got.status_code, got.headers["x-memolog-thread"]) == (200, "t1")
        assert len(await world.lines("t1", "bob")) == 2


async def test_keys_are_neither_stored_nor_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The key of a client is neither in the database nor in the log."""
    path = tmp_path / "memolog.db"
    with caplog.at_level(logging.DEBUG, logger="memolog"):
        async with opened(path, scripted("Fine.", JSONResponse({}, 500))) as world:
            await world.talk("chat").say("Hello.")
            with pytest.raises(openai.InternalServerError):
                await world.talk("chat").say("Again.")
    assert KEY not in caplog.text
    assert KEY.encode() not in await asyncio.to_thread(path.read_bytes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(({"openai": url}, "--openai") for url in ("api.openai.com", "ftp://x", "http://", "http://[::1")),
        ({"openai": "https://user:key@host"}, "--openai"),
        ({"token": "short"}, "token"),
        ({"tokens": {"short": "alice"}}, "token"),
        ({"tokens": {ALICE: " "}}, "resource"),
        ({"tokens": {ALICE: "alice"}, "token": BOB}, "together"),
        ({"tokens": {ALICE: "alice"}, "resource": "bob"}, "together"),
        ({"tokens": {ALICE: "alice"}, "resource_from": ["user"]}, "together"),
        ({"max_body_bytes": 0}, "--max-body"),
        *(
            ({"thread_from": [at]}, "--thread-from must be")
            for at in ("", "chat", "header:", "header:a b", "metadata:")
        ),
        *(({"resource_from": [at]}, "--resource-from must be") for at in ("user:x", "body:user", "header")),
        *(({"thread_from": [f"header:{at}"]}, "cannot be") for at in ("Authorization", "x-api-key", "x-memolog-token")),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], words: str) -> None:
    """Invalid addresses, addresses with a password, short tokens and contradictions are refused."""
    with pytest.raises((ConfigError, InputError), match=words):
        GatewaySettings(**given)


def test_settings_show_no_token() -> None:
    """The text of the settings has no token."""
    assert "hidden" not in repr(GatewaySettings(token="hidden" * 4))
    assert ALICE not in repr(GatewaySettings(tokens={ALICE: "alice"}))


async def test_the_network_is_let_in_only_with_a_token() -> None:
    """Without a token the gateway listens only on loopback."""
    async with Memory(":memory:") as memory:
        everywhere = "0.0.0.0"  # noqa: S104 - what must be refused
        for host in (everywhere, "::", "192.0.2.1", "example.org"):
            with pytest.raises(ConfigError, match="MEMOLOG_PROXY_TOKEN"):
                async with serve(memory, host=host, port=0):
                    pass
        async with serve(memory, GatewaySettings(token="t" * 20), host=everywhere, port=0) as at:
            assert at.port > 0
        async with serve(memory, GatewaySettings(tokens={"t" * 20: "alice"}), host=everywhere, port=0) as at:
            assert at.port > 0
        async with serve(memory, port=0) as at:
            assert at.host == "127.0.0.1"


async def test_what_is_no_memory_is_not_served() -> None:
    """An argument that is not a Memory is refused."""
    wrong: Any = "memolog.db"
    with pytest.raises(InputError, match="got str"):
        async with serve(wrong, port=0):
            pass


# ---------------------------------------------------------------- a memory that fails


async def test_requests_are_answered_without_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a database, requests are answered, and their messages are saved later."""
    monkeypatch.setattr("memolog.turn._RETRY_SECONDS", 0.0)

    async def ask(world: World, text: str) -> str:
        return str(await world.talk("chat", is_whole=True).say(text))

    async with opened(":memory:", echo) as world:
        absent = Memory("postgresql://nobody@127.0.0.1:9/none")
        async with serve(absent, GatewaySettings(openai=world.upstream_url), port=0) as at:
            client = world.openai.with_options(base_url=f"{at.url}/v1")
            other = World(absent, world.upstream, at.url, client, world.anthropic, world.http)
            assert await ask(other, "One.") == "You said: One."
            absent.address = str(tmp_path / "memolog.db")
            assert await ask(other, "Two.") == "You said: Two."
        async with absent:
            assert await other.lines() == TWO_TURNS


EMPTY: dict[str, list[Any]] = {
    "chat": [
        {"messages": []},
        {"messages": [{"role": "system", "content": "Be exact."}]},
        *({"messages": [{"role": "user", "content": content}]} for content in ("", None, [], " ")),
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
    ],
    "responses": [{"input": ""}, {"input": []}, {"input": [{"role": "user", "content": ""}]}],
    "messages": [{"messages": []}, *({"messages": [{"role": "user", "content": content}]} for content in ("", []))],
}


@pytest.mark.parametrize("api", APIS)
async def test_an_empty_request_is_passed_on_unchanged(tmp_path: Path, api: str) -> None:
    """Nothing is added to a request without content and nothing of it is stored, on a new thread and on an old one."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        for is_new in (True, False):
            for body in EMPTY[api]:
                world.upstream.script = scripted(JSONResponse({"error": {"message": "Empty."}}, 200))
                sent = {"model": "m", **body}
                got = await world.http.post(PATHS[api], json=sent, headers=THREAD)
                assert got.json() == {"error": {"message": "Empty."}}
                assert world.upstream.seen[-1].body == sent
                if is_new:
                    with pytest.raises(ThreadNotFound):
                        await world.lines()
                else:
                    assert await world.lines() == ["user: Hello.", "assistant: You said: Hello."]
            world.upstream.script = echo
            await world.http.post(PATHS[api], json=BODIES[api], headers=THREAD)


@pytest.mark.parametrize("api", APIS)
async def test_a_history_that_ends_with_an_empty_question(tmp_path: Path, api: str) -> None:
    """The question is stored and sent as an empty one, roles alternate, and the next request repeats nothing."""
    field = "input" if api == "responses" else "messages"
    history = [
        {"role": role, "content": text} for role, text in (("user", "Hello."), ("assistant", "Hi."), ("user", ""))
    ]
    limit = {} if api == "responses" else {"max_tokens": 99}
    async with opened(tmp_path / "memolog.db", echo) as world:
        for _ in range(2):
            got = await world.http.post(PATHS[api], json={"model": "m", **limit, field: history}, headers=THREAD)
            assert got.status_code == 200
            spoken = [one for one in world.upstream.seen[-1].body[field] if one.get("role") in {"user", "assistant"}]
            assert [one["role"] for one in spoken] == ["user", "assistant", "user", "assistant", "user"][: len(history)]
            assert "empty message" in str(spoken[2])
            answer = (await world.lines())[-1].removeprefix("assistant: ")
            history += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Next."}]
        assert [line.partition(":")[0] for line in await world.lines()] == ["user", "assistant"] * 3
