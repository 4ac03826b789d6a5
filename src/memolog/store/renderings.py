"""The text of groups compared with the lines that it was made of.

A group is rendered once and its text is shown to models as it stands, so it must say what its lines say and nothing else: what
comes from a file is rendered here, and the doctor looks at all of it. Lines may claim no more trust than their sources give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memolog.domain.codec import pack, unpack
from memolog.domain.diagnosis import Finding
from memolog.store.checks import Found
from memolog.store.lines import reading_observations
from memolog.store.log_rows import group_row
from memolog.store.sql import Script, load_queries
from memolog.store.withdrawals import Render, reading_aliases

__all__ = ["checking_renderings", "lowering_trust", "rendering_anew", "says_the_same"]

q = load_queries("doctor")
logs = load_queries("logs")

_HIDDEN: Final = frozenset({"deleted", "retracted"})
# What is before a group decides these two, not its lines: whether threads share the log, and how long after it this one begins.
_BEFORE: Final = re.compile(
    r'^(<(?:observations|reflection) id="[^"<>]*")(?: thread="t[0-9]+")?>\n'
    r"(?:\[(?:[0-9]+ )?(?:day|week|month|year)s? later\]\n)?"
)
_TRUSTS: Final = ("tool", "assistant", "user")


def says_the_same(text: str, rendered: str) -> bool:
    """Tell whether a text is what its lines look like, whatever stands before it in the log."""
    return text == rendered or _alone(text) == _alone(rendered)


def _alone(text: str) -> str:
    return _BEFORE.sub(r"\1>\n", text)


def _rendering(log_pk: int, name: str, render: Render) -> Script[tuple[int, str, str, int]]:
    """Return a group's key, its text, and what its lines look like, with their tokens."""
    group = group_row((yield logs.groups_by_id(log_pk=log_pk, groups=[name]))[0])
    lines = yield from reading_observations(log_pk, [name])
    aliases = yield from reading_aliases(log_pk, lines)
    text, tokens = render(group, [line for line in lines if line.state not in _HIDDEN], aliases)
    return group.pk, group.text, text, tokens


def rendering_anew(
    resource: str, texts: Mapping[str, str], render: Render, count: Callable[[str], int]
) -> Script[None]:
    """Give groups that came without a text the one that was brought with them, if their lines say so, or else their own."""
    for log_pk, name in (yield q.groups_named(resource=resource, names=list(texts))):
        pk, present, rendered, tokens = yield from _rendering(log_pk, name, render)
        if not present:
            brought = unpack(texts[name]) or ""
            if brought and says_the_same(brought, rendered):
                rendered, tokens = brought, count(brought)
            yield logs.set_group_text(group_pk=pk, text=pack(rendered), tokens=tokens)


def lowering_trust(resource: str, groups: Sequence[str]) -> Script[int]:
    """Let no line of these groups have more trust than the best of its sources; returns how many had."""
    lowered = 0
    for pk, trust, best in (yield q.trust_of_sources(resource=resource, names=list(groups))):
        # A line that names no source was taken over from elsewhere: nobody's own word.
        allowed = _TRUSTS[int(best) - 1] if best else "assistant"
        if _TRUSTS.index(trust) > _TRUSTS.index(allowed):
            lowered += 1
            yield q.set_trust(key=pk, trust=allowed)
    return lowered


def checking_renderings(resource: str | None, render: Render) -> Script[list[Found]]:
    """Check that the text of every group is what its lines look like."""
    found: list[Found] = []
    for log_pk, name, where in (yield q.rendered(resource=resource)):
        pk, present, rendered, tokens = yield from _rendering(log_pk, name, render)
        if not says_the_same(present, rendered):
            finding = Finding(
                kind="rendering",
                where=where,
                explanation="Its text, which models are shown, is not what its lines say.",
                is_safe=True,
            )
            found.append(Found(finding=finding, repair=_repairing(pk, rendered, tokens)))
    return found


def _repairing(pk: int, text: str, tokens: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield logs.set_group_text(group_pk=pk, text=pack(text), tokens=tokens)
        yield q.touch_log_of(key=pk)

    return script
