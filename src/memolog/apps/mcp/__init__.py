"""Serve a memory over the Model Context Protocol, on standard input and output or over HTTP.

The configuration of the server selects the resource. A model cannot choose another one.
"""

from importlib.util import find_spec

from memolog.errors import ConfigError

if find_spec("mcp") is None or find_spec("mcp_types") is None:
    raise ConfigError(
        "The MCP server needs the library `mcp` in version 2.3 or newer, which is not installed.",
        then='Install it with: pip install "memolog[mcp]"',
    )

from memolog.apps.mcp.resources import Served
from memolog.apps.mcp.server import Door, build_server, open_door, read_token, serve_http, serve_stdio

__all__ = ["Door", "Served", "build_server", "open_door", "read_token", "serve_http", "serve_stdio"]
