"""The demo as a program: its options, its exit code.

Knows how a person or a script starts it. A mistake of the user's is one line, not a traceback.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from memolog.apps.demo.play import Demo
from memolog.apps.demo.screen import Screen, open_screen
from memolog.apps.demo.summary import show, summary, went_well
from memolog.domain.errors import MemologError

__all__ = ["main", "run"]


def run(address: str | None = None, *, as_json: bool = False) -> int:
    """Play the demo and say what it came to; returns the exit code: 0 if all of it was shown and nothing was lost."""
    place = address or str(Path(tempfile.mkdtemp(prefix="memolog-demo-")) / "demo.db")
    screen = Screen() if as_json else open_screen()
    demo = Demo(place, screen)
    try:
        asyncio.run(demo.play())
    except MemologError as error:
        screen.close()
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        screen.close()
        return 130
    screen.close()
    if as_json:
        print(json.dumps(summary(demo), indent=2))
    else:
        show(demo, screen)
    return 0 if went_well(demo) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="memolog demo",
        description="Play ten days of work on a small project through the real memory, and show what it does.",
        epilog="example: memolog demo --db demo.db",
    )
    parser.add_argument("--db", help="where to keep it: a new file, or postgresql://… (default: a temporary file)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document and nothing else")
    options = parser.parse_args(arguments)
    return run(options.db, as_json=options.json)
