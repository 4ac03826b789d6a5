"""Drafts to observations: what a parsed answer says, with ids, sources and trust given by code.

Knows that a line cites what it came from, that an uncited line cites all it could have come from, and that trust is the lowest
of the roles cited.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from memolog.domain.message import Message
from memolog.domain.observation import Observation, Source, Span, Trust
from memolog.domain.run import Run
from memolog.domain.thread import Hints
from memolog.prompt.build import Prompt
from memolog.prompt.drafts import HintsDraft, Parsed, ParsedReflection, ReflectedDraft
from memolog.tokens import TokenCounter

__all__ = ["draft_hints", "observations_from", "reflections_from"]

_TRUST: Final[tuple[Trust, ...]] = ("tool", "assistant", "user")
_TRUST_OF: Final[Mapping[str, Trust]] = {
    "tool": "tool",
    "assistant": "assistant",
    "user": "user",
    "system": "assistant",
}


def draft_hints(new: HintsDraft, old: Hints) -> Hints:
    """Return the hints of a group: what the answer says, and what is known where it says nothing."""
    return Hints(
        current_task=new.current_task or old.current_task,
        suggested_response=new.suggested_response,
        title=new.title or old.title,
    )


def observations_from(
    parsed: Parsed,
    messages: Sequence[Message],
    prompt: Prompt | None,
    group: str,
    run: Run,
    new_id: Callable[[], str],
    counter: TokenCounter,
) -> tuple[Observation, ...]:
    """Return the observations of one span."""
    if prompt is None or not messages:
        return ()
    by_seq = {message.seq: message for message in messages}
    shown = {s.number: s.seq for s in prompt.shown if s.thread == run.thread and s.seq in by_seq}
    made: list[Observation] = []
    for ordinal, draft in enumerate(parsed.observations, start=1):
        cited = sorted({shown[number] for number in draft.cites if number in shown})
        sources = _sources(run.thread or "", cited or sorted(by_seq))
        roles: set[Trust] = {_TRUST_OF[by_seq[seq].role] for seq in (cited or by_seq)}
        made.append(
            Observation(
                id=new_id(),
                group=group,
                ordinal=ordinal,
                priority=draft.priority,
                text=draft.text,
                said_at=draft.said_at,
                zone=by_seq[cited[-1]].zone if cited else messages[-1].zone,
                about=draft.about,
                parent=None if draft.parent is None else draft.parent + 1,
                verbatim=draft.verbatim,
                sources=sources,
                trust=_lowest(roles),
                category=draft.category,
                files=draft.files,
                metadata=draft.metadata,
                tokens=counter.count(draft.text),
            )
        )
    return tuple(made)


def reflections_from(
    parsed: ParsedReflection,
    lines: Sequence[Observation],
    prompt: Prompt,
    group: str,
    new_id: Callable[[], str],
    counter: TokenCounter,
) -> tuple[Observation, ...]:
    """Return the observations of a reflection; each has the sources of what it merges."""
    by_id = {line.id: line for line in lines}
    made: list[Observation] = []
    for ordinal, draft in enumerate(parsed.lines, start=1):
        merged = [by_id[prompt.ids[name]] for name in draft.merges if name in prompt.ids]
        # A line that names nothing may come from anything: it keeps every source, so that none is lost.
        roots = merged or list(lines)
        made.append(
            Observation(
                id=new_id(),
                group=group,
                ordinal=ordinal,
                priority=draft.priority,
                text=draft.text,
                said_at=_said_at(draft, roots),
                zone=roots[-1].zone,
                about=draft.about,
                parent=None if draft.parent is None else draft.parent + 1,
                verbatim=draft.verbatim,
                sources=_merged_sources(roots),
                merges=tuple(line.id for line in merged),
                trust=_lowest(line.trust for line in roots),
                grounded=all(line.grounded for line in roots),
                category=draft.category,
                files=tuple(dict.fromkeys(name for line in merged for name in line.files)),
                metadata=draft.metadata,
                tokens=counter.count(draft.text),
            )
        )
    return tuple(made)


def _lowest(trusts: Iterable[Trust]) -> Trust:
    found = set(trusts)
    return next(trust for trust in _TRUST if trust in found)


def _said_at(draft: ReflectedDraft, roots: Sequence[Observation]) -> datetime | None:
    moments = [line.said_at for line in roots if line.said_at is not None]
    if draft.on is not None:
        same_day = [moment for moment in moments if moment.date() == draft.on]
        return min(same_day) if same_day else min(moments, default=None)
    return min(moments, default=None)


def _sources(thread: str, seqs: Iterable[int]) -> tuple[Source, ...]:
    """Return consecutive messages as spans."""
    spans: list[Span] = []
    for seq in seqs:
        if spans and spans[-1].last == seq - 1:
            spans[-1] = Span(first=spans[-1].first, last=seq)
        else:
            spans.append(Span(first=seq, last=seq))
    return tuple(Source(thread=thread, span=span) for span in spans)


def _merged_sources(lines: Sequence[Observation]) -> tuple[Source, ...]:
    seqs: dict[str, set[int]] = {}
    for line in lines:
        for source in line.sources:
            seqs.setdefault(source.thread, set()).update(range(source.span.first, source.span.last + 1))
    return tuple(source for thread, found in seqs.items() for source in _sources(thread, sorted(found)))
