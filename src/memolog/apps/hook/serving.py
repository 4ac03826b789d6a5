"""The tools of the project that a host works in: the server of `memolog mcp`, with its scope settled.

Knows how a project becomes a scope. Knows nothing of the protocol.
"""

import os

from memolog.apps.cli.main import app
from memolog.apps.hook.options import Options
from memolog.apps.hook.project import resource_of, started_in

__all__ = ["serve"]


def serve(options: Options) -> None:
    """Offer the tools of the project that the host works in; who may see whose memory is settled here, not by the model."""
    folder = options.folder if options.folder and "$" not in options.folder else None
    resource = options.resource or resource_of(started_in(folder, os.environ))
    arguments = ["mcp", "--db", options.db, "--resource", resource]
    app(arguments + (["--config", options.config] if options.config else []))
