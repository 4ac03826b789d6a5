"""The fixtures of the kit, for every test. `kit.effort` sets the profile of hypothesis when it is imported."""

from kit import effort
from kit.clock import clock, patient_turns
from kit.engines import address, engine_name, file, open_a_store, postgres_server, postgres_url, store

FIXTURES = (address, clock, engine_name, file, open_a_store, patient_turns, postgres_server, postgres_url, store)
__all__ = ["effort"]
