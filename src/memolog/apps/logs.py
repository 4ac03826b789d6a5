"""Write the log of a server as one JSON document for each line. No line has the text of a message."""

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

LogFormat: TypeAlias = Literal["text", "json"]
VALUES = "memolog_values"
"""The attribute of a log record that has more values for its line."""


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Of an exception it has the type and the places in the code, because its text may quote a message."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            frames = traceback.extract_tb(trace)
            line["error"] = kind.__name__
            line["where"] = [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames]
        line |= cast("dict[str, Any]", getattr(record, VALUES, {}))
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_log(form: LogFormat) -> None:
    """Write the log of this process to standard error as JSON. With `text`, leave logging as it is."""
    # While a server is away, asyncpg writes a traceback at each try to connect. Memolog reports that in one sentence.
    logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)
    if form == "json":
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
        logging.getLogger("memolog").setLevel(logging.INFO)
