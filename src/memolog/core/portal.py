"""Run coroutines on an event loop in another thread, for callers that cannot await."""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from memolog.errors import InputError, StoreClosed

T = TypeVar("T")

_log = logging.getLogger("memolog")


class Portal:
    """An event loop in its own thread, ended by `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon, so that a script without `close` ends; `close` is also called at exit.
        self._thread = threading.Thread(target=self._run, name="memolog-portal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Run the loop until it is stopped. An exit or interrupt in a coroutine is raised to its caller only."""
        while True:
            try:
                return self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit) as stop:
                _log.error("A model or a listener raised %s. The memory goes on without it.", type(stop).__name__)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop; returns a future that can be waited for, or awaited on another loop."""
        if not self._thread.is_alive():
            work.close()
            raise StoreClosed
        if self._thread is threading.current_thread():
            work.close()
            raise InputError(
                "A listener cannot call the memory.",
                why="It runs on the memory's own thread, which would wait for itself.",
                then="Hand the event to another thread, and call from there.",
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop the loop and join its thread."""
        if self._thread.is_alive():
            # Ends the worker threads of the loop.
            self.call(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
