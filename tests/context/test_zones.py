"""Zones from elsewhere: a message under one that this machine does not know is observed, shown and told in UTC."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from kit.engines import engines
from kit.talk import hold
from memolog import AssistantMessage, Config, NewMessage, TextPart
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

CONFIG = Config.from_dict({"observation": {"message_tokens": 300}})
engine_name = engines("sqlite", "postgres")


async def foreign_export(clock: FakeClock, zone: str) -> str:
    """Return what a machine exported that knew this zone."""
    async with Memory(":memory:", clock=clock, config=CONFIG) as memory:
        async with memory.thread("t", resource="alice").turn() as turn:
            await turn.prepare(NewMessage(role="user", parts=(TextPart(text="The port is 8080."),), zone="Europe/Rome"))
            await turn.record(AssistantMessage("Noted. " * 20))
        text = io.StringIO()
        await memory.export(text, resource="alice")
    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    for line in lines:
        if line.get("zone") == "Europe/Rome":
            line["zone"] = zone
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "+99:00"])
@pytest.mark.parametrize("model", [None, ScriptedModel()])
async def test_an_unknown_zone_is_utc(
    tmp_path: Path, address: str, clock: FakeClock, zone: str, model: ScriptedModel | None
) -> None:
    """It comes with an import; the thread goes on as any other."""
    exported = tmp_path / "all.jsonl"
    await asyncio.to_thread(exported.write_text, await foreign_export(clock, zone), "utf-8")
    async with Memory(address, clock=clock, model=model, config=CONFIG) as memory:
        await memory.import_from(exported)
        status = await memory.thread("t", resource="alice").observe()
        assert (status.cursor, status.health) == (status.last_seq, "ok")
        context = await hold(memory, "And now?", thread="t")
        assert "09:00" in context.system
        assert await memory.thread("t", resource="alice").export_markdown()
