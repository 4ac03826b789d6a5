"""`python -m memolog.apps.hook` is what hosts call; it always ends well."""

from memolog.apps.hook.entry import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
