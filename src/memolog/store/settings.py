"""Settings that are stored with a resource: how its log is kept, as the application said.

The configuration decides which settings those are; here they are names and JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping

from memolog.domain.codec import JsonObject, JsonValue, dumps, loads
from memolog.store.engine import Engine
from memolog.store.scope import check_id
from memolog.store.sql import Script, load_queries

__all__ = ["ResourceSettings"]

q = load_queries("settings")


class ResourceSettings:
    """The settings of every resource, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, resource: str) -> JsonObject:
        """Return what is stored, by dotted name; empty where nobody has set anything."""
        check_id("resource", resource)
        return await self._engine.read(lambda: _reading(resource))

    async def put(self, resource: str, settings: Mapping[str, JsonValue]) -> JsonObject:
        """Store settings; returns what was stored before under the names whose values change."""
        check_id("resource", resource)

        def script() -> Script[JsonObject]:
            before = yield from _reading(resource)
            for name, value in sorted(settings.items()):
                if name not in before or before[name] != value:
                    yield q.put_setting(resource=resource, name=name, value=dumps(value))
            return {name: before[name] for name in settings if name in before and before[name] != settings[name]}

        return await self._engine.write(script, name="settings.put")


def _reading(resource: str) -> Script[JsonObject]:
    rows = yield q.settings_of(resource=resource)
    return {row[0]: loads(row[1]) for row in rows}
