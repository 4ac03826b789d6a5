"""What every system under test shares: the workloads, the scripted observer, the clock and the result.

It imports nothing but the standard library and its neighbour, because each system runs in an environment of its own.
"""

import argparse
import gc
import hashlib
import json
import re
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from run_queue import run_queue_delay

SYSTEM = "You are a helpful assistant."
RESOURCE = "user-1"
# The scripted observer writes one line of KEPT words for every WINDOW words that it reads.
WINDOW, KEPT = 156, 17
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One unit of work: what the model is given, and what it answers."""

    thread: str
    given: dict[str, Any]
    answer: dict[str, Any]


def steps_of(work: dict[str, Any], calls: int | None) -> Iterator[Step]:
    """Yield the steps of a workload in their order. Threads take turns. `calls` limits the tool calls of W2."""
    if work["name"] == "W2":
        given = {"role": "user", "content": work["user"]}
        for number, step in enumerate(work["steps"][:calls]):
            call = {"id": f"call_{number}", "name": "lookup", "arguments": step["arguments"]}
            yield Step(thread="w2", given=given, answer={"role": "assistant", "call": call})
            given = {"role": "tool", "call": call, "content": step["result"]}
        yield Step(thread="w2", given=given, answer={"role": "assistant", "content": work["final"]})
        return
    for turn in range(len(work["threads"][0]["turns"])):
        for thread in work["threads"]:
            said = thread["turns"][turn]
            yield Step(
                thread=thread["id"],
                given={"role": "user", "content": said["user"]},
                answer={"role": "assistant", "content": said["assistant"]},
            )


def condensed(text: str) -> list[str]:
    """Return the first words of each window of a text, as the scripted observer keeps them."""
    words = _WORD.findall(text)
    return [" ".join(words[at : at + KEPT]) for at in range(0, len(words), WINDOW)]


def _processor() -> float:
    """Return the processor seconds of this process and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Scripted:
    """Counts the time that scripted models take, which is nobody's memory, and writes their calls to a file."""

    def __init__(self, path: Path) -> None:
        self.wall = self.processor = self.delay = 0.0
        self.is_recording = False
        self.step = 0
        self._file = path.open("w", encoding="utf-8")
        # By the digest of the text, so that the texts of all prompts do not stay in the memory that is measured.
        self._numbers: dict[bytes, int] = {}
        self._depth = 0

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1:
            self._began = run_queue_delay(), _processor(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            delay, processor, wall = self._began
            self.wall += time.perf_counter() - wall
            self.processor += _processor() - processor
            self.delay += run_queue_delay() - delay

    def call(self, kind: str, thread: str, messages: list[str], answer: str) -> None:
        """Write one call. Each text is written once, and later named by its number."""
        if not self.is_recording:
            return
        numbers: list[int] = []
        for text in messages:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            if digest not in self._numbers:
                self._numbers[digest] = len(self._numbers)
                self._file.write(json.dumps({"text": text}) + "\n")
            numbers.append(self._numbers[digest])
        row = {"kind": kind, "thread": thread, "messages": numbers, "answer": answer}
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
        self._numbers.clear()


class Meter:
    """Measures parts of the work, without the time of scripted models. Use it as a context manager."""

    def __init__(self, scripted: Scripted) -> None:
        self._scripted = scripted
        self.wall: list[float] = []
        self.processor: list[float] = []

    def __enter__(self) -> Self:
        mock = self._scripted
        self._mock = mock.wall, mock.processor, mock.delay
        self._delay, self._used, self._began = run_queue_delay(), _processor(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        wall, used, delay = (
            time.perf_counter() - self._began,
            _processor() - self._used,
            run_queue_delay() - self._delay,
        )
        mock = self._scripted
        wall -= mock.wall - self._mock[0]
        # Other programs on the machine are taken out: the time in which this one was ready and had to wait.
        wall -= delay - (mock.delay - self._mock[2])
        self.wall.append(max(0.0, wall) * 1_000)
        self.processor.append(max(0.0, used - (mock.processor - self._mock[1])) * 1_000)


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1_024


def size_mb(path: Path) -> float:
    """Return the size of a file with its journals, or of a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 2**20
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*")) / 2**20


def versions(*names: str) -> dict[str, str]:
    """Return the versions of installed packages."""
    return {name: version(name) for name in names}


class Run:
    """One run of a system on a workload: its arguments, its meters and its result."""

    def __init__(self, name: str) -> None:
        parser = argparse.ArgumentParser(description=f"Run {name} on one workload and print one line of JSON.")
        parser.add_argument("--workload", default="W1")
        parser.add_argument("--folder", type=Path, required=True, help="the folder with the workloads, for all files")
        parser.add_argument("--limit", type=int, default=0, help="the number of steps, 0 for all")
        parser.add_argument("--scope", default="thread")
        arguments = parser.parse_args()
        self.name, self.workload, self.scope = name, arguments.workload, arguments.scope
        self.folder: Path = arguments.folder
        self.work: dict[str, Any] = json.loads((self.folder / f"{self.workload.lower()}.json").read_text("utf-8"))
        self.stem = f"{name}-{self.workload}-{self.scope}"
        self.scripted = Scripted(self.folder / f"{self.stem}.trace")
        self.turn, self.background = Meter(self.scripted), Meter(self.scripted)
        self._limit: int = arguments.limit

    def steps(self, most: int = 0) -> list[Step]:
        """Return the steps of the workload, or its first ones."""
        limit = most or self._limit or None
        # The last step of W2 is the final answer.
        return list(steps_of(self.work, limit - 1 if limit else None))[:limit]

    def warm(self) -> Meter:
        """Return a meter for steps that do not count."""
        return Meter(self.scripted)

    def begin(self) -> None:
        """Begin to count, after the warm-up."""
        gc.collect()
        self.scripted.is_recording = True
        self._resident = resident_mb()
        self._mock, self._used, self._began = self.scripted.processor, _processor(), time.perf_counter()

    def end(self, path: Path, **more: object) -> None:
        """Stop counting, and print the result."""
        used = _processor() - self._used - (self.scripted.processor - self._mock)
        elapsed = time.perf_counter() - self._began
        result: dict[str, object] = {
            "system": self.name,
            "workload": self.workload,
            "scope": self.scope,
            "steps": len(self.turn.wall),
            "turn_wall_ms": self.turn.wall,
            "turn_processor_ms": self.turn.processor,
            "background_wall_ms": self.background.wall,
            "background_processor_ms": self.background.processor,
            "processor_s": used,
            "elapsed_s": elapsed,
            "file_mb": size_mb(path),
            "resident_growth_mb": resident_mb() - self._resident,
            "errors": 0,
            **more,
        }
        self.scripted.close()
        print(json.dumps(result))
