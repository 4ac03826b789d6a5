"""Memory for plain Anthropic clients: `wrap`, and the translations beneath it, with marks for the cache.

Knows its names only. The library itself is not needed to import this: who has a client has it.
"""

from memolog.adapters.anthropic.wrapping import wrap
from memolog.adapters.exchange import at

__all__ = ["at", "wrap"]
