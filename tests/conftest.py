"""The fixtures of the kit for every test; the other names are for folders that still import them from here."""

from kit.clock import clock, limit_turns, patient_turns, until
from kit.effort import LONG, counts
from kit.engines import (
    ENGINES,
    OpenStore,
    address,
    engine_name,
    file,
    open_a_store,
    postgres_server,
    postgres_url,
    store,
    weigh,
)
from memolog.testing import FakeClock

FIXTURES = (address, clock, engine_name, file, open_a_store, patient_turns, postgres_server, postgres_url, store)
__all__ = ["ENGINES", "LONG", "FakeClock", "OpenStore", "counts", "limit_turns", "until", "weigh"]
