"""Memory for plain OpenAI clients: `wrap` for Responses and Chat Completions, and the translations beneath it.

Knows its names only. The library itself is not needed to import this: who has a client has it.
"""

from memolog.adapters.exchange import at
from memolog.adapters.openai.wrapping import wrap

__all__ = ["at", "wrap"]
