"""Settings of observation, reflection, compaction, recall and retention."""

from dataclasses import dataclass
from typing import Literal, get_args

from memolog.core.observation import Scope
from memolog.core.settings import (
    FLAG,
    FRACTION,
    PROSE,
    SHARE_OR_TOKENS,
    TEXT,
    WINDOW,
    KeepRecent,
    SettingGroup,
    choice,
    count,
    declare,
    factor_or_tokens,
    keep_share_or_tokens,
    optional,
    or_false,
    seconds,
    tokens,
)

# ruff: noqa: RUF009 - `declare` returns a dataclass field, as `field` does


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationConfig(SettingGroup):
    """When messages become observations, and how long a turn may wait for that."""

    prefix = "observation."
    message_tokens: int | None = declare(
        optional(tokens()),
        None,
        "Size of the tail at which the log takes over; None leaves it to the mode, which is 30,000 in the default one.",
    )
    buffer_tokens: float | Literal[False] = declare(
        or_false(SHARE_OR_TOKENS),
        0.2,
        "How much the tail grows between two observations in the background, as a share of "
        "message_tokens or in tokens; False observes nothing ahead of time.",
    )
    buffer_activation: float = declare(
        keep_share_or_tokens("message_tokens"),
        0.8,
        "How much of message_tokens leaves the tail at an activation, as a share; from 1,000 it "
        "is the number of raw tokens that stay.",
    )
    block_after: float = declare(
        factor_or_tokens("message_tokens"),
        1.2,
        "Size of the tail above which a turn may wait for an observation, as a factor of "
        "message_tokens or, from 100, in tokens.",
    )
    deadline: float = declare(
        seconds(zero=True),
        30,
        "The longest a turn waits for an observation before it goes on without; 0 never waits.",
    )
    parallel: int = declare(count(), 3, "How many observer runs of one thread may be in flight at a time.")
    previous_tokens: int = declare(
        tokens(0), 2_000, "How much of the end of the log the observer is shown beside the span."
    )
    prompt_tokens: int = declare(
        tokens(1_000),
        50_000,
        "How much of the messages one prompt of the observer shows at most; a longer span is asked about in several calls.",
    )
    instructions: str | None = declare(
        optional(PROSE),
        None,
        "What else the observer is told, after our instructions: what matters to your application.",
    )
    attach_files: bool = declare(
        FLAG,
        False,
        "Whether images and PDFs are shown to the observer's model as they are, unredacted; a placeholder is shown anyway.",
    )
    model: str | None = declare(optional(TEXT), None, "The model that observes; None takes the general one.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig(SettingGroup):
    """When the log is condensed, how far, and what is left alone."""

    prefix = "reflection."
    observation_tokens: int = declare(tokens(), 40_000, "Size of the log at which a reflection takes over.")
    buffer_activation: float = declare(
        keep_share_or_tokens("observation_tokens"),
        0.5,
        "Size of the log at which a reflection begins in the background, as a share of "
        "observation_tokens or, from 1,000, in tokens.",
    )
    block_after: float = declare(
        factor_or_tokens("observation_tokens"),
        1.2,
        "Size of the log above which a turn may wait for a reflection, as a factor of "
        "observation_tokens or, from 100, in tokens.",
    )
    keep_recent: KeepRecent = declare(
        WINDOW,
        KeepRecent(),
        "The youngest observations, by age and by number, that are never reflected: whichever "
        "keeps more, up to half of observation_tokens.",
    )
    target: float = declare(FRACTION, 0.5, "How large a reflection may be, as a share of what it condenses.")
    instructions: str | None = declare(
        optional(PROSE), None, "What else the reflector is told, after our instructions: what must outlive the rest."
    )
    model: str | None = declare(optional(TEXT), None, "The model that reflects; None takes the general one.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig(SettingGroup):
    """When old messages are shown and indexed by a summary, where no log is kept."""

    prefix = "compaction."
    automatic: bool = declare(
        FLAG, True, "Whether old messages are compacted by themselves where observe is False; by hand it always works."
    )
    batch: int = declare(count(), 10, "How many messages have one summary; a tool call and its result stay together.")
    after: int = declare(count(), 30, "How many newer messages a message has before it is compacted.")
    deep_after: int = declare(count(), 90, "How many newer messages a message has before only its summary is indexed.")
    prune: bool = declare(
        FLAG, False, "Whether prune() may remove the raw text of old, observed and compacted messages for good."
    )
    prune_days: int = declare(count(30), 30, "How old a message is, in days, before its raw text may be removed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallConfig(SettingGroup):
    """What is searched for by itself and shown at the edge of a context, with what the user said last as the query."""

    prefix = "recall."
    results: int = declare(
        count(0), 0, "How many earlier messages are searched for and shown at the edge; 0 shows none."
    )
    neighbours: int = declare(count(0), 1, "How many messages before and after each of them are shown with it.")
    scope: Scope = declare(
        choice(*get_args(Scope)), "thread", "Where they are searched for: one thread, or all of a resource."
    )
    tokens: int = declare(tokens(100), 1_500, "How many tokens they have together at most.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig(SettingGroup):
    """How old things may become before `apply_retention` forgets them; nothing is forgotten by itself."""

    prefix = "retention."
    message_days: int | None = declare(
        optional(count()), None, "After how many days a message is forgotten, with all that was observed from it."
    )
    prompt_days: int | None = declare(optional(count()), None, "After how many days a kept prompt is deleted.")
    journal_days: int | None = declare(
        optional(count()), None, "After how many days events and the records of contexts are deleted."
    )
