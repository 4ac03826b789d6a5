"""Clients are notified of the resources that they watch, and nothing is polled without a client."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from mcp_server.doors import RESOURCE, THREAD, call, connected, made, over_http, web
from memolog import Memory
from memolog.apps.mcp import Served, build_server
from memolog.apps.mcp.subscriptions import Changes
from memolog.tasks.calls import Tasks

PACK, FACTS, TASK = "memolog://context-pack", "memolog://working-memory", "memolog://task/T-1"
# A busy machine takes its time; what is waited for comes, or the test fails.
PATIENCE = 120


@asynccontextmanager
async def elsewhere(path: Path) -> AsyncGenerator[Tasks]:
    """Change tasks without the server."""
    async with Memory(path) as memory:
        yield memory.resource(RESOURCE).tasks()


async def first(changes: Any) -> ServerEvent:
    """Return the next event."""
    return await asyncio.wait_for(anext(aiter(changes)), PATIENCE)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_stream_of_changes(transport: str, tmp_path: Path) -> None:
    """A stream reports changes by the client and by another process, and no other resources."""
    path = await made(tmp_path)
    async with connected(transport, path) as client:
        async with client.listen(resource_subscriptions=[FACTS]) as changes:
            assert (await call(client, "task-mutate", action="create", title="Not watched"))["success"]
            noted = await call(client, "memory-search", action="update_context", section="Decisions", text="- one")
            assert noted["success"]
            assert await first(changes) == ResourceUpdated(uri=FACTS)
        async with client.listen(resources_list_changed=True, resource_subscriptions=[TASK]) as changes:
            async with elsewhere(path) as tasks:
                await tasks.edit("T-1", title="Another title")
            assert {await first(changes), await first(changes)} == {ResourcesListChanged(), ResourceUpdated(uri=TASK)}
        assert "Another title" in (await client.read_resource(TASK)).model_dump_json()


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_clients_of_the_older_protocol(transport: str, tmp_path: Path) -> None:
    """They subscribe to a resource. After they have listed the resources, they are notified when the list changes."""
    path, heard = await made(tmp_path), asyncio.Queue[str]()

    async def hear(message: Any) -> None:
        match message:
            case types.ResourceUpdatedNotification():
                heard.put_nowait(str(message.params.uri))
            case types.ResourceListChangedNotification():
                heard.put_nowait("list")
            case _:
                pass

    async with connected(transport, path, mode="legacy", message_handler=hear) as client:
        await _subscribe(client, path, heard)


async def _subscribe(client: Any, path: Path, heard: "asyncio.Queue[str]") -> None:
    capabilities = client.server_capabilities
    assert capabilities.resources.subscribe
    assert capabilities.resources.list_changed
    with pytest.warns(Warning, match="subscribe"):
        await client.subscribe_resource(TASK)
    async with elsewhere(path) as tasks:
        await tasks.edit("T-1", title="Another title")
    assert await asyncio.wait_for(heard.get(), PATIENCE) == TASK
    await client.list_resources()
    async with elsewhere(path) as tasks:
        await tasks.create("One more")
    assert await asyncio.wait_for(heard.get(), PATIENCE) == "list"
    with pytest.warns(Warning, match="subscribe"):
        await client.unsubscribe_resource(TASK)
    async with elsewhere(path) as tasks:
        await tasks.edit("T-1", title="A third title")
    # The list tells of it, since it shows titles; the task itself is no longer watched.
    assert await asyncio.wait_for(heard.get(), PATIENCE) == "list"
    with pytest.warns(Warning, match="subscribe"), pytest.raises(Exception, match="There is no"):
        await client.subscribe_resource("memolog://nothing")


async def test_while_nobody_watches_nothing_is_looked_at(address: str) -> None:
    """Without a watched resource nothing is checked. Each change is reported once."""
    async with Memory(address) as memory:
        changes = Changes(Served(memory=memory, resource=RESOURCE, thread=THREAD))
        told: list[ServerEvent] = []
        changes.bus.subscribe(told.append)
        await memory.resource(RESOURCE).tasks().create("Write it")
        await changes.check()
        assert changes.watched == frozenset()
        async with changes.watching([PACK, TASK], with_list=True):
            await changes.check()
            assert told == []
            await memory.resource(RESOURCE).tasks().claim("T-1")
            await changes.check()
            assert set(told) == {ResourceUpdated(uri=PACK), ResourceUpdated(uri=TASK)}
            told.clear()
            await memory.resource(RESOURCE).tasks().create("One more")
            await changes.check()
            assert told[0] == ResourcesListChanged()
            told.clear()
            await memory.resource(RESOURCE).working_memory().replace("# Facts", who="x")
            await memory.resource("bob").tasks().create("Somebody else's")
            await changes.check()
            assert told == [ResourceUpdated(uri=PACK)]
        assert changes.watched == frozenset()


async def test_too_much_cannot_be_watched(tmp_path: Path) -> None:
    """The number of watched resources is limited. Other clients are served as usual."""
    async with web(await made(tmp_path)) as server, over_http(server.url) as client:
        with pytest.raises(Exception, match="can be watched"):
            async with client.listen(resource_subscriptions=[f"memolog://task/T-{n}" for n in range(1_000)]):
                pass
        async with client.listen(resource_subscriptions=[PACK]) as changes:
            assert (await call(client, "task-mutate", action="create", title="More"))["success"]
            assert await first(changes) == ResourceUpdated(uri=PACK)


async def test_who_goes_is_told_no_more(tmp_path: Path) -> None:
    """When the last client disconnects, nothing is watched any more, with both protocols."""
    async with Memory(await made(tmp_path)) as memory:
        server = build_server(Served(memory=memory, resource=RESOURCE, thread=THREAD))
        async with Client(server, mode="legacy") as client:
            await client.list_resources()
            assert len(server.changes.watched) == 1
        assert server.changes.watched == frozenset()
        async with Client(server) as client, client.listen(resource_subscriptions=[PACK, TASK]):
            assert server.changes.watched == {PACK, TASK}
        assert server.changes.watched == frozenset()
