"""Runs the demo: `python -m memolog.apps.demo`."""

from memolog.apps.demo.command import main

__all__: list[str] = []

if __name__ == "__main__":
    raise SystemExit(main())
