"""The time that other programs take from a measurement.

It imports nothing but the standard library, because each system under test runs in an environment of its own.
"""

import os

# The file stays open, because opening it would take as long as a statement of the database that is measured.
_SCHEDSTAT = os.open("/proc/self/schedstat", os.O_RDONLY)


def run_queue_delay() -> float:
    """Return the seconds in which the main thread of this process was ready to run and another one had the processor."""
    return int(os.pread(_SCHEDSTAT, 64, 0).split()[1]) / 1e9
