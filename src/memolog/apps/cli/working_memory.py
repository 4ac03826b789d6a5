"""Verbs about working memory: show, start, set, edit, merge, versions, diff, restore.

Knows where a new text comes from: the command, a file, standard input or an editor. What a change means is the library's.
"""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memolog.apps.cli.command import Answer, Call, acting_user, verb
from memolog.apps.cli.history import show_diff
from memolog.apps.cli.output import one_line, table, told, when
from memolog.domain.errors import DocumentNotFound, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.domain.working_memory import Document
    from memolog.runtime.working_memory import WorkingMemory

app = typer.Typer(no_args_is_help=True, help="Working memory: a small document of lasting facts, every version kept.")

_Thread = Annotated[
    str | None, typer.Option("--thread", "-t", help="That of a thread; without it, that of the resource.")
]
_Version = Annotated[
    int | None,
    typer.Option("--version", help="The version that was read: what others changed since is not undone.", min=0),
]


def _of(call: Call, thread: str | None) -> "WorkingMemory":
    return call.memory.working_memory(call.resource, thread)


def _show_document(document: "Document") -> "RenderableType":
    now = document.current
    head = f"{document.thread or document.resource}, version {now.number}, {document.format}, by {now.by} at {when(now.at)}\n"
    return told(head, "dim").append_text(told(now.text, "default"))


def _told(document: "Document") -> Answer:
    return Answer(data=document, show=lambda: _show_document(document))


@verb(app, needs="resource", example="memolog wm show")
async def show(call: Call, thread: _Thread = None) -> Answer:
    """Show the working memory. Exit code 1: there is none."""
    document = await _of(call, thread).read()
    if document is None:
        return Answer(
            data=None, show=lambda: told("There is no working memory yet; see `memolog wm start`.", "dim"), code=1
        )
    return _told(document)


@verb(app, needs="resource", writes=True, example="memolog wm start coding --thread atlas")
async def start(
    call: Call,
    template: Annotated[str, typer.Argument(help="coding or personal.")] = "personal",
    thread: _Thread = None,
    schema: Annotated[Path | None, typer.Option(help="A file with a JSON schema: the document is then JSON.")] = None,
) -> Answer:
    """Begin a working memory from a template. Where there is one already, it is refused and stays."""
    rules = None if schema is None else _json_object(str(schema), _read(schema))
    return _told(await _of(call, thread).start(template, who=acting_user(), schema=rules))


@verb(app, needs="resource", writes=True, name="set", example='memolog wm set "# Facts"')
async def set_(
    call: Call,
    text: Annotated[str, typer.Argument(help="The whole document, or - for standard input.")] = "-",
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Take it from a file.")] = None,
    thread: _Thread = None,
    version: _Version = None,
) -> Answer:
    """Write the whole document anew."""
    memory = _of(call, thread)
    given = _text(text, file)
    present = await memory.read()
    content: Any = _json_object("The text", given) if present is not None and present.format == "json" else given
    return _told(await memory.replace(content, who=acting_user(), version=version))


@verb(app, needs="resource", writes=True, example='memolog wm merge \'{"city": "Lisbon"}\' --thread notes')
async def merge(
    call: Call,
    patch: Annotated[str, typer.Argument(help="A JSON object, or - for standard input; null removes a field.")],
    thread: _Thread = None,
    version: _Version = None,
) -> Answer:
    """Change fields of a working memory that is JSON."""
    return _told(
        await _of(call, thread).merge(_json_object("The patch", _text(patch, None)), who=acting_user(), version=version)
    )


@verb(app, needs="resource", writes=True, example='memolog wm edit "Decisions" "Fastify replaces Express." --append')
async def edit(
    call: Call,
    heading: Annotated[
        str | None, typer.Argument(help="The section; without one, your editor opens with the whole document.")
    ] = None,
    text: Annotated[str | None, typer.Argument(help="What should stand there, or - for standard input.")] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to the section instead of replacing it.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the section.")] = False,
    thread: _Thread = None,
    version: _Version = None,
) -> Answer:
    """Change one section of a Markdown working memory, or all of it in your editor."""
    memory = _of(call, thread)
    if heading is None:
        return await _in_editor(memory)
    if append and remove:
        raise InputError("A section is either added to or removed.", then="Drop --append or --remove.")
    if text is None and not remove:
        raise InputError("There is no text for the section.", then="Add the text, - for standard input, or --remove.")
    mode: Any = "remove" if remove else "append" if append else "replace"
    new = None if remove else _text(cast("str", text), None)
    return _told(await memory.edit_section(heading, new, who=acting_user(), mode=mode, version=version))


async def _in_editor(memory: "WorkingMemory") -> Answer:
    present = await memory.read()
    if present is None:
        raise DocumentNotFound("There is no working memory yet.", then="Begin one with `memolog wm start`.")
    if not sys.stdin.isatty():
        raise InputError(
            "There is no terminal for an editor.", then="Name a section and its text, or use `memolog wm set`."
        )
    from asyncio import to_thread

    new = await to_thread(_edited, present)
    if new == present.current.text:
        return Answer(data=present, show=lambda: told("Nothing was changed.", "dim"), code=1)
    content: Any = _json_object("The text", new) if present.format == "json" else new
    return _told(await memory.replace(content, who=acting_user(), version=present.current.number))


def _edited(present: "Document") -> str:
    """Return what the user made of a document in an editor."""
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if os.name == "nt" else "vi")
    suffix = ".json" if present.format == "json" else ".md"
    with tempfile.TemporaryDirectory(prefix="memolog-") as folder:
        path = Path(folder) / f"working-memory{suffix}"
        path.write_text(present.current.text, encoding="utf-8")
        subprocess.run([*shlex.split(editor), str(path)], check=False)  # noqa: S603 - the user's own editor
        return path.read_text("utf-8")


@verb(app, needs="resource", example="memolog wm versions")
async def versions(
    call: Call, thread: _Thread = None, limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 50
) -> Answer:
    """List the versions, newest first. Exit code 1: there are none."""
    found = await _of(call, thread).versions(limit=limit)
    rows = [(str(v.number), when(v.at), v.by, f"{len(v.text):,}", one_line(v.text, 60)) for v in found]
    return Answer(
        data={"versions": found},
        show=lambda: (
            table((">version", "at!", "by!", ">characters", "begins"), rows)
            if rows
            else told("There is none yet.", "dim")
        ),
        code=0 if found else 1,
    )


@verb(app, needs="resource", example="memolog wm diff 1 2")
async def diff(
    call: Call,
    old: Annotated[int, typer.Argument(help="The older version.", min=1)],
    new: Annotated[int | None, typer.Argument(help="The newer one; the present one if none is named.", min=1)] = None,
    thread: _Thread = None,
) -> Answer:
    """Compare two versions. Exit code 1: they are equal."""
    text = await _of(call, thread).diff(old, new)
    return Answer(
        data={"old": old, "new": new, "diff": text}, show=lambda: show_diff(text), code=0 if text.strip() else 1
    )


@verb(app, needs="resource", writes=True, example="memolog wm restore 1")
async def restore(
    call: Call, version: Annotated[int, typer.Argument(help="Which version.", min=1)], thread: _Thread = None
) -> Answer:
    """Bring an old version back, as a new version."""
    return _told(await _of(call, thread).restore(version, who=acting_user()))


# ---------------------------------------------------------------- where texts come from


def _text(text: str, file: Path | None) -> str:
    if file is not None:
        return _read(file)
    if text != "-":
        return text
    given = sys.stdin.read()
    if not given.strip():
        raise InputError("There is no text.", why="Standard input is empty.", then="Add the text, or --file.")
    return given


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no text.", why=f"It is not UTF-8: {error}.", then="Name a text file.") from None
    except OSError as error:
        raise InputError(
            f"{file} cannot be read.", why=f"The system says: {error.strerror}.", then="Name another file."
        ) from None


def _json_object(where: str, text: str) -> dict[str, Any]:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is no JSON: {error}.", then="Pass one JSON object.") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is no JSON object.", then='Pass an object, such as {"city": "Lisbon"}.')
    return cast("dict[str, Any]", value)
