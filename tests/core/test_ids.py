"""Ids: the layout of UUID version 7, and the rule that one maker never goes back."""

import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from kit.effort import counts
from memolog.core.clock import IdMaker, short, to_micros, uuid7
from memolog.testing import FakeClock

ALL = (1 << 62) - 1


def nothing(bits: int) -> int:
    """Return no randomness at all."""
    del bits
    return 0


def falling() -> Callable[[int], int]:
    """Return a source of chance that only falls, so that it never helps the order."""
    state = {"next": ALL}

    def chance(bits: int) -> int:
        state["next"] -= 1
        return state["next"]

    return chance


@pytest.mark.parametrize("millis", [0, 1, 1_773_478_800_000, (1 << 48) - 1])
@pytest.mark.parametrize("counter", [0, 1, 0xFFF])
@pytest.mark.parametrize("chance", [0, 1, ALL])
def test_the_layout_is_that_of_version_7(millis: int, counter: int, chance: int) -> None:
    """Each field stands where RFC 9562 puts it, and the standard library agrees on version and variant."""
    made = uuid.UUID(uuid7(millis, counter, chance))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == millis
    assert made.int >> 64 & 0xFFF == counter
    assert made.int & ALL == chance


def test_the_example_of_the_standard() -> None:
    """The example in appendix A.6 of RFC 9562."""
    assert uuid7(0x017F22E279B0, 0xCC3, 0x18C4DC0C0C07398F) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_values_that_are_too_large_do_not_spill() -> None:
    """A field never reaches into its neighbour."""
    made = uuid.UUID(uuid7(1 << 48, 1 << 12, 1 << 62))
    assert made == uuid.UUID("00000000-0000-7000-8000-000000000000")


def test_an_id_is_text_of_one_form_and_names_its_moment() -> None:
    """Lower case, 36 characters, as the standard library writes it; the first 48 bits are the milliseconds since 1970."""
    clock = FakeClock(datetime(2026, 3, 14, 9, 0, 0, 123999, tzinfo=UTC))
    made = IdMaker(clock.now, falling())()
    assert made == str(uuid.UUID(made))
    assert len(made) == 36
    assert short(made) == made[-8:]
    assert uuid.UUID(made).int >> 80 == to_micros(clock.now()) // 1000


def test_the_counter_overflows_into_the_next_millisecond() -> None:
    """After 4,096 ids within a millisecond the next one borrows from the future, and the order holds."""
    clock = FakeClock()
    start = to_micros(clock.now()) // 1000
    maker = IdMaker(clock.now, nothing)
    made = [uuid.UUID(maker()).int for _ in range(4096 + 2)]
    assert [made[0] >> 80, made[4095] >> 80, made[4096] >> 80] == [start, start, start + 1]
    assert [made[index] >> 64 & 0xFFF for index in (0, 4095, 4096, 4097)] == [0, 0xFFF, 0, 1]
    # The real next millisecond does not collide with the one that was borrowed.
    clock.advance(milliseconds=1)
    later = uuid.UUID(maker()).int
    assert later >> 64 & 0xFFF == 2
    assert made == sorted({*made})
    assert later > made[-1]


CLOCKS: dict[str, Callable[[int], float]] = {
    "stands still": lambda _: 0,
    "jumps back": lambda tick: (0, 1, -3600, -86400, 5, 3600, 90000, -1)[tick // 700 % 8],
    "moves unevenly": lambda tick: (tick * 7 - tick % 1000 * 5) / 1e6,
    "is before 1970": lambda _: -2e9,
}


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("chance", [falling(), nothing], ids=["falling", "nothing"])
def test_ids_rise_whatever_the_clock_does(name: str, chance: Callable[[int], int]) -> None:
    """They are unique and in order, and follow the clock again once it has caught up."""
    many, start = counts(25_000, 500_000), datetime(2026, 1, 1, tzinfo=UTC)
    ticks = iter(range(many))

    def now() -> datetime:
        return start + timedelta(seconds=CLOCKS[name](tick) if (tick := next(ticks, None)) is not None else 1e6)

    maker = IdMaker(now, chance)
    made = [maker() for _ in range(many)]
    assert made == sorted(set(made))
    assert uuid.UUID(made[0]).version == 7
    assert uuid.UUID(maker()).int >> 80 == to_micros(now()) // 1000


def test_threads_share_a_maker() -> None:
    """No two callers get the same id, and each sees its own rise."""
    maker = IdMaker(FakeClock().now, nothing)
    made: list[list[str]] = [[] for _ in range(8)]

    def work(mine: list[str]) -> None:
        mine.extend(maker() for _ in range(1000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for mine in made for each in mine}) == 8000
    assert all(mine == sorted(mine) for mine in made)
