"""Check the lines of a reply against what they cite, and mark, lower or drop them; texts of lines are never changed.

Also checks the changes of a working memory that an observer proposes.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, TypeAlias

from memolog.core.message import Message, pairs_of
from memolog.core.observation import CODE_METADATA, KEPT, Observation, Trust
from memolog.observer.evidence import (
    Evidence,
    has_word,
    is_found,
    is_spoken_by_user,
    is_word_of,
    said_text,
    source_text,
)
from memolog.observer.grounding import ungrounded
from memolog.observer.trust import (
    LEAST_SHARE,
    POINTING,
    Voices,
    allowed_priority,
    evidence_of,
    is_backed,
    is_false,
    is_of_user,
    line_text,
    lowest,
    speaks_for_user,
    trust_of,
    voices_of,
)
from memolog.text.identifiers import Kind, content_words, mentions

Policy: TypeAlias = Literal["keep", "flag", "drop"]
Readings: TypeAlias = Mapping[tuple[str, int], str]
"""What the embedded observer reads in users' messages, by thread and number: a "yes" with what it answers."""

# So many words that only tools returned make a line that cites a user a tool's.
_LEAST_ECHO: Final = 4
_SHARE: Final = 0.34
# Kinds that two conversations do not share by chance.
_OWNED: Final[frozenset[Kind]] = frozenset({"path", "symbol", "url", "command", "hash", "version", "name"})
_MOST_NAMED: Final = 20
_MOST_CHARACTERS: Final = 200
# The share of a line that cites everything which a single message must have said.
_UNCITED_SHARE: Final = 0.5
_FEW: Final = 2
_MOST_COMPARED: Final = 3
_CONFIRMED: Final = " confirmed: "
_ANSWERS: Final = (" said yes to: ", "(This is about: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Lines with their trust and priority, and the kinds of faults found."""

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
    lines: Sequence[Observation] = (),
    readings: Callable[[], Readings] = dict,
    extracted: Collection[str] = (),
) -> Judged:
    """Return what an observer made of some messages, checked against the messages that each line cites.

    `foreign` are messages of other conversations that the observer was shown beside them: a line that takes its words from
    those alone is none of this conversation, and is left out whatever the policy. `lines` are those of the log that it was
    shown: what a tool said there is still a tool's. `readings` is asked only where a line is not in a user's own words. Lines
    with ids among `extracted` were taken from the messages by code: what they name was counted or shortened, not invented.
    """
    case = _Checker(messages, log, policy, foreign, lines, readings, frozenset(extracted))
    own = [observation for observation in observations if not case.is_foreign(observation)]
    judged = _applied([case.verdict(observation) for observation in _renumbered(observations, own)], policy)
    return judged if len(own) == len(observations) else replace(judged, faults=(*judged.faults, "foreign_line"))


class _Checker:
    """Checks lines against the messages of one span; each message is prepared once."""

    def __init__(
        self,
        messages: Sequence[Message],
        log: str,
        policy: Policy,
        foreign: Sequence[Message],
        lines: Sequence[Observation],
        readings: Callable[[], Readings],
        extracted: frozenset[str],
    ) -> None:
        self._extracted = extracted
        self._by_seq = {(message.thread, message.seq): message for message in messages}
        self._texts: dict[tuple[str, int, Callable[[Message], str]], Evidence] = {}
        self._log, self._policy, self._readings = Evidence(log), policy, cache(readings)
        self._voices = voices_of(messages, foreign=foreign, log=lines)
        own = voices_of(messages)
        others = voices_of((), foreign=foreign).returned
        self._others = Voices(said=(*own.said, *own.returned, self._log), returned=others)
        self._callers = {call: message for message in messages for call in pairs_of(message.parts)[0]}
        # Computed once for each message, which may have thousands of parts and be cited by every line.
        self._trusts: dict[tuple[str, int], Trust] = {at: trust_of(message) for at, message in self._by_seq.items()}
        self._spoken = {place for place, message in self._by_seq.items() if is_spoken_by_user(message)}
        self._answered = {place: pairs_of(message.parts)[1] for place, message in self._by_seq.items()}
        self._speakers = {message.speaker for message in messages if message.speaker and message.role == "user"}
        self._owners = {message.resource for message in messages}

    def is_foreign(self, observation: Observation) -> bool:
        """Return whether a line was made from messages of another conversation."""
        if not self._others.returned:
            return False
        return _is_echo(observation, self._others) or self._others.names_from_tool(observation.text, _OWNED)

    def verdict(self, observation: Observation) -> _Verdict:
        """Return a line with its trust, priority and faults."""
        cited = self._cited(observation)
        is_for_user = speaks_for_user(observation.text, self._speakers, self._owners)
        said = [message for message in cited if _place(message) in self._spoken]
        claims = _claims(observation, is_for_user)
        backed = bool(said) and (not claims or self._is_backed(observation, cited, said))
        trust = lowest(self._trusts[_place(message)] for message in cited)
        if said and not backed:
            # It cites a user's message, but its words are not the user's.
            trust = _lowered_trust(trust, observation, self._voices)
        is_free = self._policy == "keep" or observation.id in self._extracted
        missing = () if is_free else self._missing(observation, cited)
        judged = replace(observation, trust=trust)
        return _weighed(judged, missing, is_backed=backed, is_for_user=is_for_user, cites_user=bool(said))

    def _is_backed(self, observation: Observation, cited: Sequence[Message], said: Sequence[Message]) -> bool:
        """Return whether the users' messages that a line cites support its claim, in their words or as code reads them."""
        if observation.verbatim and self._voices.copies_tool(observation.verbatim):
            return False
        # If a line cites every message, a single one of them must back it.
        is_uncited = len(cited) > _FEW and len(cited) == len(self._by_seq)
        groups = [(message,) for message in self._nearest(observation, said)] if is_uncited else [tuple(said)]
        share = _UNCITED_SHARE if is_uncited else LEAST_SHARE
        for group in groups:
            words = self._said(group[0]) if len(group) == 1 else Evidence("\n".join(map(said_text, group)))
            if is_backed(observation.text, words, self._voices, share=share):
                return True
        proposed = evidence_of(said_text(message) for message in cited if message.role == "assistant")
        for group in groups:
            read = "\n".join(self._readings().get((message.thread, message.seq), "") for message in group)
            text = Evidence("\n".join((*map(said_text, group), read)))
            confirms = observation.priority == "done" and _CONFIRMED in read
            asked = proposed if any(sign in read for sign in _ANSWERS) else ()
            if read and is_backed(observation.text, text, self._voices, confirms=confirms, share=share, asked=asked):
                return True
        return False

    def _nearest(self, observation: Observation, said: Sequence[Message]) -> list[Message]:
        """Return the few messages that share most words with a line."""
        words = content_words(observation.text)
        shares = [sum(is_word_of(word, (self._said(message),)) for word in words) for message in said]
        best = sorted(range(len(said)), key=lambda place: -shares[place])[:_MOST_COMPARED]
        return [said[place] for place in best]

    def _said(self, message: Message) -> Evidence:
        return self._evidence(message, said_text)

    def _evidence(self, message: Message, text_of: Callable[[Message], str]) -> Evidence:
        key = (message.id, message.continuation, text_of)
        if key not in self._texts:
            self._texts[key] = Evidence(text_of(message))
        return self._texts[key]

    def _cited(self, observation: Observation) -> list[Message]:
        spans = ((source.thread, source.span) for source in observation.sources)
        places = ((thread, seq) for thread, span in spans for seq in range(span.first, span.last + 1))
        return [self._by_seq[place] for place in places if place in self._by_seq]

    def _missing(self, observation: Observation, cited: Sequence[Message]) -> tuple[str, ...]:
        # A result is read together with the call that it answers.
        calls = (self._callers.get(call) for message in cited for call in self._answered[_place(message)])
        read = {(message.id, message.continuation): message for message in (*cited, *filter(None, calls))}
        moments = [message.created_at for message in cited]
        moments += [observation.said_at] if observation.said_at else []
        texts = [self._evidence(message, source_text) for message in read.values()]
        text, about = line_text(observation), observation.about
        missing = ungrounded(text, texts, self._log, said_at=moments, about=about)
        said = [place for place in map(_place, cited) if place in self._spoken]
        if missing and (more := evidence_of(self._readings().get(place, "") for place in said)):
            return ungrounded(text, [*texts, *more], self._log, said_at=moments, about=about)
        return missing


def _place(message: Message) -> tuple[str, int]:
    return message.thread, message.seq


def judge_reflection(
    observations: Sequence[Observation], lines: Sequence[Observation], *, policy: Policy = "flag"
) -> Judged:
    """Return what a reflector made of some lines, checked against the lines that each stands for.

    The reflector read all lines: what a tool said in one that a line does not name is a tool's word too.
    """
    by_id = {line.id: line for line in lines}
    slice_text = Evidence("\n".join(map(line_text, lines)))
    voices = voices_of((), log=lines)
    verdicts: list[_Verdict] = []
    for observation in observations:
        roots = [by_id[name] for name in observation.merges if name in by_id] or list(lines)
        is_for_user = speaks_for_user(observation.text)
        said = [root for root in roots if is_of_user(root)]
        claims = _claims(observation, is_for_user)
        words = Evidence("\n".join(map(line_text, said)))
        backed = bool(said) and (not claims or is_backed(observation.text, words, voices))
        if observation.verbatim and claims and voices.copies_tool(observation.verbatim):
            backed = False
        trust = lowest(root.trust for root in roots)
        if said and not backed:
            trust = _lowered_trust(trust, observation, voices)
        missing: tuple[str, ...] = ()
        if policy != "keep":
            # The reflector read the whole slice: a line may name what stands in another.
            moments = [root.said_at for root in roots if root.said_at]
            new = ungrounded(line_text(observation), [slice_text], said_at=moments, about=observation.about)
            missing = tuple(dict.fromkeys((*new, *_inherited(observation, roots))))
        judged = replace(observation, trust=trust)
        is_doubtful = (bool(said) and not backed) or (not backed and _stays_doubtful(observation, roots))
        verdicts.append(_weighed(judged, missing, is_backed=backed, is_for_user=is_for_user, cites_user=is_doubtful))
    return _applied(verdicts, policy)


def _stays_doubtful(observation: Observation, roots: Sequence[Observation]) -> bool:
    """Return whether a line takes its words from doubtful lines, and not from the other lines that it merges."""
    doubtful = list(filter(is_false, roots))
    if not doubtful:
        return False
    sure = evidence_of(line_text(root) for root in roots if root not in doubtful)
    words = [word for word in content_words(line_text(observation)) if not has_word(word, sure)]
    theirs = evidence_of(map(line_text, doubtful))
    return not sure or sum(has_word(word, theirs) for word in words) >= _FEW


def _inherited(observation: Observation, roots: Iterable[Observation]) -> list[str]:
    """Return what was ungrounded in the lines before and is still named."""
    named = [str(name) for root in roots for name in root.metadata.get("ungrounded", ())]
    return [name for name in named if name in observation.text]


def _claims(observation: Observation, is_for_user: bool) -> bool:
    """Return whether a line claims to be a user's statement."""
    return is_for_user or observation.priority in KEPT


def _lowered_trust(trust: Trust, observation: Observation, voices: Voices) -> Trust:
    """Return the trust of a line that claims to be a user's statement and is not."""
    theirs: Trust = "tool" if _is_of_tool(observation, voices) else "assistant"
    return lowest((trust, theirs))


def _is_of_tool(observation: Observation, voices: Voices) -> bool:
    """Return whether the words or a name of a line come from tools alone."""
    return _is_echo(observation, voices) or voices.names_from_tool(observation.text)


def _is_echo(observation: Observation, voices: Voices) -> bool:
    return voices.echoes_tool(observation.text, share=_SHARE, least=_LEAST_ECHO)


# ---------------------------------------------------------------- what follows


def _weighed(
    observation: Observation, missing: Sequence[str], *, is_backed: bool, is_for_user: bool, cites_user: bool
) -> _Verdict:
    """Return a line with its allowed priority and its marks; one that cites a user who did not say it is unverified."""
    speaks = is_for_user and not is_backed
    priority = allowed_priority(observation.priority, is_backed=is_backed)
    metadata = {name: value for name, value in observation.metadata.items() if name not in CODE_METADATA}
    if missing:
        metadata["ungrounded"] = [name[:_MOST_CHARACTERS] for name in missing[:_MOST_NAMED]]
    if speaks:
        metadata["speaks_for_user"] = True
    elif cites_user and not is_backed:
        metadata["unverified"] = True
    if priority != observation.priority:
        metadata["lowered_from"] = observation.priority
    judged = replace(observation, priority=priority, grounded=not missing, metadata=metadata)
    found = {"ungrounded": bool(missing), "speaks_for_user": speaks, "unverified": bool(metadata.get("unverified"))}
    return _Verdict(observation=judged, faults=tuple(name for name, is_so in found.items() if is_so))


def _applied(verdicts: Sequence[_Verdict], policy: Policy) -> Judged:
    faults = tuple(dict.fromkeys(fault for verdict in verdicts for fault in verdict.faults))
    kept = [verdict.observation for verdict in verdicts if policy != "drop" or not verdict.faults]
    if len(kept) < len(verdicts):
        # Doubtful lines are dropped even if none is left.
        return Judged(observations=_renumbered([verdict.observation for verdict in verdicts], kept), faults=faults)
    return Judged(observations=tuple(kept), faults=faults)


def _renumbered(before: Sequence[Observation], kept: Sequence[Observation]) -> tuple[Observation, ...]:
    """Renumber the kept lines; a line whose parent is dropped moves under the nearest kept ancestor."""
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


_LEAST_SAID: Final = 0.5
"""The share of the words of a new line that must have been said."""
_LABEL: Final = re.compile(r"\s*+(?:[-*+]|\d{1,9}[.)])?\s*+(?:[^:\n]{1,60}:)?\s*+")


def trusted_document(
    old: str, new: str, messages: Sequence[Message], *, foreign: Sequence[Message] = (), whole: bool = False
) -> str:
    """Return `old` with those changes towards `new` that the messages support.

    `whole` takes all of it or nothing, for a text that is no longer sound when only some of its lines change.
    """
    voices = voices_of(messages, foreign=foreign)
    # A name that stands in the document already needs no further support.
    known = Voices(said=(*voices.said, Evidence(old)), returned=voices.returned)
    before, after = old.splitlines(), new.splitlines()
    lines: list[str] = []
    for kind, first, end, start, stop in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        gone, added = before[first:end], after[start:stop]
        if kind == "equal" or (_may_go(gone, added, voices) and _may_come(added, known)):
            lines += added
        elif whole:
            return old
        else:
            lines += gone
    return "".join(f"{line}\n" for line in lines)


def _may_come(added: Sequence[str], voices: Voices) -> bool:
    return all(_is_said(line, voices) for line in added if content_words(line))


def _is_said(line: str, voices: Voices) -> bool:
    """Return whether users or the model said the names, the numbers and most words of a line."""
    if line.lstrip().startswith("#"):
        # A heading is no claim, but must not carry a tool's words.
        return not voices.echoes_tool(line, share=1.0)
    if voices.echoes_tool(line, share=1.0) or voices.names_from_tool(line, POINTING):
        return False
    claim = _LABEL.sub("", line, count=1) or line
    if not all(is_found(mention, voices.said) for mention in mentions(claim)):
        return False
    words = content_words(claim)
    said = sum(has_word(word, voices.said) for word in words)
    return said >= _LEAST_SAID * len(words)


def _may_go(gone: Sequence[str], added: Sequence[str], voices: Voices) -> bool:
    """Return whether lines may be removed: each is empty, was extended, or was mentioned."""
    return all(_is_spoken_of(line, added, voices) for line in gone)


def _is_spoken_of(line: str, added: Sequence[str], voices: Voices) -> bool:
    words = content_words(_LABEL.sub("", line, count=1)) if not line.lstrip().startswith("#") else ()
    if not words or any(line.strip() and line.strip() in other for other in added):
        return True
    return any(has_word(word, voices.said) for word in content_words(line))
