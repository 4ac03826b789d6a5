"""Measure how long the event loop is held while an agent works: a ticker in the loop, and how late each of its ticks is.

    make bench-hold
    make bench-hold ARGS="--only W2 --observers scripted --where"
    make bench-hold ARGS="--freeze"

The workloads are W1 and W2 of `peers/workloads.py`, and W2 with results of 20,000 tokens, each with the embedded observer, with
a scripted model, and with `memolog worker` in a process of its own. Each is repeated in new databases, or with a worker in the
same one, until there are enough ticks for a p99.9 (`--ticks`), and all ticks count. A tick is due every millisecond. Its lateness
is the elapsed time less the time in which the thread of the loop, or the thread that it waited for, was ready and another program
had the processor, and less the time of the scripted model. Pauses of the garbage collection count. `idle` is the same ticker in
the same process, before and after the workload and for about as many ticks, while nothing else runs: what it shows is the noise
of the machine. Aims: p99.9 ≤ 10 ms and maximum ≤ 25 ms.

`held by` names the line of Memolog in which the loop was, by a signal that interrupts a late tick. `--where` prints the whole
stack of the longest holds. `--freeze` excludes the imported modules from garbage collections, as `docs/operations.md` advises
servers to do. Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from harness import Run, Scripted
from run_memolog import Observer, play

from memolog import Config, Memory
from table import percentile, table

AIM_P999_MS, AIM_MAX_MS = 10.0, 25.0
EVERY = 0.001
# A tick that is later than this is interrupted, and its stack is kept.
LATE = 0.006
# With fewer ticks, p99.9 would be nearly the maximum.
TICKS = 5_000
# The steps of a run, and the tokens of a result of W2.
WORKLOADS = {"W1": (1_000, 2_000), "W2": (300, 2_000), "W2 20k": (60, 20_000)}
OBSERVERS = ("embedded", "scripted", "worker")
MOST_SHOWN = 12
COLUMNS = ("runs", "ticks", "p999_ms", "max_ms", "idle_p999_ms", "idle_max_ms")
SOURCE = f"{Path('src') / 'memolog'}/"


# ---------------------------------------------------------------- the ticker


@dataclass(slots=True, kw_only=True)
class Hold:
    """One late tick."""

    ms: float
    stacks: list[list[str]] = field(default_factory=list[list[str]])
    """The stack of the loop, and of the other threads if the loop waited for one of them."""
    collected_ms: float = 0.0


class Ticker:
    """Ticks in the event loop of the calling thread, and keeps how late each tick is."""

    def __init__(self, scripted: Scripted) -> None:
        self._scripted = scripted
        self.late: list[float] = []
        self.holds: list[Hold] = []
        self._stacks: list[list[str]] = []
        self._collected = self._collecting = 0.0

    async def measure(self, work: Any) -> list[float]:
        """Tick while `work` runs. Return the lateness of each tick in milliseconds."""
        self.late = []
        signal.signal(signal.SIGALRM, self._interrupt)
        gc.callbacks.append(self._collects)
        ticking = asyncio.create_task(self._tick())
        try:
            await work
        finally:
            ticking.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.callbacks.remove(self._collects)
        return self.late

    async def _tick(self) -> None:
        while True:
            self._stacks = []
            mock, collected = self._scripted.wall, self._collected
            signal.setitimer(signal.ITIMER_REAL, EVERY + LATE)
            before, began = _scheduled(), time.perf_counter()
            await asyncio.sleep(EVERY)
            wall, after = time.perf_counter() - began, _scheduled()
            late = max(0.0, wall - EVERY - _waited(before, after, wall) - (self._scripted.wall - mock)) * 1_000
            self.late.append(late)
            if late > LATE * 1_000:
                pause = (self._collected - collected) * 1_000
                self.holds.append(Hold(ms=late, stacks=self._stacks, collected_ms=pause))

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        """Keep the stack of the loop. If the loop only waits, another thread has the interpreter: keep its stack too."""
        self._stacks.append(_stack(frame))
        me = threading.get_ident()
        others = [_stack(one) for thread, one in sys._current_frames().items() if thread != me]
        self._stacks += [one for one in others if any(SOURCE in line for line in one)]

    def _collects(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self._collected += time.perf_counter() - self._collecting


def _scheduled() -> dict[int, tuple[float, float]]:
    """Return for each thread the seconds in which it ran, and in which it was ready and another one had the processor."""
    found: dict[int, tuple[float, float]] = {}
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError), (thread / "schedstat").open("rb", buffering=0) as file:
            ran, waited, _ = file.read().split()
            found[int(thread.name)] = int(ran) / 1e9, int(waited) / 1e9
    return found


def _waited(before: dict[int, tuple[float, float]], after: dict[int, tuple[float, float]], wall: float) -> float:
    """Return the seconds in which other programs delayed the loop.

    If the loop itself hardly ran, it waited for a thread that had the interpreter: what delayed that thread counts too.
    """
    spent = {
        thread: (ran - before[thread][0], late - before[thread][1])
        for thread, (ran, late) in after.items()
        if thread in before
    }
    ran, waited = spent.pop(threading.get_native_id())
    others = max((late for _, late in spent.values()), default=0.0)
    return waited + (others if ran < (wall - waited) / 2 else 0.0)


def _stack(frame: FrameType | None) -> list[str]:
    """Return the calls of a stack, the innermost first."""
    return [f"{one.f_code.co_filename}:{one.f_lineno} {one.f_code.co_name}" for one in _outwards(frame)]


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _held_by(hold: Hold) -> str:
    """Return the innermost line of Memolog in the stack of the loop, or in that of another thread."""
    if hold.collected_ms > hold.ms / 2:
        return "garbage collection"
    for number, stack in enumerate(hold.stacks):
        for line in stack:
            if SOURCE in line:
                return f"{line.split(SOURCE)[1]}{' (other thread)' if number else ''}"
    return "loop" if hold.stacks else "not interrupted"


# ---------------------------------------------------------------- one run


async def one(run: Run, observer: str, *, least: int, freezes: bool) -> dict[str, Any]:
    """Run one workload again and again until there are `least` ticks, between two idle controls with as many ticks together."""
    ticker = Ticker(run.scripted)
    runs = 0
    config = Config(background="worker") if observer == "worker" else Config()

    async def work() -> None:
        nonlocal runs
        while not runs or len(ticker.late) < least:
            runs += 1
            model = Observer(run) if observer == "scripted" else None
            # The worker has one file, because the start of another worker would hold the loop.
            path = run.folder / ("hold-worker.db" if observer == "worker" else f"hold-{observer}-{runs}.db")
            async with Memory(str(path), model=model, config=config) as memory:
                await play(run, memory, run.steps(), run.turn, run.background)
                await memory.settled()

    if observer == "worker":
        async with Memory(run.folder / "hold-worker.db", config=config) as memory:
            await memory.open()
    worker = [sys.executable, "-m", "memolog", "worker", "--db", str(run.folder / "hold-worker.db")]
    beside = await asyncio.create_subprocess_exec(*worker, stdout=subprocess.DEVNULL) if observer == "worker" else None
    try:
        return await _measured(ticker, work, least=least, freezes=freezes) | {"runs": runs}
    finally:
        if beside is not None:
            beside.terminate()
            await beside.wait()


async def _measured(
    ticker: Ticker, work: Callable[[], Awaitable[None]], *, least: int, freezes: bool
) -> dict[str, Any]:
    # A tick of an idle loop takes little more than `EVERY`.
    rest = least / 2 * EVERY * 1.3
    idle = await ticker.measure(asyncio.sleep(rest))
    ticker.holds.clear()
    if freezes:
        # A first turn imports what turns need.
        async with (
            Memory(":memory:", config=Config()) as memory,
            memory.thread("first", resource="first").turn() as turn,
        ):
            await turn.prepare("Hello.")
    gc.collect()
    if freezes:
        gc.freeze()
    ticks = await ticker.measure(work())
    longest = sorted(ticker.holds, key=lambda hold: -hold.ms)
    idle += await ticker.measure(asyncio.sleep(rest))
    return {
        "ticks": len(ticks),
        "p999_ms": round(percentile(ticks, 0.999), 2),
        "max_ms": round(max(ticks), 2),
        "idle_p999_ms": round(percentile(idle, 0.999), 2),
        "idle_max_ms": round(max(idle), 2),
        "held_by": Counter(_held_by(hold) for hold in longest).most_common(MOST_SHOWN),
        "longest": [{"ms": hold.ms, "by": _held_by(hold), "stacks": hold.stacks} for hold in longest[:MOST_SHOWN]],
    }


def measured(name: str, observer: str, folder: Path, *, least: int, freezes: bool) -> dict[str, Any]:
    """Run one workload in a process of its own."""
    # The tokenizer of the workloads would be part of the measured process.
    from workloads import write_workloads

    steps, result = WORKLOADS[name]
    write_workloads(folder, result=result)
    work = ["--workload", name.split(maxsplit=1)[0], "--folder", str(folder), "--limit", str(steps)]
    done = subprocess.run(
        [sys.executable, __file__, "--one", observer, str(least), str(freezes), *work],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description="Measure how long the event loop is held while an agent works.")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, separated by commas")
    parser.add_argument("--observers", default=",".join(OBSERVERS), help="embedded, scripted, worker, with commas")
    parser.add_argument(
        "--ticks", type=int, default=TICKS, help=f"the least number of ticks of each workload, usually {TICKS:,}"
    )
    parser.add_argument("--where", action="store_true", help="print the stacks of the longest holds")
    parser.add_argument("--freeze", action="store_true", help="exclude imported modules from garbage collections")
    given = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    rows: list[list[object]] = []
    for name in given.only.split(","):
        for observer in given.observers.split(","):
            with tempfile.TemporaryDirectory(prefix="memolog-hold-", ignore_cleanup_errors=True) as folder:
                found = measured(name, observer, Path(folder), least=given.ticks, freezes=given.freeze)
            for hold in found.pop("longest"):
                print(f"{name} {observer}: {hold['ms']:.1f} ms in {hold['by']}", file=sys.stderr, flush=True)
                for stack in hold["stacks"] if given.where else ():
                    print("    " + "\n    ".join(stack[:30]) + "\n", file=sys.stderr, flush=True)
            by = ", ".join(f"{where} ×{count}" for where, count in found["held_by"][:2])
            rows.append([f"{name} {observer}", *(found[column] for column in COLUMNS), by])
            results[f"{name} {observer}"] = found
    print(table(["workload", *COLUMNS, f"held by, over {LATE * 1_000:.0f} ms"], rows))
    print(json.dumps({"aim": {"p999_ms": AIM_P999_MS, "max_ms": AIM_MAX_MS}, **results}))


if __name__ == "__main__":
    if "--one" in sys.argv:
        # The other arguments are those of a run of `peers/harness.py`.
        _observer, _least, _freezes = sys.argv.pop(2), int(sys.argv.pop(2)), sys.argv.pop(2) == "True"
        sys.argv.remove("--one")
        print(json.dumps(asyncio.run(one(Run("memolog"), _observer, least=_least, freezes=_freezes))))
    else:
        main()
