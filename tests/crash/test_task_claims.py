"""One winner: many claimers in many processes, round after round; and what a killed claimant held comes back by itself."""

import asyncio
from contextlib import ExitStack

from crash.children import answer, started
from crash.writer_child import RESOURCE, SHORT, open_real
from kit.clock import until
from kit.effort import counts
from kit.engines import engines
from kit.talk import tasks_of

_PROCESSES = counts(3, 8)
_CLAIMERS = 64
engine_name = engines("sqlite", "postgres")


async def test_exactly_one_of_many_claimers_wins(address: str) -> None:
    """Sixty-four claimers try to take one task at once, again and again: each time exactly one of them has it."""
    rounds = counts(12, 200)
    async with await open_real(address) as store:
        tasks = tasks_of(store, RESOURCE, session="heir", who="heir")
        for number in range(rounds):
            await tasks.create(f"Round {number}")
        each = _CLAIMERS // _PROCESSES
        sizes = [each + (number < _CLAIMERS - each * _PROCESSES) for number in range(_PROCESSES)]
        with ExitStack() as stack:
            crowd = [
                stack.enter_context(started("writer_child.py", "claim", address, f"p{number}", str(size)))
                for number, size in enumerate(sizes)
            ]
            assert [answer(process) for process in crowd] == ["ready"] * _PROCESSES
            for number in range(1, rounds + 1):
                for process in crowd:
                    print(f"T-{number}", file=process.stdin, flush=True)
                answers = await asyncio.gather(*(asyncio.to_thread(answer, process) for process in crowd))
                winners = [winner for answer in answers for winner in answer]
                assert len(winners) == 1, f"round {number}: {winners}"
                task = await tasks.get(f"T-{number}")
                assert (task.status, task.session) == ("in_progress", winners[0])
        history = (await tasks.history("T-1")).items
    assert [change.what for change in history] == ["created", "claimed"]


async def test_what_a_killed_claimant_held_is_ready_again(address: str) -> None:
    """Nobody sweeps: when the dead one's lease ends its task is ready, and the next claim takes over."""
    async with await open_real(address) as store:
        tasks = tasks_of(store, RESOURCE, session="heir", who="heir")
        await tasks.create("Dangerous")
        with started("writer_child.py", "hold", address, "victim", "T-1") as victim:
            assert answer(victim) == "held"
        held = await tasks.get("T-1")
        early = await tasks.ready()
        assert held.held_until is not None
        # On a machine that stood still for so long the lease may be over already.
        assert early.items == () or store.clock.now() >= held.held_until

        async def is_ready() -> bool:
            return bool((await tasks.ready()).items)

        await until(is_ready)
        ready = await tasks.ready()
        assert store.clock.now() >= held.held_until
        assert "the claim of victim has ended" in ready.items[0].why
        claimed = await tasks.claim("T-1", lease=SHORT.total_seconds())
        assert (claimed.task.session, claimed.fence) == ("heir", 2)
        last = (await tasks.history("T-1")).items[-1]
        assert last.details["took_over_from"] == "victim"
