"""Compare the text of groups with the lines that it was rendered from.

Models are shown the stored text of a group, so it must match its lines: imported groups are rendered here, and the doctor
checks all groups. A line may not have more trust than its sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memolog.domain.codec import pack, unpack
from memolog.store.checks import Found, found_at
from memolog.store.sql import Script, load_queries
from memolog.store.withdrawals import Render, rendering

__all__ = ["checking_renderings", "lowering_trust", "rendering_anew", "says_the_same"]

q = load_queries("doctor")
logs = load_queries("logs")

# These depend on the log and on the group before, not on the lines: whether threads share the log, and the time since then.
_BEFORE: Final = re.compile(
    r'^(<(?:observations|reflection) id="[^"<>]*")(?: thread="t[0-9]+")?>\n'
    r"(?:\[(?:[0-9]+ )?(?:day|week|month|year)s? later\]\n)?"
)
_TRUSTS: Final = ("tool", "assistant", "user")


def says_the_same(text: str, rendered: str) -> bool:
    """Return whether a text matches rendered lines, ignoring what depends on the groups before it."""
    return text == rendered or _alone(text) == _alone(rendered)


def _alone(text: str) -> str:
    return _BEFORE.sub(r"\1>\n", text)


def rendering_anew(
    resource: str, texts: Mapping[str, str], render: Render, count: Callable[[str], int]
) -> Script[None]:
    """Store a text for imported groups: the one that came with them if it matches their lines, or else a rendered one."""
    for row in (yield q.groups_named(resource=resource, names=list(texts))):
        group, rendered, tokens = yield from rendering(row.log_pk, row.id, render)
        if not group.text:
            brought = unpack(texts[row.id]) or ""
            if brought and says_the_same(brought, rendered):
                rendered, tokens = brought, count(brought)
            yield logs.set_group_text(group_pk=group.pk, text=pack(rendered), tokens=tokens)


def lowering_trust(resource: str, groups: Sequence[str]) -> Script[int]:
    """Lower the trust of lines in these groups to that of their best source; returns how many lines changed."""
    lowered = 0
    for row in (yield q.trust_of_sources(resource=resource, names=list(groups))):
        # A line without a source was imported: it counts as a model's word.
        allowed = _TRUSTS[int(row.best) - 1] if row.best else "assistant"
        if _TRUSTS.index(row.trust) > _TRUSTS.index(allowed):
            lowered += 1
            yield q.set_trust(key=row.pk, trust=allowed)
    return lowered


def checking_renderings(resource: str | None, render: Render) -> Script[list[Found]]:
    """Check that the text of every group matches its lines."""
    found: list[Found] = []
    for row in (yield q.rendered(resource=resource)):
        group, rendered, tokens = yield from rendering(row.log_pk, row.id, render)
        if not says_the_same(group.text, rendered):
            text = "Its text, which models are shown, is not what its lines say."
            found.append(found_at("rendering", row.place, text, _repairing(group.pk, rendered, tokens)))
    return found


def _repairing(pk: int, text: str, tokens: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield logs.set_group_text(group_pk=pk, text=pack(text), tokens=tokens)
        yield q.touch_log_of(key=pk)

    return script
