"""What a client pays in tokens for having the memory at hand."""

import json
from pathlib import Path

import pytest

from mcp_server.doors import ERAS, made, over_http, web, without_wire
from memolog.text.tokens import HeuristicCounter, SplintrCounter

MOST = 2_500


@pytest.mark.parametrize("mode", ERAS)
async def test_the_schema_as_a_client_sees_it(mode: str, tmp_path: Path) -> None:
    """The tools as they come over the wire, with the instructions beside them, take at most 2,500 tokens by either count."""
    async with web(await made(tmp_path)) as server, over_http(server.url, mode=mode) as client:
        tools = (await client.list_tools()).model_dump(by_alias=True, exclude_none=True, mode="json")["tools"]
        text = f"{json.dumps(tools, ensure_ascii=False)}\n{client.instructions}"
    counters = (HeuristicCounter(), SplintrCounter(), SplintrCounter(vocabulary="cl100k_base"))
    counts = [counter.count(text) for counter in counters]
    assert all(1_000 < count <= MOST for count in counts), counts


async def test_resources_and_prompts_are_listed_briefly(tmp_path: Path) -> None:
    """However many tasks there are, the lists stay short."""
    async with without_wire(await made(tmp_path)) as client:
        for number in range(60):
            await client.call_tool("task-mutate", {"action": "create", "title": f"Task number {number} " + "x" * 400})
        listed = await client.list_resources()
        assert len(listed.resources) <= 3 + 20
        prompts = (await client.list_prompts()).model_dump_json(by_alias=True, exclude_none=True)
    assert SplintrCounter().count(prompts) <= 300
