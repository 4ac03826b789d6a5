"""What `import memolog` costs a user who needs nothing else: none of the libraries that a part of it wraps."""

import subprocess
import sys

import pytest

HEAVY = (
    "anthropic",
    "asyncpg",
    "httpx",
    "jinja2",
    "langchain",
    "mcp",
    "openai",
    "pydantic",
    "pydantic_ai",
    "rich",
    "splintr",
    "starlette",
    "typer",
    "uvicorn",
)


def loaded_by(statement: str) -> set[str]:
    """Return the top packages that a fresh process has after a statement, beyond those it starts with."""
    program = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("module", ["memolog", "memolog.core.config", "memolog.store", "memolog.text.tokens"])
def test_importing_loads_no_other_library(module: str) -> None:
    """The package loads, or a part of it, and none of the heavy libraries with it."""
    loaded = loaded_by(f"import {module}")
    assert "memolog" in loaded
    assert sorted(loaded & set(HEAVY)) == []
