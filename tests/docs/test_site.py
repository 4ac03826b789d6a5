"""Tests of the site: it builds without a network, every link has a target, and pages fetch nothing from other hosts."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
# The attributes whose addresses a browser fetches automatically, and the tags that have them.
FETCHED = {"src": {"audio", "iframe", "img", "script", "source", "video"}, "href": {"link"}, "data": {"object"}}
WITHOUT_NETWORK = """
import socket, sys
def refuse(*_, **__):
    raise RuntimeError("the build reached for the network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--quiet", "--site-dir", sys.argv[1]])
"""


@dataclass(slots=True)
class Page:
    """One page of the site: its links, the addresses that a browser fetches for it, its ids and its classes."""

    links: set[str] = field(default_factory=set[str])
    fetched: set[str] = field(default_factory=set[str])
    ids: set[str] = field(default_factory=set[str])
    classes: set[str] = field(default_factory=set[str])


class Reader(HTMLParser):
    """Parses one page."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store the links, addresses, ids and classes of a tag."""
        for name, value in attrs:
            if value is None:
                continue
            if name in {"id", "name"}:
                self.page.ids.add(value)
            if name == "class":
                self.page.classes.update(value.split())
            if tag in FETCHED.get(name, ()) and not value.startswith("data:"):
                self.page.fetched.add(value)
            if (tag, name) == ("a", "href"):
                self.page.links.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with one more guide that has no entry in the navigation, and return its folder."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "mkdocs.yml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "docs" / "guides").mkdir(exist_ok=True)
    (folder / "docs" / "guides" / "zebras.md").write_text("# Zebras\n\nSee [the words](../concepts.md#scopes).\n")
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, str(target)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Return every page of the site by its path."""
    found: dict[str, Page] = {}
    for path in sorted(site.rglob("*.html")):
        reader = Reader()
        reader.feed(path.read_text("utf-8"))
        found[path.relative_to(site).as_posix()] = reader.page
    return found


def is_outside(address: str) -> bool:
    """Return whether an address is outside the site."""
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def test_every_page_is_there(site: Path, pages: dict[str, Page]) -> None:
    """Each document is a page and in the navigation, also the files of the root and a new guide."""
    sources = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    expected = sources | {"index.html", "changelog.html", "contributing.html", "guides/zebras.html"}
    assert expected <= pages.keys()
    assert expected - {"index.html"} <= pages["index.html"].links
    text = (site / "index.html").read_text("utf-8")
    for name in ("Start", "Concepts", "Guides", "Reference", "Operations", "Decisions"):
        assert re.search(rf">\s*{name}\s*<", text), name


def test_every_link_leads_somewhere(site: Path, pages: dict[str, Page]) -> None:
    """The target of each link and each fetched address is a file of the site, and the part after # is an id in it."""
    broken: list[str] = []
    count = 0
    for name, page in pages.items():
        if name == "404.html":  # it may be shown at any address, so its links begin at the root
            continue
        for link in page.links | page.fetched:
            if is_outside(link):
                continue
            count += 1
            parts = urlsplit(link)
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            if target.is_dir():
                target /= "index.html"
            key = os.path.relpath(target, site)
            is_missing = not target.is_file()
            if is_missing or (parts.fragment and key in pages and unquote(parts.fragment) not in pages[key].ids):
                broken.append(f"{name}: {link}")
    assert broken == []
    assert count > 500


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[str, Page]) -> None:
    """Pages use no script, style, font or picture of another host, and nothing for which the theme would load one."""
    assert [(name, item) for name, page in pages.items() for item in page.fetched if is_outside(item)] == []
    assert [name for name, page in pages.items() if "mermaid" in page.classes] == []
    sheets = list(site.rglob("*.css"))
    assert sheets
    outside = re.compile(r"""(?:url\(\s*|@import\s+)["']?(?:https?:)?//""")
    assert [sheet.name for sheet in sheets if outside.search(sheet.read_text("utf-8"))] == []
    drawn = [path for path in site.rglob("*.svg") if outside.search(path.read_text("utf-8"))]
    assert drawn == []


def test_everything_can_be_searched(site: Path) -> None:
    """The search index of the site exists and contains the pages."""
    text = (site / "search" / "search_index.json").read_text("utf-8")
    assert "zebras.html" in text
    assert "Resource.forget" in text
