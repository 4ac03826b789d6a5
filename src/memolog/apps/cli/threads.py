"""Copy threads, set settings of one thread, and merge logs into a shared log: `clone`, `override` and `merge`."""

import json
from typing import Annotated, Any

import typer

from memolog.apps.cli.command import Answer, Call, refuse_unknown, verb
from memolog.apps.cli.output import counted, fields
from memolog.errors import InputError
from memolog.events import Degraded

app = typer.Typer()


@verb(app, writes=True, example="memolog clone atlas-2 --thread atlas")
async def clone(
    call: Call,
    name: Annotated[str | None, typer.Argument(help="Name of the copy. Default: a new id.")] = None,
) -> Answer:
    """Copy a thread with its messages and its log into a new thread."""
    made = await call.of_thread.clone(name)
    live = (await call.of_resource.thread(made.id).status()).live
    return Answer(data=made, show=f"Copied {call.thread} to {made.id}: {counted(live, 'message')}.")


@verb(app, writes=True, example="memolog override observation.message_tokens=20000 --thread atlas")
async def override(
    call: Call,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Settings. An empty value removes a setting.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all settings of the thread first.")] = False,
) -> Answer:
    """Set settings for all turns of one thread, or show them. They override the configuration."""
    stored: dict[str, Any] = {} if clear else dict((await call.of_thread.info()).overrides)
    for item in settings or ():
        name, sign, value = item.partition("=")
        if not sign:
            raise InputError(f"{item!r} has no value.", then="Write NAME=VALUE, such as mode=research.")
        stored.pop(name, None)
        if value:
            stored[name] = _value(value)
    if settings or clear:
        await call.of_thread.override(stored)
    data = {"thread": call.thread, "settings": stored}
    if not stored:
        return Answer(data=data, show=f"{call.thread} has no settings of its own.")
    rows = [("thread", call.thread), *((name, json.dumps(value)) for name, value in sorted(stored.items()))]
    return Answer(data=data, show=lambda: fields(rows))


def _value(text: str) -> object:
    """Return a number, a boolean, null, or a text."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


@verb(app, needs="resource", writes=True, example="memolog merge --db shared.db")
async def merge(call: Call) -> Answer:
    """Merge the logs of the threads into the shared log, after a change to resource scope. Exit code 1: nothing to merge."""
    await refuse_unknown(call.memory, call.resource)
    if call.config.scope != "resource":
        raise InputError(
            f"{call.resource} has one log for each thread.",
            why="The setting `scope` is thread.",
            then="Set scope to resource in the settings of your program or in memolog.toml, then merge.",
        )
    skipped: list[Degraded] = []
    stop = call.memory.subscribe(lambda event: skipped.append(event) if isinstance(event, Degraded) else None)
    merged = await call.of_resource.merge()
    stop()
    words = f"Merged the logs of {counted(len(merged), 'thread')} into the shared log of {call.resource}"
    lines = [f"{words}: {', '.join(merged)}." if merged else "Nothing was merged."]
    lines += [f"{event.thread} was not merged: {event.error}. Its messages are observed again." for event in skipped]
    data = {
        "resource": call.resource,
        "threads": merged,
        "skipped": [{"thread": event.thread, "why": event.error} for event in skipped],
    }
    return Answer(data=data, show="\n".join(lines), code=0 if merged else 1)
