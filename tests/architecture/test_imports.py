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


REQUESTS = """
import asyncio, sys, threading
from memolog import Memory

imported = {}

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("memolog.adapters."):
            imported[name] = threading.get_ident() == threading.main_thread().ident
        return None

async def main():
    sys.meta_path.insert(0, Watch())
    async with Memory(":memory:") as memory, memory.thread("t1", resource="alice").turn() as turn:
        context = await turn.prepare("Hello.")
        context.to_openai(), context.to_responses(), context.to_anthropic()

asyncio.run(main())
print(len(imported), *(name for name, is_loop in imported.items() if is_loop))
"""


def test_the_first_request_imports_nothing_on_the_event_loop() -> None:
    """A turn imports in a worker thread what writes its requests, because that takes many milliseconds."""
    done = subprocess.run([sys.executable, "-c", REQUESTS], capture_output=True, text=True, check=True)
    count, *on_loop = done.stdout.split()
    assert int(count) > 0
    assert on_loop == []
