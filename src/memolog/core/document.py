"""The working memory as a value: a small document of stable facts, and its versions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from memolog.core.exact_json import JsonObject

DocumentFormat: TypeAlias = Literal["markdown", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion:
    """One version of a document. `by` is its author."""

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
    """A change of the working memory that an observer proposes. It takes effect when the group of that run is activated."""

    of_thread: bool
    """Whether the document of the thread is changed. False means the document of the resource."""
    base: int
    """The number of the version that the observer was shown. 0 means that there was no document."""
    text: str
    most: int
    """The maximum length of the document, in characters."""
