"""Compute how much space, processor time and money a memory of a given size needs, from measured figures.

    python docs/growth.py --resources 1000000 --messages 10000 --months 24

`make docs` writes the table of `growing.md` with the same functions. The measured figures are in `growth.json`, each with the
command that measured it. Prices are assumptions: pass your own.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["SCALES", "Growth", "Prices", "growth", "table"]

MEASURED: dict[str, Any] = json.loads((Path(__file__).parent / "growth.json").read_text("utf-8"))
SCALES = ((1_000, 10_000), (100_000, 10_000), (1_000_000, 10_000))
"""Pairs of a number of resources and the messages of each."""
_TERABYTE = 1_000
_MONTH_SECONDS = 30.4 * 86_400
# A processor that is busy all the time has no room for peaks.
_BUSY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Dollars for storage, processor time and the tokens that the observer reads."""

    gigabyte_month: float = 0.12
    core_month: float = 30.0
    million_tokens: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a memory needs."""

    resources: int
    messages: int
    gigabytes: float
    turns_a_second: float
    cores: float
    storage_dollars: float
    """For each month, at the end of the time."""
    core_dollars: float
    """For each month."""
    observer_dollars: float
    """For each month, if a model observes. The embedded observer costs nothing but processor time."""


def growth(resources: int, messages: int, *, months: float = 12.0, prices: Prices | None = None) -> Growth:
    """Return what a memory needs whose resources get all their messages evenly within some months."""
    prices = prices or Prices()
    count = resources * messages
    gigabytes = count * MEASURED["bytes_a_message"]["value"] / 1e9
    turns = count / 2 / (months * _MONTH_SECONDS)
    cores = turns * MEASURED["processor_ms_a_turn"]["value"] / 1_000 / _BUSY
    tokens = count / months * MEASURED["tokens_a_message"]["value"] * MEASURED["observer_tokens"]["value"]
    return Growth(
        resources=resources,
        messages=messages,
        gigabytes=gigabytes,
        turns_a_second=turns,
        cores=cores,
        storage_dollars=gigabytes * prices.gigabyte_month,
        core_dollars=cores * prices.core_month,
        observer_dollars=tokens / 1e6 * prices.million_tokens,
    )


def table(rows: list[Growth]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [
        "| resources | messages of each | size | turns a second | cores | storage a month | cores a month | observer a month |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row.resources:,} | {row.messages:,} | {_size(row.gigabytes)} | {row.turns_a_second:,.2f} | {row.cores:,.2f} "
        f"| {_dollars(row.storage_dollars)} | {_dollars(row.core_dollars)} | {_dollars(row.observer_dollars)} |"
        for row in rows
    ]
    return "\n".join(lines)


def _size(gigabytes: float) -> str:
    return f"{gigabytes / _TERABYTE:,.1f} TB" if gigabytes >= _TERABYTE else f"{gigabytes:,.0f} GB"


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}"


def measured() -> str:
    """Return the measured figures as a table in Markdown."""
    lines = ["| figure | value | measured by |", "| --- | --- | --- |"]
    lines += [f"| {one['what']} | {one['value']:,} | {one['by']} |" for one in MEASURED.values()]
    return "\n".join(lines)


def main() -> None:
    """Print one row for the arguments."""
    prices = Prices()
    parser = argparse.ArgumentParser(description="Compute the size and the cost of a memory.")
    parser.add_argument("--resources", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=10_000, help="messages of each resource")
    parser.add_argument("--months", type=float, default=12.0, help="the time in which all messages are written")
    parser.add_argument("--gigabyte", type=float, default=prices.gigabyte_month, help="dollars for a gigabyte a month")
    parser.add_argument("--core", type=float, default=prices.core_month, help="dollars for a core a month")
    parser.add_argument("--tokens", type=float, default=prices.million_tokens, help="dollars for a million tokens")
    given = parser.parse_args()
    for name in ("resources", "messages", "months"):
        if not 0 < getattr(given, name) < float("inf"):
            parser.error(f"--{name} must be a number above 0")
    for name in ("gigabyte", "core", "tokens"):
        if not 0 <= getattr(given, name) < float("inf"):
            parser.error(f"--{name} must be a number from 0")
    prices = Prices(gigabyte_month=given.gigabyte, core_month=given.core, million_tokens=given.tokens)
    print(table([growth(given.resources, given.messages, months=given.months, prices=prices)]))


if __name__ == "__main__":
    main()
