"""Store settings of a resource as names and JSON values."""

from __future__ import annotations

from collections.abc import Mapping

from memolog.domain.codec import JsonObject, JsonValue, dumps, loads
from memolog.store.engine import Engine
from memolog.store.scope import check_ids
from memolog.store.sql import Script, load_queries

__all__ = ["ResourceSettings"]

q = load_queries("settings")


class ResourceSettings:
    """The settings of every resource, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, resource: str) -> JsonObject:
        """Return the stored settings by dotted name."""
        check_ids(resource=resource)
        return await self._engine.read(lambda: _reading(resource))

    async def put(self, resource: str, settings: Mapping[str, JsonValue]) -> JsonObject:
        """Store settings; returns the old values of those that changed."""
        check_ids(resource=resource)

        def script() -> Script[JsonObject]:
            before = yield from _reading(resource)
            for name, value in sorted(settings.items()):
                if name not in before or before[name] != value:
                    yield q.put_setting(resource=resource, name=name, value=dumps(value))
            return {name: before[name] for name in settings if name in before and before[name] != settings[name]}

        return await self._engine.write(script, name="settings.put")


def _reading(resource: str) -> Script[JsonObject]:
    rows = yield q.settings_of(resource=resource)
    return {row.name: loads(row.value) for row in rows}
