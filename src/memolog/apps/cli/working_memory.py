"""Read and change the working memory: the verbs of `memolog wm`."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memolog.apps.cli.command import Answer, Call, Limit, acting_user, listing, read_text, verb
from memolog.apps.cli.output import heading, one_line, show_diff, styled, when
from memolog.errors import DocumentNotFound, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.core.document import Document
    from memolog.working_memory.calls import WorkingMemory

app = typer.Typer(help="Manage the working memory: a small document of lasting facts, with all its versions.")

_Thread = Annotated[
    str | None, typer.Option("--thread", "-t", help="Use the working memory of this thread. Default: of the resource.")
]
_Version = Annotated[
    int | None,
    typer.Option(help="Version that you have read. The command fails if there is a newer version.", min=0),
]


def _of(call: Call, thread: str | None) -> "WorkingMemory":
    return call.of_resource.working_memory(thread=thread)


def _show_document(document: "Document") -> "RenderableType":
    now = document.current
    title = f"Working memory of {document.thread or document.resource}\n"
    head = f"version {now.number}, {document.format}, by {now.by} at {when(now.at)}\n"
    return heading(title).append_text(styled(head, "dim")).append_text(styled(now.text, "default"))


def _answer(document: "Document") -> Answer:
    return Answer(data=document, show=lambda: _show_document(document))


@verb(app, needs="resource", example="memolog wm show")
async def show(call: Call, thread: _Thread = None) -> Answer:
    """Show the working memory. Exit code 1: there is none."""
    document = await _of(call, thread).read()
    if document is None:
        return Answer(data=None, show="There is no working memory yet. Create one with `memolog wm start`.", code=1)
    return _answer(document)


@verb(app, needs="resource", writes=True, example="memolog wm start coding --thread atlas")
async def start(
    call: Call,
    template: Annotated[str, typer.Argument(help="Template: coding or personal.")] = "personal",
    thread: _Thread = None,
    schema: Annotated[
        Path | None, typer.Option(help="File with a JSON schema, for a JSON document without a template.")
    ] = None,
) -> Answer:
    """Create a working memory from a template. Fails if a working memory exists already."""
    rules = None if schema is None else _json_object(str(schema), read_text(schema))
    return _answer(await _of(call, thread).start(template, who=acting_user(), schema=rules))


@verb(app, needs="resource", writes=True, name="set", example='memolog wm set "# Facts"')
async def set_(
    call: Call,
    text: Annotated[str, typer.Argument(help="New document, or - for standard input.")] = "-",
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the document from a file.")] = None,
    thread: _Thread = None,
    version: _Version = None,
) -> Answer:
    """Replace the whole document."""
    memory = _of(call, thread)
    return await _replace(memory, await memory.read(), _text(text) if file is None else read_text(file), version)


async def _replace(memory: "WorkingMemory", present: "Document | None", text: str, version: int | None) -> Answer:
    content: Any = _json_object("The text", text) if present is not None and present.format == "json" else text
    return _answer(await memory.replace(content, who=acting_user(), version=version))


@verb(app, needs="resource", writes=True, example='memolog wm merge \'{"city": "Lisbon"}\' --thread notes')
async def merge(
    call: Call,
    patch: Annotated[str, typer.Argument(help="JSON object, or - for standard input. A null removes the field.")],
    thread: _Thread = None,
    version: _Version = None,
) -> Answer:
    """Change fields of a JSON working memory."""
    fields = _json_object("The patch", _text(patch))
    return _answer(await _of(call, thread).merge(fields, who=acting_user(), version=version))


@verb(app, needs="resource", writes=True, example='memolog wm edit "Decisions" "Fastify replaces Express." --append')
async def edit(
    call: Call,
    heading: Annotated[
        str | None, typer.Argument(help="Heading of the section. Default: open the whole document in an editor.")
    ] = None,
    text: Annotated[str | None, typer.Argument(help="New text of the section, or - for standard input.")] = None,
    append: Annotated[bool, typer.Option("--append", help="Append to the section instead of replacing it.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the section.")] = False,
    thread: _Thread = None,
    version: _Version = None,
) -> Answer:
    """Change one section of a Markdown working memory, or open the whole document in an editor."""
    memory = _of(call, thread)
    if heading is None:
        return await _in_editor(memory)
    if append and remove:
        raise InputError("--append and --remove cannot be used together.", then="Omit one of them.")
    if text is None and not remove:
        raise InputError("There is no text for the section.", then="Pass the text, - for standard input, or --remove.")
    mode: Any = "remove" if remove else "append" if append else "replace"
    new = None if remove else _text(cast("str", text))
    return _answer(await memory.edit_section(heading, new, who=acting_user(), mode=mode, version=version))


async def _in_editor(memory: "WorkingMemory") -> Answer:
    present = await memory.read()
    if present is None:
        raise DocumentNotFound("There is no working memory yet.", then="Create one with `memolog wm start`.")
    if not sys.stdin.isatty():
        raise InputError(
            "There is no terminal for an editor.", then="Pass a section and its text, or use `memolog wm set`."
        )
    from asyncio import to_thread

    new = await to_thread(_edited, present)
    if new == present.current.text:
        return Answer(data=present, show="Nothing was changed.", code=1)
    return await _replace(memory, present, new, present.current.number)


def _edited(present: "Document") -> str:
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
    call: Call,
    thread: _Thread = None,
    limit: Limit = 50,
) -> Answer:
    """List the versions, newest first. Exit code 1: there are none."""
    found = await _of(call, thread).versions(limit=limit)
    return listing(
        {"versions": found},
        found,
        (">version", "at!", "by?", ">characters??", "begins"),
        lambda v: (str(v.number), when(v.at), v.by, f"{len(v.text):,}", one_line(v.text, 60)),
        "There is no working memory yet.",
        title=f"Versions of the working memory of {thread or call.resource}",
    )


@verb(app, needs="resource", example="memolog wm diff 1 2")
async def diff(
    call: Call,
    old: Annotated[int, typer.Argument(help="Older version.", min=1)],
    new: Annotated[int | None, typer.Argument(help="Newer version. Default: the present one.", min=1)] = None,
    thread: _Thread = None,
) -> Answer:
    """Compare two versions. Exit code 1: they are equal."""
    text = await _of(call, thread).diff(old, new)
    return Answer(
        data={"old": old, "new": new, "diff": text}, show=lambda: show_diff(text), code=0 if text.strip() else 1
    )


@verb(app, needs="resource", writes=True, example="memolog wm restore 1")
async def restore(
    call: Call, version: Annotated[int, typer.Argument(help="Version to restore.", min=1)], thread: _Thread = None
) -> Answer:
    """Restore an old version. The result is a new version with the old text."""
    return _answer(await _of(call, thread).restore(version, who=acting_user()))


# ---------------------------------------------------------------- where texts come from


def _text(text: str) -> str:
    if text != "-":
        return text
    given = sys.stdin.read()
    if not given.strip():
        raise InputError("There is no text.", why="Standard input is empty.", then="Pass the text as an argument.")
    return given


def _json_object(where: str, text: str) -> dict[str, Any]:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is not valid JSON: {error}.", then="Pass one JSON object.") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is not a JSON object.", then='Pass an object, such as {"city": "Lisbon"}.')
    return cast("dict[str, Any]", value)
