"""Memory for the client of Google (`google-genai`), synchronous and asynchronous, streamed or not."""

from memolog.adapters.google.client import at, wrap

__all__ = ["at", "wrap"]
