"""A computation in slices has the result of one without a pause, and other tasks run where it yields."""

import asyncio
from collections.abc import Generator

import pytest

from memolog.core.deadline import at_once, in_slices


def _counted(end: int, seen: list[int]) -> Generator[None, None, int]:
    for number in range(end):
        seen.append(number)
        yield
    return end


async def test_slices_and_no_pause_have_the_same_result() -> None:
    """All steps are done once and in order."""
    pausing, without = list[int](), list[int]()
    assert await in_slices(_counted(100, pausing)) == at_once(_counted(100, without)) == 100
    assert pausing == without == list(range(100))


async def test_other_tasks_run_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time of a slice, a task that is ready runs before the computation goes on."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []
    at: list[int] = []

    async def other() -> None:
        for _ in range(3):
            at.append(len(seen))
            await asyncio.sleep(0)

    # Every look at the clock is a second later, so each step of the computation is a slice of its own.
    moments = iter(range(10_000))
    monkeypatch.setattr(loop, "time", lambda: float(next(moments)))
    task = asyncio.create_task(other())
    await in_slices(_counted(5, seen))
    monkeypatch.undo()
    await task
    assert at == [0, 1, 2]


async def test_an_error_of_the_computation_is_raised() -> None:
    """It reaches the caller as it is."""

    def fails() -> Generator[None, None, int]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_slices(fails())
    with pytest.raises(ValueError, match="no"):
        at_once(fails())
