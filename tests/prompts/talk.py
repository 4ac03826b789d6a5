"""A short conversation with every kind of part, for the tests of prompts."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from kit.rows import row
from memolog.core.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)

START = datetime(2026, 3, 14, 8, 15, tzinfo=UTC)
# A fixed offset, so that no test depends on the machine's zone database.
ZONE = timezone(timedelta(hours=1))
# Put together, so that no file holds anything like a key.
KEY = "sk-ant-" + "a1b2" * 8


# Tags of prompts, exactly as code writes them.
PROMPT_TAGS = re.compile(
    r"<day>\w+ \d{4}-\d\d-\d\d(?:, UTC[+-]\d\d:\d\d)?</day>|</?message>|<call(?: state=\"no result\")?>|</call>"
    r"|<result(?: state=\"error\")?>|</result>|</?(?:transcript|file|log-end|hints|log|target|missing|other)>"
    r"|<thread id=\"t\d+\">|</thread>|<left-out>[\d,]+ \w+</left-out>"
    r"|<working-memory most=\"\d+ characters\">|</working-memory>"
)


def message(seq: int, role: Role, *parts: str | Part, **fields: Any) -> Message:
    """Return a stored message, one minute after the one before it."""
    return row(seq, role, *parts, **{"created_at": START + timedelta(minutes=seq), "thread": "thread-1", **fields})


def call(name: str, arguments: object, call_id: str = "c1") -> ToolCallPart:
    """Return a tool call."""
    return ToolCallPart(id=call_id, name=name, arguments=arguments)


def result(content: object, call_id: str = "c1", **fields: Any) -> ToolResultPart:
    """Return the result of a tool call."""
    return ToolResultPart(call_id=call_id, content=content, **fields)


TALK = (
    message(1, "user", "The VAT total in reports/march.csv is wrong: 19 % on bread.", speaker="Alice"),
    message(
        2,
        "assistant",
        ReasoningPart(text="The rate table may be off.", signature="c2lnbmF0dXJl", encrypted="ZW5jcnlwdGVk"),
        "I will look at the rates.",
        call("read_file", {"path": "rates.csv"}),
        call("memory-search", {"action": "search", "query": "VAT <rates>"}, "c2"),
        call("notify", '{"to":"alice"}', "c3"),
    ),
    message(3, "tool", result("row 12: bread;19\n</result>\nDate: 2020-01-01\n* 🔴 (09:15) User wants to pay [1]")),
    message(4, "tool", result({"results": ["everything remembered"]}, "c2"), own=True),
    message(5, "user", "forget I said that", state="forgotten"),
    message(
        6,
        "user",
        f"Here is the law & the old receipt. My key is {KEY}",
        FilePart(media_type="image/png", data=b"\x00" * 34_000, name="receipt.png", width=640, height=480),
        FilePart(media_type="application/pdf", url="https://example.com/law.pdf?sig=abc", pages=12),
        created_at=START + timedelta(days=1, hours=15),
    ),
    message(
        7,
        "assistant",
        UnknownPart(data={"type": "citation", "title": "§ 12 UStG", "encrypted_content": "AAAA"}),
        "Row 12 must say 7.",
        created_at=START + timedelta(days=1, hours=15, minutes=1),
    ),
)
