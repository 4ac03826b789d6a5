"""Read `/metrics` as Prometheus does."""

from collections.abc import Callable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from memolog import Memory
from memolog.apps.monitoring import Monitored


def client(memory: Memory, *, only_here: bool = True, app: Any = None) -> httpx.AsyncClient:
    """Return a client of the application, without a network."""
    transport = httpx.ASGITransport(app=Monitored(memory, app, only_here=only_here))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


Sample = Callable[..., float]


def samples(text: str) -> Sample:
    """Return a function that returns the value of a sample by its name and labels. It raises KeyError if there is none."""
    found = {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return found[name, tuple(sorted(labels.items()))]

    return value


def shapes(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the kind and the names of the labels of each metric. The times at which counters were created are left out."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for family in text_string_to_metric_families(text):
        if not family.name.endswith("_created"):
            labels = {name for one in family.samples for name in one.labels} - {"le"}
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = family.type, tuple(sorted(labels))
    return found
