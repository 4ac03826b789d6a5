"""How the demo sets up its memory: small windows, a clock that follows the script, chance that repeats itself.

Knows settings and nothing of what is played.
"""

import hashlib
from collections.abc import Callable
from typing import Final

from memolog.config import Config, KeepRecent, ObservationConfig, ReflectionConfig
from memolog.runtime.memory import Memory
from memolog.testing import FakeClock

__all__ = ["CONFIG", "open_memory"]

CONFIG: Final = Config(
    observation=ObservationConfig(message_tokens=1_200, buffer_tokens=0.3, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=2_400, keep_recent=KeepRecent(hours=12, observations=12)),
    # A night makes the prompt cache cold, and a lunch break does not: so windows fill during the day.
    activate_after_idle=10 * 3600,
    task_lease=24 * 3600,
)


def open_memory(address: str, clock: FakeClock, name: str) -> Memory:
    """Return a memory as each process of the demo has it; `name` tells their ids apart."""
    return Memory(address, config=CONFIG, clock=clock, chance=_repeatable(name))


def _repeatable(name: str) -> Callable[[int], int]:
    """Return chance that is the same in every run, so that the demo shows the same each time."""
    count = 0

    def chance(bits: int) -> int:
        nonlocal count
        count += 1
        return int.from_bytes(hashlib.sha256(f"{name} {count}".encode()).digest(), "big") >> (256 - bits)

    return chance
