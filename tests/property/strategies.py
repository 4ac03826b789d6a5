"""Shared strategies: texts that databases and JSON trip over, and every value of the domain made of them."""

import dataclasses
import string
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from memolog.domain.compaction import Compacted, Compaction, Pruned
from memolog.domain.diagnosis import Finding, Report
from memolog.domain.extract import Extract, NewExtract
from memolog.domain.forgetting import Forgotten
from memolog.domain.message import (
    FilePart,
    Message,
    MessageState,
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.domain.observation import (
    Generation,
    GenerationKind,
    Observation,
    ObservationState,
    Priority,
    Source,
    Span,
    Trust,
)
from memolog.domain.recall import Recalled, RecalledPiece, RecallPage
from memolog.domain.run import Calibration, KeptPrompt, Lease, Run, RunKind, RunStatus, Usage, UsageKind, UsageTotal
from memolog.domain.search import SearchAnswer, SearchResult
from memolog.domain.task import (
    Claimed,
    Closed,
    CloseReason,
    Decayed,
    DraftSummary,
    Explained,
    LikelyDuplicate,
    LinkedMessage,
    LinkKind,
    NewTask,
    ReadyTask,
    ReadyTasks,
    Task,
    TaskAbout,
    TaskChange,
    TaskCounts,
    TaskHit,
    TaskLink,
    TaskRef,
    TaskStatus,
    TaskType,
    TaskView,
)
from memolog.domain.thread import Cursor, Hints, Thread
from memolog.domain.transfer import ExportReport, ImportReport, Skipped
from memolog.domain.working_memory import Document, DocumentFormat, DocumentVersion, Proposal

__all__ = ["VALUES", "ids", "json_objects", "json_values", "moments", "new_messages", "parts", "texts"]

ODD: Final = (
    "\x00\x01\x1b\x7f\x85\u2028\u2029\ufeff\ufffe\uffff\ud800\udbff\udc00\udfff\ud83d\ude00"
    "\u200d\ufe0f\u0301\u0915\u094d\u202e\u0600"
    "\\\"'{}[]<>&:/%$?"
    "🙂👩🏽🇨🇭日本語中文한국어שלום"
)
PIECES: Final = (
    *("\x00", "\x01", '\x01"\\u0000"', "\\u0000", "\\ud800", "\ud83d\ude00", "\ude00\ud83d", "👩‍👩‍👧‍👦", "🏳️‍🌈"),
    *("null", "NaN", "{}", "[]", "'; --", ":name", "$1", "{select_messages}", "</observations>", "日本語", "\r\n"),
)

characters = st.one_of(
    st.sampled_from(ODD),
    st.characters(categories=None),
    st.sampled_from(string.printable),
)


def joined(text: str) -> str:
    """Return the text with both halves of a pair as the one character they mean: JSON knows no difference."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


texts: SearchStrategy[str] = st.one_of(
    st.text(alphabet=characters, max_size=24).map(joined),
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join).map(joined),
    st.sampled_from(("", " ", "x" * 5000)),
)
maybe_texts = st.none() | texts

ids: SearchStrategy[str] = st.text(
    alphabet=st.one_of(st.sampled_from("abc-_.:/ é日🙂'%"), st.characters(categories=("L", "N", "P", "S"))),
    min_size=1,
    max_size=24,
).filter(lambda text: bool(text.strip()) and text.isprintable())

# NaN is left out, since it is not equal to itself; it has tests of its own.
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.sampled_from((0, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**300)),
    st.floats(allow_nan=False),
)
json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects: SearchStrategy[Mapping[str, Any]] = st.dictionaries(texts, json_values, max_size=4)
extras = st.none() | json_objects

zones = st.one_of(
    st.just(UTC),
    st.integers(min_value=-14 * 60, max_value=14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
moments: SearchStrategy[datetime] = st.one_of(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=zones),  # noqa: DTZ001
    st.sampled_from(
        (
            datetime.min.replace(tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        )
    ),
)
maybe_moments = st.none() | moments
counts = st.integers(min_value=0, max_value=2**40)
money = st.floats(min_value=0, max_value=1e6)


def one_of(kind: Any) -> SearchStrategy[Any]:
    """Return a strategy for the members of a literal type."""
    return st.sampled_from(get_args(kind))


# ---------------------------------------------------------------- messages

files = st.builds(
    FilePart,
    media_type=texts,
    data=st.none() | st.binary(max_size=40),
    url=maybe_texts,
    name=maybe_texts,
    width=st.none() | counts,
    height=st.none() | counts,
    pages=st.none() | counts,
    seconds=st.none() | st.floats(allow_nan=False),
    detail=maybe_texts,
    extra=extras,
)
part_kinds: dict[type[Part], SearchStrategy[Part]] = {
    TextPart: st.builds(TextPart, text=texts, extra=extras),
    ReasoningPart: st.builds(ReasoningPart, text=texts, signature=maybe_texts, encrypted=maybe_texts, extra=extras),
    ToolCallPart: st.builds(ToolCallPart, id=texts, name=texts, arguments=json_values, extra=extras),
    ToolResultPart: st.builds(
        ToolResultPart,
        call_id=texts,
        content=json_values,
        name=maybe_texts,
        is_error=st.booleans(),
        files=st.lists(files, max_size=2).map(tuple),
        extra=extras,
    ),
    FilePart: files,
    UnknownPart: st.builds(UnknownPart, data=json_values, extra=extras),
}
parts: SearchStrategy[Part] = st.one_of(*part_kinds.values())
tuples_of_parts: SearchStrategy[tuple[Part, ...]] = st.lists(parts, max_size=4).map(tuple)

new_messages: SearchStrategy[NewMessage] = st.builds(
    NewMessage,
    role=one_of(Role),
    parts=tuples_of_parts,
    id=st.none() | ids,
    created_at=maybe_moments,
    zone=st.sampled_from((None, "", "UTC", "Asia/Tokyo", "+05:45")),
    speaker=maybe_texts,
    own=st.booleans(),
    metadata=json_objects,
)
messages = st.builds(
    Message,
    id=ids,
    resource=ids,
    thread=ids,
    seq=counts,
    role=one_of(Role),
    parts=tuples_of_parts,
    created_at=moments,
    tokens=counts,
    continuation=counts,
    zone=maybe_texts,
    speaker=maybe_texts,
    task=st.none() | ids,
    own=st.booleans(),
    metadata=json_objects,
    state=one_of(MessageState),
    level=st.integers(min_value=0, max_value=2),
    injection=maybe_texts,
    search=maybe_texts,
)

# ---------------------------------------------------------------- the rest of the domain

places = st.integers(min_value=1, max_value=2**40)
spans = st.tuples(places, places).map(lambda ends: Span(first=min(ends), last=max(ends)))
hints = st.builds(
    Hints,
    current_task=maybe_texts,
    suggested_response=maybe_texts,
    title=maybe_texts,
    at=maybe_moments,
    last_seq=counts,
)
threads = st.builds(
    Thread,
    id=ids,
    resource=ids,
    created_at=moments,
    updated_at=moments,
    last_seq=counts,
    title=maybe_texts,
    hints=hints,
    active_task=st.none() | ids,
    active_session=maybe_texts,
    overrides=json_objects,
    metadata=json_objects,
    cloned_from=st.none() | ids,
)
sources = st.builds(Source, thread=ids, span=spans)
observations = st.builds(
    Observation,
    id=ids,
    group=ids,
    ordinal=counts,
    priority=one_of(Priority),
    text=texts,
    said_at=maybe_moments,
    zone=maybe_texts,
    about=st.none() | st.dates(),
    parent=st.none() | counts,
    verbatim=maybe_texts,
    sources=st.lists(sources, max_size=2).map(tuple),
    merges=st.lists(ids, max_size=2).map(tuple),
    trust=one_of(Trust),
    grounded=st.booleans(),
    category=maybe_texts,
    files=st.lists(texts, max_size=2).map(tuple),
    metadata=json_objects,
    state=one_of(ObservationState),
    tokens=counts,
)
generations = st.builds(
    Generation,
    number=counts,
    kind=one_of(GenerationKind),
    created_at=moments,
    run=st.none() | ids,
    dropped=st.lists(ids, max_size=2).map(tuple),
    restored_from=st.none() | counts,
    tokens_before=counts,
    tokens_after=counts,
)
usage_totals = st.builds(
    UsageTotal,
    requests=counts,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    cost=money,
)
usages = st.builds(
    Usage,
    model=ids,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    cost=money,
    kind=one_of(UsageKind),
    thread=st.none() | ids,
    task=st.none() | ids,
    run=st.none() | ids,
    at=maybe_moments,
)
runs = st.builds(
    Run,
    id=ids,
    kind=one_of(RunKind),
    status=one_of(RunStatus),
    thread=st.none() | ids,
    span=st.none() | spans,
    inputs=json_objects,
    attempt=counts,
    model=maybe_texts,
    prompt_version=maybe_texts,
    started_at=maybe_moments,
    finished_at=maybe_moments,
    retry_at=maybe_moments,
    error=maybe_texts,
    usage=usage_totals,
)
tasks = st.builds(
    Task,
    id=ids,
    handle=ids,
    resource=ids,
    title=texts,
    created_at=moments,
    updated_at=moments,
    description=texts,
    status=one_of(TaskStatus),
    priority=st.integers(min_value=0, max_value=4),
    type=one_of(TaskType),
    assignee=maybe_texts,
    session=maybe_texts,
    labels=st.frozensets(texts, max_size=3),
    defer_until=maybe_moments,
    due=maybe_moments,
    close_reason=st.none() | one_of(CloseReason),
    summary=maybe_texts,
    closed_at=maybe_moments,
    blocked=st.booleans(),
    level=st.integers(min_value=0, max_value=2),
    metadata=json_objects,
)
document_versions = st.builds(DocumentVersion, number=counts, text=texts, by=texts, at=moments)


def derived(kind: Any) -> SearchStrategy[Any]:
    """Return a strategy for a value that any content of its fields' types makes: what calls answer with."""
    return st.builds(kind, **{name: _of(hint) for name, hint in get_type_hints(kind).items()})


def _of(hint: Any) -> SearchStrategy[Any]:
    if hint in VALUES:
        return VALUES[hint]
    if dataclasses.is_dataclass(hint):
        return derived(hint)
    simple: dict[Any, SearchStrategy[Any]] = {
        str: texts,
        int: counts,
        float: money,
        bool: st.booleans(),
        datetime: moments,
        Any: json_values,
        type(None): st.none(),
    }
    if hint in simple:
        return simple[hint]
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return st.sampled_from(inner)
    if kind in {Union, UnionType}:
        return st.one_of(*map(_of, inner))
    if kind is frozenset:
        return st.frozensets(_of(inner[0]), max_size=3)
    if kind is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple) if inner[-1] is ... else st.tuples(*map(_of, inner))
    assert kind is Mapping, hint
    return json_objects if inner[1] is Any else st.dictionaries(texts, _of(inner[1]), max_size=3)


VALUES: Final[dict[type, SearchStrategy[Any]]] = {
    **part_kinds,
    NewMessage: new_messages,
    Message: messages,
    Span: spans,
    Source: sources,
    Hints: hints,
    Thread: threads,
    Cursor: st.builds(Cursor, thread=ids, seq=counts),
    Observation: observations,
    Generation: generations,
    Lease: st.builds(Lease, name=ids, owner=ids, fence=counts, expires_at=moments),
    Usage: usages,
    UsageTotal: usage_totals,
    Calibration: st.builds(Calibration, model=ids, factor=money, samples=counts),
    Run: runs,
    Task: tasks,
    TaskLink: st.builds(TaskLink, source=ids, target=ids, kind=one_of(LinkKind)),
    DocumentVersion: document_versions,
    Document: st.builds(
        Document,
        resource=ids,
        thread=st.none() | ids,
        format=one_of(DocumentFormat),
        current=document_versions,
        schema=st.none() | json_objects,
    ),
}
"""A strategy for every value of the domain."""
VALUES.update(
    (kind, derived(kind))
    for kind in (
        *(Compacted, Compaction, Pruned, Extract, NewExtract, KeptPrompt, Proposal),
        *(Finding, Report, Forgotten, ExportReport, ImportReport, Skipped),
        *(RecallPage, Recalled, RecalledPiece, SearchAnswer, SearchResult),
        *(Claimed, Closed, Decayed, DraftSummary, Explained, LikelyDuplicate, LinkedMessage, NewTask),
        *(ReadyTask, ReadyTasks, TaskAbout, TaskChange, TaskCounts, TaskHit, TaskRef, TaskView),
    )
)
