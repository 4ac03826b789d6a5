"""Print what the memory keeps of each conversation: `PYTHONPATH=src:tests python -m talks [--log] [name …]`.

A row a conversation: facts in the log, facts after two reflections, how many of the missing ones are allergies, prohibitions
or corrections, lines with a wrong date, characters that were said, how many times shorter both logs are, and the generation;
then every missing fact. `--log` prints the logs as well.
"""

# ruff: noqa: T201 - a program that is read by a person

import asyncio
import sys

from talks.exam import MUST, Sitting, conversations, sit

_HEADS = ("", "in the log", "reflected", "must", "dates", "size", "ratio", "reflected", "gen")
_WIDTHS = (12, 15, 16, 6, 7, 9, 7, 11, 5)


def _share(kept: int, asked: int) -> str:
    return f"{kept}/{asked} {100 * kept / asked:5.1f}%"


def _table_row(*cells: object) -> str:
    first, *rest = (str(cell) for cell in cells)
    return first.ljust(_WIDTHS[0]) + "".join(cell.rjust(width) for cell, width in zip(rest, _WIDTHS[1:], strict=True))


def _row(name: str, sittings: list[Sitting]) -> str:
    asked, missing = sum(len(one.conversation.facts) for one in sittings), sum(len(one.missing) for one in sittings)
    later = sum(len(one.asked_reflected) for one in sittings)
    lost = sum(len(one.missing_reflected) for one in sittings)
    size = sum(one.conversation.size for one in sittings)
    return _table_row(
        name,
        _share(asked - missing, asked),
        _share(later - lost, later),
        sum(fact.kind in MUST for one in sittings for fact in {*one.missing, *one.missing_reflected}),
        sum(len(one.wrong_dates()) for one in sittings),
        size,
        f"{size / max(sum(len(one.log.text) for one in sittings), 1):.2f}",
        f"{size / max(sum(len(one.reflected.text) for one in sittings), 1):.2f}",
        min(one.reflected.generation for one in sittings),
    )


async def _main(names: list[str], *, shows_logs: bool) -> None:
    sittings = [await sit(one) for one in conversations() if not names or one.name in names]
    print(_table_row(*_HEADS))
    for one in sittings:
        print(_row(one.conversation.name, [one]))
    print(_row("all", sittings))
    for one in sittings:
        print(f"\n{one.conversation.name}: not in the log\n{one.explained(one.missing)}")
        print(f"{one.conversation.name}: not after two reflections\n{one.explained(one.missing_reflected)}")
        for line in one.wrong_dates():
            print(f"  wrong date: {line}")
        if shows_logs:
            print(f"\n{one.log.text}\n\nafter two reflections:\n\n{one.reflected.text}")


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(_main([name for name in given if not name.startswith("-")], shows_logs="--log" in given))
