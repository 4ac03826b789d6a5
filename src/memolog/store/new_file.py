"""Files that are made whole: written under a name that nobody can guess, and given their own name when they are complete.

A file made here can be read by its owner only, unless it copies one that others may read. It never goes through a link that
somebody has put in its place, and takes the place of another file only if that is allowed.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

__all__ = ["PARTIAL", "make_empty", "mode_of", "new_file"]

PARTIAL = r"\.[a-z0-9_]{8}\.partial"
"""How the name of a file ends, as a pattern, while it is being written."""

_PRIVATE = 0o600


def mode_of(path: "str | os.PathLike[str]") -> int:
    """Return who may read and write a file."""
    return stat.S_IMODE(Path(path).stat().st_mode) & 0o777


@contextlib.contextmanager
def new_file(target: Path, *, mode: int = _PRIVATE, overwrite: bool = False) -> Generator[Path]:
    """Give the path of an empty file to fill; it becomes `target` when the block ends, and is removed if that fails.

    Raises FileExistsError if there is something under the name of the target, unless `overwrite`. A link in its place is
    replaced then, never followed.
    """
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(f"{target} exists already")
    file, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".partial")
    os.close(file)
    partial = Path(name)
    try:
        partial.chmod(mode)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if overwrite:
            partial.replace(target)
        else:
            _link(partial, target, mode)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def make_empty(path: Path, mode: int) -> None:
    """Make a file that is not there yet; raises FileExistsError, also for a link that leads nowhere."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    # What the umask took away.
    path.chmod(mode)


def _link(partial: Path, target: Path, mode: int) -> None:
    """Give a file its name, without replacing what may have been put there meanwhile."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links: the name is taken first, and then given to the whole file.
        make_empty(target, mode)
        partial.replace(target)
