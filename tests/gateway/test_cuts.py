"""Providers that cut an answer: what arrived is stored, and the client gets a clean end without a traceback in the log."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from adapters.provider import APIS as DRIVERS
from gateway.test_memory import echo
from gateway.test_passing import BODIES, THREAD
from gateway.upstream import PATHS
from gateway.world import APIS, opened
from memolog.apps.network import url_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

HALF = {
    "chat": b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Half a"}}]}\n\n',
    "responses": b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"i",'
    b'"output_index":0,"content_index":0,"delta":"Half a"}\n\n',
    "messages": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":"m","content":[],'
    b'"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Half a"}}\n\n',
}
LAST = {
    "chat": b"data: [DONE]\n\n",
    "responses": b'data: {"type":"response.completed","response":{"id":"r","model":"m","output":[{"type":"message",'
    b'"id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Half a",'
    b'"annotations":[]}]}]}}\n\n',
    "messages": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
}
EVENTS = "text/event-stream; charset=utf-8"


@asynccontextmanager
async def cutting(body: bytes, kind: str = EVENTS, *, framing: str = "chunked") -> AsyncGenerator[str]:
    """Run a provider that sends one piece of each answer and closes the connection before the end."""
    length = "transfer-encoding: chunked" if framing == "chunked" else "content-length: 100000"
    piece = b"%x\r\n%s\r\n" % (len(body), body) if framing == "chunked" and body else body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        await reader.readexactly(int(sizes[0]) if sizes else 0)
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{length}\r\n\r\n".encode() + piece)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield url_of("127.0.0.1", server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    "tail", [b"", b'event: x\ndata: {"id":"c","choi', b"data: {}\n"], ids=["between", "in", "line"]
)
@pytest.mark.parametrize("api", APIS)
async def test_a_cut_stream_ends_with_an_error_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, api: str, tail: bytes
) -> None:
    """The client gets all whole events and an error event. The received part is stored, and the next request works."""
    async with (
        opened(tmp_path / "memolog.db", echo) as whole,
        cutting(HALF[api] + tail) as there,
        opened(tmp_path / "memolog.db", echo, openai=there, anthropic=there) as cut,
    ):
        sent = {**BODIES[api], "stream": True}
        got = await cut.http.post(PATHS[api], json=sent, headers=THREAD)
        assert got.status_code == 200
        assert got.content.startswith(HALF[api])
        rest = got.content.removeprefix(HALF[api])
        assert rest.count(b"data:") == 1
        assert b"before the answer was complete" in rest
        assert rest.endswith(b"\n\n")
        await whole.talk(api).say("Go on.")
        assert (await whole.lines())[:3] == ["user: Hello.", "assistant: Half a", "user: Go on."]
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert "the provider cut a stream" in caplog.text


@pytest.mark.parametrize("api", APIS)
async def test_official_clients_report_a_cut_stream(tmp_path: Path, api: str) -> None:
    """The official clients read the part that arrived, and then the error of their provider's format."""
    async with cutting(HALF[api]) as there, opened(tmp_path / "memolog.db", echo, openai=there, anthropic=there) as cut:
        driver = DRIVERS[api]
        create = driver.call(cut.anthropic if api == "messages" else cut.openai)
        request: dict[str, Any] = {**driver.said("Hello."), "stream": True, "extra_headers": THREAD}
        stream: Any = aiter(await create(**request))
        assert await anext(stream)
        with pytest.raises((openai.APIError, anthropic.APIError), match="before the answer was complete"):
            _ = [event async for event in stream]


@pytest.mark.parametrize("api", APIS)
async def test_a_connection_that_breaks_after_the_answer(tmp_path: Path, api: str) -> None:
    """If the answer is complete, and only the end of the connection is lost, the client gets no error."""
    async with (
        cutting(HALF[api] + LAST[api]) as there,
        opened(tmp_path / "memolog.db", echo, openai=there, anthropic=there) as cut,
    ):
        got = await cut.http.post(PATHS[api], json={**BODIES[api], "stream": True}, headers=THREAD)
        assert got.content == HALF[api] + LAST[api]
        assert await cut.lines() == ["user: Hello.", "assistant: Half a"]


@pytest.mark.parametrize("api", APIS)
async def test_a_cut_stream_without_a_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture, api: str) -> None:
    """A stream that is only passed on ends in the same way."""
    async with (
        cutting(HALF[api] + b"data: {") as there,
        opened(tmp_path / "memolog.db", echo, openai=there, anthropic=there) as cut,
    ):
        got = await cut.http.post(PATHS[api], json={**BODIES[api], "stream": True})
        rest = got.content.removeprefix(HALF[api])
        assert (rest.count(b"data:"), b"before the answer was complete" in rest) == (1, True)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_a_cut_answer_that_is_no_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture, framing: str) -> None:
    """With memory the client gets the status 502. An answer that is only passed on stays visibly incomplete. No traceback."""
    async with (
        cutting(b'{"choices": [', "application/json", framing=framing) as there,
        opened(tmp_path / "memolog.db", echo, openai=there) as cut,
    ):
        got = await cut.http.post(PATHS["chat"], json=BODIES["chat"], headers=THREAD)
        assert (got.status_code, got.json()["error"]["type"]) == (502, "api_error")
        with pytest.raises(httpx.RemoteProtocolError):
            await cut.http.get("/v1/models")
        assert await cut.lines() == ["user: Hello."]
    assert not [record for record in caplog.records if record.exc_info]
