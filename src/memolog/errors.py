"""The errors that Memolog raises, in one tree. Each says what happened, why, and what to do next.

An `except` for a class catches those below it:

    MemologError
    ├── ConfigError             settings that contradict each other or cannot be read
    ├── InputError              an argument is refused
    │   ├── EmptyId
    │   ├── UnknownRole
    │   ├── NotJson
    │   ├── MessageTooLarge
    │   ├── MessageConflict     the same id with other content
    │   ├── ThreadExists
    │   ├── ImportConflict      the import contradicts stored data
    │   ├── DocumentTooLarge
    │   ├── DocumentInvalid     refused by its schema, or the wrong kind of change
    │   ├── TaskCycle           tasks would wait for each other for ever
    │   └── TaskMoveRefused     the status of the task does not allow it
    ├── NotFound                it does not exist, or belongs to another resource
    │   ├── ThreadNotFound
    │   ├── MessageNotFound
    │   ├── BranchNotFound
    │   ├── DocumentNotFound    no working memory, no such version, no such section
    │   └── TaskNotFound
    ├── Conflict                another writer was first: read again, decide again
    │   ├── DocumentConflict
    │   ├── LeaseLost
    │   ├── TaskChanged         an edit of a version that is no longer current
    │   ├── TaskBlocked         claimed while another task blocks it
    │   └── TaskHeld            claimed by another session
    ├── ModelFailed             the model that observes gives no usable answer
    └── StoreError              the database cannot do it now
        ├── StoreUnavailable    wrong address, server gone, driver missing
        ├── StoreBusy           locked for too long
        ├── StoreFull
        ├── StoreReadOnly
        ├── StoreClosed
        ├── NotSaved            closed while something could not be saved
        ├── NotADatabase
        ├── StoreCorrupt        a constraint or the file itself is damaged
        └── SchemaTooNew
"""

from collections.abc import Mapping

# The most threads that one error names.
_NAMED = 10


class MemologError(Exception):
    """Base of all errors of Memolog. `retryable` says whether the same call may succeed later."""

    retryable: bool = False
    _outside: str = ""

    def __init__(self, what: str, *, why: str = "", then: str = "") -> None:
        self.what, self.why, self.then = what, why, then
        super().__init__(" ".join(part for part in (what, why, then) if part))

    @property
    def for_outside(self) -> str:
        """Return the text for a model or a client: the whole text, or a general one if that names internals.

        Addresses, users, schemas, paths and other tenants are for the log of the application only.
        """
        return self._outside or str(self)


class ConfigError(MemologError):
    """Settings that contradict each other, are out of range, or are unknown."""

    _outside = "The memory is not configured correctly. Go on without it; details are in the application's log."


class InputError(MemologError):
    """An argument cannot be used; nothing of the call was saved."""


class EmptyId(InputError):
    """An empty resource, thread or message id."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"The {kind} id is empty.",
            why="Every read and write needs it.",
            then=f"Pass a non-empty string as the {kind} id.",
        )


class UnknownRole(InputError):
    """An unknown role."""

    def __init__(self, role: object, known: tuple[str, ...]) -> None:
        super().__init__(
            f"`role` must be one of {', '.join(known)}, got {role!r}.",
            why="Providers accept no other role.",
            then="Map the role of your framework onto one of these (a 'developer' message is 'system').",
        )


class NotJson(InputError):
    """A value that JSON cannot hold exactly."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"{where} cannot be stored exactly: {problem}.",
            why="Parts are kept as JSON, byte for byte.",
            then="Use only dicts with string keys, lists, strings, numbers, booleans and None.",
        )


class MessageTooLarge(InputError):
    """A message above the configured size."""

    def __init__(self, message_id: str, size: int, limit: int) -> None:
        super().__init__(
            f"Message {message_id} has {size:,} bytes, more than the limit of {limit:,}.",
            why="One message of that size would slow every read of its thread.",
            then="Store the file elsewhere and keep its URL in a FilePart, or raise max_message_bytes.",
        )


class MessageConflict(InputError):
    """A message id that is already stored with other content, or whose message was forgotten."""

    def __init__(self, message_id: str, thread: str, difference: str | None) -> None:
        """Set what differs; None if the message was forgotten, so that nothing is left to compare."""
        self.is_forgotten = difference is None
        if difference is None:
            what = f"Message {message_id} of thread {thread} was forgotten."
            why = "What was forgotten does not come back, and its id is not used again."
        else:
            what = f"Message {message_id} is already stored in thread {thread} with other content: {difference}."
            why = "Stored messages never change; only further parts may be added under the same id."
        super().__init__(what, why=why, then="Save the message under a new id.")


class DocumentTooLarge(InputError):
    """A working memory above the configured size."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The working memory would have {size:,} characters, {size - limit:,} more than the limit of {limit:,}.",
            why="It is part of every request, so it must stay small.",
            then="Shorten it, or leave details to the log, or raise working_memory_characters.",
        )


class DocumentInvalid(InputError):
    """A working memory that its schema refuses, or a change that its format does not allow."""


class ThreadExists(InputError):
    """A thread id that this resource has used already."""

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
            then="Import into an empty database, or forget the stored data first. What came before this line was imported.",
        )


class TaskCycle(InputError):
    """A link that would make tasks wait for each other for ever; `path` names them, the first one again at the end."""

    def __init__(self, source: str, target: str, kind: str, path: tuple[str, ...]) -> None:
        self.path = path
        super().__init__(
            f"{source} cannot be linked to {target} as {kind}: that closes the circle {' → '.join(path)}.",
            why="Each of them would wait for the others, and none could ever be ready.",
            then="Turn the link round, or unlink one of the others first.",
        )


class TaskMoveRefused(InputError):
    """A task whose status does not allow the change."""

    def __init__(self, handle: str, status: str, move: str, then: str) -> None:
        super().__init__(f"{handle} cannot be {move}: it is {status}.", then=then)


class NotFound(MemologError):
    """It does not exist, or belongs to another resource; the error is the same."""


class ThreadNotFound(NotFound):
    """No such thread for this resource."""

    def __init__(self, thread: str) -> None:
        super().__init__(
            f"There is no thread {thread} for this resource.",
            then="Check the id and the resource; a thread begins with its first turn.",
        )


class MessageNotFound(NotFound):
    """No such message for this resource."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"There is no message {message_id} for this resource.",
            then="Check the id and the resource.",
        )


class BranchNotFound(NotFound):
    """No such branch of this thread."""

    def __init__(self, branch: str, thread: str) -> None:
        super().__init__(
            f"There is no branch {branch} of the thread {thread}.",
            then="Take one from branches(). A branch that was returned to is no longer listed.",
        )


class DocumentNotFound(NotFound):
    """No such working memory, or no such version or section of it."""


class TaskNotFound(NotFound):
    """No such task for this resource."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"There is no task {task} for this resource.",
            then="Name it by its id or its handle (such as T-12); list or search the tasks to find it.",
        )


class Conflict(MemologError):
    """Another writer committed first; read the state again and decide again."""

    retryable = True


class DocumentConflict(Conflict):
    """Another writer changed the same part of the working memory; `parts` are what both changed, if that is known."""

    def __init__(self, read: int, present: int, by: str, parts: tuple[str, ...]) -> None:
        self.parts = parts
        where = f" Both changed: {', '.join(parts)}." if parts else ""
        super().__init__(
            f"The working memory was changed by {by}: it is at version {present}, this change was made from {read}.",
            why=f"Writing it would undo what they wrote.{where}",
            then="Read it again and make the change on what is there now.",
        )


class LeaseLost(Conflict):
    """The lease belongs to another owner; the write of this owner is refused."""

    retryable = False

    def __init__(self, name: str, owner: str, fence: int) -> None:
        super().__init__(
            f"{owner} no longer holds {name} (fence {fence}).",
            why="The lease ended and another owner may have taken over.",
            then="Drop the result: the present holder of the lease repeats the work.",
        )


class TaskChanged(Conflict):
    """The task was changed after it was read."""

    def __init__(self, handle: str, expected: int, found: int) -> None:
        super().__init__(
            f"{handle} has version {found}, not {expected}.",
            why="It was changed after it was read.",
            then="Read it again and decide again.",
        )


class TaskBlocked(Conflict):
    """A task that cannot be claimed yet; `blockers` are the handles of the tasks to close first."""

    def __init__(self, handle: str, blockers: tuple[str, ...], named: str) -> None:
        self.blockers = blockers
        super().__init__(
            f"{handle} is blocked by {named}.",
            why="A task is claimed when nothing that must come before it is open.",
            then=f"Work on {blockers[0] if blockers else 'another task'} first, or ask what is ready.",
        )


class TaskHeld(Conflict):
    """A task that another session holds, or that this one no longer holds."""

    def __init__(self, handle: str, holder: str | None, until: str) -> None:
        self.holder = holder
        who = f"held by {holder} until {until}" if holder else "not claimed"
        super().__init__(
            f"{handle} is {who}.",
            why="A task is worked on by one session at a time.",
            then="Claim another one, or try again when the claim has ended." if holder else "Claim it first.",
        )


class ModelFailed(MemologError):
    """The model that observes fails, and the tail has grown far beyond its limit; raised if `strict` is set."""

    _outside = "The model that observes this conversation fails. Nothing is lost; try again later."

    retryable = True

    def __init__(self, problem: str) -> None:
        super().__init__(
            "The conversation is far longer than it should be, and the model that observes it fails.",
            why=f"Its last failure: {problem}.",
            then="Check the model, then repeat the call: the messages are saved, and saved once.",
        )


class StoreError(MemologError):
    """The database failed; nothing of the call was saved."""

    _outside = "The memory's database cannot do this. Go on without it; details are in the application's log."


class StoreUnavailable(StoreError):
    """The database cannot be reached or opened."""

    _outside = "The memory's database cannot be reached now. Go on without it, or try again later."

    retryable = True


class StoreBusy(StoreError):
    """Another process locked the database for longer than the busy timeout."""

    _outside = "The memory's database is busy now. Try again in a moment."

    retryable = True


class StoreFull(StoreError):
    """No space is left for the database."""

    _outside = "The memory's database has no space left. Go on without it; details are in the application's log."

    retryable = True


class StoreReadOnly(StoreError):
    """The database cannot be written to."""

    _outside = "This memory is read-only here: nothing can be changed. Looking things up works."


class StoreClosed(StoreError):
    """The store was closed."""

    _outside = "The memory is closed. Go on without it."

    def __init__(self) -> None:
        super().__init__("The store is closed.", then="Open it again before you use it.")


class NotSaved(StoreError):
    """The memory was closed with unsaved messages, which are lost; `counts` has their number for each thread."""

    def __init__(self, counts: Mapping[tuple[str, str], int], problem: str) -> None:
        self.counts = dict(counts)
        names = [f"{count} of thread {thread} ({resource})" for (resource, thread), count in self.counts.items()]
        more = f" and {len(names) - _NAMED} more threads" if len(names) > _NAMED else ""
        total = sum(self.counts.values())
        super().__init__(
            f"{total} message{'' if total == 1 else 's'} could not be saved, and the memory is closed: "
            f"{', '.join(names[:_NAMED])}{more}.",
            why=f"The database did not take them: {problem.rstrip('.')}.",
            then="Save them again once the database is there.",
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
            then="Upgrade Memolog, or open the snapshot that was taken before the migration.",
        )
