"""One store over two engines: every read and write names its resource."""

from memolog.store.store import Store, open_store

__all__ = ["Store", "open_store"]
