"""A context as a request of Pydantic AI: instructions, then messages, then the edge.

Knows the order, where cache marks go and when the edge must be left out. Nothing here touches the run's own history.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pydantic_ai.messages import (
    CachePoint,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    ThinkingPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from memolog.adapters.pydantic_ai.replay import to_model_messages
from memolog.adapters.pydantic_ai.run import is_passing, leading_prompts
from memolog.context import Context
from memolog.domain.message import FilePart

__all__ = ["is_resuming", "with_context"]

# The edge says itself what time it is; this one is not sent.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_resuming(request: ModelRequestContext) -> bool:
    """Tell whether a provider goes on with an answer that it had paused: it wants back exactly what it sent."""
    last = request.messages[-1] if request.messages else None
    return isinstance(last, ModelResponse) and last.state == "suspended"


def with_context(request: ModelRequestContext, context: Context) -> ModelRequestContext:
    """Return the request with memory in it, for this attempt only."""
    messages = _messages(request, context)
    parameters = request.model_request_parameters
    if context.system:
        # Stable, so it stands before what the caller works out anew for each request: caches keep what comes first.
        parts = [*(parameters.instruction_parts or ()), InstructionPart(content=context.system, name="log")]
        parameters = replace(parameters, instruction_parts=InstructionPart.sorted(parts))
    return replace(request, messages=messages, model_request_parameters=parameters)


def _messages(request: ModelRequestContext, context: Context) -> list[ModelMessage]:
    given = request.messages
    prompts = leading_prompts(given[0]) if given else []
    opening = [ModelRequest(parts=prompts)] if prompts else []
    # The note that opens a tail is new each time; what follows it grows at its end.
    note = len(context.messages) - len(context.tail) - len(context.ephemeral)
    said = [*to_model_messages(context.messages[:note]), *to_model_messages(context.messages[note:])]
    if not said or not isinstance(said[-1], ModelRequest):
        # Another turn of this thread has answered meanwhile: what is asked now still comes last.
        said += given[-1:]
    closing: list[SystemPromptPart | UserPromptPart] = [
        part
        for message in given[-1:]
        for part in message.parts
        if isinstance(part, SystemPromptPart) and is_passing(part)
    ]
    if context.edge and not _is_thinking(said):
        closing.append(_edge(request, context))
    return [*opening, *said, *([ModelRequest(parts=closing)] if closing else [])]


def _edge(request: ModelRequestContext, context: Context) -> UserPromptPart:
    text = context.edge_text
    content: list[UserContent] = [CachePoint(), text]
    return UserPromptPart(content=content if _takes_mark(request, context) else text, timestamp=_NO_TIME)


def _takes_mark(request: ModelRequestContext, context: Context) -> bool:
    """Tell whether the end of what is stable is marked: what comes after it differs at each request."""
    settings = request.model_settings or {}
    # Some providers cannot mark a message that ends in a file.
    files = context.tail and any(isinstance(part, FilePart) for part in context.tail[-1].parts)
    return settings.get("cache") is not False and not files


def _is_thinking(messages: Sequence[ModelMessage]) -> bool:
    """Tell whether a model that thinks is between two tool calls: text after the results would end that thought."""
    last = messages[-1]
    if not any(isinstance(part, ToolReturnPart) for part in last.parts):
        return False
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            if any(isinstance(part, ThinkingPart) for part in message.parts):
                return True
        elif any(isinstance(part, UserPromptPart) for part in message.parts):
            return False
    return False
