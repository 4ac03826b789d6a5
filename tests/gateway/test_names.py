"""Where the gateway finds the thread and the resource of a request, and which address of the provider the request goes to."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse

from gateway.test_memory import echo
from gateway.test_passing import ALICE, BOB, BODIES, THREAD
from gateway.upstream import PATHS
from gateway.world import APIS, World, opened
from memolog.apps.gateway import GatewaySettings

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SAID = ["user: Hello.", "assistant: You said: Hello."]


async def ask(world: World, api: str = "chat", prefix: str = "", headers: Any = None, **body: Any) -> tuple[int, str]:
    """Send a request, and return its status and the message of an error."""
    got = await world.http.post(prefix + PATHS[api], json={**BODIES[api], **body}, headers=headers or {})
    return got.status_code, "" if got.status_code == 200 else got.json()["error"]["message"]


async def resources(world: World) -> tuple[str, ...]:
    """Return the resources that have a memory."""
    return await (await world.memory.open()).store.resources()


# ---------------------------------------------------------------- the path


@pytest.mark.parametrize("api", APIS)
async def test_thread_and_resource_in_the_path(tmp_path: Path, api: str) -> None:
    """The provider gets the path without them. They may have escapes, as in headers."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        assert await ask(world, api, "/r/alice/t/atlas") == (200, "")
        assert await ask(world, api, "/r/alice/t/a%2Fb%20c%C3%A9") == (200, "")
        assert {seen.path for seen in world.upstream.seen} == {PATHS[api]}
        assert await world.lines("atlas") == await world.lines("a/b cé") == SAID


@pytest.mark.parametrize("is_anthropic", [False, True])
async def test_official_clients_need_only_an_address(tmp_path: Path, is_anthropic: bool) -> None:
    """A client with the thread in its address needs no header, and lists the models of the provider."""
    async with opened(tmp_path / "memolog.db", echo, resource="alice") as world:
        if is_anthropic:
            client = world.anthropic.with_options(base_url=f"{world.url}/t/t1")
            await client.messages.create(**BODIES["messages"])
        else:
            client = world.openai.with_options(base_url=f"{world.url}/t/t1/v1/")
            await client.chat.completions.create(**BODIES["chat"])
        assert await world.lines() == SAID
        world.upstream.script = lambda _: JSONResponse({"data": [], "object": "list"})
        await client.models.list()
        assert world.upstream.seen[-1].path == "/v1/models"


async def test_models_need_no_resource(tmp_path: Path) -> None:
    """Requests that have no memory are passed on, even if they have only a thread or only a resource."""
    async with opened(tmp_path / "memolog.db", lambda _: JSONResponse({"ok": True})) as world:
        for path in ("/t/t1/v1/models", "/r/alice/v1/models", "/r/alice/t/t1/v1/models?limit=2", "/v1/models"):
            assert (await world.http.get(path)).json() == {"ok": True}, path
        assert (await world.http.get("/v1/models", headers={"x-memolog-thread": "t1"})).json() == {"ok": True}
        assert {seen.path for seen in world.upstream.seen} == {"/v1/models"}
        assert world.upstream.seen[2].target == "/v1/models?limit=2"
        assert await resources(world) == ()


WRONG_PATHS = [
    ("/t/t1", {}, "thread but no resource"),
    ("/r/alice", {}, "resource but no thread"),
    ("/r/b%6fb/t/t1", {}, "unneeded percent escape"),
    ("/r/%20bob/t/t1", {}, "starts or ends with a space"),
    ("/r/bob%00/t/t1", {}, "unprintable"),
    ("/r/%FF/t/t1", {}, "UTF-8"),
    ("/r/alice/t/%20", {}, "space"),
    ("/r/alice/t/t1", {"x-memolog-thread": "t2"}, "different values"),
    ("/r/alice/t/t1", {"x-memolog-resource": "bob"}, "different values"),
]


@pytest.mark.parametrize("api", APIS)
async def test_wrong_paths_are_told(tmp_path: Path, api: str) -> None:
    """A path that is incomplete, has odd escapes, or contradicts a header is refused."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        for prefix, headers, words in WRONG_PATHS:
            status, message = await ask(world, api, prefix, headers)
            assert (status, words in message) == (400, True), (prefix, message)
        assert world.upstream.seen == []
        # The same value twice is no contradiction, and header and path complete each other.
        assert (await ask(world, api, "/r/alice/t/t1", THREAD))[0] == 200
        assert (await ask(world, api, "/t/t1", {"x-memolog-resource": "alice"}))[0] == 200
        assert await resources(world) == ("alice",)


async def test_a_path_opens_only_the_resource_of_its_token(tmp_path: Path) -> None:
    """A path with another resource is refused, whether the resource exists or not, on every path."""
    async with opened(tmp_path / "memolog.db", echo, tokens={ALICE: "alice", BOB: "bob"}) as world:
        token = {"x-memolog-token": ALICE}
        assert await ask(world, prefix="/t/t1", headers=token) == (200, "")
        assert await ask(world, prefix="/r/alice/t/t2", headers=token) == (200, "")
        before = len(world.upstream.seen)
        for resource in ("bob", "nobody", "Alice", "alice%2Fx"):
            assert (await ask(world, prefix=f"/r/{resource}/t/t1", headers=token))[0] == 403, resource
            assert (await world.http.get(f"/r/{resource}/v1/models", headers=token)).status_code == 403
        assert (await ask(world, prefix="/r/alice/t/t1"))[0] == 401
        assert len(world.upstream.seen) == before
        assert await resources(world) == ("alice",)


# ---------------------------------------------------------------- fields of chat programs


@pytest.mark.parametrize("api", APIS)
async def test_fields_of_a_chat_program(tmp_path: Path, api: str) -> None:
    """The thread may be in a named header or in `metadata`, the resource in `user`. The provider gets these fields unchanged."""
    places: Any = {"thread_from": ["header:X-Chat-Id", "metadata:chat"], "resource_from": ["user", "metadata:user_id"]}
    async with opened(tmp_path / "memolog.db", echo, **places) as world:
        assert await ask(world, api, headers={"x-chat-id": "c%201"}, user="alice") == (200, "")
        assert world.upstream.seen[-1].headers["x-chat-id"] == "c%201"
        # The header of a chat program is not decoded: another spelling is another thread.
        assert await world.lines("c%201") == SAID
        metadata = {"chat": "c 2", "user_id": "bob"}
        assert await ask(world, api, metadata=metadata) == (200, "")
        assert world.upstream.seen[-1].body["metadata"] == metadata
        assert await world.lines("c 2", "bob") == SAID
        assert await ask(world, api, headers={"x-chat-id": "first"}, metadata=metadata) == (200, "")
        assert await world.lines("first", "bob") == SAID


async def test_headers_and_path_come_before_fields(tmp_path: Path) -> None:
    """Headers and path count before the fields of a chat program, the fields count before the default resource."""
    places: Any = {"thread_from": ["metadata:chat"], "resource_from": ["user"], "resource": "default"}
    async with opened(tmp_path / "memolog.db", echo, **places) as world:
        fields: Any = {"metadata": {"chat": "c1"}, "user": "mallory"}
        assert await ask(world, headers=THREAD, **fields) == (200, "")
        assert await ask(world, prefix="/r/bob/t/t2", **fields) == (200, "")
        assert await resources(world) == ("alice", "bob")
        assert await ask(world, **fields) == (200, "")
        assert await world.lines("c1", "mallory") == SAID
        users: Any = ({}, {"user": ""}, {"user": None})
        for user in users:
            assert await ask(world, metadata={"chat": "c1"}, **user) == (200, "")
        assert await world.lines("c1", "default") == SAID


async def test_fields_are_read_only_where_the_settings_say_so(tmp_path: Path) -> None:
    """Without settings, `user` and `metadata` name nothing, and a resource alone does not turn memory on."""
    fields: Any = {"metadata": {"chat": "c1", "thread": "c1"}, "user": "mallory"}
    async with opened(tmp_path / "memolog.db", echo) as world:
        assert await ask(world, headers={"x-chat-id": "c1"}, **fields) == (200, "")
        assert await resources(world) == ()
    async with opened(tmp_path / "memolog.db", echo, thread_from=["user"], resource_from=["user"]) as world:
        users: Any = ({}, {"user": None}, {"user": ""})
        for user in users:
            assert await ask(world, **user) == (200, "")
        assert await resources(world) == ()
    async with opened(tmp_path / "memolog.db", echo, resource_from=["user"]) as world:
        assert await ask(world, user="mallory") == (200, "")
        assert await resources(world) == ()


async def test_wrong_fields_are_told(tmp_path: Path) -> None:
    """Values that are no names, and bodies that cannot be read, are refused or passed on; nothing is stored."""
    places: Any = {"thread_from": ["header:x-chat-id", "metadata:chat"], "resource_from": ["user"]}
    async with opened(tmp_path / "memolog.db", echo, max_body_bytes=500, **places) as world:
        thread = {"x-chat-id": "c1"}
        assert (await ask(world, headers=thread))[1].startswith("The request has a thread but no resource.")
        assert "`user` must be a string, got int" in (await ask(world, headers=thread, user=7))[1]
        assert "`metadata.chat` must be a string" in (await ask(world, metadata={"chat": ["c"]}))[1]
        assert "unprintable" in (await ask(world, headers=thread, user="a\nb"))[1]
        twice: Any = [("x-chat-id", "c1"), ("x-chat-id", "c2")]
        assert "twice" in (await ask(world, headers=twice, user="alice"))[1]
        assert (await ask(world, user="x" * 600))[0] == 413
        packed = gzip.compress(b"{}")
        got = await world.http.post(PATHS["chat"], content=packed, headers={"content-encoding": "gzip"})
        assert got.status_code == 415
        assert world.upstream.seen == []
        world.upstream.script = lambda _: JSONResponse({"error": "what?"}, 400)
        for raw in (b"not json", b"[]", b'{"metadata": 3}'):
            got = await world.http.post(PATHS["chat"], content=raw)
            assert (got.json(), world.upstream.seen[-1].raw) == ({"error": "what?"}, raw)
        assert await resources(world) == ()


async def test_a_token_is_stronger_than_the_fields(tmp_path: Path) -> None:
    """With a token for each resource, the thread may come from a field, and the token alone selects the resource."""
    places: Any = {"tokens": {ALICE: "alice", BOB: "bob"}, "thread_from": ["metadata:chat"]}
    async with opened(tmp_path / "memolog.db", echo, **places) as world:
        body: Any = {"metadata": {"chat": "c1", "memolog_resource": "bob"}, "user": "bob"}
        assert await ask(world, headers={"x-memolog-token": ALICE}, **body) == (200, "")
        assert await resources(world) == ("alice",)
        assert (await ask(world, **body))[0] == 401


# ---------------------------------------------------------------- addresses of providers


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1"),
        ("/", "/v1"),
        ("/v1", "/v1"),
        ("/v1/", "/v1"),
        ("/v1beta/openai/", "/v1beta/openai"),
        ("/v1beta/openai", "/v1beta/openai"),
        ("/api/paas/v4//", "/api/paas/v4"),
        ("/api/v1/", "/api/v1"),
    ],
)
async def test_the_base_address_of_an_openai_provider(tmp_path: Path, base: str, path: str) -> None:
    """The address is the `base_url` that a client without the gateway would have."""
    async with opened(tmp_path / "memolog.db", echo) as outer:
        there = outer.upstream_url + base
        async with opened(tmp_path / "other.db", echo, openai=there) as world:
            outer.upstream.script = lambda _: JSONResponse({"ok": True})
            for prefix in ("/v1", "/v1/", "/t/t1/v1", "//v1"):
                got = await world.http.get(f"{world.url}{prefix}/models?a=b")
                assert got.json() == {"ok": True}, prefix
                assert outer.upstream.seen[-1].target == f"{path}/models?a=b"
            # Other paths of the provider are below the address without its version.
            await world.http.get("/health")
            assert outer.upstream.seen[-1].path == f"{path.removesuffix('/v1')}/health"


async def test_memory_with_another_base_address(tmp_path: Path) -> None:
    """The paths with memory are those of the client, whatever the address of the provider is."""
    async with opened(tmp_path / "memolog.db", echo) as outer:
        there = f"{outer.upstream_url}/v1beta/openai/"
        async with opened(tmp_path / "other.db", echo, openai=there) as world:
            client = world.openai.with_options(base_url=f"{world.url}/r/alice/t/t1/v1/")
            done = await client.chat.completions.create(**BODIES["chat"])
            assert done.choices[0].message.content == "You said: Hello."
            got = await world.http.post("/v1/chat/completions/", json=BODIES["chat"], headers=THREAD)
            assert got.headers["x-memolog-thread"] == "t1"
            assert {seen.path.rstrip("/") for seen in outer.upstream.seen} == {"/v1beta/openai/chat/completions"}
            assert await world.lines() == SAID


def test_the_address_of_an_anthropic_provider() -> None:
    """It is the `base_url` of an Anthropic client, which has no `/v1`."""
    for given in ("http://127.0.0.1:1/anthropic", "http://127.0.0.1:1/anthropic/v1/"):
        assert GatewaySettings(anthropic=given).anthropic == "http://127.0.0.1:1/anthropic"
