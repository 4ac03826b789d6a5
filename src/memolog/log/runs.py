"""Start, take over, renew, finish and fail runs, and store the values that they extract.

The span and inputs of a run are fixed when it starts. Its result is stored even if the log has changed meanwhile, but only if the
fence has not changed. So a result of an owner that has lost its lease changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from memolog.core.clock import from_micros, to_micros
from memolog.core.document import Proposal
from memolog.core.exact_json import JsonObject, dumps, encode, loads, object_text, pack, unpack
from memolog.core.observation import Extract, NewExtract, Observation, Span
from memolog.core.run import KeptPrompt, Run, RunKind, Usage
from memolog.core.thread import Hints
from memolog.db.engine import Calls, reads, writes
from memolog.db.queries import Row, Script, Step, load_queries
from memolog.db.rows import from_row, moment, run_from_row
from memolog.db.scope import LAST, check_ids, check_limit
from memolog.errors import Conflict, LeaseLost
from memolog.log.heartbeat import Beat
from memolog.log.snapshot import checking_version
from memolog.log.usage import stored_cost, usage_step
from memolog.working_memory.store import with_proposal

q = load_queries("log/runs")
logs = load_queries("log/logs")
extracts = load_queries("log/extracts")
threads = load_queries("messages/threads")

# A result with more observations than this is written in a worker thread.
_FEW_LINES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to start. An observer run has a thread and a span; a reflector run has its groups in `inputs`."""

    id: str
    kind: RunKind
    thread: str | None
    span: Span | None
    inputs: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClaim:
    """A claim to one run: its owner and fence. A call with an older fence changes nothing."""

    run: str
    owner: str
    fence: int

    def values(self) -> dict[str, object]:
        """Return the parameters that select the run in queries."""
        return {"id": self.run, "owner": self.owner, "fence": self.fence}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run with the keys of its log and thread (0 if it has no thread), and when a run of this log last succeeded."""

    run: Run
    log_pk: int
    thread_pk: int
    succeeded_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run: the observations of a group, hints and cost."""

    group: str
    observations: tuple[Observation, ...]
    hints: Hints | None
    tokens: int
    model: str
    prompt_version: str
    usage: Usage | None = None
    extracts: tuple[NewExtract, ...] = ()
    proposal: Proposal | None = None
    """The change of the working memory that the run proposes."""
    last_seq: int | None = None
    """The last message that the group covers, if it is before the end of the run's span. Later messages stay in the tail."""
    thread_hints: Mapping[str, Hints] = field(default_factory=dict[str, Hints])
    """The hints of a reflection of a shared log, by thread."""
    omitted: tuple[str, ...] = ()
    """The ids of observations that a reflection merges without repeating their names and numbers. They count as dropped."""


class Runs(Calls):
    """Starts, renews, ends and lists runs. Every call is for one resource."""

    @writes("runs.start")
    def start(
        self,
        resource: str,
        log_pk: int,
        version: int,
        runs: Sequence[NewRun],
        *,
        owner: str,
        now: datetime,
        lease: float,
    ) -> Script[tuple[RunClaim, ...]]:
        """Start runs and return their claims. Raises Conflict if the log no longer has this version."""
        check_ids(resource=resource, owner=owner)
        at, until = to_micros(now), to_micros(now + timedelta(seconds=lease))
        yield from checking_version(log_pk, version, resource)
        names = {run.thread for run in runs if run.thread is not None}
        rows = yield threads.thread_keys(resource=resource, threads=sorted(names))
        keys: dict[str | None, int] = {row.id: row.pk for row in rows}
        for name in names - keys.keys():
            raise Conflict(f"Thread {name} is gone.", then="Decide again.")
        # All writers lock threads before their log, and threads in the order of their keys, to avoid deadlocks.
        yield threads.lock_key.many([{"thread_pk": pk} for pk in sorted(keys.values())])
        if not (yield q.take_log(resource=resource, log_pk=log_pk, version=version)):
            raise Conflict("The log has changed.", then="Read it again and decide again.")
        # Each thread of a shared log has its own cursor.
        cursors = [{"log_pk": log_pk, "thread_pk": keys[run.thread], "seq": 0} for run in runs if run.thread]
        yield logs.create_cursor.many(cursors)
        yield q.start_run.many(
            [
                {
                    "id": run.id,
                    "log_pk": log_pk,
                    "kind": run.kind,
                    "thread_pk": keys.get(run.thread),
                    "first_seq": run.span.first if run.span else None,
                    "last_seq": run.span.last if run.span else None,
                    "owner": owner,
                    "lease_until": until,
                    "now": at,
                    "inputs": dumps(encode(run.inputs)),
                }
                for run in runs
            ]
        )
        return tuple(RunClaim(run=run.id, owner=owner, fence=1) for run in runs)

    @writes("runs.take_over")
    def take_over(
        self,
        resource: str,
        run: str,
        fence: int,
        *,
        owner: str,
        now: datetime,
        lease: float,
        silent: Beat | None = None,
    ) -> Script[RunClaim | None]:
        """Take over a run that failed or whose lease has ended. None if another process took it over first.

        `silent` is the last known beat of a dead process. If the process has not written a newer beat, its lease counts as ended.
        """
        check_ids(resource=resource, run=run, owner=owner)
        at, until = to_micros(now), to_micros(now + timedelta(seconds=lease))
        beats = silent.number if silent else 0
        rows = yield q.take_over(
            resource=resource, id=run, fence=fence, owner=owner, now=at, lease_until=until, beats=beats
        )
        return RunClaim(run=run, owner=owner, fence=rows[0].fence) if rows else None

    @writes("runs.heartbeat")
    def heartbeat(self, resource: str, claim: RunClaim, *, now: datetime, lease: float) -> Script[None]:
        """Renew the lease. Raises LeaseLost if the run has another owner or was abandoned."""
        check_ids(resource=resource)
        at, until = to_micros(now), to_micros(now + timedelta(seconds=lease))
        if not (yield q.heartbeat(resource=resource, now=at, lease_until=until, **claim.values())):
            raise LeaseLost(claim.run, claim.owner, claim.fence)

    async def finish(self, resource: str, claim: RunClaim, result: RunResult, *, now: datetime) -> None:
        """Store the result of a run as a buffered group. Raises LeaseLost if the run has another owner or was abandoned."""
        if await self.finish_all(resource, [(claim, result)], now=now):
            raise LeaseLost(claim.run, claim.owner, claim.fence)

    async def finish_all(
        self, resource: str, results: Sequence[tuple[RunClaim, RunResult]], *, now: datetime
    ) -> tuple[RunClaim, ...]:
        """Store the results of runs of one log as buffered groups, all in one transaction.

        The fence of each run is checked. Return the claims of runs that have another owner or were abandoned. Of these, nothing
        is stored.
        """
        check_ids(resource=resource)
        at = to_micros(now)

        def script() -> Script[tuple[RunClaim, ...]]:
            yield q.take_logs_of(ids=[claim.run for claim, _ in results])
            refused: list[RunClaim] = []
            ended: list[tuple[Row, RunResult]] = []
            for claim, result in results:
                rows = yield _end_step(resource, claim, result, at)
                if rows:
                    ended.append((rows[0], result))
                    yield from _storing_extras(resource, claim.run, rows[0], result, at)
                else:
                    refused.append(claim)
            if ended:
                yield from _store_groups(resource, ended, at)
            return tuple(refused)

        is_brief = sum(len(result.observations) for _, result in results) <= _FEW_LINES
        return await self.engine.write(script, name="runs.finish", brief=is_brief)

    @writes("runs.fail")
    def fail(
        self,
        resource: str,
        claim: RunClaim,
        error: str,
        *,
        now: datetime,
        retry_at: datetime,
        usage: Usage | None = None,
    ) -> Script[int | None]:
        """Record a failure. Return how often the log has failed in a row. None if the run has another owner or was abandoned."""
        check_ids(resource=resource)
        at, retry = to_micros(now), to_micros(retry_at)
        text = pack(error[:2000])
        yield q.take_log_of(id=claim.run)
        rows = yield q.fail_run(resource=resource, **claim.values(), error=text, now=at, retry_at=retry)
        if usage is not None:
            yield usage_step(resource, usage, claim.run, at)
        if not rows:
            return None
        return (yield q.note_failure(log_pk=rows[0].log_pk, error=text, now=at, retry_at=retry))[0].failures

    @writes("runs.note_stall")
    def note_stall(
        self, resource: str, log_pk: int, run: str, error: str, *, now: datetime, retry_at: datetime
    ) -> Script[None]:
        """Record that a turn waited for a run in vain, so that the next turn does not wait."""
        check_ids(resource=resource, run=run)
        # If the run has just ended, nothing is recorded.
        is_ours = yield logs.log_of(resource=resource, log_pk=log_pk)
        if is_ours and (yield q.is_running(id=run, log_pk=log_pk)):
            yield q.note_failure(log_pk=log_pk, error=pack(error), now=to_micros(now), retry_at=to_micros(retry_at))

    @writes("runs.abandon")
    def abandon(
        self, resource: str, claim: RunClaim, why: str, *, now: datetime, incompressible: bool = False
    ) -> Script[bool]:
        """Abandon a run, so that another run can have its span. Return False if the run has another owner or has ended.

        `incompressible` marks a reflection that failed to shorten the log. The log must grow before the next reflection starts.
        """
        check_ids(resource=resource)
        yield q.take_log_of(id=claim.run)
        rows = yield q.abandon_run(resource=resource, **claim.values(), now=to_micros(now), error=pack(why))
        for row in rows:
            if incompressible:
                yield q.set_run_inputs(id=claim.run, inputs=dumps({**loads(row.inputs), "incompressible": True}))
            yield logs.touch_version(log_pk=row.log_pk)
        return bool(rows)

    @writes("runs.give_back")
    def give_back(self, resource: str, claims: Sequence[RunClaim]) -> Script[None]:
        """End the leases of runs that this process stopped, so that others can take them over at once."""
        check_ids(resource=resource)
        for claim in claims:
            yield q.give_back_run(resource=resource, **claim.values())

    @reads
    def get(self, resource: str, run: str) -> Script[Run | None]:
        """Return a run. None if it does not exist."""
        check_ids(resource=resource, run=run)
        rows = yield q.get_run(resource=resource, id=run)
        return run_from_row(rows[0]) if rows else None

    @reads
    def stored(self, resource: str, runs: Sequence[str]) -> Script[dict[str, StoredRun]]:
        """Return runs by id, each with the key of its log. A run that does not exist is missing."""
        check_ids(resource=resource)
        rows = yield q.get_runs(resource=resource, ids=list(runs))
        return {
            row.id: StoredRun(
                run=run_from_row(row),
                log_pk=row.log_pk,
                thread_pk=row.thread_pk or 0,
                succeeded_at=moment(row.last_success_at),
            )
            for row in rows
        }

    async def list(self, resource: str, *, log_pk: int | None = None, limit: int = 100) -> tuple[Run, ...]:
        """Return the runs of the resource, or of one log, newest first."""
        check_ids(resource=resource)
        check_limit(limit)
        return await self.engine.fetch(q.list_runs(resource=resource, log_pk=log_pk, limit=limit), run_from_row)

    @writes("runs.keep_prompt")
    def keep_prompt(self, resource: str, run: str, prompt: str, reply: str | None) -> Script[None]:
        """Store a prompt and its reply, for inspection and replay."""
        check_ids(resource=resource, run=run)
        yield q.keep_prompt(resource=resource, id=run, prompt=pack(prompt), reply=pack(reply))

    async def prompts(self, resource: str, run: str) -> tuple[KeptPrompt, ...]:
        """Return the stored prompts and replies of a run, one for each call."""
        check_ids(resource=resource, run=run)
        return await self.engine.fetch(
            q.list_prompts(resource=resource, id=run),
            lambda row: KeptPrompt(call=row.call, asked=loads(unpack(row.prompt) or ""), reply=unpack(row.reply)),
        )


class Extracts(Calls):
    """Lists extracted values. Every call is for one thread."""

    async def list(self, resource: str, thread: str, *, before: int | None = None) -> tuple[Extract, ...]:
        """Return every version of every value, by key, oldest first. `before` limits them to messages before that number."""
        check_ids(resource=resource, thread=thread)
        step = extracts.list_extracts(resource=resource, thread=thread, before=LAST if before is None else before)
        return await self.engine.fetch(
            step,
            lambda row: from_row(
                Extract,
                row,
                value=loads(row.value),
                by=unpack(row.who) or "",
                at=from_micros(row.at),
                thread=thread,
                span=Span(first=row.first_seq, last=row.last_seq),
            ),
        )


def _end_step(resource: str, claim: RunClaim, result: RunResult, at: int) -> Step:
    """Return the step that ends a run if its fence has not changed."""
    usage = result.usage
    return q.end_run(
        resource=resource,
        **claim.values(),
        now=at,
        model=result.model,
        prompt_version=result.prompt_version,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        cost=stored_cost(usage) if usage else 0,
        last_seq=result.last_seq,
    )


def _storing_extras(resource: str, run: str, ended: Row, result: RunResult, at: int) -> Script[None]:
    """Store what a result contains besides its group: omitted observations, extracted values and the usage."""
    if result.omitted:
        # Store the ids with the run, because these observations are dropped only when the reflection is activated.
        yield q.set_run_inputs(id=run, inputs=dumps({**loads(ended.inputs), "omitted": list(result.omitted)}))
    if result.extracts:
        row = {name: getattr(ended, name) for name in ("thread_pk", "first_seq", "last_seq")}
        made = {**row, "at": at, "who": pack(result.model), "run": run}
        yield extracts.put_extract.many(
            [{**made, "key": new.key, "value": dumps(new.value)} for new in result.extracts]
        )
    if result.usage is not None:
        yield usage_step(resource, result.usage, run, at)


def _store_groups(resource: str, results: Sequence[tuple[Row, RunResult]], at: int) -> Script[None]:
    """Store the results of ended runs of one log as buffered groups."""
    log_pk, count = results[0][0].log_pk, len(results)
    handle = (yield logs.next_handle(log_pk=log_pk, count=count, now=at))[0].next_handle - count
    stored: list[tuple[int, Observation]] = []
    for number, (ended, result) in enumerate(results, start=handle):
        moments = sorted(to_micros(o.said_at) for o in result.observations if o.said_at is not None)
        groups = yield logs.insert_group(
            id=result.group,
            log_pk=log_pk,
            handle=f"g{number}",
            kind="observer" if ended.first_seq is not None else "reflection",
            thread_pk=ended.thread_pk,
            first_seq=ended.first_seq,
            last_seq=ended.last_seq,
            run_pk=ended.pk,
            tokens=result.tokens,
            observations=len(result.observations),
            first_at=moments[0] if moments else None,
            last_at=moments[-1] if moments else None,
            now=at,
            hints=with_proposal(result.hints, result.proposal, result.thread_hints),
            text="",
        )
        stored += [(groups[0].pk, line) for line in result.observations]
    yield from storing_lines(resource, stored)


def storing_lines(resource: str, lines: Sequence[tuple[int, Observation]]) -> Script[None]:
    """Add observations, each with the key of its group, with their sources and the observations that they merge."""
    yield logs.insert_observations.many([{**observation_values(o), "group_pk": group_pk} for group_pk, o in lines])
    sources = [
        {
            "observation": o.id,
            "resource": resource,
            "thread": source.thread,
            "first_seq": source.span.first,
            "last_seq": source.span.last,
        }
        for _, o in lines
        for source in o.sources
    ]
    yield logs.insert_sources.many(sources)
    merges = [{"observation": o.id, "merged": merged} for _, o in lines for merged in o.merges]
    yield logs.insert_merges.many(merges)


def observation_values(o: Observation) -> dict[str, object]:
    """Return the columns of an observation, without its group and its state."""
    return {
        "id": o.id,
        "ordinal": o.ordinal,
        "parent": o.parent,
        "priority": o.priority,
        "trust": o.trust,
        "grounded": int(o.grounded),
        "tokens": o.tokens,
        "said_at": None if o.said_at is None else to_micros(o.said_at),
        "zone": pack(o.zone),
        "about": None if o.about is None else o.about.isoformat(),
        "category": pack(o.category),
        "text": pack(o.text),
        "verbatim": pack(o.verbatim),
        "files": dumps(list(o.files)) if o.files else "[]",
        "metadata": object_text("The metadata", o.metadata),
    }
