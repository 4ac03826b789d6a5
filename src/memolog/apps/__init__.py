"""The programs: command line, MCP server, gateway, hooks of coding agents and the demo."""
