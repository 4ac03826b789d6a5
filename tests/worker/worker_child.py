"""A worker with a scripted model, as a process of its own: `python worker_child.py ADDRESS SECONDS GRACE`.

The model needs so many seconds for an answer. Everything that the worker reports, and each request of the model, is a line of
JSON on standard output.
"""

import asyncio
import json
import os
import signal
import sys

from memolog import Config, ObservationConfig, ReflectionConfig
from memolog.apps.signals import caught
from memolog.apps.worker.process import WorkerOptions, run_worker
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import ScriptedModel

CONFIG = Config(
    background="worker",
    observation=ObservationConfig(message_tokens=800, previous_tokens=100, deadline=60),
    reflection=ReflectionConfig(observation_tokens=500),
    lease=4,
    heartbeat=1.0,
    busy_timeout=60,
    statement_timeout=60,
    sweep_after=None,
)


def tell(values: dict[str, object]) -> None:
    """Write a line, with one system call."""
    os.write(1, json.dumps(values).encode() + b"\n")


class Telling(ScriptedModel):
    """A model that tells when it is asked."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Tell, and answer as scripted."""
        tell({"event": "asked"})
        return await super().complete(request)


async def main(address: str, seconds: float, grace: float) -> None:
    """Work until SIGTERM."""
    stop, signals = asyncio.Event(), caught(signal.SIGTERM)

    async def wait_for_signal() -> None:
        await signals.get()
        stop.set()

    waiting = asyncio.create_task(wait_for_signal())
    options = WorkerOptions(concurrency=4, every=1, grace=grace, metrics_port=0)
    model = Telling(seconds=seconds)
    await run_worker(address, CONFIG, options, report=lambda _, values: tell(values), stop=stop, model=model)
    waiting.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
