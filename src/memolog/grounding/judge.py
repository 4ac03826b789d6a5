"""Judging: lines of the log are checked against what they cite, and marked, lowered or left out.

Knows the policy. Never rewrites a line: it changes what a line counts for, not what it says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from memolog.domain.message import Message, pairs_of
from memolog.domain.observation import Observation
from memolog.grounding.check import ungrounded
from memolog.grounding.evidence import Evidence
from memolog.grounding.identifiers import Kind
from memolog.grounding.sources import is_spoken_by_user, source_text
from memolog.grounding.trust import Voices, allowed_priority, lowest, speaks_for_user, trust_of, voices_of

__all__ = ["Judged", "Policy", "judge", "judge_reflection"]

Policy: TypeAlias = Literal["keep", "flag", "drop"]

# Words that were only returned, never said, before a line that cites a user is no longer taken for theirs.
_LEAST_ECHO: Final = 4
_SHARE: Final = 0.34
# What two conversations do not have in common by chance.
_OWNED: Final[frozenset[Kind]] = frozenset({"path", "symbol", "url", "command", "hash", "version", "name"})
_MOST_NAMED: Final = 20
_MOST_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Lines with what they count for, and what was wrong with them: each kind once."""

    observations: tuple[Observation, ...]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    observation: Observation
    faults: tuple[str, ...] = ()


def judge(
    observations: Sequence[Observation],
    messages: Sequence[Message],
    *,
    log: str = "",
    policy: Policy = "flag",
    foreign: Sequence[Message] = (),
) -> Judged:
    """Return what an observer made of some messages, checked against the messages that each line cites.

    `foreign` are messages of other conversations that the observer was shown beside them: a line that takes its words from
    those alone is none of this conversation, and is left out whatever the policy.
    """
    case = _Case(messages, log, policy, foreign)
    own = [observation for observation in observations if not case.is_foreign(observation)]
    judged = _sentenced([case.verdict(observation) for observation in _renumbered(observations, own)], policy)
    return judged if len(own) == len(observations) else replace(judged, faults=(*judged.faults, "foreign_line"))


class _Case:
    """The messages of one span, each prepared once however many lines cite it."""

    def __init__(self, messages: Sequence[Message], log: str, policy: Policy, foreign: Sequence[Message]) -> None:
        self._by_seq = {(message.thread, message.seq): message for message in messages}
        self._texts: dict[str, Evidence] = {}
        self._log, self._policy = Evidence(log), policy
        # The log is no voice here: some of it is a tool's word, noted earlier.
        self._voices = voices_of(messages, foreign=foreign)
        own = voices_of(messages)
        others = voices_of((), foreign=foreign).returned
        self._others = Voices(said=(*own.said, *own.returned, self._log), returned=others)
        self._callers = {call: message for message in messages for call in pairs_of(message.parts)[0]}
        # A message may have thousands of parts, and every line may cite it: what a line needs of it is worked out once.
        self._trusts = {place: trust_of(message) for place, message in self._by_seq.items()}
        self._spoken = {place for place, message in self._by_seq.items() if is_spoken_by_user(message)}
        self._answered = {place: pairs_of(message.parts)[1] for place, message in self._by_seq.items()}
        self._speakers = {message.speaker for message in messages if message.speaker and message.role == "user"}

    def is_foreign(self, observation: Observation) -> bool:
        """Tell whether a line was made from messages of another conversation."""
        if not self._others.returned:
            return False
        return _is_echo(observation, self._others) or self._others.names_from_tool(observation.text, _OWNED)

    def verdict(self, observation: Observation) -> _Verdict:
        """Return what a line counts for."""
        cited = self._cited(observation)
        trust = lowest(self._trusts[_place(message)] for message in cited)
        is_for_user = speaks_for_user(observation.text, self._speakers)
        cites_user = any(_place(message) in self._spoken for message in cited)
        if cites_user and _claims(observation, is_for_user) and _is_of_tool(observation, self._voices):
            # It names a user's message, but the words are a tool's.
            cites_user, trust = False, "tool"
        missing = () if self._policy == "keep" else self._missing(observation, cited)
        judged = replace(observation, trust=trust)
        return _weighed(judged, missing, cites_user=cites_user, is_for_user=is_for_user)

    def _cited(self, observation: Observation) -> list[Message]:
        places = (
            (source.thread, seq) for source in observation.sources for seq in _seqs(source.span.first, source.span.last)
        )
        return [self._by_seq[place] for place in places if place in self._by_seq]

    def _missing(self, observation: Observation, cited: Sequence[Message]) -> tuple[str, ...]:
        # A result is read together with the call that it answers.
        calls = (self._callers.get(call) for message in cited for call in self._answered[_place(message)])
        read = {message.id + f"/{message.continuation}": message for message in (*cited, *filter(None, calls))}
        said_at = [message.created_at for message in cited]
        return ungrounded(
            _words(observation),
            [self._text(key, message) for key, message in read.items()],
            self._log,
            said_at=[*said_at, observation.said_at] if observation.said_at else said_at,
            about=observation.about,
        )

    def _text(self, key: str, message: Message) -> Evidence:
        if key not in self._texts:
            self._texts[key] = Evidence(source_text(message))
        return self._texts[key]


def _place(message: Message) -> tuple[str, int]:
    return message.thread, message.seq


def judge_reflection(
    observations: Sequence[Observation], lines: Sequence[Observation], *, policy: Policy = "flag"
) -> Judged:
    """Return what a reflector made of some lines, checked against the lines that each stands for."""
    by_id = {line.id: line for line in lines}
    slice_text = Evidence("\n".join(map(_words, lines)))
    heard: dict[tuple[str, ...], Voices] = {}
    verdicts: list[_Verdict] = []
    for observation in observations:
        roots = [by_id[name] for name in observation.merges if name in by_id] or list(lines)
        voices = heard.setdefault(observation.merges, _voices(roots))
        is_for_user = speaks_for_user(observation.text)
        # A line of high priority cites a user, and so does one that says on a user's word that something is done: otherwise it
        # would have been lowered when it was made.
        cites_user = any(
            root.trust == "user" or root.priority == "high" or (root.priority == "done" and speaks_for_user(root.text))
            for root in roots
        )
        trust = lowest(root.trust for root in roots)
        if cites_user and _claims(observation, is_for_user) and _is_of_tool(observation, voices):
            cites_user, trust = False, "tool"
        missing: tuple[str, ...] = ()
        if policy != "keep":
            # The reflector read the whole slice: a line may name what stands in another.
            moments = [root.said_at for root in roots if root.said_at]
            new = ungrounded(_words(observation), [slice_text], said_at=moments, about=observation.about)
            missing = tuple(dict.fromkeys((*new, *_inherited(observation, roots))))
        judged = replace(observation, trust=trust)
        verdicts.append(_weighed(judged, missing, cites_user=cites_user, is_for_user=is_for_user))
    return _sentenced(verdicts, policy)


def _voices(roots: Sequence[Observation]) -> Voices:
    said = "\n".join(_words(root) for root in roots if root.trust != "tool")
    returned = "\n".join(_words(root) for root in roots if root.trust == "tool")
    return Voices(said=(Evidence(said),), returned=(Evidence(returned),) if returned else ())


def _inherited(observation: Observation, roots: Iterable[Observation]) -> list[str]:
    """Return what was ungrounded in the lines before and is still named."""
    named = [str(name) for root in roots for name in root.metadata.get("ungrounded", ())]
    return [name for name in named if name in observation.text]


def _words(observation: Observation) -> str:
    return f"{observation.text}\n{observation.verbatim}" if observation.verbatim else observation.text


def _seqs(first: int, last: int) -> range:
    return range(first, last + 1)


def _claims(observation: Observation, is_for_user: bool) -> bool:
    """Tell whether a line claims the weight of a user's word."""
    return is_for_user or observation.priority in {"high", "done"}


def _is_of_tool(observation: Observation, voices: Voices) -> bool:
    """Tell whether a line has its words, or something that it names, from tools alone."""
    return _is_echo(observation, voices) or voices.names_from_tool(observation.text)


def _is_echo(observation: Observation, voices: Voices) -> bool:
    return voices.echoes_tool(observation.text, share=_SHARE, least=_LEAST_ECHO)


# ---------------------------------------------------------------- what follows


def _weighed(observation: Observation, missing: Sequence[str], *, cites_user: bool, is_for_user: bool) -> _Verdict:
    """Return a line as what it counts for."""
    speaks = is_for_user and not cites_user
    priority = allowed_priority(
        observation.priority, cites_user=cites_user, trust=observation.trust, is_for_user=is_for_user
    )
    metadata = {name: value for name, value in observation.metadata.items() if name not in _OURS}
    if missing:
        metadata["ungrounded"] = [name[:_MOST_CHARACTERS] for name in missing[:_MOST_NAMED]]
    if speaks:
        metadata["speaks_for_user"] = True
    if priority != observation.priority:
        metadata["lowered_from"] = observation.priority
    judged = replace(observation, priority=priority, grounded=not missing, metadata=metadata)
    return _Verdict(
        observation=judged, faults=(*(("ungrounded",) if missing else ()), *(("speaks_for_user",) if speaks else ()))
    )


# A reply has no say in what only code may state.
# The mode is set by code too, before lines are judged.
_OURS: Final[frozenset[str]] = frozenset({"ungrounded", "speaks_for_user", "lowered_from", "dropped_identifiers"})


def _sentenced(verdicts: Sequence[_Verdict], policy: Policy) -> Judged:
    faults = tuple(dict.fromkeys(fault for verdict in verdicts for fault in verdict.faults))
    kept = [verdict.observation for verdict in verdicts if policy != "drop" or not verdict.faults]
    if len(kept) < len(verdicts) and kept:
        return Judged(observations=_renumbered([verdict.observation for verdict in verdicts], kept), faults=faults)
    # A group is never emptied by its faults: what would be nothing is kept, and marked.
    return Judged(observations=tuple(verdict.observation for verdict in verdicts), faults=faults)


def _renumbered(before: Sequence[Observation], kept: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the lines that stay in their order; one whose parent goes stands under the parent's parent."""
    places: Mapping[int, int] = {observation.ordinal: place for place, observation in enumerate(kept, start=1)}
    parents = {observation.ordinal: observation.parent for observation in before}

    def above(ordinal: int | None) -> int | None:
        for _ in range(len(parents) + 1):
            if ordinal is None or ordinal in places:
                break
            ordinal = parents.get(ordinal)
        return places.get(ordinal) if ordinal is not None else None

    return tuple(
        replace(observation, ordinal=place, parent=above(observation.parent))
        for place, observation in enumerate(kept, start=1)
    )
