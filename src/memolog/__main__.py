"""The `memolog` command, also as `python -m memolog`."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C ends it with exit code 130, also while it is still being imported."""
    try:
        from memolog.apps.cli.main import main as run  # noqa: PLC0415 - an interruption of this import is caught

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
