"""Set how much the tests try: little and always the same by default, much under `make test-long`."""

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("MEMOLOG_LONG") == "1"
# The quick tests try the same examples each time, so that a result depends on the code alone; the long ones search.
# How long an example takes depends on the machine, so there is no deadline.
settings.register_profile("memolog", derandomize=not LONG, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memolog")


def counts(quick: int, full: int) -> int:
    """Return how often to repeat: the full count under `make test-long`, a smaller one otherwise."""
    return full if LONG else quick
