"""Raw SQL for tests, on every engine: what our own code never does, so that the schema's guards can be seen at work."""

from datetime import datetime
from typing import Any

from memolog.core.clock import from_micros, to_micros
from memolog.core.run import Lease
from memolog.db.queries import Script, Statement, Step
from memolog.store import Store

__all__ = ["add_group", "add_log", "add_run", "add_task", "insert", "lease_of", "run_sql", "set_state", "thread_pk"]


async def run_sql(store: Store, text: str, /, **values: object) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own and return its rows."""
    statement = Statement(name="test", text=text, parameters=tuple(values), lists=())

    def script() -> Script[list[tuple[Any, ...]]]:
        rows = yield Step(statement, values)
        return [tuple(row) for row in rows]

    return await store.engine.write(script, name="test.sql")


async def lease_of(store: Store, resource: str, name: str) -> Lease | None:
    """Return a lease as it is held now, expired or not; None if it has no owner."""
    text = (
        "SELECT owner, fence, expires_at FROM leases WHERE resource = :resource AND name = :name AND owner IS NOT NULL"
    )
    rows = await run_sql(store, text, resource=resource, name=name)
    return Lease(name=name, owner=rows[0][0], fence=rows[0][1], expires_at=from_micros(rows[0][2])) if rows else None


async def thread_pk(store: Store, resource: str, thread: str) -> int:
    """Return the internal key of a thread."""
    rows = await run_sql(
        store, "SELECT pk FROM threads WHERE resource = :resource AND id = :thread", resource=resource, thread=thread
    )
    return rows[0][0]


async def set_state(store: Store, message_id: str, state: str) -> None:
    """Withdraw or forget every row of a message; what is forgotten loses its parts."""
    change = "state = 'forgotten', parts = '[]'" if state == "forgotten" else f"state = '{state}'"
    changed = await run_sql(store, f"UPDATE messages SET {change} WHERE id = :id RETURNING seq", id=message_id)
    assert changed


async def insert(store: Store, table: str, /, **values: object) -> int:
    """Enter a row and return its internal key."""
    text = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)}) RETURNING pk"
    return (await run_sql(store, text, **values))[0][0]


async def add_task(store: Store, resource: str, task: str) -> int:
    """Enter a task and return its internal key."""
    named = {"resource": resource, "id": task, "handle": f"h-{task}", "title": "Do it"}
    return await insert(store, "tasks", **named, created_at=1, updated_at=1)


async def add_log(store: Store, resource: str, log: str, *, thread: int | None = None) -> int:
    """Enter a log and return its internal key."""
    return await insert(store, "logs", id=log, resource=resource, thread_pk=thread, created_at=1)


async def add_run(store: Store, log: int, run: str, span: tuple[int, int, int], *, status: str, at: datetime) -> int:
    """Enter an observer's run over (thread, first, last) and return its internal key."""
    now = to_micros(at)
    where = dict(zip(("thread_pk", "first_seq", "last_seq"), span, strict=True))
    times = {"lease_until": now, "heartbeat_at": now, "started_at": now}
    ended = now if status in {"done", "abandoned"} else None
    made = {"id": run, "log_pk": log, "kind": "observe", "status": status, "owner": "w", "finished_at": ended}
    return await insert(store, "runs", **made, **where, **times)


async def add_group(
    store: Store, log: int, group: str, span: tuple[int, int, int], *, kind: str = "observer", state: str = "active"
) -> int:
    """Enter a group over (thread, first, last) and return its internal key."""
    where = dict(zip(("thread_pk", "first_seq", "last_seq"), span, strict=True))
    made = {"id": group, "log_pk": log, "handle": group, "kind": kind, "state": state}
    return await insert(store, "groups", **made, **where, tokens=1, created_at=1, text="x")
