"""Join the working memory of the resource and that of the thread into one text."""

from collections.abc import Mapping

from memolog.context.wording import WORKING_MEMORY_BOTH

__all__ = ["working_memory_text"]


def working_memory_text(texts: Mapping[str, str]) -> str | None:
    """Return what a context shows of these texts, by scope; the thread's comes second and beats the resource's."""
    told = {scope: text.strip() for scope, text in texts.items() if text.strip()}
    if len(told) > 1:
        # Put together by hand: what was written may hold braces of its own.
        first, _, rest = WORKING_MEMORY_BOTH.partition("{resource}")
        second, _, last = rest.partition("{thread}")
        return "".join([first, told["resource"], second, told["thread"], last])
    return next(iter(told.values()), None)
