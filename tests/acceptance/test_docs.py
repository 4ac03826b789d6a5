"""The documentation is true: its snippets run, its generated pages are fresh, its links lead somewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|#)([^)#]+)[^)]*\)")

SNIPPETS = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, code in enumerate(SNIPPET.findall(page.read_text("utf-8")), start=1)
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(code: str, tmp_path: Path) -> None:
    """Each Python block of the documentation runs by itself, in an empty folder."""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that exists."""
    broken = [target for target in LINK.findall(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert broken == []


def test_generated_pages_are_fresh() -> None:
    """A page that follows from the code is what the code says now; `make docs` writes it."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    stale = [name for name, page in generate.PAGES.items() if (ROOT / "docs" / name).read_text("utf-8") != page()]
    assert stale == []


def test_the_first_minute_prints_what_it_says(tmp_path: Path) -> None:
    """The output below the README's first snippet is its output."""
    page = (ROOT / "README.md").read_text("utf-8")
    snippet = SNIPPET.findall(page)[0]
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) > 3
    assert f"```text\n{done.stdout}```" in page


def test_what_models_cost_is_what_the_formula_says(tmp_path: Path) -> None:
    """The table of prices is the output of the snippet above it."""
    page = (ROOT / "docs" / "models.md").read_text("utf-8")
    snippet = next(code for code in SNIPPET.findall(page) if "RAW_A_REQUEST" in code)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 4
    assert done.stdout in page
