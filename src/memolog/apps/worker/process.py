"""Run a worker in this process until it is told to stop, or once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from signal import Signals
from typing import TYPE_CHECKING, Final

from memolog.apps.worker.poll import pass_once, poll_forever
from memolog.apps.worker.work import Report, Work, WorkerCounts
from memolog.core.config import Config
from memolog.db.postgres_address import safe_url
from memolog.db.sqlite_files import only_worker, same_file
from memolog.errors import ConfigError
from memolog.memory import Memory
from memolog.models import ModelSpec

if TYPE_CHECKING:
    from memolog.apps.worker.queue import QueueWorker

# The part of the grace that is left to release the leases of runs that have not ended.
_GIVE_BACK_SECONDS: Final = 3.0
_CLOSE_SECONDS: Final = 1.0
# The time that requests of operators have when the worker stops.
_GRACE_SECONDS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a worker."""

    concurrency: int = 8
    """How many logs it works on at a time."""
    every: int = 60
    """On PostgreSQL, the seconds between two sweeps."""
    grace: float = 25.0
    """The longest time between the request to stop and the end, in seconds."""
    once: bool = False
    """Whether it does what is due and ends."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """The port for `/healthz`, `/readyz` and `/metrics`. 0 means any free port, and None that it does not listen."""


async def run_until_signal(
    address: str,
    config: Config,
    options: WorkerOptions,
    *,
    report: Report,
    signals: "asyncio.Queue[Signals]",
    model: ModelSpec | None = None,
) -> WorkerCounts | None:
    """Run a worker that stops at the first signal. The second one ends it at once, without its grace. Then return None."""
    stop = asyncio.Event()
    doing = asyncio.ensure_future(run_worker(address, config, options, report=report, stop=stop, model=model))

    async def heed() -> None:
        await signals.get()
        stop.set()
        await signals.get()
        doing.cancel()

    heeding = asyncio.ensure_future(heed())
    try:
        await asyncio.wait({doing})
    finally:
        heeding.cancel()
    return None if doing.cancelled() else doing.result()


async def run_worker(
    address: str,
    config: Config,
    options: WorkerOptions,
    *,
    report: Report,
    stop: asyncio.Event,
    model: ModelSpec | None = None,
) -> WorkerCounts:
    """Do the background work of a database until `stop` is set, or with `once` until nothing is due. Return what was done."""
    path = None if "://" in address and not address.startswith("sqlite:") else _path_in(address)
    if config.read_only:
        raise ConfigError("A worker writes to the database.", then="Set read_only = False.")
    if path is None:
        _check_packages()
    # A worker with a model that cannot be used must not make logs with the embedded observer: `strict` raises the error instead.
    config = config.with_overrides({"background": "worker", "close_timeout": _CLOSE_SECONDS, "strict": True})
    with ExitStack() as stack:
        if path is not None:
            stack.enter_context(only_worker(path))
        memory = Memory(address, config=config, model=model)
        counts = WorkerCounts(started_at=memory.clock.now())
        memory.subscribe(counts.hear)
        work = Work(memory=memory, report=report, counts=counts)
        heeding = asyncio.ensure_future(_heed(stop, memory))
        try:
            await memory.open()
            queue = await _checked_queue(work, address, options) if path is None else None
            async with _monitored(work, options) as url:
                where = safe_url(address)
                report(
                    f"The worker of {where} has started. It works on up to {options.concurrency} logs at a time.",
                    {"event": "started", "database": where},
                )
                if url is not None:
                    report(f"metrics are served at {url}/metrics", {"event": "listening", "url": url})
                if path is not None:
                    await _work_on_file(work, path, options, stop)
                elif queue is not None:
                    await _work_on_queue(work, queue, options, stop)
        finally:
            heeding.cancel()
            await memory.aclose()
        report(counts.summary, {"event": "ended", **counts.values()})
    return counts


@asynccontextmanager
async def _monitored(work: Work, options: WorkerOptions) -> AsyncGenerator[str | None]:
    """Answer the requests of operators while the block runs, and yield the address. Without a port in the options, yield None."""
    if options.metrics_port is None:
        yield None
        return
    # The server and the format of metrics are optional dependencies.
    try:
        import uvicorn  # noqa: PLC0415

        from memolog.apps.monitoring import Monitored  # noqa: PLC0415
        from memolog.apps.network import is_loopback, open_socket, serving, url_of  # noqa: PLC0415
    except ImportError as missing:
        raise ConfigError(
            "--metrics-port needs a web server, which is not installed.",
            then='Install it with: pip install "memolog[worker]"',
        ) from missing
    host = options.metrics_host
    app = Monitored(work.memory, only_here=is_loopback(host))
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    listener = open_socket(host, options.metrics_port, options=("--metrics-host", "--metrics-port"))
    url = url_of(host, listener.getsockname()[1])
    async with serving(config, listener):
        yield url


def _check_packages() -> None:
    """Raise ConfigError if a package is missing that a worker on PostgreSQL needs."""
    missing = [name for name in ("asyncpg", "procrastinate", "psycopg") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"A worker on PostgreSQL needs packages that are not installed: {', '.join(missing)}.",
            then='Install them with: pip install "memolog[worker]"',
        )


async def _heed(stop: asyncio.Event, memory: Memory) -> None:
    """Wait until `stop` is set. After that no run begins, because its model call might be cancelled and still be paid for."""
    await stop.wait()
    memory.start_no_more()


async def _work_on_file(work: Work, path: str, options: WorkerOptions, stop: asyncio.Event) -> None:
    if options.once:
        await _work_once(work, options, stop)
    else:
        check = same_file(path)
        await poll_forever(work, concurrency=options.concurrency, stop=stop, grace=_patience(options), check=check)


async def _checked_queue(work: Work, address: str, options: WorkerOptions) -> "QueueWorker":
    """Return a worker on jobs after it has connected once."""
    from memolog.apps.worker.queue import QueueWorker  # noqa: PLC0415 - Procrastinate is an optional dependency

    queue = QueueWorker(work, address, concurrency=options.concurrency, every=options.every)
    await queue.check()
    return queue


async def _work_on_queue(work: Work, queue: "QueueWorker", options: WorkerOptions, stop: asyncio.Event) -> None:
    try:
        if options.once:
            await queue.drain(stop=stop, grace=_patience(options))
            await _work_once(work, options, stop)
        else:
            await queue.run(stop=stop, grace=_patience(options))
    finally:
        # First release the leases, then let others continue.
        await work.memory.aclose()
        await queue.hand_back()


async def _work_once(work: Work, options: WorkerOptions, stop: asyncio.Event) -> None:
    is_done = await pass_once(work, concurrency=options.concurrency, stop=stop, grace=_patience(options))
    work.counts.is_interrupted = not is_done


def _patience(options: WorkerOptions) -> float:
    return max(0.0, options.grace - _GIVE_BACK_SECONDS)


def _path_in(address: str) -> str:
    path = address.removeprefix("sqlite:///").removeprefix("sqlite://")
    return path or ":memory:"
