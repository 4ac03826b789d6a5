"""The three APIs that get memory: which requests are theirs, and how their errors look.

Knows paths, and what of a request cannot have memory. How requests and answers are read and written is in the adapters.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from memolog.adapters.anthropic.messages import messages_api
from memolog.adapters.exchange import Api
from memolog.adapters.openai.chat import CHAT_API
from memolog.adapters.openai.responses import RESPONSES_API
from memolog.domain.errors import InputError

__all__ = ["api_of", "check_body", "error_body", "is_anthropic"]

_APIS: Final[tuple[Api, ...]] = (CHAT_API, RESPONSES_API, messages_api())


def api_of(method: str, path: str) -> Api | None:
    """Return the API that a request speaks; None for every other path."""
    return next((api for api in _APIS if path.endswith(api.path)), None) if method == "POST" else None


def check_body(api: Api, body: object) -> dict[str, Any] | None:
    """Return a request that says something; None for one that no provider would take. Raises where memory cannot follow."""
    if not isinstance(body, dict):
        return None
    request = cast("dict[str, Any]", body)
    is_responses = api is RESPONSES_API
    if is_responses and request.get("background"):
        raise InputError(
            "A request with background cannot have memory.",
            why="Its answer is fetched later, and this proxy would not see it.",
            then="Leave background out, or leave x-memolog-thread out.",
        )
    said: object = request.get("input" if is_responses else "messages")
    if is_responses and isinstance(said, str):
        return request
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in cast("list[object]", said)):
        return None
    return request


def is_anthropic(path: str, header_names: Sequence[str]) -> bool:
    """Tell which provider a request is for: by its path, and where both have one like it, by the headers of its client."""
    if path.startswith(("/v1/messages", "/v1/complete")):
        return True
    return "anthropic-version" in header_names


def error_body(message: str, kind: str, *, as_anthropic: bool) -> dict[str, Any]:
    """Return an error of ours in the words of the API, so that its client can read it."""
    if as_anthropic:
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": "memolog"}}
