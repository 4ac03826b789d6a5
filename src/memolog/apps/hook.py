"""Run one hook of a coding agent: `python -m memolog.apps.hook`. Settings files of users contain this module name."""

from memolog.apps.hooks.entry import main

if __name__ == "__main__":
    main()
