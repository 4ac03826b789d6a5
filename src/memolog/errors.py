"""The errors that Memolog raises. The text of an error says what happened, why, and what to do next.

An `except` for a class also catches the classes below it:

    MemologError
    ├── ConfigError             settings are invalid or contradict each other
    ├── InputError              an argument is invalid
    │   ├── EmptyId
    │   ├── UnknownRole
    │   ├── NotJson
    │   ├── MessageTooLarge
    │   ├── MessageConflict     the id is already stored with other content
    │   ├── ThreadExists
    │   ├── ImportConflict      the import contradicts stored data
    │   ├── DocumentTooLarge
    │   ├── DocumentInvalid     the schema or the format does not allow the change
    │   ├── TaskCycle           tasks would block each other
    │   └── TaskMoveRefused     the status of the task does not allow the change
    ├── NotFound                the value does not exist or belongs to another resource
    │   ├── ThreadNotFound
    │   ├── MessageNotFound
    │   ├── BranchNotFound
    │   ├── DocumentNotFound    the working memory, its version or its section does not exist
    │   └── TaskNotFound
    ├── Conflict                the present state does not allow the change, so read again
    │   ├── TurnRunning         messages of a running turn would be withdrawn
    │   ├── DocumentConflict
    │   ├── LeaseLost
    │   ├── TaskChanged         the task was changed after it was read
    │   ├── TaskBlocked         another task must be closed first
    │   └── TaskHeld            another session has claimed the task
    ├── ModelFailed             the model of the observer fails
    └── StoreError              the database failed
        ├── StoreUnavailable    wrong address, server not running, folder missing
        ├── StoreBusy           the database did not answer in time
        ├── StoreFull
        ├── StoreReadOnly
        ├── StoreClosed
        ├── NotSaved            the memory was closed with unsaved messages
        ├── NotADatabase
        ├── StoreCorrupt        a constraint refused the write, or the file is damaged
        └── SchemaTooNew
"""

from collections.abc import Mapping, Sequence

# The text of an error lists at most this many threads.
_NAMED = 10


class MemologError(Exception):
    """Base of all errors of Memolog. If `retryable` is True, the same call may succeed later."""

    retryable: bool = False
    _outside: str = ""

    def __init__(self, what: str, *, why: str = "", then: str = "") -> None:
        self.what, self.why, self.then = what, why, then
        super().__init__(" ".join(part for part in (what, why, then) if part))

    @property
    def for_outside(self) -> str:
        """Return the text for a model or a client. Classes whose text may contain internals return a general text instead.

        Addresses, users, schemas, paths and other tenants are written to the log of the application only.
        """
        return self._outside or str(self)


class ConfigError(MemologError):
    """Settings are unknown, out of range, or contradict each other."""

    _outside = "The memory is not configured correctly. Go on without it; details are in the application's log."


class InputError(MemologError):
    """An argument is invalid. The call saved nothing, except for an import, which may have saved the lines before the error."""


class EmptyId(InputError):
    """An id or a name is empty, for example the id of a resource, thread, message or task, or a label."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"The {kind} id is empty.",
            why="Every read and write needs an id.",
            then=f"Pass a non-empty string as the {kind} id.",
        )


class UnknownRole(InputError):
    """The role of a message is unknown."""

    def __init__(self, role: object, known: tuple[str, ...]) -> None:
        super().__init__(
            f"`role` must be one of {', '.join(known)}, got {role!r}.",
            why="Memolog stores only these roles.",
            then="Map the role of your framework onto one of these (a 'developer' message is 'system').",
        )


class NotJson(InputError):
    """JSON cannot represent a value exactly."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"{where} cannot be stored exactly: {problem}.",
            why="Values are stored as JSON and must not change.",
            then="Use only dicts with string keys, lists, strings, numbers, booleans and None.",
        )


class MessageTooLarge(InputError):
    """A message is larger than `max_message_bytes`."""

    def __init__(self, message_id: str, size: int, limit: int) -> None:
        super().__init__(
            f"Message {message_id} has {size:,} bytes, more than the limit of {limit:,}.",
            why="One message of that size would slow every read of its thread.",
            then="Store the file elsewhere and save its URL in a FilePart, or raise max_message_bytes.",
        )


class MessageConflict(InputError):
    """The id of a message is already stored with other content, or belongs to a forgotten message."""

    def __init__(self, message_id: str, thread: str, difference: str | None) -> None:
        """`difference` says how the new content differs from the stored content. None means that the message was forgotten."""
        self.is_forgotten = difference is None
        if difference is None:
            what = f"Message {message_id} of thread {thread} was forgotten."
            why = "A forgotten message cannot be saved again, and its id is not used again."
        else:
            what = f"Message {message_id} is already stored in thread {thread} with other content: {difference}."
            why = "Stored parts never change. A message with the same id may only add parts after them."
        super().__init__(what, why=why, then="Save the message under a new id.")


class DocumentTooLarge(InputError):
    """A working memory is longer than `working_memory_characters`."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The working memory would have {size:,} characters, {size - limit:,} more than the limit of {limit:,}.",
            why="It is part of every request, so it must stay small.",
            then="Shorten it, rely on the log for details, or raise working_memory_characters.",
        )


class DocumentInvalid(InputError):
    """The schema or the format of a working memory does not allow the change."""


class ThreadExists(InputError):
    """The resource already has a thread with this id."""

    def __init__(self, thread: str) -> None:
        super().__init__(
            f"Thread {thread} exists already.",
            then="Choose another id, or use the existing thread.",
        )


class ImportConflict(InputError):
    """The import contradicts stored data."""

    def __init__(self, name: str, difference: str) -> None:
        super().__init__(
            f"The import contradicts stored data: {name}.",
            why=f"The difference: {difference}.",
            then="Import into an empty database, or forget the stored data first. The lines before this row were imported.",
        )


class TaskCycle(InputError):
    """A link would make tasks block each other. `path` has their handles, with the first one again at the end."""

    def __init__(self, source: str, target: str, kind: str, path: tuple[str, ...]) -> None:
        self.path = path
        super().__init__(
            f"{source} cannot be linked to {target} as {kind}, because this closes the circle {' → '.join(path)}.",
            why="Each task would wait for the others, and none could ever be ready.",
            then="Reverse the link, or remove another link of the circle first.",
        )


class TaskMoveRefused(InputError):
    """The status of a task does not allow the change."""

    def __init__(self, handle: str, status: str, move: str, then: str) -> None:
        super().__init__(f"{handle} cannot be {move}: it is {status}.", then=then)


class NotFound(MemologError):
    """A value does not exist, or belongs to another resource. The error does not say which."""


class ThreadNotFound(NotFound):
    """The resource has no thread with this id. `near` are ids of its threads that are similar."""

    def __init__(self, thread: str, near: Sequence[str] = ()) -> None:
        meant = " or ".join(filter(None, (", ".join(near[:-1]), *near[-1:])))
        advice = f"Did you mean {meant}?" if meant else "Check the id and the resource."
        super().__init__(
            f"There is no thread {thread} for this resource.", then=f"{advice} The first turn creates a thread."
        )


class MessageNotFound(NotFound):
    """The resource has no message with this id."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"There is no message {message_id} for this resource.",
            then="Check the id and the resource.",
        )


class BranchNotFound(NotFound):
    """The thread has no branch with this id."""

    def __init__(self, branch: str, thread: str) -> None:
        super().__init__(
            f"There is no branch {branch} of the thread {thread}.",
            then="Pass an id from branches(). A restored branch is no longer listed.",
        )


class DocumentNotFound(NotFound):
    """The working memory, or its version or section, does not exist."""


class TaskNotFound(NotFound):
    """The resource has no task with this id or handle."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"There is no task {task} for this resource.",
            then="Pass an id or a handle (such as T-12). List or search the tasks to find it.",
        )


class Conflict(MemologError):
    """The present state does not allow the change, mostly because another writer was first.

    If `retryable` is True, read again, and repeat the change if it still applies.
    """

    retryable = True


class TurnRunning(Conflict):
    """Messages of a running turn would be withdrawn. `turn` has the id of the turn."""

    def __init__(self, turn: str, thread: str, kept_to: int) -> None:
        self.turn = turn
        super().__init__(
            f"The turn {turn} of thread {thread} is running and has messages after message {kept_to}.",
            why="Its answer would be saved without its question.",
            then="Wait until the turn has ended, or end it: leave its block, cancel its task, or call `turn.discard()`.",
        )


class DocumentConflict(Conflict):
    """Another writer changed the same parts of the working memory. `parts` has these parts, or is empty if they are unknown."""

    def __init__(self, read: int, present: int, by: str, parts: tuple[str, ...]) -> None:
        self.parts = parts
        where = f" Both changed: {', '.join(parts)}." if parts else ""
        super().__init__(
            f"The working memory was changed by {by}. It has version {present}, but this change is based on version {read}.",
            why=f"Writing it would undo the other change.{where}",
            then="Read it again, and change the current version.",
        )


class LeaseLost(Conflict):
    """An owner has lost its lease, so its write is refused."""

    retryable = False

    def __init__(self, name: str, owner: str, fence: int) -> None:
        super().__init__(
            f"{owner} no longer holds the lease {name} (fence {fence}).",
            why="The lease ended and another owner may have taken over.",
            then="Drop the result. The new owner of the lease repeats the work.",
        )


class TaskChanged(Conflict):
    """The task was changed after it was read."""

    def __init__(self, handle: str, expected: int, found: int) -> None:
        super().__init__(
            f"{handle} has version {found}, expected {expected}.",
            why="It was changed after it was read.",
            then="Read it again, and repeat the change if it still applies.",
        )


class TaskBlocked(Conflict):
    """A task cannot be claimed yet. `blockers` has the handles of the tasks that must be closed first."""

    def __init__(self, handle: str, blockers: tuple[str, ...], named: str) -> None:
        self.blockers = blockers
        super().__init__(
            f"{handle} is blocked by {named}.",
            why="A task can be claimed only if all tasks that block it are closed.",
            then=f"Work on {blockers[0] if blockers else 'another task'} first, or list the ready tasks.",
        )


class TaskHeld(Conflict):
    """Another session has claimed the task, or this session has not claimed it."""

    def __init__(self, handle: str, holder: str | None, until: str) -> None:
        self.holder = holder
        who = f"held by {holder} until {until}" if holder else "not claimed"
        super().__init__(
            f"{handle} is {who}.",
            why="Only one session at a time works on a task.",
            then="Claim another task, or try again when the claim has ended." if holder else "Claim it first.",
        )


class ModelFailed(MemologError):
    """The model of the observer fails, and the tail is far above its limit. Raised only if `strict` is set."""

    _outside = "The model of the observer fails. Nothing is lost; try again later."

    retryable = True

    def __init__(self, problem: str) -> None:
        super().__init__(
            "The conversation is far longer than it should be, because the model of the observer fails.",
            why=f"Its last failure: {problem}.",
            then="Check the model, then repeat the call. The messages are saved already, and are not saved twice.",
        )


class StoreError(MemologError):
    """The database failed. The call saved nothing, unless the error says that the connection was lost during a commit."""

    _outside = "The memory's database cannot do this. Go on without it; details are in the application's log."


class StoreUnavailable(StoreError):
    """The database cannot be reached or opened."""

    _outside = "The memory's database cannot be reached now. Go on without it, or try again later."

    retryable = True


class StoreBusy(StoreError):
    """The database did not answer in time, for example because another process has locked it."""

    _outside = "The memory's database is busy now. Try again in a moment."

    retryable = True


class StoreFull(StoreError):
    """No space is left for the database."""

    _outside = "The memory's database has no space left. Go on without it; details are in the application's log."

    retryable = True


class StoreReadOnly(StoreError):
    """The database cannot be written to."""

    _outside = "This memory is read-only. It can be searched, but not changed."


class StoreClosed(StoreError):
    """The store was closed."""

    _outside = "The memory is closed. Go on without it."

    def __init__(self) -> None:
        super().__init__("The store is closed.", then="Open it again before you use it.")


class NotSaved(StoreError):
    """The memory was closed with unsaved messages, which are lost. `counts` has their number by resource and thread."""

    def __init__(self, counts: Mapping[tuple[str, str], int], problem: str) -> None:
        self.counts = dict(counts)
        names = [f"{count} of thread {thread} ({resource})" for (resource, thread), count in self.counts.items()]
        more = f" and {len(names) - _NAMED} more threads" if len(names) > _NAMED else ""
        total = sum(self.counts.values())
        super().__init__(
            f"{total} message{'' if total == 1 else 's'} could not be saved, and the memory is closed: "
            f"{', '.join(names[:_NAMED])}{more}.",
            why=f"The reason: {problem.rstrip('.')}.",
            then="Save them again when the database is available.",
        )


class NotADatabase(StoreError):
    """The file is not a database of Memolog."""


class StoreCorrupt(StoreError):
    """A constraint refused the write, or the file is damaged."""


class SchemaTooNew(StoreError):
    """The database was written by a newer Memolog."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"The database has schema version {found}, this Memolog supports up to {known}.",
            why="A newer release has migrated it, and writing with older code could lose data.",
            then="Upgrade Memolog, or open the copy of the database from before the migration.",
        )
