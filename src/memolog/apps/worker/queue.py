"""Work on jobs of PostgreSQL, with Procrastinate: any number of workers on any number of machines.

Jobs come from the transactions that save messages, and from periodic jobs. A job only asks to look at a log, so a job that is
done twice changes nothing, and the next sweep replaces a job that is lost.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job, Status

from memolog.apps.worker.work import Work
from memolog.core.job import LOOK, QUEUE, LookJob
from memolog.db.postgres_address import PostgresOptions, safe_url, split_url
from memolog.errors import ConfigError, MemologError, StoreUnavailable

_SWEEP: Final = "memolog.sweep"
_INDEX: Final = "memolog.index"
_UPKEEP: Final = "memolog.upkeep"
_INDEX_SECONDS: Final = 10
_MINUTE: Final = 60
# Jobs of a worker that has written no heartbeat for so long are given to others.
_STALLED_SECONDS: Final = 30.0
# The pauses after a lost connection: the first, and the longest.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_POOL_SECONDS: Final = 10.0
# The longest that the check at the start waits for a connection. The memory has reached the database before.
_CHECK_SECONDS: Final = 5
# The longest pause between two questions for jobs and for leases that end.
_POLL_SECONDS: Final = 5.0


class QueueWorker:
    """A worker on the jobs of one database."""

    def __init__(self, work: Work, address: str, *, concurrency: int, every: int) -> None:
        url, options = split_url(address, PostgresOptions())
        if options.pooler:
            raise ConfigError(
                "A worker cannot use a transaction pooler.",
                why="It waits for notifications, which need a connection of its own.",
                then="Pass the address of the server itself with --db. The other processes may use the pooler.",
            )
        # The libraries report each job and each lost connection; the worker reports what matters.
        for name in ("procrastinate", "psycopg.pool", "asyncpg.pool"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._url, self._schema, self._name = url, options.schema, safe_url(address)
        self._work, self._concurrency, self._every = work, concurrency, every
        self._interrupted: list[LookJob] = []

    # ------------------------------------------------------------ running

    async def check(self) -> None:
        """Raise StoreUnavailable if the worker cannot connect to the server itself, for example because of a pooler."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._url, connect_timeout=_CHECK_SECONDS, **self._login()
            )
        except (psycopg.Error, OSError) as error:
            raise self._unavailable(error) from error
        await connection.close()

    async def run(self, *, stop: asyncio.Event, grace: float) -> None:
        """Work until `stop` is set. Then wait for the jobs under way, at most `grace` seconds, and cancel them."""
        stopping, pause = asyncio.ensure_future(stop.wait()), _FIRST_PAUSE
        while not stop.is_set():
            loop = asyncio.get_running_loop()
            begun = loop.time()
            try:
                async with _opened(self._app()) as app:
                    await self._run(app, stopping, grace)
            except (ConnectorException, psycopg.Error, OSError) as error:
                # The worker waits until the database is back.
                self._work.lost(error.__cause__ or error)
            except Exception as error:  # noqa: BLE001 - the rows still say what is to be done
                self._work.failed("working on jobs", error)
            if not stop.is_set():
                pause = _FIRST_PAUSE if loop.time() - begun > _LONGEST_PAUSE else min(_LONGEST_PAUSE, 2 * pause)
                await asyncio.wait({stopping}, timeout=pause)
        stopping.cancel()

    async def drain(self, *, stop: asyncio.Event, grace: float) -> None:
        """Do the jobs that wait, and return. If `stop` is set, wait for the jobs under way, at most `grace` seconds."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            async with _opened(self._app(periodic=False)) as app:
                await self._work_on_jobs(app, stopping, shutdown_graceful_timeout=grace, wait=False)
        except (ConnectorException, psycopg.Error, OSError) as error:
            raise self._unavailable(error.__cause__ or error) from error
        finally:
            stopping.cancel()

    async def hand_back(self) -> None:
        """Add the jobs again that were interrupted, so that another worker continues them at once."""
        if self._interrupted:
            with contextlib.suppress(Exception):
                async with _opened(self._app()) as app:
                    for job in self._interrupted:
                        await self._defer(app, job)

    def _login(self) -> dict[str, Any]:
        return {"options": f"-c search_path={self._schema}", "application_name": "memolog-worker"}

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        says = " ".join(str(error).split()) or type(error).__name__
        if "startup parameter" in says:
            return StoreUnavailable(
                f"A worker cannot use the address {self._name}, because there is a pooler.",
                why=f"It waits for notifications, which need a connection of its own. The pooler says: {safe_url(says)}.",
                then="Pass the address of the server itself with --db. The other processes may use the pooler.",
            )
        return StoreUnavailable(
            f"The worker cannot connect to the jobs of {self._name}.",
            why=f"{safe_url(says).rstrip('.')}.",
            then="Check that the server is running, and that the address is that of the server itself and of no pooler.",
        )

    async def _run(self, app: App, stopping: "asyncio.Future[Any]", grace: float) -> None:
        watching = asyncio.ensure_future(self._watch_leases(app))
        try:
            await self._work_on_jobs(
                app,
                stopping,
                fetch_job_polling_interval=_POLL_SECONDS,
                shutdown_graceful_timeout=grace,
                update_heartbeat_interval=_STALLED_SECONDS / 3,
                stalled_worker_timeout=_STALLED_SECONDS,
            )
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        if not stopping.done():
            raise ConnectionError("the connection to the database was lost")

    async def _work_on_jobs(self, app: App, stopping: "asyncio.Future[Any]", **options: Any) -> None:
        """Work on jobs until there are none, the connection is lost, or `stopping` is done."""
        running = asyncio.ensure_future(
            app.run_worker_async(
                queues=[QUEUE],
                concurrency=self._concurrency,
                delete_jobs="always",
                install_signal_handlers=False,
                **options,
            )
        )
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        # This begins a shutdown: jobs are waited for, then cancelled.
        running.cancel()
        # If this task is cancelled while it waits, the jobs are left alone. Closing the memory ends their runs.
        await asyncio.wait({running})
        if not running.cancelled():
            running.result()

    # ------------------------------------------------------------ jobs

    def _app(self, *, periodic: bool = True) -> App:
        """Return a new application with all jobs. `periodic` also starts the periodic ones."""
        connector = PsycopgConnector(
            conninfo=self._url,
            kwargs=self._login(),
            min_size=1,
            max_size=4,
            timeout=_POOL_SECONDS,
            reconnect_timeout=_POOL_SECONDS,
        )
        app = App(connector=connector)

        async def look(resource: str, thread: str, *, rest: bool = False, shared: bool = False) -> None:
            await self._look(LookJob(resource=resource, thread=thread, rest=rest, is_shared=shared))

        async def sweep(timestamp: int) -> None:
            del timestamp
            await self._sweep(app)

        async def index(timestamp: int) -> None:
            del timestamp
            await self._attempt("indexing", self._work.index())

        async def upkeep(timestamp: int) -> None:
            del timestamp
            await self._attempt("upkeep", self._work.upkeep())

        app.task(name=LOOK, queue=QUEUE)(look)
        for name, function, cron in (
            (_SWEEP, sweep, _cron(self._every)),
            (_INDEX, index, _cron(_INDEX_SECONDS)),
            (_UPKEEP, upkeep, "17 * * * *"),
        ):
            task: Any = app.task(name=name, queue=QUEUE, queueing_lock=name, priority=1)(function)
            if periodic:
                app.periodic(cron=cron)(task)
        return app

    async def _look(self, job: LookJob) -> None:
        try:
            await self._attempt(f"looking at {job.resource}: {job.thread}", self._work.look(job))
        except asyncio.CancelledError:
            self._interrupted.append(job)
            raise

    async def _attempt(self, what: str, doing: Any) -> None:
        try:
            await doing
        except Exception as error:  # noqa: BLE001 - the rows still say what is to be done; the next sweep finds it
            self._work.failed(what, error)

    async def _sweep(self, app: App) -> None:
        try:
            for one in await self._work.due():
                await self._defer(app, one.job)
            for stalled in await app.job_manager.get_stalled_jobs(
                queue=QUEUE, seconds_since_heartbeat=_STALLED_SECONDS
            ):
                await self._replace(app, stalled)
        except Exception as error:  # noqa: BLE001 - the next sweep is soon
            self._work.failed("asking the database for work", error)

    async def _watch_leases(self, app: App) -> None:
        """Sweep when a lease ends, because its process may be dead, and after looks at logs.

        A turn asks for a look if the messages that it has read are enough. The messages of several turns at the same time may
        be enough together. Without this they would wait for the next periodic sweep.
        """
        looks = self._work.counts.looks
        while True:
            pause, is_ending = _POLL_SECONDS, False
            try:
                held = await self._work.memory.held()
            except MemologError as error:
                self._work.failed("asking the database for work", error)
            else:
                self._work.found()
                if held is not None:
                    left = max(0.0, (held.until - self._work.memory.clock.now()).total_seconds())
                    pause, is_ending = min(pause, left), left <= pause
            await asyncio.sleep(pause)
            if is_ending or looks != self._work.counts.looks:
                looks = self._work.counts.looks
                await self._sweep(app)

    async def _replace(self, app: App, stalled: Job) -> None:
        """Remove a job of a dead worker. A job that looks at a log is added again, unless one waits already."""
        if stalled.task_name == LOOK:
            given: Any = stalled.task_kwargs
            job = LookJob(resource=given["resource"], thread=given["thread"], is_shared=bool(given.get("shared")))
            await self._defer(app, job, key=stalled.queueing_lock)
        if stalled.id is not None:
            await app.job_manager.finish_job_by_id_async(stalled.id, status=Status.FAILED, delete_job=True)

    @staticmethod
    async def _defer(app: App, job: LookJob, key: str | None = None) -> None:
        deferrer = app.configure_task(LOOK, queue=QUEUE, queueing_lock=key or job.key)
        with contextlib.suppress(AlreadyEnqueued):
            await deferrer.defer_async(**job.arguments)


@contextlib.asynccontextmanager
async def _opened(app: App) -> AsyncGenerator[App]:
    """Open an application, and close it at the end of the block. Raise TimeoutError if there is no connection in time."""
    try:
        async with asyncio.timeout(_POOL_SECONDS):
            await app.open_async()
        yield app
    finally:
        await app.close_async()


def _cron(seconds: int) -> str:
    """Return the schedule of a job that runs every so many seconds. The sixth field has the seconds."""
    return f"* * * * * */{seconds}" if seconds < _MINUTE else "* * * * *"
