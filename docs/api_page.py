"""Writes the reference of the Python interface from signatures and docstrings.

Knows which names belong together, and how a class is read: its source says what no object remembers, such as the words below a
field. A public name that no group names stands at the end, so that none is left out.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import memolog
import memolog.adapters
from memolog import errors, events

__all__ = ["api_page"]


@dataclass(frozen=True, slots=True)
class Group:
    """Names that belong together: public ones of `memolog`, or `module:name` for what is reached through them."""

    title: str
    words: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "The memory",
        "`Memory` is the whole of it for asynchronous code. `SyncMemory` is the same, call by call, without `await`; a test "
        "keeps the two alike.",
        ("Memory", "Turn", "SyncMemory", "restore_backup", "__version__"),
    ),
    Group(
        "Tasks, working memory, tools",
        "What `memory.tasks(…)`, `memory.working_memory(…)` and `memory.tools(…)` return.",
        (
            "memolog.tasks.calls:Tasks",
            "memolog.working_memory.calls:WorkingMemory",
            "memolog.memory:Tools",
        ),
    ),
    Group(
        "Messages",
        "What you hand in, and its parts. The four functions make a `NewMessage` of a text or of parts.",
        (
            *("UserMessage", "AssistantMessage", "ToolMessage", "SystemMessage", "NewMessage", "Message"),
            *("TextPart", "ToolCallPart", "ToolResultPart", "ReasoningPart", "FilePart", "UnknownPart", "ThreadInfo"),
        ),
    ),
    Group(
        "What the model sees",
        "",
        (
            "Context",
            *(f"memolog.context.context:{name}" for name in ("Block", "ContextMessage", "Counts")),
        ),
    ),
    Group(
        "The log",
        "",
        ("Observation", "Span", "Generation", "Status", "memolog.log.status:Window", "Extractor", "Extract"),
    ),
    Group(
        "Finding, reading, compacting",
        "",
        ("SearchAnswer", "SearchResult", "RecallPage", "Compacted", "Compaction", "Pruned"),
    ),
    Group("Moving, forgetting, examining", "", ("ExportReport", "ImportReport", "Forgotten", "Report", "Finding")),
    Group(
        "Settings",
        "Every field is a setting of the [configuration reference](configuration.md).",
        (
            *("Config", "ObservationConfig", "ReflectionConfig", "CompactionConfig", "RecallConfig"),
            *("RetentionConfig", "KeepRecent"),
        ),
    ),
    Group("Models", "Anything with `complete` is a model.", ("Model", "ModelRequest", "ModelReply", "Usage")),
    Group("Events", "", ("Event",)),
    Group("Errors", "", ("MemologError", "InputError", "NotFound", "ConfigError", "StoreError")),
    Group(
        "The store beneath",
        "For tools that work on the rows themselves; an application needs none of it.",
        ("open_store", "Store", "Lease"),
    ),
    Group(
        "For your tests",
        "",
        (
            *("memolog.testing:ScriptedModel", "memolog.testing:FakeClock"),
            *("memolog.testing:observations_of", "memolog.testing:reflection_of"),
        ),
    ),
)
LIKE_ANOTHER = {"SyncMemory": "Its methods are those of [`Memory`](#memory), without `await`."}
LINE = 110
HERE = Path(__file__).parent


def api_page() -> str:
    """Return the page."""
    lines = [
        "# Python",
        "",
        "Made from the code by `make docs`; do not edit.",
        "",
        "Names without a module are imported from `memolog`. What begins with an underscore, or is not here, may change.",
    ]
    for group in (*GROUPS, *_adapters(), *_others()):
        lines += ["", f"## {group.title}"]
        if group.words:
            lines += ["", group.words]
        for name in group.names:
            lines += _entry(name)
        if group.title == "Events":
            lines += _events()
        if group.title == "Errors":
            lines += _errors()
    return "\n".join(lines) + "\n"


def _adapters() -> Iterator[Group]:
    """Yield a group for every adapter that a page tells how to import; what they share among themselves is not for users."""
    told = "\n".join(page.read_text("utf-8") for page in sorted(HERE.rglob("*.md")) if page.name != "api.md")
    for module in sorted(pkgutil.iter_modules(memolog.adapters.__path__), key=lambda item: item.name):
        path = f"memolog.adapters.{module.name}"
        if f"from {path} import" in told:
            names: list[str] = getattr(importlib.import_module(path), "__all__", [])
            yield Group(f"`{path}`", "", tuple(f"{path}:{name}" for name in names))


def _others() -> Iterator[Group]:
    grouped = {name for group in GROUPS for name in group.names}
    if left := tuple(name for name in memolog.__all__ if name not in grouped):
        yield Group("More", "", left)


# ---------------------------------------------------------------- one name


def _entry(name: str) -> list[str]:
    home, _, short = name.rpartition(":")
    thing = getattr(importlib.import_module(home or "memolog"), short)
    lines = ["", f"### {short}", ""]
    if home:
        lines += [f"`from {home} import {short}`", ""]
    if isinstance(thing, str):
        return [*lines, "The version of the library, as text."]
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return [*lines, f"An alias: `{_named(thing)}`"]
    node, source = _source_of(thing)
    if isinstance(node, ast.ClassDef):
        return [*lines, *_class(short, thing, node, source)]
    return [*lines, *_code(_signature(short, node, source)), "", *_words(thing)]


def _named(thing: Any) -> str:
    return str(thing).replace("|", "or")


def _class(name: str, thing: Any, node: ast.ClassDef, source: str) -> list[str]:
    lines: list[str] = []
    made = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if made is not None:
        lines += [*_code(_signature(name, made, source)), ""]
    lines += _words(thing)
    if made is not None and (text := ast.get_docstring(made)):
        lines += ["", *_paragraphs(text)]
    if name in LIKE_ANOTHER:
        return [*lines, "", LIKE_ANOTHER[name]]
    if not thing.__module__.startswith("memolog.config."):
        lines += _fields(node, source)
    for method in _methods(thing):
        lines += ["", f"#### {name}.{method.name}", "", *_method(method)]
    return lines


@dataclass(frozen=True, slots=True)
class Method:
    """A method, a property or a class method: its node, and the text that it is a part of."""

    name: str
    node: "ast.FunctionDef | ast.AsyncFunctionDef"
    source: str


def _methods(thing: Any) -> list[Method]:
    """Return the public methods of a class and of its bases, in the order in which they are written."""
    found: dict[str, Method] = {}
    for kind in thing.__mro__:
        if not kind.__module__.startswith("memolog."):
            continue
        node, source = _source_of(kind)
        for item in getattr(node, "body", ()):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_"):
                found.setdefault(item.name, Method(item.name, item, source))
    return list(found.values())


def _method(method: Method) -> list[str]:
    marks = {ast.unparse(mark) for mark in method.node.decorator_list}
    if "property" in marks:
        returns = f": {_text(method.node.returns, method.source)}" if method.node.returns else ""
        shown = [f"{method.name}{returns}"]
    else:
        prefix = "async " if isinstance(method.node, ast.AsyncFunctionDef) else ""
        shown = _signature(method.name, method.node, method.source, prefix=prefix)
    return [*_code(shown), "", *_paragraphs(ast.get_docstring(method.node) or "")]


def _fields(node: ast.ClassDef, source: str) -> list[str]:
    """Return the fields of a value, with what is written below each."""
    rows: list[str] = []
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name) or item.target.id[0] == "_":
            continue
        kind = _text(item.annotation, source).replace(" | ", " or ")
        if kind.startswith("ClassVar"):
            continue
        words = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            words = " ".join(inspect.cleandoc(after.value.value).split())
        rows.append(f"| `{item.target.id}` | `{kind}` | {_default(item.value, source)} | {_escaped(words)} |")
    return ["", "| field | type | default | meaning |", "| --- | --- | --- | --- |", *rows] if rows else []


def _default(value: ast.expr | None, source: str) -> str:
    text = _text(value, source)
    return "empty" if text.startswith("field(default_factory") else f"`{text}`" if text else ""


def _events() -> list[str]:
    common = {item.name for item in fields(events.Event)}
    kinds = [
        kind for _, kind in sorted(vars(events).items()) if inspect.isclass(kind) and issubclass(kind, events.Event)
    ]
    rows: list[str] = []
    for kind in kinds:
        if kind is not events.Event:
            told = ", ".join(f"`{item.name}`" for item in fields(kind) if item.name not in common)
            rows.append(f"| `{kind.__name__}` | {_escaped(_first(kind))} | {told} |")
    return ["", "| kind | what happened | what it tells |", "| --- | --- | --- |", *rows]


def _errors() -> list[str]:
    rows = [
        f"| {'· ' * depth}`{kind.__name__}` | {_escaped(_first(kind))} | {'yes' if kind.retryable else ''} |"
        for kind, depth in _tree(errors.MemologError, 0)
    ]
    head = "The whole tree, from `memolog.errors`. The last column says whether the same call may succeed later."
    return ["", head, "", "| error | what it means | later |", "| --- | --- | --- |", *rows]


def _tree(kind: Any, depth: int) -> Iterator[tuple[Any, int]]:
    yield kind, depth
    for inner in sorted(kind.__subclasses__(), key=lambda item: item.__name__):
        if inner.__module__ == errors.__name__:
            yield from _tree(inner, depth + 1)


# ---------------------------------------------------------------- reading source


@cache
def _parsed(path: str) -> tuple[ast.Module, str]:
    source = Path(path).read_text("utf-8")
    return ast.parse(source), source


def _source_of(thing: Any) -> tuple[Any, str]:
    path = inspect.getsourcefile(inspect.unwrap(thing))
    tree, source = _parsed(path or "")
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return next(item for item in tree.body if isinstance(item, kinds) and item.name == thing.__name__), source


def _signature(name: str, node: Any, source: str, *, prefix: str = "") -> list[str]:
    """Return a signature as it is written, on one line if it fits, else a line each."""
    given = list(_arguments(node.args, source))
    if given and given[0] in {"self", "cls"}:
        given = given[1:]
    returns = f" -> {_text(node.returns, source)}" if node.returns is not None and node.name != "__init__" else ""
    line = f"{prefix}{name}({', '.join(given)}){returns}"
    return [line] if len(line) <= LINE else [f"{prefix}{name}(", *(f"    {item}," for item in given), f"){returns}"]


def _arguments(args: ast.arguments, source: str) -> Iterator[str]:
    plain = [*args.posonlyargs, *args.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults))
    for item, default in zip(plain, [*missing, *args.defaults], strict=True):
        yield _argument(item, default, source)
    if args.vararg is not None:
        yield "*" + _argument(args.vararg, None, source)
    elif args.kwonlyargs:
        yield "*"
    for item, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _argument(item, default, source)
    if args.kwarg is not None:
        yield "**" + _argument(args.kwarg, None, source)


def _argument(item: ast.arg, default: ast.expr | None, source: str) -> str:
    kind = f": {_text(item.annotation, source)}" if item.annotation is not None else ""
    if default is None:
        return item.arg + kind
    return f"{item.arg}{kind}{' = ' if kind else '='}{_text(default, source)}"


def _text(node: ast.AST | None, source: str) -> str:
    """Return a piece of source as it is written, on one line; an annotation without the quotes that put it off."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " | " in node.value:
        return node.value
    found = ast.get_source_segment(source, node) if node is not None else None
    return " ".join((found or "").split())


# ---------------------------------------------------------------- words


def _code(lines: list[str]) -> list[str]:
    return ["```py", *lines, "```"]


def _words(thing: Any) -> list[str]:
    return _paragraphs(inspect.getdoc(thing) or "")


def _paragraphs(text: str) -> list[str]:
    """Return a docstring; what it indents is kept as it is."""
    lines: list[str] = []
    for block in inspect.cleandoc(text).split("\n\n"):
        is_shown = all(line.startswith("    ") for line in block.splitlines())
        lines += [
            "",
            *(["```text", *inspect.cleandoc(block).splitlines(), "```"] if is_shown else [" ".join(block.split())]),
        ]
    return lines[1:]


def _first(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
