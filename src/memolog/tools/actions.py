"""Define the actions of the three tools and their fields.

The schemas for models are generated from these classes, and the calls of models are validated with them.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from memolog.search.values import Detail, Source
from memolog.tasks.task import CloseReason, LinkKind, MessageLinkKind, TaskStatus, TaskType
from memolog.working_memory.document import SectionMode

_TRUE: Final = frozenset({"true", "yes", "y", "1", "on"})
_FALSE: Final = frozenset({"false", "no", "n", "0", "off", "none", "null", ""})
_PRIORITIES: Final = {
    **dict.fromkeys(("critical", "urgent", "highest", "blocker"), 0),
    "high": 1,
    **dict.fromkeys(("medium", "normal", "default"), 2),
    "low": 3,
    **dict.fromkeys(("lowest", "backlog", "someday"), 4),
}
_NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.0+)?")
_NAMED: Final = ("handle", "id", "task", "name", "title", "value")


def whole(value: Any) -> Any:
    """Return a whole number that is given as text or as a float. Other values are returned unchanged, for validation to check."""
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - Pydantic reports only a ValueError
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return int(float(value.strip()))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def priority(value: Any) -> Any:
    """Return a priority written as 1, "1", "P1" or "high"."""
    if isinstance(value, str):
        plain = value.strip().lower()
        if plain in _PRIORITIES:
            return _PRIORITIES[plain]
        return whole(plain.removeprefix("priority").strip(" :").removeprefix("p"))
    return whole(value)


def flag(value: Any) -> Any:
    """Return true or false written as a word or a number."""
    if isinstance(value, str):
        plain = value.strip().lower()
        return True if plain in _TRUE else False if plain in _FALSE else value
    return bool(value) if isinstance(value, int | float) and value in {0, 1} else value


def name(value: Any) -> Any:
    """Return a name that is given as text, as a number, in a list with one item, or in an object such as {"id": "T-12"}."""
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        return next((name(inner[key]) for key in _NAMED if inner.get(key)), inner)
    if isinstance(value, list | tuple) and len(cast("list[Any]", value)) == 1:
        return name(cast("list[Any]", value)[0])
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return cast("Any", value)


def names(value: Any) -> Any:
    """Return a list of names that is given as a list, as one name, or as one text with several names."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                return names(json.loads(text))
            except (ValueError, RecursionError):
                text = text.strip("[]")
        return [piece.strip(" \"'") for piece in re.split(r"[,;\n]", text) if piece.strip(" \"'")]
    if isinstance(value, list | tuple | set | frozenset):
        return [name(item) for item in cast("list[Any]", value)]
    return [name(value)]


def moment(value: Any) -> Any:
    """Return the moment of an ISO date or time. A time without a zone is in UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00").replace(" UTC", "+00:00"))
        except ValueError:
            raise ValueError("must be a date such as 2026-03-20 or 2026-03-20T17:00:00Z") from None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if not isinstance(value, datetime):
        raise ValueError("must be a date such as 2026-03-20 or 2026-03-20T17:00:00Z")  # noqa: TRY004 - Pydantic reports no other
    return value


def choice(known: tuple[str, ...], other: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return a function that reads one of the known words, in upper or lower case, or a synonym in `other`.

    Punctuation is ignored. Any other value is returned unchanged, and validation then fails. A misspelt word is not corrected,
    because a wrong guess could change data.
    """
    spelt = {plain(word): meant for word, meant in other.items()} | {plain(word): word for word in known}

    def read(value: Any) -> Any:
        return spelt.get(plain(value), value) if isinstance(value, str) else value

    return read


def plain(word: str) -> str:
    """Return a word in lower case, without spaces and punctuation, for comparison."""
    return re.sub(r"[\W_]+", "", word).lower()


_STATUS: Final = {
    **dict.fromkeys(("todo", "new", "pending", "ready", "not started"), "open"),
    **dict.fromkeys(("in progress", "doing", "wip", "started", "active", "claimed"), "in_progress"),
    **dict.fromkeys(("done", "complete", "completed", "finished", "resolved"), "closed"),
}
_TYPE: Final = {
    **dict.fromkeys(("defect", "issue", "error", "fix", "bugfix"), "bug"),
    **dict.fromkeys(("story", "enhancement", "feat", "improvement"), "feature"),
    **dict.fromkeys(("todo", "subtask"), "task"),
    **dict.fromkeys(("maintenance", "docs", "refactor", "cleanup"), "chore"),
}
_REASON: Final = {
    **dict.fromkeys(("done", "complete", "finished", "fixed", "resolved", "success"), "completed"),
    **dict.fromkeys(("won't fix", "wont do", "cancelled", "canceled", "rejected", "obsolete", "abandoned"), "wontfix"),
    **dict.fromkeys(("dup", "dupe", "duplicated"), "duplicate"),
}
_SOURCE: Final = {"messages": "raw", "message": "raw", "observations": "observation", "reflections": "reflection"}


def _one_of(words: Any, other: Mapping[str, str]) -> BeforeValidator:
    """Return the validator of a Literal type. `other` has synonyms for its values."""
    return BeforeValidator(choice(get_args(words), other))


Status: TypeAlias = Annotated[TaskStatus, _one_of(TaskStatus, _STATUS)]
Kind: TypeAlias = Annotated[TaskType, _one_of(TaskType, _TYPE)]
Reason: TypeAlias = Annotated[CloseReason, _one_of(CloseReason, _REASON)]
Relation: TypeAlias = Annotated[
    LinkKind,
    _one_of(
        LinkKind, {"blocked by": "blocks", "depends on": "blocks", "dependency": "blocks", "parent": "parent-child"}
    ),
]
_Op: TypeAlias = Literal["add", "remove"]
_Reach: TypeAlias = Literal["all", "thread"]
Scope: TypeAlias = Annotated[_Reach, _one_of(_Reach, {"resource": "all", "user": "all", "conversation": "thread"})]
Clearable: TypeAlias = Literal["description", "labels", "assignee", "due", "defer_until"]
Remembered: TypeAlias = Literal["fact", "note"]
_Speaker: TypeAlias = Literal["user", "assistant", "tool"]
Role: TypeAlias = Annotated[_Speaker, _one_of(_Speaker, {"human": "user", "ai": "assistant", "model": "assistant"})]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
Name: TypeAlias = Annotated[str, BeforeValidator(name), Field(min_length=1)]
Names: TypeAlias = Annotated[list[Name], BeforeValidator(names)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(flag)]
Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(moment)]
Priority: TypeAlias = Annotated[int, BeforeValidator(priority), Field(ge=0, le=4)]
_MOST: Final = 50


def _count(value: Any) -> Any:
    """Return a count, raised to 1 or lowered to the maximum if necessary."""
    number = whole(value)
    return min(max(number, 1), _MOST) if isinstance(number, int) and not isinstance(number, bool) else number


Count: TypeAlias = Annotated[int, BeforeValidator(_count), Field(ge=1, le=_MOST)]
_TASK: Final = "handle (T-12), id or title"


class Action(BaseModel):
    """Base of all actions. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)
    example: ClassVar[dict[str, Any]]
    """An example of a call, with the name of the action."""
    writes: ClassVar[bool] = False
    """Whether the action changes something."""


class _Writing(Action):
    writes = True


class _Paged(Action):
    limit: Count = Field(10, description="how many, 1-50")
    cursor: str | None = Field(None, description="from the last answer, for more")


# ---------------------------------------------------------------- task-query


class Ready(_Paged):
    """Return the tasks that can be claimed now."""

    example = {"action": "ready"}
    labels: Names = Field([], description="with all of these labels")
    type: Kind | None = None
    max_priority: Priority | None = Field(None, description="0 urgent - 4 someday")
    assignee: Name | None = None
    parent: Name | None = Field(None, description="a task's " + _TASK)


class Show(Action):
    """Return one task with its links."""

    example = {"action": "show", "task": "T-12"}
    task: Name = Field(description=_TASK + "; current: the one in hand")
    related: Flag = Field(False, description="with messages and observations about it")
    cursor: str | None = None


class ListTasks(_Paged):
    """Return the tasks that match filters."""

    example = {"action": "list", "status": "open", "labels": ["api"]}
    status: Status | None = None
    type: Kind | None = None
    labels: Names = []
    max_priority: Priority | None = None
    assignee: Name | None = None
    parent: Name | None = None
    blocked: Flag | None = Field(None, description="only blocked ones (true) or none of them (false)")


class SearchTasks(_Paged):
    """Search tasks by words."""

    example = {"action": "search", "query": "login schema"}
    query: Text = Field(description="words")
    status: Status | None = None
    related: Flag = False


# ---------------------------------------------------------------- task-mutate


class Create(_Writing):
    """Create a task."""

    example = {"action": "create", "title": "Add the login endpoint", "blocked_by": ["T-3"]}
    title: Annotated[str, Field(min_length=1, max_length=500)] = Field(description="what is to be done")
    description: str = ""
    priority: Priority = Field(2, description="0 urgent, 2 normal, 4 someday")
    type: Kind = "task"
    labels: Names = []
    assignee: Name | None = None
    due: Moment | None = Field(None, description="ISO date")
    defer_until: Moment | None = Field(None, description="not ready before this ISO date")
    parent: Name | None = None
    blocked_by: Names = Field([], description="tasks that must be closed first")
    discovered_from: Name | None = Field(None, description="the task that led to it")
    claim: Flag = Field(False, description="also claim it")


class Update(_Writing):
    """Change fields of a task. The status is changed by claim, release, close and reopen."""

    example = {"action": "update", "task": "T-12", "priority": 1, "labels": ["api"]}
    task: Name
    title: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    description: Text | None = Field(None, description="update replaces it")
    priority: Priority | None = None
    type: Kind | None = None
    labels: Names | None = Field(None, description="update replaces all")
    assignee: Name | None = None
    due: Moment | None = None
    defer_until: Moment | None = None
    clear: Annotated[list[Annotated[Clearable, _one_of(Clearable, {})]], BeforeValidator(names)] = Field(
        [], description="fields to empty"
    )


class Claim(_Writing):
    """Claim a task, so that no other session works on it."""

    example = {"action": "claim", "task": "T-12"}
    task: Name | None = Field(None, description=_TASK + "; claim without: the most pressing one")


class Release(_Writing):
    """Give a claimed task back, so that it is open again."""

    example = {"action": "release", "task": "T-12"}
    task: Name


class Reopen(_Writing):
    """Open a closed task again."""

    example = {"action": "reopen", "task": "T-12", "why": "the test fails again"}
    task: Name
    why: Text | None = None


class Close(_Writing):
    """Close a task."""

    example = {"action": "close", "task": "T-12", "reason": "completed", "summary": "what was done, and where"}
    task: Name
    reason: Reason = "completed"
    summary: Text = Field(description="what came of it: decisions, files, what is left")
    claim_next: Flag = Field(False, description="also claim the next ready task")


class Dep(_Writing):
    """Add or remove a link between two tasks, such as which one must be closed first."""

    example = {"action": "dep", "op": "add", "task": "T-12", "depends_on": "T-3"}
    op: Annotated[_Op, _one_of(_Op, {"create": "add", "delete": "remove", "drop": "remove"})] = "add"
    task: Name
    depends_on: Name = Field(description="the task that comes first (or is the parent, related, the origin)")
    kind: Relation = "blocks"


class Link(_Writing):
    """Link messages to a task."""

    example = {"action": "link", "task": "T-12", "messages": ["12-15"], "as": "reference"}
    task: Name
    messages: Annotated[Names, Field(min_length=1)] = Field(description="ids, numbers or spans (12-15)")
    thread: Name | None = None
    as_: Annotated[MessageLinkKind, _one_of(MessageLinkKind, {"result": "output", "source": "created-from"})] = Field(
        "reference", alias="as"
    )


# ---------------------------------------------------------------- memory-search


class Search(_Paged):
    """Search messages, observations and tasks by words."""

    example = {"action": "search", "query": "LoginSchema auth.ts"}
    query: Text = Field(description="words, names, paths; * ends a prefix")
    sources: Annotated[list[Annotated[Source, _one_of(Source, _SOURCE)]], BeforeValidator(names)] = Field(
        [], description="raw: messages"
    )
    thread: Name | None = Field(None, description="a thread's id, or: this")
    task: Name | None = None
    role: Role | None = None
    since: Moment | None = Field(None, description="ISO date")
    until: Moment | None = None


class Recall(Action):
    """Return the exact messages behind a reference, or the working memory."""

    example = {"action": "recall", "target": "g12"}
    target: Name = Field(
        description="group (g12), line of one (g12.3), message or observation id, span (12-30), or working-memory"
    )
    thread: Name | None = None
    detail: Annotated[Detail, _one_of(Detail, {"high": "full", "all": "full", "brief": "low", "short": "low"})] = "full"
    part: Annotated[int, Field(ge=0)] | None = Field(None, description="one part of a message, such as a file, from 0")
    cursor: str | None = None


class Remember(_Writing):
    """Save a fact or a note with its source."""

    example = {"action": "remember", "text": "Deploys run on Fridays", "source": "12"}
    text: Text = Field(
        description="a fact or a note; for a section Markdown, or JSON fields where the working memory is JSON"
    )
    kind: Annotated[Remembered, _one_of(Remembered, {"decision": "fact", "preference": "fact", "progress": "note"})] = (
        Field("fact", description="a fact holds until it is changed; a note may pass")
    )
    source: Name | None = Field(
        None, description="where it comes from: message id, number or span, file or URL; without: the last user message"
    )
    section: Name | None = Field(None, description="heading of the working memory; remember without: Facts or Notes")
    task: Name | None = Field(None, description="search only its messages; otherwise note it at this task")
    scope: Scope = Field("all", description="all conversations, or this thread")


class UpdateContext(_Writing):
    """Change a section of the working memory, or note progress at a task."""

    example = {"action": "update_context", "section": "Decisions", "text": "- Fastify instead of Express"}
    text: str = ""
    section: Name | None = None
    mode: Annotated[SectionMode, _one_of(SectionMode, {"add": "append", "set": "replace", "overwrite": "replace"})] = (
        "append"
    )
    task: Name | None = None
    scope: Scope = "all"


_TOOLS: Final[dict[str, tuple[type[Action], ...]]] = {
    "task-query": (Ready, Show, ListTasks, SearchTasks),
    "task-mutate": (Create, Update, Claim, Release, Close, Reopen, Dep, Link),
    "memory-search": (Search, Recall, Remember, UpdateContext),
}
ACTIONS: Final = {tool: {kind.example["action"]: kind for kind in kinds} for tool, kinds in _TOOLS.items()}
"""The actions of each tool by name."""
