"""The corpus of replies as a report: each case, its faults, what was kept, and whether it may become memory.

    make report-corpus            a table
    make report-corpus ARGS=--json   one JSON object

Knows the corpus and prints. What must come of each case is checked by the tests, not here.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any

from memolog.observer.reply import failure, parse_observations
from prompts.corpus import BASE, CASES, SHOWN, Case, written

WIDTH = 70


def row(case: Case) -> dict[str, Any]:
    """Return what becomes of one reply."""
    parsed = parse_observations(case.reply, SHOWN, base=BASE, zone=UTC)
    problem, kinds = failure(parsed), {fault.kind for fault in parsed.faults}
    return {
        "case": case.name,
        "characters": len(case.reply),
        "verdict": "refused" if problem else "nothing to keep" if parsed.nothing else "kept",
        "why": problem,
        "faults": {fault.kind: fault.count for fault in parsed.faults},
        "kept": [written(draft) for draft in parsed.observations] if problem is None else [],
        "hints": {name: text for name, text in asdict(parsed.hints).items() if text} if problem is None else {},
        "as expected": (problem is not None) is case.fails and not case.faults.symmetric_difference(kinds),
    }


def report() -> dict[str, Any]:
    """Return all cases, and their sums."""
    rows = [row(case) for case in CASES]
    return {
        "cases": rows,
        "verdicts": dict(Counter(row["verdict"] for row in rows)),
        "faults": dict(Counter(kind for row in rows for kind in row["faults"]).most_common()),
        "as expected": sum(row["as expected"] for row in rows),
    }


def table(told: dict[str, Any]) -> str:
    """Return the report for people: a line for each case, and one below it for each line that was kept."""
    lines: list[str] = []
    for item in told["cases"]:
        faults = ", ".join(f"{kind} ×{count}" if count > 1 else kind for kind, count in item["faults"].items())
        mark = "" if item["as expected"] else "  (NOT AS EXPECTED)"
        lines.append(f"{_cut(item['case'], 46):46}  {item['verdict']:15}  {faults or '-'}{mark}")
        lines += [f"    {_cut(kept, WIDTH)}" for kept in item["kept"]]
        lines += [f"    {name}: {_cut(text, WIDTH)}" for name, text in item["hints"].items()]
    sums = [f"{count} {name}" for name, count in told["verdicts"].items()]
    head = f"{'reply':46}  {'verdict':15}  faults\n{'-' * 46}  {'-' * 15}  {'-' * 30}"
    return "\n".join([head, *lines, "", f"{len(told['cases'])} replies: {', '.join(sums)}"])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def main(arguments: Sequence[str]) -> None:
    """Print the report; end with a failure if a case is not read as the corpus says."""
    parser = argparse.ArgumentParser(description="What becomes of each reply of the corpus.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    told = report()
    text = json.dumps(told, ensure_ascii=False) if parser.parse_args(arguments).json else table(told)
    sys.stdout.write(f"{text}\n")
    if told["as expected"] != len(told["cases"]):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
