"""The documentation is true: its snippets run, its generated pages are fresh, its links lead somewhere."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memolog

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|#)([^)#]+)[^)]*\)")

PRINTING = re.compile(r"^```python\n(.*?)^```\n\nIt prints[^`]*?\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets() -> Iterator[Any]:
    """Return each Python block of each page, with what the page says that it prints, if it says so."""
    for page in PAGES:
        text = page.read_text("utf-8")
        printed = dict(PRINTING.findall(text))
        for number, code in enumerate(SNIPPET.findall(text), start=1):
            yield pytest.param(code, printed.get(code), id=f"{page.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize(("code", "output"), list(snippets()))
def test_snippet_runs(code: str, output: str | None, tmp_path: Path) -> None:
    """Each Python block runs by itself in an empty folder, and prints what the page says."""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert output in {None, done.stdout}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that exists."""
    broken = [target for target in LINK.findall(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert broken == []


PROMISES = re.compile(r"^\| promise \| limit \| test \|\n\|(?: --- \|)+\n((?:\|.*\n)+)", re.MULTILINE)
CITED = re.compile(r"tests/[\w/.-]+\.py(?:::\w+)?")


def exists(cited: str) -> bool:
    """Tell whether a test file, or a test in it, is there."""
    name, _, function = cited.partition("::")
    file = ROOT / name
    if not file.is_file() or not function:
        return file.is_file()
    tree = ast.parse(file.read_text("utf-8"))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function for node in tree.body)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_are_cited_exist(page: Path) -> None:
    """A page that names a test, or a file of tests, names one that is there."""
    assert [cited for cited in CITED.findall(page.read_text("utf-8")) if not exists(cited)] == []


def test_every_promise_of_security_is_proven() -> None:
    """Each section of promises is a table, each promise in it names the tests that prove it, and no promise stands twice."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert [name for name, text in sections.items() if not PROMISES.search(text)] == ["Telling us"]
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
    """Return a module of the docs folder, which is no package."""
    return importlib.import_module(name)


@pytest.fixture
def _docs_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))


@pytest.mark.usefixtures("_docs_importable")
def test_generated_pages_are_fresh() -> None:
    """A page that follows from the code is what the code says now; `make docs` writes it."""
    pages = made_by("generate").PAGES
    assert len(pages) > 3
    assert [name for name, page in pages.items() if (ROOT / "docs" / name).read_text("utf-8") != page()] == []


@pytest.mark.usefixtures("_docs_importable")
def test_the_stub_of_the_synchronous_face_is_fresh() -> None:
    """The types of the synchronous face are those of the asynchronous one; `make docs` writes them."""
    stub = made_by("sync_stub")
    assert stub.STUB.read_text("utf-8") == stub.sync_stub()


@pytest.mark.usefixtures("_docs_importable")
def test_diagrams_are_fresh() -> None:
    """A diagram is what its description says now, nothing else is in their folder, and each is shown somewhere."""
    diagrams = made_by("diagrams").DIAGRAMS
    folder = ROOT / "docs" / "diagrams"
    assert sorted(diagrams) == sorted(path.name for path in folder.iterdir())
    assert [name for name, made in diagrams.items() if (folder / name).read_text("utf-8") != made()] == []
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert [name for name in diagrams if f"diagrams/{name}" not in text] == []


def test_every_public_name_is_in_the_reference() -> None:
    """Each name that `memolog` offers has one entry, with its words; each method of the memory too."""
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    entries = re.findall(r"^### (\w+)\n\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    names = [name for name, _ in entries]
    assert [name for name in memolog.__all__ if names.count(name) != 1] == []
    assert [name for name, body in entries if len(re.sub("```.*?```", "", body, flags=re.DOTALL).split()) < 2] == []
    methods = {name for name in vars(memolog.Memory) if not name.startswith("_")}
    assert methods - set(re.findall(r"^#### Memory\.(\w+)$", page, re.MULTILINE)) == set()


def test_the_first_minute_shows_its_output() -> None:
    """The README's first snippet is followed by what it prints."""
    (code, output) = PRINTING.findall((ROOT / "README.md").read_text("utf-8"))[0]
    assert code == SNIPPET.findall((ROOT / "README.md").read_text("utf-8"))[0]
    assert len(output.splitlines()) > 3


def test_what_models_cost_is_what_the_formula_says(tmp_path: Path) -> None:
    """The table of prices is the output of the snippet above it."""
    page = (ROOT / "docs" / "models.md").read_text("utf-8")
    snippet = next(code for code in SNIPPET.findall(page) if "RAW_A_REQUEST" in code)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 4
    assert done.stdout in page
