"""Entries of Memolog are added to the settings files of a host and removed again. Everything else in the files stays."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters

from cli.world import inside, run
from hooks.world import Desk
from memolog.apps.hooks.entry import resource_of
from memolog.apps.hooks.hosts import KNOWN, Change, Place, apply, backup_of, installing, uninstalling
from memolog.apps.hooks.text_edit import add_item, parse, remove, set_member, with_block, without_block
from memolog.errors import InputError

HOSTS = list(KNOWN)
SETTINGS = """{
    // What I like.
    "model": "large", // the best
    "hooks": {
        "Stop": [
            { "hooks": [{ "type": "command", "command": "say done" }] } /* loud */
        ],
        "PreToolUse": []
    },
    "mcpServers": {"other": {"command": "other"}}
}
"""
TOML = '# mine\nmodel = "large"   # the best\n\n[mcp_servers.other]\ncommand = "other"\n\n[[things]]\na = 1\n'

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(alphabet='ab"\\/{}[],:é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="abc", max_size=2), inner, max_size=3),
    max_leaves=12,
)
indents = st.sampled_from([None, 1, 2, 4, "\t"])


# ---------------------------------------------------------------- JSON as a person wrote it


@given(json_values, indents)
def test_a_text_is_read_as_json_is(data: Any, indent: Any) -> None:
    """The parser and the standard library give the same value."""
    assert parse(json.dumps(data, indent=indent)).value == data


@given(st.dictionaries(st.text(alphabet="abc", max_size=2), json_values, max_size=3), indents, json_values)
def test_a_member_that_is_added_can_be_removed(data: dict[str, Any], indent: Any, new: Any) -> None:
    """Adding a member changes nothing else. Removing it restores the text."""
    text = json.dumps(data, indent=indent) + "\n"
    longer = set_member(text, (), "ours", new)
    assert json.loads(longer) == {**data, "ours": new}
    assert remove(longer, (), lambda name, _: name == "ours") == text


@given(st.dictionaries(st.sampled_from("abc"), st.lists(json_values, max_size=3), max_size=3), indents)
def test_an_item_that_is_added_can_be_removed(data: dict[str, Any], indent: Any) -> None:
    """Missing containers are created and removed again. Empty containers may be removed with the item."""
    text = json.dumps({"x": 1, "hooks": data}, indent=indent)
    longer = add_item(text, ("hooks", "a"), {"ours": True})
    expected = {**data, "a": [*data.get("a", []), {"ours": True}]}
    assert json.loads(longer) == {"x": 1, "hooks": expected}
    shorter = remove(longer, ("hooks", "a"), lambda _, item: item == {"ours": True})
    if data.get("a") or (data and "a" not in data):
        assert shorter == text
    else:
        rest = {key: item for key, item in data.items() if key != "a"}
        assert json.loads(shorter) == ({"x": 1, "hooks": rest} if rest else {"x": 1})


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": [1],\n}\n',
        '{\n  "a": [\n    1,\n    2,\n  ],\n}\n',
        '{"a": [1,],}',
        '{ "a": [ 1, ], }',
        '{\n  // one\n  "a": [ // two\n    1, // three\n  ], // four\n  /* five */\n}\n',
        '{\n  "a": [1,], // one\n  // two\n}\n',
        '{\n  "a": [\n    1 // one\n    ,\n  ] /* two */ , // three\n}\n',
        '{\n  "a": [\n    1 /* one */, // two\n  ] // three\n}\n',
    ],
)
def test_comments_and_trailing_commas_stay(text: str) -> None:
    """Comments and trailing commas are still there after our entries are removed."""
    longer = add_item(add_item(text, ("a",), "ours"), ("a",), "ours, too")
    longer = set_member(longer, (), "ours", {"b": [2]})
    assert parse(longer).value == {"a": [*parse(text).value["a"], "ours", "ours, too"], "ours": {"b": [2]}}
    back = remove(longer, ("a",), lambda _, item: str(item).startswith("ours"))
    assert remove(back, (), lambda name, _: name == "ours") == text


@pytest.mark.parametrize("text", ["{", "[1 2]", '{"a" 1}', "{'a': 1}", "nothing", '{"a": 01x}', "{} {}", '{"a": "b'])
def test_what_is_no_json_is_refused(text: str) -> None:
    """A broken file is refused."""
    with pytest.raises(InputError, match="not valid JSON"):
        parse(text)


# ---------------------------------------------------------------- TOML as a person wrote it


def test_a_block_is_added_and_removed() -> None:
    """The rest of the file does not change, and the file is valid TOML."""
    longer = with_block(TOML, ("mcp_servers", "memolog"), {"command": "py", "args": ["-m", 'a "b"']}, "ours")
    assert longer.startswith(TOML)
    assert tomllib.loads(longer)["mcp_servers"]["memolog"] == {"command": "py", "args": ["-m", 'a "b"']}
    assert (
        with_block(longer, ("mcp_servers", "memolog"), {"command": "new"}, "ours").count("[mcp_servers.memolog]") == 1
    )
    assert without_block(longer) == TOML


def test_a_table_of_somebody_else_is_left_alone() -> None:
    """A table with our name that the user wrote is not changed."""
    text = '[mcp_servers.memolog]\ncommand = "mine"\n'
    assert with_block(text, ("mcp_servers", "memolog"), {"command": "py"}, "ours") == text


@pytest.mark.parametrize("text", ['mcp_servers = { a = { command = "x" } }\n', "a = \n"])
def test_a_file_that_cannot_take_a_table_is_refused(text: str) -> None:
    """A change that would make the file invalid is refused."""
    with pytest.raises(InputError):
        with_block(text, ("mcp_servers", "memolog"), {"command": "py"}, "ours")


# ---------------------------------------------------------------- files


def in_project(host: Any, folder: Path) -> Place:
    """Return the settings files of a host in a project."""
    return Place(host=host, project=folder, home=folder, environment={})


def files(place: Place) -> list[Path]:
    """Return the settings files of a host."""
    return list(dict.fromkeys((place.hooks, place.servers)))


def install(place: Place, command: str = "py") -> None:
    """Add our entries."""
    for change in installed(place, command):
        apply(change)


def installed(place: Place, command: str = "py") -> list[Change]:
    """Return the changes of an installation."""
    run_ = [command, "-m", "memolog.apps.hook"]
    return installing(place, [*run_, place.host, "--db", "m.db"], [*run_, "mcp"])


def uninstall(place: Place) -> None:
    """Remove our entries."""
    for change in uninstalling(place):
        apply(change)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def fill(host: Any, folder: Path, ending: str = "\n") -> None:
    """Create the settings files of a user."""
    for path in files(in_project(host, folder)):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = TOML if path.suffix == ".toml" else SETTINGS
        path.write_bytes(text.replace("\n", ending).encode())


@pytest.mark.parametrize("ending", ["\n", "\r\n", None], ids=["lines", "DOS lines", "no files"])
@pytest.mark.parametrize("host", HOSTS)
def test_uninstalling_restores_every_byte(tmp_path: Path, host: Any, ending: str | None) -> None:
    """Existing files get their original bytes and line ends, and no other file is left."""
    if ending:
        fill(host, tmp_path, ending)
    before = contents(tmp_path)
    install(in_project(host, tmp_path))
    during = contents(tmp_path)
    assert during
    assert all(b"memolog.apps.hook" in during[name] for name in before)
    assert all(during[f"{name}.memolog-backup"] == text for name, text in before.items())
    uninstall(in_project(host, tmp_path))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("host", HOSTS)
def test_installing_again_changes_nothing(tmp_path: Path, host: Any) -> None:
    """The same installation changes nothing. An installation with another command replaces the old one."""
    fill(host, tmp_path)
    install(in_project(host, tmp_path))
    once = contents(tmp_path)
    assert all(change.is_none for change in installed(in_project(host, tmp_path)))
    install(in_project(host, tmp_path), command="another")
    install(in_project(host, tmp_path))
    again = contents(tmp_path)
    assert once.keys() == again.keys()
    for name, text in again.items():
        assert text.count(b"memolog.apps.hook") == once[name].count(b"memolog.apps.hook")
        assert b"another" not in text


@pytest.mark.parametrize("host", HOSTS)
def test_others_entries_stay(tmp_path: Path, host: Any) -> None:
    """Hooks, servers and comments of the user stay, also with changes after the installation."""
    fill(host, tmp_path)
    install(in_project(host, tmp_path))
    texts = [path for path in files(in_project(host, tmp_path)) if path.suffix == ".json"]
    for path in texts:
        text = path.read_text("utf-8")
        found = parse(text).value
        assert found["model"] == "large"
        assert found["mcpServers"]["other"] == {"command": "other"}
        assert {"hooks": [{"type": "command", "command": "say done"}]} in found["hooks"]["Stop"]
        assert text.count("//") == SETTINGS.count("//")
        path.write_text(text.replace('"large"', '"small"'), "utf-8")
    uninstall(in_project(host, tmp_path))
    assert {path.read_text("utf-8") for path in texts} == {SETTINGS.replace('"large"', '"small"')}


ODD = [
    '{"hooks": {"Stop": [], "SessionStart": []}, "mcpServers": {}}',
    '{\n  "hooks": {\n    "Stop": [ ]\n  },\n  "mcpServers": { /* none */ },\n}',
    '{\r\n"a": "x y",\n"hooks":{}}\r\n\n',
    "\ufeff{}",
    "\n\n",
    "",
    '{"version": 1}\n\n\n',
]


@pytest.mark.parametrize("has_server", [True, False])
@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("host", HOSTS)
def test_odd_files_get_their_bytes_back(tmp_path: Path, host: Any, text: str, has_server: bool) -> None:
    """Empty containers, mixed line ends, a byte order mark and empty files are restored, and no copy is left."""
    place = in_project(host, tmp_path)
    for path in files(place):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((TOML.replace("\n", "\n\r\n", 2) if path.suffix == ".toml" else text).encode())
    before = contents(tmp_path)
    run_ = ["py", "-m", "memolog.apps.hook"]
    for change in installing(place, [*run_, place.host], [*run_, "mcp"] if has_server else None):
        apply(change)
    assert contents(tmp_path) != before
    uninstall(place)
    assert contents(tmp_path) == before


@given(st.dictionaries(st.sampled_from(["a", "hooks", "mcpServers", "version"]), json_values, max_size=4), indents)
def test_any_file_gets_its_bytes_back(data: dict[str, Any], indent: Any) -> None:
    """A settings file with any content is refused, or restored byte for byte."""
    with tempfile.TemporaryDirectory() as folder:
        for host in HOSTS:
            place = in_project(host, Path(folder) / host)
            place.hooks.parent.mkdir(parents=True)
            place.hooks.write_text(json.dumps(data, indent=indent), "utf-8")
            before = contents(Path(folder))
            try:
                changes = installed(place)
            except InputError:
                continue
            for change in changes:
                apply(change)
            uninstall(place)
            assert contents(Path(folder)) == before


@pytest.mark.parametrize("host", HOSTS)
def test_what_differs_is_shown_and_the_original_is_kept(tmp_path: Path, host: Any) -> None:
    """If the user changed a file after the installation, the change stays, is shown, and the copy of the original stays."""
    (tmp_path / ".git").mkdir()
    fill(host, tmp_path)
    before = contents(tmp_path)
    install(in_project(host, tmp_path))
    path = in_project(host, tmp_path).hooks
    # Only a space differs, but it is inside a text.
    path.write_text(path.read_text("utf-8").replace('"say done"', '"saydone"'), "utf-8")
    changed = path.read_text("utf-8")
    with inside(tmp_path):
        told = run("uninstall", host, "--project", "--yes", "--dry-run")
        assert path.read_text("utf-8") == changed
        done = run("uninstall", host, "--project", "--yes")
    name = str(path.relative_to(tmp_path))
    assert path.read_text("utf-8") == SETTINGS.replace('"say done"', '"saydone"')
    kept = backup_of(path)
    assert kept.read_bytes() == before[name]
    assert contents(tmp_path) == {
        **before,
        name: path.read_bytes(),
        str(kept.relative_to(tmp_path)): before[name],
    }
    for out in (told.out, done.out):
        words = " ".join(out.split())
        assert "differs from its original" in words
        assert all(text in words for text in ('- { "hooks"', '"say done"', '+ { "hooks"', '"saydone"'))
        assert str(kept) in out.replace("\n", "")
    # A later call says it again, and when the file is as it was, the copy is removed.
    with inside(tmp_path):
        again = json.loads(run("uninstall", host, "--project", "--yes", "--json").out)
        assert [one["file"] for one in again["differs"]] == [str(path)]
        assert "+            " in again["differs"][0]["diff"]
        path.write_text(SETTINGS, "utf-8")
        last = json.loads(run("uninstall", host, "--project", "--yes", "--json").out)
    assert last["differs"] == []
    assert contents(tmp_path) == before


def test_a_file_that_changes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """A file that the host writes between the preview and the confirmation is refused, and nothing is lost."""
    fill("claude-code", tmp_path)
    for changes in (installed, uninstalling):
        found = changes(in_project("claude-code", tmp_path))
        path = found[0].path
        path.write_text(path.read_text("utf-8").replace("large", "larger"), "utf-8")
        text = path.read_text("utf-8")
        with pytest.raises(InputError, match="changed"):
            apply(found[0])
        assert path.read_text("utf-8") == text
        install(in_project("claude-code", tmp_path))


def test_a_link_is_followed(tmp_path: Path) -> None:
    """A settings file that is a link stays a link."""
    (tmp_path / "kept").mkdir()
    real = tmp_path / "kept" / "settings.json"
    real.write_text(SETTINGS, "utf-8")
    real.chmod(0o640)
    (tmp_path / ".claude").mkdir()
    link = tmp_path / ".claude" / "settings.local.json"
    link.symlink_to(real)
    install(in_project("claude-code", tmp_path))
    assert link.is_symlink()
    assert "memolog.apps.hook" in real.read_text("utf-8")
    assert real.stat().st_mode & 0o777 == 0o640
    uninstall(in_project("claude-code", tmp_path))
    assert real.read_text("utf-8") == SETTINGS
    assert not backup_of(link).exists()


def link(kind: str, project: Path, path: Path, home: Path) -> None:
    """Create a link for a settings file in a project, as a hostile repository could contain it."""
    up = Path("../" * len(path.relative_to(project).parent.parts))
    links: dict[str, tuple[Path, Path]] = {
        "the file": (path, home / "secret.json"),
        "a file to be made": (path, home / "new.json"),
        "the file kept": (backup_of(path), home / "secret.json"),
        "relative": (path, up / "../home/secret.json"),
        "by another link": (path, up / "way/secret.json"),
        "git": (path, up / ".git/hooks/pre-commit"),
        "its folder": (path.parent, home),
    }
    (project / "way").symlink_to(home)
    at, target = links[kind]
    at.parent.mkdir(exist_ok=True)
    at.symlink_to(target)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "kind", ["the file", "a file to be made", "the file kept", "relative", "by another link", "git", "its folder"]
)
def test_a_link_of_a_repository_leads_nowhere(tmp_path: Path, host: Any, kind: str) -> None:
    """A link that leads out of the project is refused, and no file outside is read or changed."""
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".git" / "hooks").mkdir(parents=True)
    home.mkdir()
    (home / "secret.json").write_text('{"secret": "swordfish"}', "utf-8")
    link(kind, project, in_project(host, project).hooks, home)
    before = contents(tmp_path)
    with inside(project):
        for word in ("install", "uninstall"):
            done = run(word, host, "--project", "--yes")
            assert done.code == 2, done.out
            assert "outside this project" in " ".join(done.err.split())
            assert "swordfish" not in done.out + done.err
    assert contents(tmp_path) == before


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A settings file that is a pipe is refused."""
    (tmp_path / ".claude").mkdir()
    os.mkfifo(tmp_path / ".claude" / "settings.local.json")
    with inside(tmp_path):
        done = run("install", "claude-code", "--project", "--yes")
    assert done.code == 2
    assert "is not a regular file" in " ".join(done.err.split())


def test_a_link_that_is_put_there_meanwhile_is_not_followed(tmp_path: Path) -> None:
    """A folder that is replaced by a link after the changes were shown is refused."""
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".cursor").mkdir(parents=True)
    home.mkdir()
    changes = installed(in_project("cursor", project))
    (project / ".cursor").rename(project / "was")
    (project / ".cursor").symlink_to(home)
    for change in changes:
        with pytest.raises(InputError, match="outside this project"):
            apply(change)
    assert contents(home) == {}


def test_a_link_in_the_way_stops_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is replaced by a link after the last check is refused when it is opened."""
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    home.mkdir()
    (project / ".cursor").symlink_to(home)
    change = Change(path=project / ".cursor" / "mcp.json", project=project, before=None, after="{}")
    monkeypatch.setattr("os.path.realpath", os.fspath)
    with pytest.raises(OSError, match="cursor"):
        apply(change)
    assert contents(home) == {}


def test_the_users_own_files(tmp_path: Path) -> None:
    """Without a project, the files are in the home folder of the user, or in the folder of a variable."""
    places = [Place(host=host, project=None, home=tmp_path, environment={}) for host in HOSTS]
    assert {place.host: [str(path.relative_to(tmp_path)) for path in files(place)] for place in places} == {
        "claude-code": [".claude/settings.json", ".claude.json"],
        "codex": [".codex/hooks.json", ".codex/config.toml"],
        "cursor": [".cursor/hooks.json", ".cursor/mcp.json"],
        "gemini": [".gemini/settings.json"],
    }
    folder = {"CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    place = Place(host="claude-code", project=None, home=tmp_path, environment=folder)
    assert files(place) == [tmp_path / "c" / "settings.json", tmp_path / "c" / ".claude.json"]


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_installed_can_be_run(tmp_path: Path, host: str) -> None:
    """A shell can run the installed command, and the command stores an event."""
    (tmp_path / "a b").mkdir()
    db = tmp_path / "a b" / "m.db"
    with inside(tmp_path):
        done = run("install", host, "--project", "--yes", "--json", "--db", str(db), "--no-mcp", "--tokens", "500")
        assert done.code == 0, done.err
        (name,) = [file for file in done.document["files"] if file.endswith(".json")]
    text = Path(name).read_text("utf-8")
    hooks = json.loads(text)["hooks"]
    entry = next(iter(hooks["beforeSubmitPrompt" if host == "cursor" else "Stop" if host != "gemini" else "AfterTool"]))
    command = entry.get("command") or entry["hooks"][0]["command"]
    assert shlex.split(command)[1:3] == ["-P", "-m"]
    session = "conversation_id" if host == "cursor" else "session_id"
    prompt = {"cursor": "beforeSubmitPrompt", "gemini": "BeforeAgent"}.get(host, "UserPromptSubmit")
    event = {session: "s1", "hook_event_name": prompt, "prompt": "hello", "cwd": str(tmp_path)}
    ran = subprocess.run(command, shell=True, input=json.dumps(event), capture_output=True, text=True, check=True)  # noqa: S602
    assert ran.stderr == ""
    assert "hello" in (Path(f"{db}.hooks") / f"{host}-s1.jsonl").read_text("utf-8")


def test_nothing_is_changed_without_a_word(tmp_path: Path) -> None:
    """Without a terminal and without --yes nothing is written. A dry run writes nothing."""
    with inside(tmp_path):
        refused = run("install", "codex", "--project")
        assert refused.code == 2
        assert "--yes" in refused.err
        shown = run("install", "codex", "--project", "--dry-run")
        assert shown.code == 0
        assert "+[mcp_servers.memolog]" in shown.out
        assert contents(tmp_path) == {}
        assert run("install", "nobody", "--yes").code == 2


def test_a_broken_file_is_named_and_left(tmp_path: Path) -> None:
    """If one file is invalid, no file is changed."""
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text("{ broken", "utf-8")
    with inside(tmp_path):
        done = run("install", "cursor", "--project", "--yes")
    assert done.code == 2
    assert "mcp.json" in done.err
    assert contents(tmp_path) == {".cursor/mcp.json": b"{ broken"}


# ---------------------------------------------------------------- the server


def entry(folder: Path, db: Path) -> Any:
    """Install for Claude Code in a folder, and return the entry of the server."""
    with inside(folder):
        done = run("install", "claude-code", "--project", "--yes", "--json", "--db", str(db))
    assert done.code == 0, done.err
    return json.loads((folder / ".mcp.json").read_text("utf-8"))["mcpServers"]["memolog"]


async def ask(server: Any, folder: Path, query: str) -> str:
    """Start the server in a project as a host does, and search."""
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": str(folder.parent)}
    started = StdioServerParameters(command=server["command"], args=server["args"], env=environment, cwd=folder)
    async with Client(started) as client:
        result = await client.call_tool("memory-search", {"action": "search", "query": query})
    return json.dumps(result.structured_content)


async def test_the_installed_server_knows_its_project(desk: Desk, tmp_path: Path) -> None:
    """The server starts without a database. It finds messages of its own project only."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    server = await asyncio.to_thread(entry, one, desk.db)
    # Settings that lie in a project are not ours to follow: these would even be refused.
    (one / "memolog.toml").write_text('model = "http://127.0.0.1:9/steal"\nno_such_setting = 1\n', "utf-8")
    assert "The staging" not in await ask(server, one, "heron")
    desk.resource = None
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(one), "turn_id": "1"}
    desk.tell("codex", {**event, "prompt": "The staging database is called heron."})
    await desk.sweep()
    assert len(await desk.messages("s1", resource_of(str(one)))) == 1
    assert "The staging database" in await ask(server, one, "heron")
    assert "The staging database" not in await ask(server, other, "heron")
