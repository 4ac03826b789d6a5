"""Hooks of `mkdocs.yml`: add README, CHANGELOG and CONTRIBUTING as pages, and expand patterns in the navigation.

A pattern in the navigation stands for the pages that match it and are named nowhere else, so that a new guide needs no entry.
Links are rewritten as the site needs them.
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
    """Replace each pattern of the navigation by the pages that it stands for."""
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
            raise TypeError(f"{item!r} is nothing that a navigation holds.")


def _expanded(items: list[Any], left: list[str]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        match item:
            case str() if "*" in item:
                # A pattern does not reach into folders below its own.
                depth = item.count("/")
                found += [page for page in left if page.count("/") == depth and fnmatch(page, item)]
            case dict():
                found += [
                    {name: _expanded(inner, left) if isinstance(inner, list) else inner} for name, inner in item.items()
                ]
            case _:
                found.append(item)
    # A section that nothing fits is no section.
    return [item for item in found if not isinstance(item, dict) or all(item.values())]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made of files at the root of the repository."""
    for name, page in FROM_ROOT.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=PICTURE.sub(r"\1(\2)", mended(text, PurePosixPath()))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mend the links of a page that lead out of this folder."""
    source = page.file.src_uri
    return markdown if source in FROM_ROOT.values() else mended(markdown, PurePosixPath("docs", source).parent)


def mended(text: str, folder: PurePosixPath) -> str:
    """Return the text of a page of a folder of the repository, with links as the site needs them.

    A link to a page of the site leads there; one to anything else of the repository is its name, since the site has no copy.
    That pages which should be there are there is checked on the files themselves.
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
    """Return the way from a folder of the repository to a page of the site."""
    depth = max(0, len(folder.parts) - 1)
    return "../" * depth + page
