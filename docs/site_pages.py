"""Hooks of `mkdocs.yml`: add README, CHANGELOG and CONTRIBUTING as pages, and expand patterns in the navigation.

A pattern in the navigation is replaced by all matching pages that have no entry of their own, so that a new guide needs no entry.
Links between the pages are rewritten, because the site has other paths than the repository.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

__all__ = ["mended", "on_config", "on_files", "on_page_markdown"]

HERE = Path(__file__).parent
ROOT = HERE.parent
FROM_ROOT = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\])\(docs/([^)]+)\)")


def on_config(config: Any) -> Any:
    """Replace each pattern of the navigation by the pages that match it."""
    named = set(_named(config["nav"]))
    pages = sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.md"))
    config["nav"] = _expanded(config["nav"], [page for page in pages if page not in named])
    return config


def _named(item: Any) -> Iterator[str]:
    match item:
        case str():
            yield item
        case list():
            for inner in item:
                yield from _named(inner)
        case dict():
            for inner in item.values():
                yield from _named(inner)
        case _:
            raise TypeError(f"A navigation contains texts, lists and dictionaries, got {item!r}.")


def _expanded(items: list[Any], left: list[str]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        match item:
            case str() if "*" in item:
                # A pattern does not match pages in folders below its own.
                depth = item.count("/")
                found += [page for page in left if page.count("/") == depth and fnmatch(page, item)]
            case dict():
                found += [
                    {name: _expanded(inner, left) if isinstance(inner, list) else inner} for name, inner in item.items()
                ]
            case _:
                found.append(item)
    # A section without a page is left out.
    return [item for item in found if not isinstance(item, dict) or all(item.values())]


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each file of `FROM_ROOT`, which are files at the root of the repository."""
    for name, page in FROM_ROOT.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=PICTURE.sub(r"\1(\2)", mended(text, PurePosixPath()))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that lead out of this folder."""
    source = page.file.src_uri
    return markdown if source in FROM_ROOT.values() else mended(markdown, PurePosixPath("docs", source).parent)


def mended(text: str, folder: PurePosixPath) -> str:
    """Return the text of a page with links that work on the site. `folder` is the folder of the page in the repository.

    A link to a file that is not on the site is replaced by the name of the file. `tests/docs` checks that linked files exist.
    """

    def link(hit: re.Match[str]) -> str:
        words, target, anchor = hit[1], hit[2], hit[3] or ""
        path = _normal(folder / target)
        page = FROM_ROOT.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if page is None or not (page in FROM_ROOT.values() or (HERE / page).is_file()):
            return words if words.startswith("`") else f"`{words}`"
        return f"[{words}]({_relative(page, folder)}{anchor})"

    return LINK.sub(link, text)


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _relative(page: str, folder: PurePosixPath) -> str:
    """Return the relative link to a page of the site from a page in this folder of the repository."""
    depth = max(0, len(folder.parts) - 1)
    return "../" * depth + page
