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
        "Size of the tail at which the log takes over; None: by mode, 30,000 in the default mode.",
    )
    buffer_tokens: float | Literal[False] = declare(
        or_false(SHARE_OR_TOKENS),
        0.2,
        "How much the tail grows between two observations in the background, as a share of "
        "message_tokens or in tokens; False: nothing is observed in advance.",
    )
    buffer_activation: float = declare(
        keep_share_or_tokens("message_tokens"),
        0.8,
        "The share of message_tokens that leaves the tail at an activation; from 1,000, the number of raw tokens that stay.",
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
        "The longest wait of a turn for an observation; 0: never wait.",
    )
    parallel: int = declare(count(), 3, "The most observer runs of one thread at a time.")
    previous_tokens: int = declare(
        tokens(0), 2_000, "The tokens of the end of the log that the observer sees beside the span."
    )
    prompt_tokens: int = declare(
        tokens(1_000),
        50_000,
        "The most tokens of messages in one prompt of the observer; a longer span takes several calls.",
    )
    instructions: str | None = declare(
        optional(PROSE),
        None,
        "Instructions of your application for the observer, added after ours.",
    )
    attach_files: bool = declare(
        FLAG,
        False,
        "Whether the model of the observer gets images and PDFs, unredacted; a placeholder is always shown.",
    )
    model: str | None = declare(optional(TEXT), None, "The model that observes; None: `model`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig(SettingGroup):
    """When and how far the log is condensed, and what stays as it is."""

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
        "The newest observations, by age and by number, that are never reflected: whichever keeps more, up to half of "
        "observation_tokens.",
    )
    target: float = declare(FRACTION, 0.5, "The largest size of a reflection, as a share of what it condenses.")
    instructions: str | None = declare(
        optional(PROSE), None, "Instructions of your application for the reflector, added after ours."
    )
    model: str | None = declare(optional(TEXT), None, "The model that reflects; None: `model`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig(SettingGroup):
    """When old messages are shown and indexed by a summary, without a log."""

    prefix = "compaction."
    automatic: bool = declare(
        FLAG, True, "Whether old messages are compacted automatically if observe is False; compact() always works."
    )
    batch: int = declare(
        count(), 10, "The number of messages with one summary; a tool call and its result stay together."
    )
    after: int = declare(count(), 30, "The number of newer messages after which a message is compacted.")
    deep_after: int = declare(
        count(), 90, "The number of newer messages after which only the summary of a message is indexed."
    )
    prune: bool = declare(
        FLAG, False, "Whether prune() may remove the raw text of old, observed and compacted messages for good."
    )
    prune_days: int = declare(count(30), 30, "The age of a message, in days, after which its raw text may be removed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallConfig(SettingGroup):
    """Automatic recall: search results for the last user message, shown at the edge of a context."""

    prefix = "recall."
    results: int = declare(count(0), 0, "The number of earlier messages that are shown; 0: none.")
    neighbours: int = declare(
        count(0), 1, "The number of messages before and after each of them that are shown with it."
    )
    scope: Scope = declare(
        choice(*get_args(Scope)), "thread", "Whether one thread or all threads of a resource are searched."
    )
    tokens: int = declare(tokens(100), 1_500, "The most tokens of all of them together.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig(SettingGroup):
    """The age after which `apply_retention` forgets; nothing is forgotten automatically."""

    prefix = "retention."
    message_days: int | None = declare(
        optional(count()), None, "The number of days after which a message is forgotten, with its observations."
    )
    prompt_days: int | None = declare(
        optional(count()), None, "The number of days after which a stored prompt is deleted."
    )
    journal_days: int | None = declare(
        optional(count()), None, "The number of days after which events and records of contexts are deleted."
    )
