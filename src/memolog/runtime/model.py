"""The interface to language models: a request, a reply, and the one method between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from memolog.domain.codec import nothing
from memolog.domain.message import FilePart
from memolog.domain.run import Usage

__all__ = ["FinishReason", "Model", "ModelReply", "ModelRequest", "Purpose"]

Purpose: TypeAlias = Literal["observe", "reflect"]
FinishReason: TypeAlias = Literal["stop", "length", "content_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked: its instructions, and the text to work on."""

    purpose: Purpose
    system: str
    text: str
    temperature: float = 0.0
    max_tokens: int | None = None
    """How long the answer may be. Memolog always sets it, in proportion to the text; None leaves it to the model."""
    timeout: float | None = None
    """How many seconds one attempt may take. Memolog always sets it, from `model_timeout`; None leaves it to the model."""
    files: tuple[FilePart, ...] = ()
    """Images and documents that the text speaks of, for models that can see them."""
    options: Mapping[str, Any] = field(default_factory=nothing)
    """Further settings for the provider, passed on unchanged; None as a value removes a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model answered, what it cost, and why it stopped."""

    text: str
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    """Why the model stopped: "length" if it reached `max_tokens`, so that its end is missing; None if that is unknown."""

    @property
    def is_cut_off(self) -> bool:
        """Return whether the provider says that the end of the answer is missing."""
        return self.finish_reason == "length"


@runtime_checkable
class Model(Protocol):
    """Answers requests. May raise: the run is then tried again later, and no turn fails."""

    @property
    def name(self) -> str:
        """Return the name of the model in events, runs and the ledger."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer to one request."""
        ...
