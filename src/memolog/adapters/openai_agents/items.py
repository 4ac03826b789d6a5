"""What the Agents SDK calls items, in our words: they are those of the Responses API.

Knows how one item is told from another, and the SDK's own usage and models. How items become messages and messages items again,
and what is new in a list, is the same as for plain clients.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from agents import Agent, RunConfig
from agents.usage import Usage as AgentsUsage

from memolog import Context, NewMessage, Usage
from memolog.adapters.news import unsaved
from memolog.adapters.openai import responses
from memolog.context import ContextMessage
from memolog.domain.codec import dumps
from memolog.domain.message import Message

__all__ = [
    "Item",
    "key",
    "model_of",
    "new_items",
    "plain",
    "since_last_input",
    "to_input",
    "to_items",
    "to_messages",
    "usage_of",
]

Item: TypeAlias = dict[str, Any]

# What a provider gives an item, and takes from it, without another thing being said.
_PASSING: Final = frozenset({"id", "status"})


def plain(item: object) -> Item:
    """Return an item as JSON, whether the SDK hands out a dict or one of its models."""
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    return cast("Any", item).model_dump(exclude_unset=True, mode="json")


def key(item: Item) -> str:
    """Return what two copies of an item have in common, also if one of them has lost its id on the way."""
    kind = item.get("type") or "message"
    if call := item.get("call_id"):
        return f"{kind}:{call}"
    said = {name: value for name, value in item.items() if name not in _PASSING and value is not None}
    return dumps({**said, "type": kind})


def to_messages(items: Sequence[object]) -> list[NewMessage]:
    """Return items as messages."""
    return list(responses.from_items([plain(item) for item in items]))


def to_items(messages: Sequence[Message | ContextMessage]) -> list[Item]:
    """Return messages as items, those that came from items exactly as they came."""
    return list(responses.to_items(messages))


def new_items(said: Sequence[Item], stored: Sequence[Item]) -> list[Item]:
    """Return the end of what was said that is not stored yet: a caller may hand in the conversation so far as well."""
    count = len(unsaved(to_messages(said), to_messages(stored)))
    # What a model said at once is one message, so the items of a message go together.
    start = next(place for place in range(len(said) + 1) if len(to_messages(said[place:])) == count)
    return list(said[start:])


def since_last_input(items: Sequence[object]) -> list[Item]:
    """Return the items after the last that a user said, that one included."""
    told = [plain(item) for item in items]
    places = [place for place, item in enumerate(told) if item.get("role") == "user"]
    return told[places[-1] :] if places else told


def to_input(context: Context, instructions: str | None, *, is_stored: bool) -> tuple[str | None, list[Item]]:
    """Return the instructions and the items of a request: the caller's own, the prefix, what was said, and the edge last."""
    request = responses.to_request(context, instructions=instructions, is_stored=is_stored)
    return request.get("instructions"), request["input"]


def model_of(agent: Agent[Any], config: RunConfig) -> str | None:
    """Return the name of the model that answers, as far as the SDK says it."""
    model = config.model or agent.model
    return model if isinstance(model, str) else getattr(model, "model", None)


def usage_of(usage: AgentsUsage, model: str | None) -> Usage | None:
    """Return what a request cost; None where nothing was reported."""
    if not usage.input_tokens and not usage.output_tokens:
        return None
    read = usage.input_tokens_details.cached_tokens or 0
    written = usage.input_tokens_details.cache_write_tokens or 0
    return Usage(
        model=model or "unknown",
        input_tokens=max(0, usage.input_tokens - read - written),
        output_tokens=usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
