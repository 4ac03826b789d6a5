"""Receive signals in a coroutine."""

import asyncio
import signal
from contextlib import suppress


def caught(*signals: signal.Signals) -> "asyncio.Queue[signal.Signals]":
    """Return a queue that receives these signals. On systems without signal handlers, a signal ends the program as usual."""
    queue: asyncio.Queue[signal.Signals] = asyncio.Queue()
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for one in signals:
            asyncio.get_running_loop().add_signal_handler(one, queue.put_nowait, one)
    return queue
