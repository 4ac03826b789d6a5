"""What a hook is told on its command line, and what it does without being told.

Knows the names and the defaults. Knows nothing of events; loads nothing else.
"""

# Without pathlib, which alone would cost a hook a fifth of its time.
# ruff: noqa: PTH100, PTH118

import os
from collections.abc import Mapping, Sequence
from typing import Final

from memolog.apps.hook.spool import Spool, home, spool_of

__all__ = ["DEFAULT_TOKENS", "Options", "default_db"]

DEFAULT_TOKENS: Final = 2_300
"""What a pack may hold: hosts cut what is longer than ten thousand characters or so."""


class Options:
    """What a hook was told on its command line."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.verb = arguments[0] if arguments else ""
        given = dict(zip(arguments[1::2], arguments[2::2], strict=False))
        self.db = given.get("--db") or default_db(environment)
        if "://" not in self.db:
            self.db = os.path.abspath(self.db)
        self.resource = given.get("--resource") or environment.get("MEMOLOG_RESOURCE")
        self.folder = given.get("--folder")
        self.config = given.get("--config")
        tokens = given.get("--tokens") or ""
        self.tokens = int(tokens) if tokens.isdigit() else DEFAULT_TOKENS

    @property
    def spool(self) -> Spool:
        """Return where events are written down."""
        return spool_of(self.db, os.environ)


def default_db(environment: Mapping[str, str]) -> str:
    """Return the database that hooks use unless told otherwise: one for all projects of a user."""
    return environment.get("MEMOLOG_DB") or os.path.join(home(environment), "memolog.db")
