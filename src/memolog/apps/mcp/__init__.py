"""The MCP server: a memory for any client of the Model Context Protocol, over standard input and output or over HTTP.

Knows how the parts of the protocol map onto a memory: tools, resources, prompts, notifications. Decides nothing about memory
itself. Whose memory it is comes from the configuration, never from a model.
"""

from importlib.util import find_spec

from memolog.domain.errors import ConfigError

if find_spec("mcp") is None or find_spec("mcp_types") is None:
    raise ConfigError(
        "The MCP server needs the library mcp, in version 2.3 or newer, which is not installed.",
        then='Install it with: pip install "memolog[mcp]"',
    )

from memolog.apps.mcp.served import Served
from memolog.apps.mcp.server import build_server, serve_stdio
from memolog.apps.mcp.web import Door, open_door, read_token, serve_http

__all__ = ["Door", "Served", "build_server", "open_door", "read_token", "serve_http", "serve_stdio"]
