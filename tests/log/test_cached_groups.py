"""A process that has cached the groups of a log shows what another process made of them."""

from pathlib import Path

import pytest

from contract.raw_sql import run_sql
from kit.engines import engines
from kit.talk import RESOURCE, THREAD, hold, store_of
from memolog.memory import Memory
from memolog.testing import FakeClock

engine_name = engines("sqlite", "postgres")
LISBON = "I live in Lisbon with my dog Rex and I work at the harbour."
ZANZIBAR = "My plan is that the treasure lies in Zanzibar since 1999."
OSLO = "I moved to Oslo in Norway and I like the snow in the winter a lot."


async def tell(memory: Memory, said: str) -> None:
    """Say something that is in the log afterwards."""
    await hold(memory, said, "Noted.")
    await memory.thread(THREAD, resource=RESOURCE).observe()


async def shown(memory: Memory) -> list[str]:
    """Return which of the places the log of the next request names."""
    system = (await hold(memory, "What do you know?", "That.")).system
    return [place for place in ("Lisbon", "Zanzibar", "Oslo") if place in system]


async def test_a_revived_log_is_another_log(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """It has the id, the generation and the positions of the forgotten one, but none of its later groups."""
    export = tmp_path / "export.jsonl"
    async with Memory(address, clock=clock) as first, Memory(address, clock=clock) as second:
        await tell(second, LISBON)
        await second.export(export)
        await tell(second, ZANZIBAR)
        assert await shown(first) == ["Lisbon", "Zanzibar"]
        await second.resource(RESOURCE).forget()
        await second.import_from(export, revive=True)
        await tell(second, OSLO)
        assert await shown(first) == await shown(second) == ["Lisbon", "Oslo"]


async def test_a_turn_during_an_import(
    address: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees groups that have no text yet. Later turns see their texts."""
    export = tmp_path / "export.jsonl"
    async with Memory(str(tmp_path / "source.db"), clock=clock) as source:
        await tell(source, LISBON)
        await source.export(export)
    async with Memory(address, clock=clock) as first, Memory(address, clock=clock) as second:
        transfers = (await store_of(second)).transfers
        render = transfers.render
        meanwhile: list[list[str]] = []

        async def late(*given: object, **options: object) -> object:
            meanwhile.append(await shown(first))
            return await render(*given, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(transfers, "render", late)
        await second.import_from(export)
        assert meanwhile == [[]]
        assert await shown(first) == ["Lisbon"]
        await tell(second, OSLO)
        assert await shown(first) == await shown(second) == ["Lisbon", "Oslo"]


async def test_a_repair_reaches_every_process(address: str, clock: FakeClock) -> None:
    """A text that doctor has corrected is shown by processes that had cached the wrong one."""
    async with Memory(address, clock=clock) as first, Memory(address, clock=clock) as second:
        await tell(second, LISBON)
        damage = "UPDATE groups SET text = replace(text, 'Lisbon', 'Zanzibar') RETURNING pk"
        await run_sql(await store_of(second), damage)
        assert await shown(first) == ["Zanzibar"]
        assert (await second.doctor(repair=True)).findings
        assert await shown(first) == ["Lisbon"]
        await tell(second, OSLO)
        assert await shown(first) == ["Lisbon", "Oslo"]
