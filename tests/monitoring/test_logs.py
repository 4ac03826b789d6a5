"""The log as JSON: one document a line, with values, and without the text of an exception."""

import json
import logging
from collections.abc import Iterator

import pytest

from memolog import AssistantMessage, Config, Memory
from memolog.apps.logs import VALUES, JsonFormatter, set_up_log
from memolog.testing import ScriptedModel

SAID = "the-words-of-a-user"


@pytest.fixture
def clean_logging() -> Iterator[None]:
    """Leave logging as it was."""
    root, ours = logging.getLogger(), logging.getLogger("memolog")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_a_line() -> None:
    """A line has the time, the level, the logger, the message and the values."""
    record = logging.LogRecord("memolog.servers", logging.INFO, "file.py", 1, "done in %s", ("red",), None)
    setattr(record, VALUES, {"event": "done", "runs": 2})
    record.created = 0.0
    assert json.loads(JsonFormatter().format(record)) == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "logger": "memolog.servers",
        "message": "done in red",
        "event": "done",
        "runs": 2,
    }


def test_an_exception_without_its_text(capsys: pytest.CaptureFixture[str], clean_logging: None) -> None:
    """Of an exception the log has the type and the places in the code."""
    set_up_log("json")

    def fail() -> None:
        raise ValueError(SAID)

    try:
        fail()
    except ValueError:
        logging.getLogger("memolog").exception("a request failed")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["error"], line["message"]) == ("error", "ValueError", "a request failed")
    assert line["where"][-1].startswith("test_logs.py:")
    assert SAID not in json.dumps(line)


async def test_no_message_is_logged(capsys: pytest.CaptureFixture[str], clean_logging: None) -> None:
    """Turns, failed runs and listeners that raise write lines to the log, and none has the words of a message."""
    set_up_log("json")
    logging.getLogger("memolog").setLevel(logging.DEBUG)
    model = ScriptedModel([ConnectionError("down")] * 3)

    def broken(_: object) -> None:
        raise RuntimeError(SAID)

    config = Config().with_overrides({"observation.message_tokens": 200, "observation.buffer_tokens": False})
    async with Memory(":memory:", model=model, config=config) as memory:
        memory.subscribe(broken)
        for _ in range(4):
            async with memory.thread("red", resource="alice").turn() as turn:
                await turn.prepare(f"{SAID} " * 20)
                await turn.record(AssistantMessage(f"{SAID} " * 20))
        await memory.settled()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert any(line["message"].startswith("a listener failed") for line in lines)
    assert SAID not in json.dumps(lines)


def test_text_leaves_logging_alone(clean_logging: None) -> None:
    """Without the option, the application decides what happens to the log."""
    before = logging.getLogger().handlers[:]
    set_up_log("text")
    assert logging.getLogger().handlers == before
