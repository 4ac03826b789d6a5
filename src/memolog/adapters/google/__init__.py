"""Memory for the client of Google (`google-genai`), synchronous and asynchronous, streamed or not."""

from memolog.adapters.google.client import at, wrap
from memolog.adapters.google.messages import from_contents, to_contents

__all__ = ["at", "from_contents", "to_contents", "wrap"]
