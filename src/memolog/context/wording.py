"""The fixed texts of a context, read from `texts/*.md`. Texts that are inserted into them must be escaped before."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final


def _text(name: str) -> str:
    # The bytes of a context must not depend on the line ends of the installed files.
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


def working_memory_text(texts: Mapping[str, str]) -> str | None:
    """Return the text that a context shows of these documents, by scope. None if all are empty.

    The document of the thread comes after the document of the resource, and the text says that it has precedence.
    """
    present = {scope: text.strip() for scope, text in texts.items() if text.strip()}
    if len(present) > 1:
        # str.format cannot be used, because the documents may contain braces.
        first, _, rest = WORKING_MEMORY_BOTH.partition("{resource}")
        second, _, last = rest.partition("{thread}")
        return "".join([first, present["resource"], second, present["thread"], last])
    return next(iter(present.values()), None)
