"""The working memory as a value: a small document of stable facts, with all its versions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from memolog.core.exact_json import JsonObject

DocumentFormat: TypeAlias = Literal["markdown", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion:
    """One version: who wrote it, and when."""

    number: int
    text: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The working memory of a resource, or of one thread."""

    resource: str
    thread: str | None
    format: DocumentFormat
    current: DocumentVersion
    schema: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change of the working memory by an observer; it takes effect when its group is activated."""

    of_thread: bool
    """Whether it changes the document of the thread instead of that of the resource."""
    base: int
    """The version that the observer was shown; 0 if there was none."""
    text: str
    most: int
    """How long the document may be."""
