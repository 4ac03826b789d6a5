"""Notify MCP clients of changed resources.

While a client has a subscription, a few counters of the database are polled, so that changes by other processes are noticed. If a
counter changes, the texts of the watched resources are compared with their last known texts.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)

from memolog.apps.mcp import resources
from memolog.apps.mcp.resources import Served
from memolog.errors import InputError, MemologError

_log = logging.getLogger("memolog")

# Maximum number of watched resources, and of streams of clients.
_MOST_WATCHED: Final = 200
_MOST_STREAMS: Final = 100
# Maximum seconds for sending one notification. A client that does not read must not block notifications to other clients.
_PATIENCE: Final = 5.0
_LIST: Final = ""
"""Used instead of a URI for the list of resources."""


class Changes:
    """The watched resources, the clients that watch them, and digests of the last known texts."""

    def __init__(self, served: Served) -> None:
        self.bus = InMemorySubscriptionBus()
        self._served, self._resource = served, served.memory.resource(served.resource)
        self._streams: Counter[str] = Counter()
        # Clients of the older protocol are notified on their connection.
        self._connections: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()
        self._known: dict[str, str] = {}
        self._revision: tuple[int, ...] | None = None
        self._wake = asyncio.Event()

    # ------------------------------------------------------------ subscriptions

    @asynccontextmanager
    async def watching(self, uris: Sequence[str], *, with_list: bool) -> AsyncGenerator[None]:
        """Watch these resources, and with `with_list` their list, while the block runs. Notifications are sent to `bus`."""
        watched = [*dict.fromkeys(uris), *([_LIST] if with_list else [])]
        await self._begin(watched)
        self._streams.update(watched)
        try:
            yield
        finally:
            self._streams.subtract(watched)
            self._streams += Counter()
            self._forget()

    async def subscribe(self, context: ServerRequestContext[Any, Any], uri: str | None) -> None:
        """Notify the client of this connection when a resource changes. A URI of None means the list of resources."""
        connection = _connection(context)
        if connection is not None:
            await self._begin([_LIST if uri is None else uri])
            if connection not in self._connections:
                connection.exit_stack.callback(self._leave, connection)
            self._connections.setdefault(connection, set()).add(_LIST if uri is None else uri)

    def unsubscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Do not notify the client of this connection any more when a resource changes."""
        connection = _connection(context)
        if connection is not None:
            self._connections.get(connection, set()).discard(uri)
            self._forget()

    def _leave(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._forget()

    @property
    def watched(self) -> frozenset[str]:
        """Return all watched URIs."""
        return frozenset(self._streams).union(*self._connections.values())

    async def _begin(self, uris: Sequence[str]) -> None:
        if len(self.watched.union(uris)) > _MOST_WATCHED:
            raise InputError(
                f"At most {_MOST_WATCHED} resources can be watched.", then="Watch fewer, or read them when needed."
            )
        if self._revision is None:
            self._revision = await self._resource.revision()
        for uri in uris:
            if uri not in self._known:
                self._known[uri] = await self._digest(uri)
        self._wake.set()

    def _forget(self) -> None:
        watched = self.watched
        self._known = {uri: digest for uri, digest in self._known.items() if uri in watched}
        if not watched:
            self._revision = None

    # ------------------------------------------------------------ checks

    def hurry(self) -> None:
        """Check for changes now. Called after a tool that may have changed something."""
        self._wake.set()

    async def run(self) -> None:
        """Check for changes until cancelled. After an error, the next check follows as usual."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._served.every if self.watched else None)
            self._wake.clear()
            try:
                await self.check()
            except MemologError as error:
                _log.warning("checking for changes failed and will be retried: %s", error)
            except Exception:  # noqa: BLE001 - one failed check must not stop later notifications
                _log.exception("checking for changes failed unexpectedly")

    async def check(self) -> None:
        """Notify clients of the changes since the last check."""
        if not self.watched:
            return
        revision = await self._resource.revision()
        if revision == self._revision:
            return
        self._revision = revision
        for uri in sorted(self.watched):
            digest = await self._digest(uri)
            if self._known.get(uri) != digest:
                self._known[uri] = digest
                await self._tell(ResourceUpdated(uri=uri) if uri != _LIST else ResourcesListChanged())

    async def _digest(self, uri: str) -> str:
        if uri == _LIST:
            text = "\n".join(f"{one.uri} {one.title}" for one in await resources.listed(self._served))
        else:
            try:
                text = (await resources.read(self._served, uri)).text
            except MemologError as error:
                # A watched resource may be missing. Then the error message is compared instead of its text.
                text = str(error)
        return hashlib.sha256(text.encode()).hexdigest()

    # ------------------------------------------------------------ notifications

    async def _tell(self, event: ServerEvent) -> None:
        await self.bus.publish(event)
        uri = event.uri if isinstance(event, ResourceUpdated) else _LIST
        for connection, uris in list(self._connections.items()):
            if uri in uris:
                is_list = uri == _LIST
                sent = connection.send_resource_list_changed() if is_list else connection.send_resource_updated(uri)
                with suppress(TimeoutError):
                    await asyncio.wait_for(sent, _PATIENCE)


class Listening(ListenHandler):
    """Serves the notification streams of clients, and watches the requested resources while a stream is open."""

    def __init__(self, changes: Changes) -> None:
        super().__init__(changes.bus, max_subscriptions=_MOST_STREAMS, max_buffered_events=_MOST_WATCHED)
        self._changes = changes

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream."""
        wanted = params.notifications
        with_list = wanted.resources_list_changed is True
        async with self._changes.watching(wanted.resource_subscriptions or (), with_list=with_list):
            return await super().__call__(ctx, params)


def _connection(context: ServerRequestContext[Any, Any]) -> Connection | None:
    """Return the connection of a request. It stays open after the request. The library has no public attribute for it."""
    return cast("Connection | None", getattr(context.session, "_connection", None))
