"""Verbs that move the memory on by hand: observe, buffer, activate, reflect.

Knows which call each verb is. When and why these happen by themselves is decided elsewhere.
"""

from typing import TYPE_CHECKING

import typer

from memolog.apps.cli.looking import show_status
from memolog.apps.cli.verb import Answer, Call, verb

if TYPE_CHECKING:
    from memolog.runtime.status import Status

__all__ = ["app"]

app = typer.Typer()


@verb(app, writes=True, example="memolog observe --thread atlas")
async def observe(call: Call) -> Answer:
    """Observe all that is left of a thread and move it into the log, waiting for it."""
    with call.progress(f"observing {call.thread}"):
        return _told_status(await call.memory.observe(call.thread, call.resource))


@verb(app, writes=True, example="memolog buffer --thread atlas")
async def buffer(call: Call) -> Answer:
    """Observe what nobody has observed yet and keep it out of sight, until it is activated."""
    with call.progress(f"buffering {call.thread}"):
        await call.memory.buffer(call.thread, call.resource)
        await call.memory.settled()
        return _told_status(await call.memory.status(call.thread, call.resource))


@verb(app, writes=True, example="memolog activate --thread atlas")
async def activate(call: Call) -> Answer:
    """Move every buffered group into the log. No model is called."""
    return _told_status(await call.memory.activate(call.thread, call.resource))


@verb(app, writes=True, example="memolog reflect --thread atlas")
async def reflect(call: Call) -> Answer:
    """Condense the oldest part of the log now, waiting for it. Exit code 1: there was nothing to condense."""
    with call.progress(f"reflecting on {call.thread}"):
        before = await call.memory.status(call.thread, call.resource)
        after = await call.memory.reflect(call.thread, call.resource)
        await call.memory.settled()
    answer = _told_status(after)
    is_same = after.generation == before.generation
    return Answer(data=answer.data, show=answer.show, code=answer.code or int(is_same))


def _told_status(status: "Status") -> Answer:
    """Answer with a status: what was asked for did not happen where the model or the database fails."""
    return Answer(data=status, show=lambda: show_status(status), code=3 if status.health == "failing" else 0)
