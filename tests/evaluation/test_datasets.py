"""The data sets are read as they are published."""

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation import samples
from memolog.apps.eval.datasets import read
from memolog.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one sample of each data set."""
    samples.write_samples(tmp_path)
    return tmp_path


def test_longmemeval(folder: Path) -> None:
    """Sessions are in the order of their dates, also in a compressed file; a question about what was not said has no answer."""
    packed = folder / "s.json.gz"
    packed.write_bytes(gzip.compress((folder / "longmemeval_oracle.json").read_bytes()))
    data = read("longmemeval", packed)
    first, absent, preference = data.histories
    assert [session.thread for session in first.sessions] == ["answer_a", "answer_b"]
    assert first.messages[0].at == datetime(2024, 5, 2, 9, 15, tzinfo=UTC)
    assert first.questions[0].rule == "update"
    assert first.questions[0].evidence == {"answer_a:0", "answer_b:0"}
    assert (absent.questions[0].type, absent.questions[0].answer) == ("abstention", None)
    assert preference.questions[0].rule == "preference"
    assert data.settings["scope"] == "resource"


def test_locomo(folder: Path) -> None:
    """Ids in evidence that do not exist are left out, captions are read, and category 5 has no answer."""
    (history,) = read("locomo", folder / "locomo10.json").histories
    assert [said.role for said in history.messages] == ["user", "assistant", "assistant", "user"]
    assert history.messages[2].text == "My first bowl broke. [shares a picture: a broken bowl]"
    assert [question.type for question in history.questions] == ["single-hop", "temporal", "abstention"]
    assert [question.answer for question in history.questions] == ["Comet", "2023", None]
    assert history.questions[1].evidence == {"D1:2"}


def test_beam(folder: Path) -> None:
    """A chat is one conversation; empty messages and marks of the generator are left out; rubrics and sources are read."""
    (history,) = read("beam", folder / "beam").histories
    assert history.scope == "thread"
    assert [said.text for said in history.messages][:2] == [
        "My locker code is cobalt-7.",
        "I will remember the locker code.",
    ]
    assert [said.at.date().isoformat() for said in history.messages] == ["2024-03-15"] * 2 + ["2024-04-02"] * 2
    asked, absent, following = history.questions
    assert (asked.answer, asked.rubric, asked.evidence) == ("cobalt-7", ("It states cobalt-7.",), {"0"})
    assert (absent.rule, absent.answer) == ("abstention", None)
    assert (following.rule, following.evidence) == ("rubric", {"0", "3"})


def test_other_data_is_refused(folder: Path) -> None:
    """The error names the file and says what is expected."""
    with pytest.raises(InputError, match="cannot be read as longmemeval"):
        read("longmemeval", folder / "locomo10.json")
    with pytest.raises(InputError, match="has no data of beam"):
        read("beam", folder / "beam" / "100K" / "1" / "probing_questions")
    with pytest.raises(InputError, match="There is no data"):
        read("locomo", folder / "nothing.json")
    cut = folder / "cut.json.gz"
    cut.write_bytes(gzip.compress((folder / "locomo10.json").read_bytes())[:-20])
    with pytest.raises(InputError, match="cannot be decompressed"):
        read("locomo", cut)
    (folder / "empty.json").write_text("[]")
    with pytest.raises(InputError, match="has no questions"):
        read("longmemeval", folder / "empty.json")


def test_a_part(folder: Path) -> None:
    """The first questions, or those of some types."""
    data = read("longmemeval", folder / "longmemeval_oracle.json")
    assert [question.id for _, question in data.part(limit=2).questions] == ["q1", "q2_abs"]
    assert [question.id for _, question in data.part(types=["abstention"]).questions] == ["q2_abs"]
    with pytest.raises(InputError, match="knowledge-update"):
        data.part(types=["updates"])
