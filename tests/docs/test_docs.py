"""Tests of the documentation: snippets run, generated pages are up to date, and linked files exist."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memolog.core.config import settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|#)([^)#]+)[^)]*\)")

NOT_RUN = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""Blocks that need a library which the tests do not install."""

PRINTING = re.compile(r"^```python\n(.*?)^```\n\nIt prints[^`]*?\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets() -> Iterator[Any]:
    """Yield each Python block of each page with the output that the page shows, or None."""
    for page in PAGES:
        text = page.read_text("utf-8")
        printed = dict(PRINTING.findall(text))
        for number, code in enumerate(SNIPPET.findall(text), start=1):
            yield pytest.param(code, printed.get(code), id=f"{page.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize(("code", "output"), list(snippets()))
def test_snippet_runs(code: str, output: str | None, tmp_path: Path) -> None:
    """Each Python block runs alone in an empty folder, and prints the output that the page shows."""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert output in {None, done.stdout}


def test_snippets_that_are_not_run_are_python() -> None:
    """Blocks that need other libraries are valid Python, and import such a library."""
    blocks = [code for page in PAGES for code in NOT_RUN.findall(page.read_text("utf-8"))]
    assert len(blocks) >= 5
    for code in blocks:
        names = {
            (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
            for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.ImportFrom | ast.Import)
        }
        assert [name for name in names if importlib.util.find_spec(name.split(".")[0]) is None], code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """The file of every relative link exists."""
    broken = [target for target in LINK.findall(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert broken == []


PROMISES = re.compile(r"^\| promise \| limit \| test \|\n\|(?: --- \|)+\n((?:\|.*\n)+)", re.MULTILINE)
CITED = re.compile(r"tests/[\w/.-]+\.py(?:::\w+)?")


def exists(cited: str) -> bool:
    """Return whether a test file, or a test in it, exists."""
    name, _, function = cited.partition("::")
    file = ROOT / name
    if not file.is_file() or not function:
        return file.is_file()
    tree = ast.parse(file.read_text("utf-8"))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function for node in tree.body)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_are_cited_exist(page: Path) -> None:
    """Every test and every test file that a page names exists."""
    assert [cited for cited in CITED.findall(page.read_text("utf-8")) if not exists(cited)] == []


def test_every_promise_of_security_is_proven() -> None:
    """Every section has a table of promises, every promise names its tests, and no promise occurs twice."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert [name for name, text in sections.items() if not PROMISES.search(text)] == ["Report a problem"]
    rows = [line.strip("|").split("|") for table in PROMISES.findall(page) for line in table.splitlines()]
    assert [row for row in rows if len(row) != 3] == []
    promises = [promise.strip() for promise, _, _ in rows]
    assert len(set(promises)) == len(promises) >= 40
    assert all(promises)
    unproven = [
        promise for promise, _, tests in rows if not re.fullmatch(r" (?:`tests/[\w/]+\.py::test_\w+`(?:, | ))+", tests)
    ]
    assert unproven == []


def made_by(name: str) -> Any:
    """Return a module of the docs folder, which is not a package."""
    return importlib.import_module(name)


@pytest.fixture
def _docs_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))


@pytest.mark.usefixtures("_docs_importable")
def test_generated_pages_are_fresh() -> None:
    """Generated pages are up to date. `make docs` writes them."""
    pages = made_by("generate").PAGES
    assert len(pages) == 4
    assert [name for name, page in pages.items() if (ROOT / "docs" / name).read_text("utf-8") != page()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_says_how_it_was_made(page: Path) -> None:
    """Readers of the site do not edit pages. Notes for those who do are comments, which are not shown."""
    shown = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    assert not re.search(r"do not edit|made from the code", shown, re.IGNORECASE)


@pytest.mark.usefixtures("_docs_importable")
def test_every_setting_stands_in_the_table_of_its_section() -> None:
    """The page has one table for each section, in which every setting stands once, with its whole name."""
    page = made_by("generate").configuration_page()
    for part in page.split("\n## ")[1:]:
        sections = {name.rpartition(".")[0] for name in re.findall(r"^\| `([\w.]+)`", part, re.MULTILINE)}
        assert len(sections) == 1
    assert sorted(re.findall(r"^\| `([\w.]+)`", page, re.MULTILINE)) == sorted(setting.name for setting in settings())


@pytest.mark.usefixtures("_docs_importable")
def test_the_stub_of_the_synchronous_face_is_fresh() -> None:
    """The stub has the types of the asynchronous classes. `make docs` writes it."""
    stub = made_by("sync_stub")
    assert stub.STUB.read_text("utf-8") == stub.sync_stub()


@pytest.mark.usefixtures("_docs_importable")
def test_diagrams_are_fresh() -> None:
    """Diagrams are up to date, their folder contains nothing else, and a page shows each of them."""
    diagrams = made_by("diagrams").DIAGRAMS
    folder = ROOT / "docs" / "diagrams"
    assert sorted(diagrams) == sorted(path.name for path in folder.iterdir())
    assert [name for name, made in diagrams.items() if (folder / name).read_text("utf-8") != made()] == []
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert [name for name in diagrams if f"diagrams/{name}" not in text] == []


SHOWN = re.compile(r"^::: (memolog[\w.]*)$", re.MULTILINE)


def offered(module: Any) -> dict[str, object]:
    """Return the public names of a module with their values: `__all__`, or the names that it defines."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return {name: getattr(module, name) for name in getattr(module, "__all__", own) if not name.startswith("_")}


def shown_in_the_reference() -> list[object]:
    """Return each object that the reference page shows. For a module, return its public values."""
    found: list[object] = []
    for name in SHOWN.findall((ROOT / "docs" / "api.md").read_text("utf-8")):
        home, _, last = name.rpartition(".")
        thing: Any = getattr(importlib.import_module(home), last, None) or importlib.import_module(name)
        found += offered(thing).values() if inspect.ismodule(thing) else [thing]
    return found


def test_every_public_name_is_in_the_reference() -> None:
    """Each name of a public module has a directive. The build of the site fails if a directive has no object."""
    shown = shown_in_the_reference()
    modules = [importlib.import_module(f"memolog{name}") for name in ("", ".models", ".events", ".errors", ".testing")]
    public = {f"{module.__name__}.{name}": thing for module in modules for name, thing in offered(module).items()}
    assert [name for name, thing in public.items() if not any(thing is other for other in shown)] == []
    assert len(public) > 100


PUBLIC = re.compile(r"memolog(\.(models|events|errors|testing|adapters(\.\w+)?|apps\.(gateway|mcp)))?")


def imported_by(code: str) -> list[str]:
    """Return the modules of Memolog that a snippet imports."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return [name for name in names if name.split(".")[0] == "memolog"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_from_public_modules(page: Path) -> None:
    """Snippets import only from `memolog`, its public modules, adapters, and servers that a program can embed."""
    names = [name for code in SNIPPET.findall(page.read_text("utf-8")) for name in imported_by(code)]
    assert [name for name in names if not PUBLIC.fullmatch(name)] == []


def test_the_readme_shows_what_the_quickstart_prints(tmp_path: Path) -> None:
    """The example in the README is the output of `examples/quickstart.py`."""
    example = ROOT / "examples" / "quickstart.py"
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) > 9
    assert f"```text\n{done.stdout}```" in (ROOT / "README.md").read_text("utf-8")


def test_the_files_to_change_exist() -> None:
    """Each row of `where.md` has files and a test, and they exist."""
    page = (ROOT / "docs" / "where.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 20
    for change, files, tests in rows:
        named = [name for name in re.findall(r"`([^`]+)`", files) if re.search(r"/|\.py$", name)]
        places = [ROOT if name.startswith("docs/") else ROOT / "src" / "memolog" for name in named]
        assert named, change
        assert [name for name, place in zip(named, places, strict=True) if not (place / name).exists()] == []
        assert CITED.fullmatch(tests.strip("`")), change


WAY = re.compile(r"^<!-- way of (\w+).*?-->\n(.*?)(?=^<!--|^## )", re.MULTILINE | re.DOTALL)
WALK = """
import asyncio, sys, threading
from itertools import groupby
from memolog import Config, Memory, ObservationConfig
from memolog.events import RunStarted

modules = []

def note(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("memolog."):
        modules.append(name.removeprefix("memolog.").replace(".", "/"))

async def main():
    started = []
    # Before the first thread begins, because a thread is used again for later work.
    threading.setprofile(note)
    async with Memory(":memory:", config=Config(observation=ObservationConfig(message_tokens=400))) as memory:
        memory.subscribe(lambda event: isinstance(event, RunStarted) and started.append(event))
        thread = memory.thread("t1", resource="alice")
        while not started:
            async with thread.turn() as turn:
                sys.setprofile(note)
                before = len(modules)
                await turn.prepare("The limit of the queue is 100.")
                after = len(modules)
                await turn.record("Done. " + "All checks pass. " * 12)
                await memory.settled()
    sys.setprofile(None)
    print(*(name for name, _ in groupby(modules[before:after])))
    print(*(name for name, _ in groupby(modules[before:])))

asyncio.run(main())
"""


def test_the_way_of_a_message_is_as_the_page_says(tmp_path: Path) -> None:
    """The modules that the architecture page lists are called in a `prepare` and in an observation."""
    done = subprocess.run([sys.executable, "-c", WALK], cwd=tmp_path, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    ways = [list(dict.fromkeys(re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", text))) for _, text in WAY.findall(page)]
    assert len(ways) == 2
    for listed, line in zip(ways, done.stdout.splitlines(), strict=True):
        rooms = [name for name in listed if (ROOT / "src" / "memolog" / f"{name}.py").is_file()]
        assert len(rooms) > 8
        assert [name for name in rooms if name not in line.split()] == []


def test_what_models_cost_is_what_the_formula_says(tmp_path: Path) -> None:
    """The table of prices is the output of the snippet above it."""
    page = (ROOT / "docs" / "models.md").read_text("utf-8")
    snippet = next(code for code in SNIPPET.findall(page) if "RAW_A_REQUEST" in code)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 4
    assert done.stdout in page
