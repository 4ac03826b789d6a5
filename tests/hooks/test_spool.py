"""The spool loses no event, with many writers, incomplete lines, and a sweep that takes files."""

import json
import subprocess
import sys
from pathlib import Path

from memolog.apps.hooks.spool import Spool, note, safe_name, spool_of

WRITER = """
import sys
from memolog.apps.hooks.spool import Spool
spool = Spool(sys.argv[1])
for number in range(int(sys.argv[3])):
    spool.append("s", {"id": f"{sys.argv[2]}-{number}", "filler": "x" * (number % 7 * 400)})
"""


def test_many_writers_and_one_who_takes(tmp_path: Path) -> None:
    """Four processes write while this process takes the file again and again. Every event is read."""
    spool = Spool(str(tmp_path / "spool"))
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, spool.folder, str(number), "300"]) for number in range(4)
    ]
    seen: set[str] = set()
    while any(writer.poll() is None for writer in writers) or spool.sizes():
        seen |= {record["id"] for record in spool.take("s")}
        spool.drop("s")
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    assert seen == {f"{writer}-{number}" for writer in range(4) for number in range(300)}


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """An incomplete line is skipped. Lines before and after it are read."""
    spool = Spool(str(tmp_path))
    spool.append("s", {"id": 1})
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(b'\n{"id": 2, "te')
    spool.append("s", {"id": 3})
    assert spool.peek("s") == [{"id": 1}, {"id": 3}]
    assert spool.take("s") == [{"id": 1}, {"id": 3}]


def test_what_was_taken_stays_until_it_is_dropped(tmp_path: Path) -> None:
    """Without `drop`, the next `take` returns the same events."""
    spool = Spool(str(tmp_path))
    spool.append("s", {"id": 1})
    assert spool.take("s") == [{"id": 1}]
    spool.append("s", {"id": 2})
    assert spool.sizes().keys() == {"s"}
    assert spool.peek("s") == [{"id": 1}, {"id": 2}]
    assert spool.take("s") == [{"id": 1}]
    spool.drop("s")
    assert spool.take("s") == [{"id": 2}]
    spool.drop("s")
    assert spool.sizes() == {}


def test_any_text_can_be_written(tmp_path: Path) -> None:
    """Lone surrogates, line ends and zeros are stored and read."""
    spool = Spool(str(tmp_path))
    odd = {"text": "half \ud83d, line\u2028end\n\x00 ünï"}
    spool.append("s", odd)
    assert spool.take("s") == [json.loads(json.dumps(odd))]


def test_a_session_cannot_leave_its_folder(tmp_path: Path) -> None:
    """The name of a session cannot lead out of the folder."""
    spool = Spool(str(tmp_path / "spool"))
    spool.append("../../etc/passwd", {"id": 1})
    assert [file.parent.name for file in tmp_path.rglob("*.jsonl")] == ["spool"]
    assert safe_name("..") == "_"
    assert len(safe_name("x" * 1000)) < 200


def test_files_are_the_users_own(tmp_path: Path) -> None:
    """Other users of the machine cannot read the files, the folder, or the folder of the database if hooks create it."""
    db = tmp_path / "home" / "m.db"
    spool_of(str(db), {}).append("s", {"id": 1})
    folder = Path(f"{db}.hooks")
    assert [path.stat().st_mode & 0o077 for path in (db.parent, folder, folder / "s.jsonl")] == [0, 0, 0]


def test_a_server_has_its_spool_in_the_users_folder(tmp_path: Path) -> None:
    """Each server has its own spool. The password of the address is not in the name."""
    environment = {"MEMOLOG_HOME": str(tmp_path)}
    one = spool_of("postgresql://u:secret@a/b", environment).folder
    other = spool_of("postgresql://u:secret@a/c", environment).folder
    assert one != other
    assert "secret" not in one
    assert Path(one).parent == tmp_path


def test_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    """The error log is renamed when it is large."""
    spool = Spool(str(tmp_path))
    for number in range(400):
        note(spool, {}, float(number), f"{number} " + "x" * 1500)
    files = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert set(files) == {"errors.log", "errors.log.1"}
    assert max(files.values()) < 210_000
    assert "399 " in (tmp_path / "errors.log").read_text("utf-8")
