"""Write docs/benchmarks.md and its plots from the results of bench_peers.py."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).parent.parent.parent / "docs"
NAMES = {
    "memolog": "Memolog",
    "mastra": "Mastra OM",
    "langgraph": "LangGraph",
    "mem0": "mem0",
    "floor": "bare SQLite",
}
COLOURS = {"memolog": "#2f6fde", "mastra": "#d9822b", "langgraph": "#3f9c63", "mem0": "#a05bc0", "floor": "#8a8f98"}
COLUMNS = (
    ("turn_p50_ms", "turn p50", 1),
    ("turn_p95_ms", "p95", 1),
    ("turn_p99_ms", "p99", 1),
    ("background_mean_ms", "background", 1),
    ("processor_ms", "processor", 1),
    ("observer_per_token", "observer", 2),
    ("context_mean", "context", 0),
    ("reuse", "reuse", 3),
    ("file_mb", "file MB", 1),
    ("growth_mb", "growth MB", 0),
)
TITLES = {
    "W1": "W1: 1,000 turns of chat, 120 + 180 tokens",
    "W2": "W2: 300 tool calls, results of 2,000 tokens",
    "W3": "W3: 200 threads with 20 turns each",
    "W3 shared": "W3 with one log for all 200 threads",
}
PAGE = """# Benchmarks

How Memolog compares with other memories on the same workloads. Run it yourself: `make bench-peers`. It installs every system
in an environment of its own. This page was written by `make bench-peers ARGS=--write`.

| | |
| --- | --- |
| date | {date} |
| machine | {machine}; load average {load} |
| versions | {versions} |

## Method

Every system gets the same messages, with its default settings, in one process. All models are scripted: they answer at once,
their time is not counted, and an observer keeps about a sixth of what it reads. Everything else is counted, also work in the
background.

- **turn** is the time in milliseconds from the input of a step to the recorded answer. Time in which another program had the
  processor is taken out.
- **background** is the mean time in milliseconds after a step until no work is left.
- **processor** is the processor time of a step in milliseconds, background and child processes included. It is the figure
  that other programs on the machine disturb least.
- **observer** is the number of tokens that observers, reflectors or summarisers read for each token of the conversation.
- **context** is the mean size of a prompt in tokens.
- **reuse** is the share of a prompt's bytes with which the prompt before it began. A prompt cache can serve this part.
- **file** is the size of the database with its journals. **growth** is the growth of the process's memory.

## Results

{tables}
![Processor time of a step, by system and workload](plots/peers-processor.svg)

![The size of a prompt over 1,000 turns of chat](plots/peers-context.svg)

## Where others are better

{better}

## What the figures do not show

The scripted models say nothing about quality. mem0 has no agent loop and sends no history, so its prompts cannot be
compared. Mastra and LangGraph run an agent loop of their own, which is part of their figures; Memolog and the bare table
have none. LangGraph summarises only the last 4,000 tokens of what it removes (its default), which makes it cheap and
forgetful. Mastra with one shared log was stopped after 400 turns, because it slows down with every turn; mem0 is stopped
after 280 seconds.
"""


def figure(value: float | None, digits: int) -> str:
    """Return a figure for the table."""
    return "–" if value is None else f"{value:,.{digits}f}"


def tables(results: list[dict[str, Any]]) -> str:
    """Return one table for each workload."""
    parts: list[str] = []
    for workload, title in TITLES.items():
        rows = [row for row in results if row["workload"] == workload]
        if rows:
            head = "| system | steps | " + " | ".join(name for _, name, _ in COLUMNS) + " |"
            lines = [f"### {title}", "", head, "| --- |" + " ---: |" * (len(COLUMNS) + 1)]
            for row in rows:
                shown = (figure(row[key], digits) for key, _, digits in COLUMNS)
                lines.append(f"| {NAMES[row['system']]} | {row['steps']:,} | " + " | ".join(shown) + " |")
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def better(results: list[dict[str, Any]]) -> str:
    """List every figure in which another system is better than Memolog."""
    lower = {"turn_p50_ms", "turn_p95_ms", "turn_p99_ms", "processor_ms", "observer_per_token", "file_mb", "growth_mb"}
    lines: list[str] = []
    for workload, title in TITLES.items():
        rows = {row["system"]: row for row in results if row["workload"] == workload}
        own = rows.pop("memolog", None)
        if own is None:
            continue
        for system, row in rows.items():
            won = [
                f"{name} {figure(row[key], digits)} against {figure(own[key], digits)}"
                for key, name, digits in COLUMNS
                if (key in lower and row[key] < own[key]) or (key == "reuse" and row[key] > own[key])
            ]
            if won:
                lines.append(f"- {title.split(':')[0]}, {NAMES[system]}: {'; '.join(won)}.")
    return "\n".join(lines) or "In none of these figures."


def save(name: str) -> None:
    """Write a plot as SVG, the same bytes for the same figures."""
    plt.tight_layout()
    (DOCS / "plots").mkdir(exist_ok=True)
    plt.savefig(DOCS / "plots" / f"{name}.svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    plt.close()


def plots(results: list[dict[str, Any]]) -> None:
    """Draw processor time by workload, and the size of prompts over W1."""
    mpl.rcParams.update(
        {"svg.hashsalt": "memolog", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    workloads = [name for name in TITLES if any(row["workload"] == name for row in results)]
    plt.figure(figsize=(8, 3.6))
    width = 0.16
    for place, system in enumerate(COLOURS):
        points = {row["workload"]: row["processor_ms"] for row in results if row["system"] == system}
        at = [index + (place - 2) * width for index, name in enumerate(workloads) if name in points]
        heights = [points[name] for name in workloads if name in points]
        plt.bar(at, heights, width, color=COLOURS[system], label=NAMES[system])
    plt.xticks(range(len(workloads)), workloads)
    plt.yscale("log")
    plt.ylabel("processor time of a step, ms")
    plt.legend(frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    save("peers-processor")
    plt.figure(figsize=(8, 3.6))
    for row in results:
        if row["workload"] == "W1" and row["by_step"]:
            plt.plot(row["by_step"], color=COLOURS[row["system"]], label=NAMES[row["system"]], linewidth=1.2)
    plt.yscale("log")
    plt.xlabel("turn")
    plt.ylabel("tokens of the prompt")
    plt.legend(frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    save("peers-context")


def main() -> None:
    """Write the page and the plots."""
    found: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    results, about = found["results"], found["about"]
    versions = {name: value for row in results for name, value in row["versions"].items()}
    page = PAGE.format(
        date=about["date"],
        machine=about["machine"],
        load=", ".join(map(str, about["load"])),
        versions=", ".join(f"{name} {value}" for name, value in versions.items()),
        tables=tables(results),
        better=better(results),
    )
    if found["missing"]:
        page += "\nLeft out of this run: " + "; ".join(found["missing"]) + ".\n"
    (DOCS / "benchmarks.md").write_text(page, "utf-8")
    plots(results)


if __name__ == "__main__":
    main()
