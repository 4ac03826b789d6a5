"""The fixed texts of a context, read from `texts/*.md`. What is filled in must be escaped before."""

from importlib.resources import files
from typing import Final

__all__ = [
    "CONTINUATION",
    "CONTINUATION_ALIAS",
    "CUT",
    "CUT_FILE",
    "EARLIER_MESSAGES",
    "LATE_RESULT",
    "LEFT_OUT",
    "NO_RESULT",
    "OTHER_CONVERSATION",
    "PACK",
    "PACK_LEFT_OUT",
    "PASSED",
    "PASSED_ALONG",
    "PASSED_DONE",
    "RECALLED",
    "REPEATED_RESULT",
    "USAGE",
    "USAGE_DONE",
    "USAGE_RESOURCE",
    "WORKING_MEMORY_BOTH",
    "WORKING_MEMORY_CHANGED",
    "WORKING_MEMORY_EMPTIED",
]


def _text(name: str) -> str:
    # A checkout may bring its own line ends; the bytes of a context must not depend on them.
    text = files("memolog.context").joinpath("texts", f"{name}.md").read_text("utf-8")
    return "\n".join(text.splitlines()).strip()


CONTINUATION: Final = _text("continuation")
CONTINUATION_ALIAS: Final = _text("continuation_alias")
CUT: Final = _text("cut")
CUT_FILE: Final = _text("cut_file")
EARLIER_MESSAGES: Final = _text("earlier_messages")
LATE_RESULT: Final = _text("late_result")
LEFT_OUT: Final = _text("left_out")
NO_RESULT: Final = _text("no_result")
OTHER_CONVERSATION: Final = _text("other_conversation")
PACK: Final = _text("pack")
PACK_LEFT_OUT: Final = _text("pack_left_out")
PASSED: Final = _text("passed")
PASSED_ALONG: Final = _text("passed_along")
PASSED_DONE: Final = _text("passed_done")
RECALLED: Final = _text("recalled")
REPEATED_RESULT: Final = _text("repeated_result")
USAGE: Final = _text("usage").format(plans=_text("usage_plans"))
USAGE_DONE: Final = _text("usage").format(plans=_text("usage_plans_done"))
USAGE_RESOURCE: Final = _text("usage_resource")
WORKING_MEMORY_BOTH: Final = _text("working_memory_both")
WORKING_MEMORY_CHANGED: Final = _text("working_memory_changed")
WORKING_MEMORY_EMPTIED: Final = _text("working_memory_emptied")
