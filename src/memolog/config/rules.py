"""Settings that contradict each other, as one table.

A rule is skipped where one of its settings was refused already, so that one mistake is not reported twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from memolog.config.problems import shown
from memolog.config.sizes import LEAST_KEPT, LEAST_LIMIT, block_at, shared_threshold, threshold

__all__ = ["RULES", "Rule", "contradictions"]

Values: TypeAlias = Mapping[str, Any]

_MESSAGE_TOKENS: Final = "observation.message_tokens"
_BLOCK_AFTER: Final = "observation.block_after"
_OBSERVATION_TOKENS: Final = "reflection.observation_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Two settings that cannot both be as they are when `broken` says so."""

    first: str
    second: str
    broken: Callable[[Values], bool]
    why: str
    then: str
    also: tuple[str, ...] = ()
    """Further settings that `broken` reads."""

    def problem(self, values: Values, where: Mapping[str, str]) -> str | None:
        """Return the contradiction as a sentence, or None where there is none."""
        names = (self.first, self.second)
        if any(name not in values for name in (*names, *self.also)) or not self.broken(values):
            return None
        first, second = (_named(name, values, where) for name in names)
        return f"{first} contradicts {second}: {self.why}. {self.then}."


def contradictions(values: Values, where: Mapping[str, str]) -> list[str]:
    """Return every contradiction among the values; `where` says which source gave which."""
    found = (rule.problem(values, where) for rule in RULES)
    return [problem for problem in found if problem is not None]


def _named(name: str, values: Values, where: Mapping[str, str]) -> str:
    if name == _MESSAGE_TOKENS and values[name] is None:
        mode = values["mode"]
        return f"{name} = {shown(threshold(None, mode))} (of mode = {shown(mode)})"
    text = f"{name} = {shown(values[name])}{where.get(name, '')}"
    if name == _BLOCK_AFTER and values[name] < LEAST_LIMIT:
        return f"{text}, which is {_blocks_at(values):,} tokens"
    return text


def _t(values: Values) -> int:
    return threshold(values[_MESSAGE_TOKENS], values["mode"])


def _r(values: Values) -> int:
    return values[_OBSERVATION_TOKENS]


def _blocks_at(values: Values) -> int:
    return block_at(values[_BLOCK_AFTER], _t(values))


def _shared_blocks_at(values: Values) -> int:
    limit = shared_threshold(_t(values), _r(values), 0)
    return block_at(values[_BLOCK_AFTER], limit)


def _exclusive(first: str, is_first: object, second: str, is_second: object, *, why: str, then: str) -> Rule:
    return Rule(
        first=first,
        second=second,
        broken=lambda values: values[first] is is_first and values[second] is is_second,
        why=why,
        then=then,
    )


RULES: Final = (
    Rule(
        first="observation.buffer_tokens",
        second=_MESSAGE_TOKENS,
        also=("mode",),
        broken=lambda values: values["observation.buffer_tokens"] >= _t(values),
        why="the log would take over before anything is buffered",
        then="Lower observation.buffer_tokens, or raise observation.message_tokens",
    ),
    Rule(
        first="observation.buffer_activation",
        second=_MESSAGE_TOKENS,
        also=("mode",),
        broken=lambda values: (
            values["observation.buffer_activation"] >= max(LEAST_KEPT, _t(values))
        ),
        why="as many tokens would stay as bring an activation about, so nothing could leave",
        then="Keep fewer tokens with observation.buffer_activation, or use a share such as 0.8",
    ),
    Rule(
        first=_BLOCK_AFTER,
        second=_MESSAGE_TOKENS,
        also=("mode",),
        broken=lambda values: LEAST_LIMIT <= values[_BLOCK_AFTER] < _t(values),
        why="a turn would wait before the log takes over",
        then="Raise observation.block_after, or use a factor such as 1.2",
    ),
    Rule(
        first="reflection.buffer_activation",
        second=_OBSERVATION_TOKENS,
        broken=lambda values: values["reflection.buffer_activation"] >= max(LEAST_KEPT, _r(values)),
        why="the reflection would begin when it should be finished",
        then="Lower reflection.buffer_activation, or use a share such as 0.5",
    ),
    Rule(
        first="reflection.block_after",
        second=_OBSERVATION_TOKENS,
        broken=lambda values: LEAST_LIMIT <= values["reflection.block_after"] < _r(values),
        why="a turn would wait before a reflection takes over",
        then="Raise reflection.block_after, or use a factor such as 1.2",
    ),
    Rule(
        first="observation.previous_tokens",
        second=_OBSERVATION_TOKENS,
        broken=lambda values: values["observation.previous_tokens"] > _r(values),
        why="the log never grows as long as what the observer would be shown of it",
        then="Lower observation.previous_tokens, or raise reflection.observation_tokens",
    ),
    Rule(
        first="context_tokens",
        second=_BLOCK_AFTER,
        also=(_MESSAGE_TOKENS, "mode"),
        broken=lambda values: (
            values["context_tokens"] is not None and values["context_tokens"] < _blocks_at(values)
        ),
        why="messages would be cut off before a turn waits for them to be observed",
        then="Raise context_tokens, or lower observation.message_tokens or observation.block_after",
    ),
    Rule(
        first="context_tokens",
        second="share_token_budget",
        also=(_MESSAGE_TOKENS, "mode", _BLOCK_AFTER, _OBSERVATION_TOKENS),
        broken=lambda values: (
            values["context_tokens"] is not None
            and values["share_token_budget"]
            and _blocks_at(values) <= values["context_tokens"] < _shared_blocks_at(values)
        ),
        why="with a short log the tail may grow past the limit before it is observed",
        then="Raise context_tokens, or set share_token_budget = False",
    ),
    Rule(
        first="compaction.deep_after",
        second="compaction.after",
        broken=lambda values: values["compaction.deep_after"] < values["compaction.after"],
        why="a message would be compacted the second time before the first",
        then="Raise compaction.deep_after, or lower compaction.after",
    ),
    Rule(
        first="heartbeat",
        second="lease",
        broken=lambda values: values["heartbeat"] >= values["lease"],
        why="a lease would end before it is renewed",
        then="Lower heartbeat to about a third of lease",
    ),
    *(
        _exclusive(name, True, "read_only", True, why=f"{what} has to be written", then="Set one of them to False")
        for name, what in (
            ("buffer_on_idle", "what is buffered"),
            ("manage_working_memory", "what the observer changes"),
            ("keep_prompts", "what is kept"),
        )
    ),
    _exclusive(
        "buffer_on_idle", True, "observe", False,
        why="nothing observes what would be buffered",
        then="Set observe = True, or buffer_on_idle = False",
    ),
    _exclusive(
        "manage_working_memory", True, "observe", False,
        why="it is the observer that maintains the working memory",
        then="Set observe = True, or manage_working_memory = False",
    ),
    _exclusive(
        "buffer_on_idle", True, "observation.buffer_tokens", False,
        why="buffering is off",
        then="Give observation.buffer_tokens a share such as 0.2, or set buffer_on_idle = False",
    ),
    _exclusive(
        "redact_raw", True, "redact", False,
        why="secrets would be removed from stored messages and left in everything else",
        then="Set redact = True, or redact_raw = False",
    ),
    Rule(
        first="redact_patterns",
        second="redact",
        broken=lambda values: values["redact_patterns"] is not None and not values["redact"],
        why="nothing would be removed by them",
        then="Set redact = True, or leave redact_patterns out",
    ),
)  # fmt: skip
