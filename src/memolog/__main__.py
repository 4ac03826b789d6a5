"""`python -m memolog` is the `memolog` command."""

from memolog.apps.cli.main import main

if __name__ == "__main__":
    main()
