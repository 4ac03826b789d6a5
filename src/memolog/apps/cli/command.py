"""Register coroutines as commands: add the common options, open the database, print the answer, and set the exit code.

Defaults: the settings file in the current folder, the only resource or that of the project, the thread with the newest activity.
If there is no unique default, the command fails and lists the choices. The memory is imported only when a verb runs, so that
`--help` is fast.
"""

import getpass
import inspect
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import typer

from memolog.apps.cli import output
from memolog.core.clock import SystemClock
from memolog.errors import ConfigError, Conflict, InputError, MemologError, NotFound, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.core.config import Config
    from memolog.events import Event
    from memolog.memory import Memory, Resource, Thread

_SETTINGS_FILE = "memolog.toml"
_DATABASE = "memolog.db"
# Maximum number of resources that an error lists.
_MOST_LISTED = 12
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Seconds after which the time that is left is estimated.
_FIRST_ESTIMATE: Final = 1.0
_AGE: Final = re.compile(r"(?:in )?(\d{1,6}) ?(s|m|h|d|w|seconds?|minutes?|hours?|days?|weeks?)(?: ago)?")
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1, "last week": -7, "next week": 7}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


_CORRECT_SETTINGS: Final = (
    "Correct it in the file or the variable that is named, or remove it there to use the default."
)


def _settings_file(named: str | None) -> str | None:
    return named or (_SETTINGS_FILE if Path(_SETTINGS_FILE).is_file() else None)


def _config_of(file: str | None) -> "Config":
    """Return the settings of the file and of the environment. A refusal says where to correct them."""
    from memolog.core.config import Config

    try:
        return Config.load(toml=file, environment=os.environ)
    except ConfigError as error:
        raise ConfigError(error.what, why=error.why, then=error.then or _CORRECT_SETTINGS) from None


def chosen_address(named: str | None, *, installed: bool = True) -> str:
    """Return the given database, `memolog.db` in the current folder, or the database of the hooks that `install` has installed.

    With `installed=False`, the database of the hooks is not used.
    """
    if named is not None or not installed or Path(_DATABASE).exists():
        return named if named is not None else _DATABASE
    from memolog.apps.hooks.hosts import installed_database

    return installed_database(Path.home(), Path.cwd(), os.environ) or _DATABASE


def refuse_missing(address: str) -> None:
    """Raise if the database is a file that does not exist or is empty. Only `init`, `import`, `restore` and `demo` create one."""
    if is_missing(address):
        from memolog.db.postgres_address import safe_url

        path = safe_url(_path_in(address))
        raise StoreUnavailable(
            f"There is no database {path}.",
            why="The file is empty." if Path(_path_in(address)).exists() else "",
            then=f"Pass another with --db or MEMOLOG_DB, create it with `memolog init --db {path}`, or try `memolog demo`.",
        )


def is_missing(address: str) -> bool:
    """Return whether the database is a file that does not exist or has 0 bytes."""
    if "://" in address and not address.startswith("sqlite:"):
        return False
    path = _path_in(address)
    if path == ":memory:" or not path.strip():
        return False
    file = Path(path)
    return not file.exists() or (file.is_file() and not file.stat().st_size)


def _is_writable(address: str) -> bool:
    """Return whether this user may write to the file of a database and to its folder, where SQLite keeps the journal."""
    path = Path(_path_in(address)).absolute()
    if not path.is_file():
        # A database in RAM or of PostgreSQL, or an address that is refused later.
        return True
    effective = os.access in os.supports_effective_ids
    return all(os.access(one, os.W_OK, effective_ids=effective) for one in (path, path.parent))


def _path_in(address: str) -> str:
    return address.removeprefix("sqlite:///").removeprefix("sqlite://")


async def chosen_resource(memory: "Memory", named: str | None) -> str:
    """Return the given resource, the only one in the database, or the one of the project in the current folder."""
    if named is not None:
        return named
    known = await memory.resources()
    if len(known) == 1:
        return known[0]
    if known:
        from memolog.apps.hooks.entry import resource_of

        if (project := resource_of(str(Path.cwd()))) in known:
            return project
    if not known:
        raise NotFound(
            "The database is empty.",
            then="Save a conversation with the library, or `memolog import`.",
        )
    names = ", ".join(known[:_MOST_LISTED]) + (", …" if len(known) > _MOST_LISTED else "")
    raise InputError(
        "The database holds several resources.",
        why=f"They are {names}.",
        then="Choose one with --resource or MEMOLOG_RESOURCE.",
    )


async def chosen_thread(memory: "Memory", resource: str, named: str | None) -> str:
    """Return the given thread, or the one with the newest activity."""
    if named is not None:
        return (await memory.thread(named, resource=resource).info()).id
    newest = list((await memory.resource(resource).threads(limit=2)).items)
    if not newest:
        await refuse_unknown(memory, resource)
        raise NotFound(f"{resource} has no thread.", then="Save a conversation first, or choose another --resource.")
    if len(newest) > 1 and newest[0].updated_at == newest[1].updated_at:
        raise InputError(
            "No thread was given, and there is no newest one.",
            why=f"{newest[0].id} and {newest[1].id} were active at the same moment.",
            then="Choose one with --thread or MEMOLOG_THREAD.",
        )
    return newest[0].id


async def refuse_unknown(memory: "Memory", resource: str, thread: str | None = None) -> None:
    """Raise NotFound for an unknown resource or thread. Without this check, a misspelt name would look like an empty memory."""
    if resource not in await memory.resources():
        raise NotFound(
            f"{resource} has no memory in this database.",
            then="Check --resource; `memolog threads` lists them.",
        )
    if thread is not None:
        await memory.thread(thread, resource=resource).info()


def moment_in(text: str, now: datetime, *, ahead: bool = False, end: bool = False) -> datetime:
    """Parse a moment, in the time zone of this machine unless the text has a zone.

    It is a date, a time, a day in words (`yesterday`, `monday`), or an age (`90m`, `3 hours ago`; with `ahead`, after now). A day
    means its beginning, or with `end` its end, but at most `now`.
    """
    words, here = " ".join(text.lower().split()), output.local(now)
    try:
        if words == "now":
            return here
        if found := _AGE.fullmatch(words):
            length = timedelta(**{_UNITS[found[2][0]]: int(found[1])})
            return here + length if ahead else here - length
        if (days := _days_from(words, here.weekday(), ahead=ahead)) is not None:
            day = here.date() + timedelta(days=days)
        elif re.fullmatch(r"\d{4}-\d{2}-\d{2}", words):
            day = datetime.fromisoformat(words).date()
        else:
            moment = datetime.fromisoformat(text.strip())
            return moment if moment.tzinfo is not None else output.local(moment)
        # Midnight in the time zone of this machine. On that day the zone may have another offset from UTC than now.
        start = datetime.combine(day, time()).astimezone()
        after = datetime.combine(day + timedelta(days=1), time()).astimezone()
    except (ValueError, OverflowError):
        raise InputError(
            f"{text!r} is not a date, a time or an age.",
            then="Write a date (2026-03-14), a time (2026-03-14T09:30, here unless it has a zone), a day (yesterday, monday), or "
            + ("a time from now (90m, 3h, 2d)." if ahead else "an age (90m, 3h, 2d)."),
        ) from None
    return min(here, after - timedelta(microseconds=1)) if end else start


def _days_from(words: str, weekday: int, *, ahead: bool) -> int | None:
    """Return how many days a day in words is from today. A weekday is the last one before today, or with `ahead` the next one."""
    if words in _DAYS:
        return _DAYS[words]
    name = words.removeprefix("next " if ahead else "last ")
    if name not in _WEEKDAYS:
        return None
    wanted = _WEEKDAYS.index(name)
    return (wanted - weekday - 1) % 7 + 1 if ahead else -((weekday - wanted - 1) % 7 + 1)


def read_text(file: Path | str) -> str:
    """Return the text of a file. Raises InputError if the file cannot be read or is not UTF-8."""
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The file {file} cannot be read: {error}.", then="Pass a UTF-8 text file.") from None


def confirm(words: str, *, yes: bool) -> None:
    """Ask for a confirmation on the terminal, unless `yes`. Raises InputError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(
            "This cannot be undone and needs a confirmation.",
            why="Standard input is not a terminal.",
            then="Add --yes.",
        )
    output.console(to_stderr=True).print(output.styled(words), soft_wrap=True)
    ask("Go on?")


def ask(question: str) -> None:
    """Ask a question on the terminal, on stderr. Raises typer.Abort unless the answer is yes."""
    if not is_agreed(question):
        raise typer.Abort


def is_agreed(question: str, *, default: bool = False) -> bool:
    """Ask a question on the terminal, on stderr, and return the answer. One Ctrl-C raises KeyboardInterrupt.

    The handler of asyncio only cancels the task, which cannot end while it waits for a line of input.
    """
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        return typer.confirm(question, default=default, err=True)
    except typer.Abort:
        # The cursor is still behind the question.
        typer.echo(err=True)
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def acting_user() -> str:
    """Return the session name of this user. It never changes, so one command can close a task that another command claimed."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"


EXIT_CODES: Final[dict[int, str]] = {
    0: "done",
    1: "nothing was found, or a check failed",
    2: "wrong usage, or invalid input",
    3: "the database, the settings or the model failed",
    4: "a conflict, or the database is busy; the same command may succeed later",
    130: "interrupted",
}
Writes: TypeAlias = bool | Literal["if allowed"]
Needs: TypeAlias = Literal["nothing", "address", "database", "resource", "thread"]

InResource = Annotated[str | None, typer.Option("--resource", "-r", help="Only this resource. Default: all.")]
InThread = Annotated[str | None, typer.Option("--thread", "-t", help="Only this thread. Default: all threads.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Maximum number of entries.", min=1)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Cursor = Annotated[str | None, typer.Option(help="Cursor that the previous page ended with.")]

Verb: TypeAlias = "Callable[..., Awaitable[Answer]]"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of a verb."""

    data: object
    """Value that `--json` prints."""
    show: "Callable[[], RenderableType] | str" = ""
    """Output for people: a text, or a function that renders the output."""
    code: int = 0
    """Exit code."""
    is_printed: bool = False
    """True if the verb has printed the output itself."""


def listing(
    data: object,
    found: "Sequence[T]",
    heads: Sequence[str],
    row: "Callable[[T], Sequence[Text | str]]",
    empty: str,
    *,
    title: str | None = None,
    caption: str | None = None,
    code: int = 0,
) -> Answer:
    """Return an answer with a table that has one row for each item of `found`. `title` names the subject of the table.

    Without items, the answer is the text `empty` and exit code 1.
    """

    def show() -> "RenderableType":
        made = output.table(heads, map(row, found), title=title, caption=caption)
        return made if found else output.styled(empty, "dim")

    return Answer(data=data, show=show, code=code if found else 1)


@dataclass(slots=True, kw_only=True)
class Work:
    """Work that may take longer than two seconds: its progress, and what to print if the user interrupts it."""

    words: str = ""
    then: str = ""
    """What is kept after an interruption, and how to continue."""
    what: str = ""
    done: int = 0
    total: int | None = None
    now: Callable[[], datetime] = SystemClock().now
    started: datetime | None = None

    def report(self, what: str, done: int, total: int | None = None) -> None:
        """Set how far the work is. A new kind of step begins a new estimate."""
        if what != self.what:
            self.started = self.now()
        self.what, self.done, self.total = what, done, total

    @property
    def progress(self) -> str:
        """Return how far the work is, such as `120 of 400 messages`."""
        if self.total:
            return f"{min(self.done, self.total):,} of {self.total:,} {self.what}"
        return f"{self.done:,} {self.what}" if self.done else self.what

    @property
    def remaining(self) -> str:
        """Return an estimate of the time that is left, or an empty text if there is none yet."""
        passed = (self.now() - self.started).total_seconds() if self.started else 0.0
        if not self.total or not self.done or passed < _FIRST_ESTIMATE:
            return ""
        from memolog.text.dates import duration

        return f"about {duration(max(1.0, passed * max(0, self.total - self.done) / self.done))} left"

    def __rich__(self) -> "Text":
        details = ", ".join(filter(None, (self.progress, self.remaining)))
        return output.styled(f"{self.words}: {details}" if details else f"{self.words} …")


@dataclass(slots=True, kw_only=True)
class Call:
    """The common options of one command, and the open memory."""

    address: str
    config: "Config"
    settings_file: str | None = None
    as_json: bool
    work: Work = field(default_factory=Work)
    opened: "Memory | None" = None
    resource: str = ""
    thread: str = ""

    @property
    def memory(self) -> "Memory":
        """Return the open memory. Only a verb that `needs` a database may use it."""
        assert self.opened is not None  # noqa: S101
        return self.opened

    @property
    def of_resource(self) -> "Resource":
        """Return the chosen resource."""
        return self.memory.resource(self.resource)

    @property
    def of_thread(self) -> "Thread":
        """Return the chosen thread."""
        return self.memory.thread(self.thread, resource=self.resource)

    @property
    def shown_address(self) -> str:
        """Return the address without a password."""
        from memolog.db.postgres_address import safe_url

        return safe_url(self.address)

    @contextmanager
    def progress(self, words: str, then: str) -> Generator[Work]:
        """Show progress and an estimate on a terminal while the block runs.

        `then` says what is kept after Ctrl-C and how to continue.
        """
        from memolog.core.progress import listening

        work = self.work
        work.words, work.then = words, then
        err = output.console(to_stderr=True)
        with listening(work.report):
            if self.as_json or not err.is_terminal:
                yield work
            else:
                with err.status(work):
                    yield work
        # This line is not reached after an exception such as Ctrl-C. So `_show_interruption` can still print the words.
        work.words = ""

    def count_runs(self, messages: int) -> None:
        """Report progress when a run of the observer ends. `messages` is the number of messages that will be observed."""
        from memolog.events import RunEnded, RunStarted

        work, spans = self.work, dict[str, int]()

        def hear(event: "Event") -> None:
            if isinstance(event, RunStarted) and event.first_seq is not None and event.last_seq is not None:
                spans[event.run] = event.last_seq - event.first_seq + 1
            elif isinstance(event, RunEnded) and event.run in spans:
                work.report(work.what, work.done + spans.pop(event.run), messages)

        work.report("messages observed", 0, messages)
        self.memory.subscribe(hear)


# ---------------------------------------------------------------- from a coroutine to a command


def verb(
    app: typer.Typer,
    *,
    example: str,
    needs: Needs = "thread",
    writes: Writes = False,
    makes: bool = False,
    installed: bool = True,
    settings: Mapping[str, object] | None = None,
    name: str | None = None,
    lines: bool = False,
) -> Callable[[Verb], Verb]:
    """Return a decorator that registers a function as a command with the common options.

    `needs` selects whether a database, a resource or a thread is opened first. With "address", the function opens the
    database itself. `writes` means that the function changes the database, and `makes` that it may create the database. With
    `writes="if allowed"`, a database that this user may not write to is opened read-only, unless --repair is given.
    `installed` means that the default may be the database of installed hooks. `settings` override the configuration for this
    command. `example` has one example on each line. `lines` means that --json prints a document on each line.
    """

    def register(work: Verb) -> Verb:
        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        options = [
            *(item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own),
            *_shared_options(needs, lines=lines),
        ]

        def command(**given: Any) -> None:
            settled = {**(settings or {}), **({} if writes else {"read_only": True})}
            _perform(work, needs, writes=writes, makes=makes, installed=installed, settings=settled, given=given)

        command.__name__, command.__doc__ = work.__name__, work.__doc__
        command.__annotations__ = {item.name: item.annotation for item in options}
        command.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
        summary = (work.__doc__ or "").split(". ", 1)[0].split(":", 1)[0].rstrip(".")
        shown = "\n".join(f"Example: {line}" for line in example.splitlines())
        app.command(name or work.__name__.replace("_", "-"), epilog=f"\b\n{shown}", short_help=summary)(command)
        return work

    return register


def _shared_options(needs: Needs, *, lines: bool) -> Iterator[inspect.Parameter]:
    if needs in {"resource", "thread"}:
        words = "Resource whose memory is used. Default: the only one in the database, or that of this project."
        yield _option("resource_named", str | None, None, words, "--resource", "-r", envvar="MEMOLOG_RESOURCE")
    if needs == "thread":
        words = "Thread. Default: the one with the newest activity."
        yield _option("thread_named", str | None, None, words, "--thread", "-t", envvar="MEMOLOG_THREAD")
    if needs != "nothing":
        words = (
            "Database: a file, or postgresql://user@host/database. Default: memolog.db, or that of an installed agent."
        )
        yield _option("db", str | None, None, words, "--db", envvar="MEMOLOG_DB")
    words = "Settings file. Default: memolog.toml in the current folder, if it exists."
    yield _option("config_named", str | None, None, words, "--config", envvar="MEMOLOG_CONFIG")
    words = (
        "Print a JSON document on each line instead of text." if lines else "Print one JSON document instead of text."
    )
    yield _option("as_json", bool, False, words, "--json")


def _option(
    name: str, kind: Any, default: object, words: str, *flags: str, envvar: str | None = None
) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*flags, envvar=envvar, rich_help_panel="Common options", help=words)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _perform(
    work: Verb,
    needs: Needs,
    *,
    writes: Writes,
    makes: bool,
    installed: bool,
    settings: Mapping[str, object],
    given: dict[str, Any],
) -> None:
    """Run a verb and exit with its code; print known errors without a traceback."""
    as_json: bool = given.pop("as_json")
    under_way = Work()
    try:
        import asyncio

        address = chosen_address(given.pop("db"), installed=installed) if needs != "nothing" else ""
        file = _settings_file(given.pop("config_named"))
        if writes == "if allowed" and not given.get("repair") and not _is_writable(address):
            settings = {**settings, "read_only": True}
        config = _config_of(file).with_overrides(settings)
        call = Call(address=address, config=config, settings_file=file, as_json=as_json, work=under_way)
        answer = asyncio.run(_answer(work, call, needs, writes=writes, makes=makes, given=given))
    except MemologError as error:
        output.show_error(error, as_json=as_json)
        raise typer.Exit(exit_code(error)) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        what = f"Cannot access{name}: {error.strerror or error}."
        output.show_error(StoreUnavailable(what, then="Check the path and its permissions."), as_json=as_json)
        raise typer.Exit(3) from None
    except KeyboardInterrupt:
        if not as_json:
            _show_interruption(under_way)
        raise typer.Exit(130) from None
    if not answer.is_printed:
        try:
            if as_json:
                output.print_json(answer.data)
            else:
                output.show(output.styled(answer.show) if isinstance(answer.show, str) else answer.show())
            sys.stdout.flush()
        except BrokenPipeError:
            # The work is done, so the exit code says so. What is still in the buffer is written nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(answer.code)


def _show_interruption(work: Work) -> None:
    """Print what was done before Ctrl-C, and how to continue."""
    far = f": {work.progress}" if work.progress else ""
    words = f"Stopped {work.words}{far}. {work.then}" if work.words else "Stopped."
    output.console(to_stderr=True).print(output.styled(words), soft_wrap=True)


async def _answer(
    work: Verb, call: Call, needs: Needs, *, writes: Writes, makes: bool, given: dict[str, Any]
) -> Answer:
    if needs in {"nothing", "address"}:
        return await work(call, **given)
    if not makes:
        refuse_missing(call.address)
    from memolog.memory import Memory

    resource, thread = given.pop("resource_named", None), given.pop("thread_named", None)
    async with Memory(call.address, config=call.config) as memory:
        call.opened = memory
        if needs in {"resource", "thread"}:
            call.resource = await chosen_resource(memory, resource)
            if not writes:
                await refuse_unknown(memory, call.resource)
            call.config = await call.of_resource.config()
        if needs == "thread":
            call.thread = await chosen_thread(memory, call.resource, thread)
        return await work(call, **given)


# ---------------------------------------------------------------- errors


def exit_code(error: MemologError) -> int:
    """Return the exit code of an error."""
    match error:
        case NotFound():
            return 1
        case InputError():
            return 2
        case Conflict() | StoreBusy():
            return 4
        case _:
            return 3
