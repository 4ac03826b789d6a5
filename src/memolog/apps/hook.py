"""Run one hook of a coding agent: `python -m memolog.apps.hook`, the name that installed settings files hold."""

from memolog.apps.hooks.entry import main

if __name__ == "__main__":
    main()
