"""The repository as a whole: nothing of one machine in it, every dependency pinned, every document and target in its place."""

import re
import subprocess
import tomllib
from functools import cache

import pytest

from architecture.source import REPOSITORY

# Put together here, so that this file does not hold what it looks for.
FOLDERS = ("home", "root", "work")
MACHINE_PATH = re.compile(rf"(?<![\w.])/(?:{'|'.join(FOLDERS)})/")
TEMPORARY_PATH = re.compile(rf"(?<![\w.])/{'tmp'}/")
REGISTRY = re.compile("|".join([r"\b" + "pypi" + r"\.org", "files" + r"\.pythonhosted", "registry" + r"\.npmjs"]))
DOCUMENTS = ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md")


@cache
def repository_files() -> dict[str, str]:
    """Return the text of every file that is, or is about to be, part of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout")
    names = sorted(filter(None, done.stdout.decode().split("\0")))
    files = {name: REPOSITORY / name for name in names}
    return {name: path.read_bytes().decode("utf-8", "replace") for name, path in files.items() if path.is_file()}


def lines_with(pattern: re.Pattern[str], *folders: str) -> list[str]:
    """Return where a pattern occurs, in these folders or everywhere."""
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in repository_files().items()
        if not folders or name.startswith(folders)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_machine_paths() -> None:
    """No file names a folder of the machine it was written on."""
    assert "pyproject.toml" in repository_files()
    assert lines_with(MACHINE_PATH) == []


def test_no_temporary_paths_in_source_and_documents() -> None:
    """Source and documents name no temporary folder either: it differs between systems."""
    assert lines_with(TEMPORARY_PATH, "src/", "docs/", "examples/", *DOCUMENTS) == []


def test_no_registry_hosts() -> None:
    """Where packages come from is the installer's business."""
    assert lines_with(REGISTRY) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_counts_as_a_machine_path(folder: str) -> None:
    """The pattern finds an absolute path and leaves a relative one or an address alone."""
    assert MACHINE_PATH.search(f"open('/{folder}/x')")
    assert not MACHINE_PATH.search(f"src/{folder}/x example.com/{folder}/x /{folder}s/")


# ---------------------------------------------------------------- requirements


CONSTRAINTS = ("constraints.txt", "constraints-core.txt")


def requirements(name: str) -> list[str]:
    """Return the requirements of the constraints, each on one line with its hashes."""
    text = (REPOSITORY / name).read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    """Every line is a version with its hashes: no address, no index, and nothing that could change."""
    assert requirements(name) != []
    exact = re.compile(r"^[\w.\-\[\],]+==\S+(?: ;[^#]*?)?(?:\s+--hash=sha256:[0-9a-f]{64})+$")
    assert [line[:60] for line in requirements(name) if not exact.match(line)] == []


def test_the_demo_installs_what_the_tests_install() -> None:
    """The small set is a part of the large one, to the last hash, and holds every dependency of the library itself."""

    def pinned(name: str) -> dict[str, frozenset[str]]:
        return {line.split()[0]: frozenset(re.findall("--hash=(\\S+)", line)) for line in requirements(name)}

    small, large = pinned("constraints-core.txt"), pinned("constraints.txt")
    assert {name: hashes for name, hashes in small.items() if large.get(name) != hashes} == {}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    assert {re.split("[<>=]", item)[0] for item in wanted} <= {name.split("==")[0] for name in small}


# ---------------------------------------------------------------- documents and targets


def test_make_help_lists_every_target() -> None:
    """What a person can run, `make help` shows; what it shows, a person can run."""
    text = (REPOSITORY / "Makefile").read_text("utf-8")
    shown = set(re.findall(r"^#   make ([\w-]+)", text, re.MULTILINE))
    phony = {name for line in re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE) for name in line.split()}
    patterns = {f"{stem}NAME" for stem in re.findall(r"^([\w-]+)%:", text, re.MULTILINE)}
    assert shown == (phony | patterns) - {"help"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_there(name: str) -> None:
    """Every document that a newcomer looks for exists and says something."""
    path = REPOSITORY / name
    assert path.is_file(), f"{name} is missing"
    assert path.read_text("utf-8").strip(), f"{name} is empty"
