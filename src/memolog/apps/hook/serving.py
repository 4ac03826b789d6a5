"""The tools of the project that a host works in: the server of `memolog mcp`, with its scope settled.

Knows how a project becomes a scope. Knows nothing of the protocol.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from memolog.apps.cli.main import app
from memolog.apps.hook.options import Options
from memolog.apps.hook.project import resource_of, started_in
from memolog.runtime.opening import open_store

__all__ = ["serve"]


def serve(options: Options) -> None:
    """Offer the tools of the project that the host works in; who may see whose memory is settled here, not by the model."""
    folder = options.folder if options.folder and "$" not in options.folder else None
    resource = options.resource or resource_of(started_in(folder, os.environ))
    with suppress(OSError):
        # Settings that lie in a project are somebody else's: they could name a model that is told everything.
        os.chdir(Path.home())
    asyncio.run(_make(options.db))
    arguments = ["mcp", "--db", options.db, "--resource", resource]
    app(arguments + (["--config", options.config] if options.config else []))


async def _make(address: str) -> None:
    """Make the database if it is not there: a host starts its servers before anything was said."""
    if "://" in address or await asyncio.to_thread(Path(address).exists):
        return
    await asyncio.to_thread(Path(address).parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    async with await open_store(address):
        pass
