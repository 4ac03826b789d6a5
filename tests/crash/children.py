"""Processes of crash tests: start a program of this folder, exchange lines of JSON with it, fork a victim for each order.

What such a program tells is one system call a line, so that a kill leaves whole lines. What it has told must be in the store
afterwards, whatever happened next.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


class Death(BaseException):
    """Nobody catches it, as nobody survives a kill."""


class Deadly:
    """A commit hook that counts commit points; from the chosen one on, this process writes nothing any more."""

    def __init__(self, point: str = "", nth: int = 0) -> None:
        self.reached = Counter[str]()
        self._point, self._nth = point, nth
        self.dead = False

    def __call__(self, name: str) -> None:
        """Come by a commit point."""
        self.reached[name] += 1
        self.dead = self.dead or (name == self._point and self.reached[name] == self._nth)
        if self.dead:
            raise Death(name)


def tell(value: object) -> None:
    """Write a line to whoever started this program."""
    os.write(1, json.dumps(value).encode() + b"\n")


def fork_for_each_line(work: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Do the work of each line of stdin in a fork, so that the imports are paid for once; tell how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(work(*json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tell(["ended", os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)])


def child_env() -> dict[str, str]:
    """Return an environment in which a program can import the modules of the tests."""
    path = os.pathsep.join([str(_FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def started(program: str, *arguments: str, stderr: int | None = None) -> Generator[subprocess.Popen[str]]:
    """Run a program of this folder, and kill it at the end."""
    with subprocess.Popen(
        [sys.executable, str(_FOLDER / program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=child_env(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> Any:
    """Return the next line that a program tells."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def order(process: subprocess.Popen[str], *arguments: object) -> tuple[int, list[Any]]:
    """Have a fork of the program do some work; return how it ended and what it told."""
    print(json.dumps(arguments), file=process.stdin, flush=True)
    told: list[Any] = []
    while (line := answer(process))[0] != "ended":
        told.append(line)
    return line[1], told
