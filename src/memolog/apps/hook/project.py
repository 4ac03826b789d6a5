"""Whose memory a folder means: that of the project it belongs to.

Knows how git marks a checkout, and that all worktrees of a repository are one project. Runs no program and loads nothing else.
"""

# Without pathlib, which alone would cost a hook a fifth of its time.
# ruff: noqa: PTH109, PTH112, PTH113, PTH118, PTH119, PTH120, PTH123

import os
from collections.abc import Mapping

__all__ = ["LONGEST", "resource_of", "root_of", "started_in"]

LONGEST = 512
"""The longest name that a resource may have."""
_HOST_FOLDERS = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CURSOR_PROJECT_DIR")


def started_in(folder: str | None, environment: Mapping[str, str]) -> str:
    """Return the folder that a session belongs to: what the host calls its project, or where it works now."""
    for name in _HOST_FOLDERS:
        if environment.get(name):
            return environment[name]
    return folder or os.getcwd()


def resource_of(folder: str) -> str:
    """Return the name of the memory of a folder: the path of its project."""
    name = "".join(char if char.isprintable() else "?" for char in root_of(folder))
    return name[-LONGEST:]


def root_of(folder: str) -> str:
    """Return the main checkout that a folder is in, also from one of its worktrees; without git, the folder itself."""
    start = os.path.realpath(folder)
    at = start
    while True:
        mark = os.path.join(at, ".git")
        if os.path.isdir(mark):
            return at
        if os.path.isfile(mark):
            return _main_checkout(mark) or at
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above


def _main_checkout(mark: str) -> str | None:
    """Return the checkout that a worktree was made from; None for a submodule, which is a project of its own."""
    try:
        with open(mark, encoding="utf-8") as file:
            head = file.read(4096)
        folder = os.path.join(os.path.dirname(mark), head.removeprefix("gitdir:").strip())
        with open(os.path.join(folder, "commondir"), encoding="utf-8") as file:
            shared = os.path.realpath(os.path.join(folder, file.read(4096).strip()))
    except (OSError, ValueError):
        return None
    return os.path.dirname(shared) if os.path.basename(shared) == ".git" else shared
