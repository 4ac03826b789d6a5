"""Register coroutines as commands: add the common options, open the database, print the answer, and set the exit code.

Defaults: the settings file in the current folder, the only resource, the thread with the newest activity. If there is no unique
default, the command fails and lists the choices. The memory is imported only when a verb runs, so that `--help` is fast.
"""

import getpass
import inspect
import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import typer

from memolog.apps.cli import output
from memolog.errors import Conflict, InputError, MemologError, NotFound, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.core.config import Config
    from memolog.events import Event
    from memolog.memory import Memory, Resource, Thread

_SETTINGS_FILE = "memolog.toml"
# Maximum number of resources that an error lists.
_MOST_LISTED = 12
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _settings_file(named: str | None) -> str | None:
    return named or (_SETTINGS_FILE if Path(_SETTINGS_FILE).is_file() else None)


def refuse_missing(address: str) -> None:
    """Raise if the database is a file that does not exist. Only `init`, `import`, `restore` and `demo` create a database."""
    if _is_missing(address):
        from memolog.db.postgres_address import safe_url

        path = safe_url(_path_in(address))
        raise StoreUnavailable(
            f"There is no database {path}.",
            then=f"Pass another with --db or MEMOLOG_DB, create it with `memolog init --db {path}`, or try `memolog demo`.",
        )


def _is_missing(address: str) -> bool:
    if "://" in address and not address.startswith("sqlite:"):
        return False
    path = _path_in(address)
    return path != ":memory:" and bool(path.strip()) and not Path(path).exists()


def _path_in(address: str) -> str:
    return address.removeprefix("sqlite:///").removeprefix("sqlite://")


async def chosen_resource(memory: "Memory", named: str | None) -> str:
    """Return the given resource, or the only one in the database."""
    if named is not None:
        return named
    known = await memory.resources()
    if len(known) == 1:
        return known[0]
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
        raise NotFound(f"{resource} has no thread.", then="Check --resource; `memolog threads` lists them.")
    if len(newest) > 1 and newest[0].updated_at == newest[1].updated_at:
        raise InputError(
            "No thread was given, and there is no newest one.",
            why=f"{newest[0].id} and {newest[1].id} were active at the same moment.",
            then="Choose one with --thread or MEMOLOG_THREAD.",
        )
    return newest[0].id


async def refuse_unknown(memory: "Memory", resource: str, thread: str | None) -> None:
    """Raise NotFound for an unknown resource or thread. A search for a misspelt name would only find nothing."""
    if resource not in await memory.resources():
        raise NotFound(
            f"{resource} has no memory in this database.",
            then="Check --resource; `memolog threads` lists them.",
        )
    if thread is not None:
        await memory.thread(thread, resource=resource).info()


def moment_in(text: str, now: datetime, *, ahead: bool = False) -> datetime:
    """Parse a moment: `2026-03-14`, `2026-03-14T09:30`, or `90m`, `3h`, `2d` before now (with `ahead`, after now)."""
    try:
        if found := fullmatch(r"(\d{1,6})([smhdw])", text.strip()):
            length = timedelta(**{_UNITS[found[2]]: int(found[1])})
            return now + length if ahead else now - length
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise InputError(
            f"{text!r} is not a date, a time or an age.",
            then="Write a date (2026-03-14), a time (2026-03-14T09:30, in UTC unless it has a zone), or "
            + ("a time from now (90m, 3h, 2d)." if ahead else "an age (90m, 3h, 2d)."),
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)


def read_text(file: Path | str) -> str:
    """Return the text of a file. Raises InputError if the file cannot be read or is not UTF-8."""
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The file {file} cannot be read: {error}.", then="Pass a UTF-8 text file.") from None


def acting_user() -> str:
    """Return the session name of this user. It is fixed, so one command can close a task that another command claimed."""
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
Needs: TypeAlias = Literal["nothing", "address", "database", "resource", "thread"]

InResource = Annotated[str | None, typer.Option("--resource", "-r", help="Only this resource. Default: all.")]
InThread = Annotated[str | None, typer.Option("--thread", "-t", help="Only this thread. Default: all threads.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Maximum number of entries.", min=1)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Cursor = Annotated[str | None, typer.Option(help="Cursor that the previous page ended with.")]

Work: TypeAlias = "Callable[..., Awaitable[Answer]]"
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
    caption: str | None = None,
) -> Answer:
    """Return an answer with a table that has one row for each item of `found`.

    Without items, the answer is the text `empty` and exit code 1.
    """

    def show() -> "RenderableType":
        made = output.table(heads, map(row, found))
        made.caption = caption
        return made if found else output.styled(empty, "dim")

    return Answer(data=data, show=show, code=0 if found else 1)


@dataclass(slots=True, kw_only=True)
class Call:
    """The common options of one command, and the open memory."""

    address: str
    config: "Config"
    settings_file: str | None = None
    as_json: bool
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
    def progress(self, words: str) -> Generator[Callable[[str], None]]:
        """Show progress on stderr while the block runs, and yield a function that shows details."""
        if self.as_json:
            yield lambda _: None
            return
        err = output.console(to_stderr=True)
        if not err.is_terminal:
            err.print(output.styled(f"{words} …", "dim"))
            yield lambda _: None
            return
        with err.status(output.styled(f"{words} …")) as status:
            stop = self.opened.subscribe(partial(_show_event, status.update, words)) if self.opened else None
            try:
                yield lambda more: status.update(output.styled(f"{words}: {more}"))
            finally:
                if stop is not None:
                    stop()


def _show_event(update: Callable[[Any], None], words: str, event: "Event") -> None:
    data = event.data()
    detail = f" {data['observations']} lines" if event.kind == "RunEnded" else ""
    update(output.styled(f"{words}: {event.kind}{detail} …"))


# ---------------------------------------------------------------- from a coroutine to a command


def verb(
    app: typer.Typer,
    *,
    example: str,
    needs: Needs = "thread",
    writes: bool = False,
    makes: bool = False,
    name: str | None = None,
) -> Callable[[Work], Work]:
    """Return a decorator that registers a function as a command with the common options.

    `needs` selects whether a database, a resource or a thread is opened first. With "address", the function opens the
    database itself. `writes` means that the function changes the database, and `makes` that it may create the database.
    `example` has one example on each line.
    """

    def register(work: Work) -> Work:
        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        options = [*(item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own), *_shared_options(needs)]

        def command(**given: Any) -> None:
            _perform(work, needs, writes=writes, makes=makes, given=given)

        command.__name__, command.__doc__ = work.__name__, work.__doc__
        command.__annotations__ = {item.name: item.annotation for item in options}
        command.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
        summary = (work.__doc__ or "").split(". ", 1)[0].split(":", 1)[0].rstrip(".")
        shown = "\n".join(f"Example: {line}" for line in example.splitlines())
        app.command(name or work.__name__.replace("_", "-"), epilog=f"\b\n{shown}", short_help=summary)(command)
        return work

    return register


def _shared_options(needs: Needs) -> Iterator[inspect.Parameter]:
    if needs in {"resource", "thread"}:
        words = "Resource whose memory is used. Default: the only one in the database."
        yield _option("resource_named", str | None, None, words, "--resource", "-r", envvar="MEMOLOG_RESOURCE")
    if needs == "thread":
        words = "Thread. Default: the one with the newest activity."
        yield _option("thread_named", str | None, None, words, "--thread", "-t", envvar="MEMOLOG_THREAD")
    if needs != "nothing":
        words = "Database: a file, or postgresql://user@host/database."
        yield _option("db", str, "memolog.db", words, "--db", envvar="MEMOLOG_DB")
    words = "Settings file. Default: memolog.toml in the current folder, if it exists."
    yield _option("config_named", str | None, None, words, "--config", envvar="MEMOLOG_CONFIG")
    yield _option("as_json", bool, False, "Print one JSON document instead of text.", "--json")


def _option(
    name: str, kind: Any, default: object, words: str, *flags: str, envvar: str | None = None
) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*flags, envvar=envvar, rich_help_panel="Common options", help=words)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _perform(work: Work, needs: Needs, *, writes: bool, makes: bool, given: dict[str, Any]) -> None:
    """Run a verb and exit with its code; print known errors without a traceback."""
    import asyncio

    as_json: bool = given.pop("as_json")
    try:
        answer = asyncio.run(_answer(work, needs, writes=writes, makes=makes, as_json=as_json, given=given))
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
        raise typer.Exit(130) from None
    if not answer.is_printed:
        if as_json:
            output.print_json(answer.data)
        else:
            output.show(output.styled(answer.show) if isinstance(answer.show, str) else answer.show())
    raise typer.Exit(answer.code)


async def _answer(
    work: Work, needs: Needs, *, writes: bool, makes: bool, as_json: bool, given: dict[str, Any]
) -> Answer:
    from memolog.core.config import Config

    file = _settings_file(given.pop("config_named"))
    config = Config.load(toml=file, environment=os.environ)
    if not writes:
        config = config.with_overrides({"read_only": True})
    address: str = given.pop("db") if needs != "nothing" else ""
    if needs in {"nothing", "address"}:
        return await work(Call(address=address, config=config, settings_file=file, as_json=as_json), **given)
    if not makes:
        refuse_missing(address)
    from memolog.memory import Memory

    resource, thread = given.pop("resource_named", None), given.pop("thread_named", None)
    # A dry run must not create the file.
    is_tried = makes and given.get("dry_run", False) and _is_missing(address)
    async with Memory(":memory:" if is_tried else address, config=config) as memory:
        call = Call(address=address, config=config, settings_file=file, as_json=as_json, opened=memory)
        if needs in {"resource", "thread"}:
            call.resource = await chosen_resource(memory, resource)
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
