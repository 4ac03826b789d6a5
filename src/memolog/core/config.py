"""The configuration: all settings with their defaults, their sources, and a table of settings that contradict each other."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from memolog.core.config_sources import Path, Reading, read_environment, read_mapping, read_toml
from memolog.core.observation import Scope
from memolog.core.setting_kinds import (
    FLAG,
    FRACTION,
    LEAST_KEPT,
    LEAST_LIMIT,
    LEAST_REPEATED,
    PATTERNS,
    PROSE,
    SHARE_OR_TOKENS,
    TEXT,
    WINDOW,
    KeepRecent,
    Mode,
    Setting,
    SettingGroup,
    Voice,
    block_at,
    choice,
    count,
    declare,
    declared,
    dollars,
    factor_or_tokens,
    keep_share_or_tokens,
    optional,
    or_false,
    or_word,
    refuse,
    seconds,
    shared_threshold,
    shown,
    threshold,
    tokens,
    wrong_values,
)
from memolog.errors import ConfigError

SettingValues: TypeAlias = Mapping[str, Any]

_MESSAGE_TOKENS: Final = "observation.message_tokens"
_BLOCK_AFTER: Final = "observation.block_after"
_OBSERVATION_TOKENS: Final = "reflection.observation_tokens"

# ruff: noqa: RUF009 - `declare` returns a dataclass field, as `field` does


Durability: TypeAlias = Literal["normal", "full"]
Grounding: TypeAlias = Literal["keep", "flag", "drop"]
BudgetScope: TypeAlias = Literal["thread", "resource", "all"]
OverBudget: TypeAlias = Literal["extractive", "wait"]
Background: TypeAlias = Literal["loop", "worker"]

LASTING: Final = (
    "scope",
    "mode",
    "share_token_budget",
    "observation.message_tokens",
    "observation.buffer_tokens",
    "observation.buffer_activation",
    "observation.block_after",
    # A small `observation_tokens` contradicts a large `previous_tokens`, so both are stored. If only `observation_tokens` were
    # stored, it could contradict the default of `previous_tokens`. A stored setting that contradicts another one is ignored.
    "observation.previous_tokens",
    "reflection.observation_tokens",
    "reflection.buffer_activation",
    "reflection.block_after",
)
"""The settings that are stored with a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationConfig(SettingGroup):
    """When messages become observations, and how long a turn may wait for that."""

    prefix = "observation."
    message_tokens: int | None = declare(
        optional(tokens()),
        None,
        "The tokens of the tail at which observations replace its oldest messages; None: by mode, 30,000 in the default mode.",
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
        "The share of message_tokens that leaves the tail at an activation. A value of 1,000 or more is the number of tokens "
        "that stay in the tail.",
    )
    block_after: float = declare(
        factor_or_tokens("message_tokens"),
        1.2,
        "Size of the tail above which a turn may wait for an observation, as a factor of "
        "message_tokens, or in tokens if the value is 100 or more.",
    )
    deadline: float = declare(
        seconds(zero=True),
        30,
        "The longest wait of a turn for an observation; 0: never wait.",
    )
    parallel: int = declare(count(), 3, "The maximum number of observer runs of one log at the same time.")
    previous_tokens: int = declare(
        tokens(0),
        2_000,
        "The maximum tokens of the end of the log that the observer gets in addition to the new messages. It gets at most a "
        "fifth of their tokens, but at least 400.",
    )
    prompt_tokens: int = declare(
        tokens(1_000),
        50_000,
        "The most tokens of messages in one prompt of the observer; a longer span takes several calls.",
    )
    instructions: str | None = declare(
        optional(PROSE),
        None,
        "Instructions of your application for the observer, added after those of Memolog.",
    )
    attach_files: bool = declare(
        FLAG,
        False,
        "Whether the model of the observer gets images and PDFs, which are not redacted; it always gets a placeholder for each.",
    )
    model: str | None = declare(optional(TEXT), None, "The model that observes; None: `model`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig(SettingGroup):
    """When and how far the log is condensed, and which observations are not condensed."""

    prefix = "reflection."
    observation_tokens: int = declare(
        tokens(), 40_000, "The tokens of the log at which a reflection replaces its oldest observations."
    )
    buffer_activation: float = declare(
        keep_share_or_tokens("observation_tokens"),
        0.5,
        "Size of the log at which a reflection begins in the background, as a share of "
        "observation_tokens, or in tokens if the value is 1,000 or more.",
    )
    block_after: float = declare(
        factor_or_tokens("observation_tokens"),
        1.2,
        "Size of the log above which a turn may wait for a reflection, as a factor of "
        "observation_tokens, or in tokens if the value is 100 or more.",
    )
    keep_recent: KeepRecent = declare(
        WINDOW,
        KeepRecent(),
        "The newest observations, which are not reflected automatically: those of the last `hours`, but at least the last "
        "`observations`. They take up at most half of observation_tokens.",
    )
    target: float = declare(FRACTION, 0.5, "The maximum size of a reflection, as a share of its input.")
    instructions: str | None = declare(
        optional(PROSE), None, "Instructions of your application for the reflector, added after those of Memolog."
    )
    model: str | None = declare(optional(TEXT), None, "The model that reflects; None: `model`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig(SettingGroup):
    """When contexts and the search index use a summary instead of old messages."""

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
        count(0), 1, "The number of messages before and after each earlier message that are shown with it."
    )
    scope: Scope = declare(
        choice(*get_args(Scope)), "thread", "Whether one thread or all threads of a resource are searched."
    )
    tokens: int = declare(tokens(100), 1_500, "The maximum tokens of all shown earlier messages together.")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticConfig(SettingGroup):
    """Search by meaning, if there is an embedder."""

    prefix = "semantic."
    neighbours: int = declare(
        count(), 50, "The number of texts with the most similar meaning that are ranked with the results by words."
    )
    threshold: float = declare(
        FRACTION,
        0.25,
        "The least similarity of such a text to the query, as the cosine of the angle between their vectors.",
    )
    timeout: float = declare(
        seconds(), 2, "The longest time of the embedder for a query. After it, words alone are searched."
    )


SECTIONS: Final = {
    "observation": ObservationConfig,
    "reflection": ReflectionConfig,
    "compaction": CompactionConfig,
    "recall": RecallConfig,
    "semantic": SemanticConfig,
    "retention": RetentionConfig,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(SettingGroup):
    """Every setting of Memolog. Raises ConfigError for values that are refused or contradict each other."""

    observation: ObservationConfig = field(default_factory=ObservationConfig)
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    compaction: CompactionConfig = field(default_factory=CompactionConfig)
    recall: RecallConfig = field(default_factory=RecallConfig)
    semantic: SemanticConfig = field(default_factory=SemanticConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    share_token_budget: bool = declare(FLAG, False, "Whether the tail may use the tokens that the log leaves free.")
    activate_after_idle: float | Literal["auto", False] = declare(
        or_word("auto", or_false(seconds())),
        "auto",
        "Pause after which buffered groups are activated early; auto: the lifetime of the provider's prompt cache, False: never.",
    )
    activate_on_model_change: bool = declare(FLAG, True, "Whether a change of model activates buffered groups early.")
    buffer_on_idle: bool = declare(
        FLAG, False, "Whether the end of a turn buffers all messages, even if there are few."
    )
    background: Background = declare(
        choice(*get_args(Background)),
        "loop",
        "Who observes, reflects, compacts and indexes in the background: the process of the turn (loop), or `memolog worker`.",
    )
    sweep_after: float | None = declare(
        optional(seconds()),
        3_600,
        "The time without a new message after which a worker observes the last messages of a thread, even if they are few; None: "
        "never.",
    )
    scope: Scope = declare(
        choice(*get_args(Scope)),
        "thread",
        "Whether each thread has its own log, or all threads of a resource share one. Stored with the resource; if it is not "
        "set, the stored value is used.",
    )
    mode: Mode = declare(
        choice(*get_args(Mode)),
        "default",
        "What the observer looks for; it also sets observation.message_tokens if that is not given.",
    )
    voice: Voice = declare(
        choice(*get_args(Voice)), "coding", "What the conversations are about: coding, or general for everything else."
    )
    observe: bool = declare(FLAG, True, "Whether there is a log. Without a log, a context has only the last messages.")
    last_messages: int = declare(count(), 10, "The number of messages in the tail if observe is False.")
    read_only: bool = declare(
        FLAG, False, "Whether the database is only read. Contexts are built, but nothing is written."
    )
    context_tokens: int | None = declare(
        optional(tokens()), None, "A hard limit on the tokens of a context, which is cut to fit; None: no limit."
    )
    strict: bool = declare(FLAG, False, "Whether a failure of the memory is raised into the turn.")
    turn_timeout: float = declare(
        seconds(),
        3,
        "The longest time of one step of a turn, without waits for a model. After it, the turn continues with what was read.",
    )
    queue_timeout: float = declare(
        seconds(zero=True),
        30,
        "How much longer a step of a turn may take because the process makes more calls at once than it can serve.",
    )
    max_message_bytes: int = declare(count(), 100_000_000, "The largest message that is stored, in bytes.")
    durability: Durability = declare(
        choice(*get_args(Durability)),
        "normal",
        "Whether a power failure may lose the last commits (normal) or none (full, slower).",
    )
    busy_timeout: float = declare(
        seconds(zero=True), 10, "The longest wait for a database that another process has locked."
    )
    close_timeout: float = declare(
        seconds(zero=True),
        5,
        "The longest time that `aclose()` waits for runs. Unfinished runs are left for another process.",
    )
    statement_timeout: float = declare(seconds(), 30, "The longest time of one database statement.")
    pool_size: int = declare(count(), 10, "The most open database connections.")
    redact: bool = declare(FLAG, True, "Whether secrets are removed from what observers see, the log and the index.")
    redact_raw: bool = declare(FLAG, False, "Whether secrets are also removed from a message before it is stored.")
    redact_patterns: str | None = declare(
        optional(PATTERNS),
        None,
        "More secrets to remove, one on each line: a kind, a colon, a regular expression.",
    )
    manage_working_memory: bool = declare(FLAG, False, "Whether the observer keeps the working memory up to date.")
    working_memory_characters: int = declare(
        count(), 10_000, "The most characters of the working memory, which is part of every request."
    )
    keep_prompts: bool = declare(FLAG, False, "Whether requests and replies of runs are stored.")
    assume_done: bool = declare(FLAG, False, "Whether a planned action counts as done once its date has passed.")
    grounding: Grounding = declare(
        choice(*get_args(Grounding)),
        "flag",
        "What happens to an observation with names or numbers that are not in its sources, or with a false claim about the user.",
    )
    model: str = declare(
        TEXT, "extractive", "The model that observes and reflects. The value extractive needs no model."
    )
    embedder: str | None = declare(
        optional(TEXT),
        None,
        "The model that makes vectors for the search by meaning: provider:model, an address, or fastembed:NAME; None: search "
        "finds words only.",
    )
    model_timeout: float = declare(
        seconds(),
        120,
        "The longest time of one attempt to get an answer of a model; a second attempt has the same limit.",
    )
    reply_tokens: int = declare(
        tokens(100),
        16_000,
        "The most tokens of one answer of a model. Every request has a limit in proportion to its input, at most this value.",
    )
    budget: float | None = declare(
        optional(dollars()),
        None,
        "The most US dollars for observing, reflecting and embedding, checked before every call; None: no limit.",
    )
    budget_scope: BudgetScope = declare(
        choice(*get_args(BudgetScope)),
        "resource",
        "Whether the budget is for each thread, for each resource, or for all resources together.",
    )
    over_budget: OverBudget = declare(
        choice(*get_args(OverBudget)),
        "extractive",
        "What happens once the budget is spent: the embedded observer is used (extractive), or messages stay raw (wait).",
    )
    lease: float = declare(seconds(), 30, "How long a run is claimed before other processes may take it over.")
    task_lease: float = declare(
        seconds(),
        900,
        "How long a task is claimed before other sessions may claim it; work in its thread renews the claim.",
    )
    task_tokens: int = declare(tokens(0), 400, "The most tokens of tasks at the edge of a context; 0: none.")
    other_threads: int = declare(
        count(0),
        8,
        "In resource scope, the number of other threads, latest active first, whose uncovered messages a context shows at its "
        "edge; 0: none.",
    )
    other_messages: int = declare(count(), 30, "The most messages that are shown of each other thread.")
    other_tokens: int = declare(
        tokens(0),
        2_000,
        "The most tokens of the other threads together. A context says how many messages are left out.",
    )
    heartbeat: float = declare(seconds(), 10, "How often a claim is renewed.")

    def __post_init__(self) -> None:
        wrong = wrong_values(self)
        problems = [
            f"{name} = {shown(getattr(self, name))} is not of type {made.__name__}. Config.from_dict takes plain tables."
            for name, made in SECTIONS.items()
            if not isinstance(getattr(self, name), made)
        ]
        sound = {name: value for name, value in _values(self).items() if name not in wrong}
        refuse([*problems, *wrong.values(), *contradictions(sound, {})])

    @property
    def named(self) -> frozenset[str]:
        """The dotted names of the settings that were given in code, in a file or in the environment. The others are defaults."""
        inner = (f"{section}.{name}" for section in SECTIONS for name in getattr(self, section).given)
        return frozenset((*(name for name in self.given if name not in SECTIONS), *inner))

    @property
    def lasting(self) -> dict[str, Any]:
        """The given settings that are stored with a resource as its defaults."""
        if not (given := self.named.intersection(LASTING)):
            return {}
        values = _values(self)
        return {name: values[name] for name in LASTING if name in given}

    @property
    def threshold(self) -> int:
        """T: the tokens of the tail at which observations replace its oldest messages."""
        return threshold(self.observation.message_tokens, self.mode)

    @property
    def buffer_step(self) -> int | None:
        """B: the tokens by which the tail grows between two buffered groups. None means that nothing is buffered."""
        step = self.observation.buffer_tokens
        if step is False:
            return None
        return int(step) if step >= 1 else max(1, round(self.threshold * step))

    @property
    def floor(self) -> int:
        """F: the tokens of raw messages that an activation leaves in the tail."""
        activation = self.observation.buffer_activation
        return int(activation) if activation >= LEAST_KEPT else self.threshold - round(self.threshold * activation)

    @property
    def repeated_tokens(self) -> int:
        """The maximum tokens of the last user message, if a context shows it again although the log already covers it."""
        return max(self.threshold, LEAST_REPEATED)

    @property
    def reflect_at(self) -> int:
        """R: the tokens of the log at which a reflection replaces its oldest groups."""
        return self.reflection.observation_tokens

    @property
    def reflect_background_at(self) -> int:
        """The size of the log at which a reflection begins in the background."""
        activation = self.reflection.buffer_activation
        return int(activation) if activation >= LEAST_KEPT else max(1, round(self.reflect_at * activation))

    @property
    def reflect_block_at(self) -> int:
        """The size of the log above which a turn may wait for a reflection."""
        return block_at(self.reflection.block_after, self.reflect_at)

    @property
    def keep_recent_at_most(self) -> int:
        """The maximum tokens of the newest observations that are not reflected automatically."""
        return self.reflect_at // 2

    def threshold_for(self, log_tokens: int) -> int:
        """Return T for a log of this size. With `share_token_budget`, T is larger while the log is short."""
        if not self.share_token_budget:
            return self.threshold
        return shared_threshold(self.threshold, self.reflect_at, log_tokens)

    def block_at_for(self, log_tokens: int) -> int:
        """Return the size of the tail above which a turn may wait, for a log of this size."""
        return block_at(self.observation.block_after, self.threshold_for(log_tokens))

    def reflection_target_for(self, slice_tokens: int) -> int:
        """Return the maximum tokens of a reflection of observations that have `slice_tokens` tokens."""
        return round(slice_tokens * self.reflection.target)

    @classmethod
    def load(
        cls,
        *,
        toml: Path | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> Self:
        """Read settings from several sources: arguments override the environment, which overrides the file."""
        known = _known()
        readings: list[Reading] = []
        if toml is not None:
            readings.append(read_toml(toml, known))
        if environment is not None:
            readings.append(read_environment(environment, known))
        if arguments is not None:
            readings.append(read_mapping(arguments, known))
        return cls._layered({name: item.default for name, item in known.items()}, (), readings)

    @classmethod
    def from_dict(cls, given: Mapping[str, object]) -> Self:
        """Return the configuration with the settings in `given`, which has nested tables, dotted names, or both."""
        return cls.load(arguments=given)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a TOML file: its table [memolog], or the whole file if it has no such table."""
        return cls.load(toml=path)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the MEMOLOG_… variables of a mapping such as os.environ."""
        return cls.load(environment=environment)

    def with_overrides(self, overrides: Mapping[str, object]) -> Self:
        """Return a copy with some settings changed, by nested or dotted names."""
        return self._layered(_values(self), self.named, [read_mapping(overrides, _known())])

    def completed(self, stored: Mapping[str, object]) -> Self:
        """Return a copy in which stored settings replace the settings that were not given. `stored` has dotted names.

        Stored settings that no longer exist or contradict the given ones are ignored.
        """
        named = self.named
        missing = {name: value for name, value in stored.items() if name not in named}
        if not missing:
            return self
        with suppress(ConfigError):
            return self.with_overrides(missing)
        made = self
        for name, value in missing.items():
            with suppress(ConfigError):
                made = made.with_overrides({name: value})
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as nested JSON values; `from_dict` of the result equals this configuration."""
        nested: dict[str, Any] = {}
        for name, value in _values(self).items():
            section, _, leaf = name.rpartition(".")
            table: dict[str, Any] = nested.setdefault(section, {}) if section else nested
            table[leaf] = value.to_dict() if isinstance(value, KeepRecent) else value
        return nested

    @classmethod
    def _layered(cls, base: Mapping[str, Any], named: Iterable[str], readings: list[Reading]) -> Self:
        """Apply the readings to the base values, one after the other. Raise one ConfigError with every problem."""
        values, where, given = dict(base), dict[str, str](), set(named)
        problems: list[str] = []
        for reading in readings:
            values.update(reading.values)
            # If a source has all settings, as the result of `to_dict` does, only those that differ from their defaults count.
            has_all = len(reading.values) == len(_known())
            given |= {n for n, value in reading.values.items() if not has_all or value != _known()[n].default}
            where.update(reading.where)
            problems.extend(reading.problems)
            for name in reading.refused:
                values.pop(name, None)
        refuse([*problems, *contradictions(values, where)])
        top = {name: value for name, value in values.items() if "." not in name}
        for section, made in SECTIONS.items():
            prefix = f"{section}."
            inner = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
            names = (name.removeprefix(prefix) for name in given if name.startswith(prefix))
            top[section] = made(**inner).with_given(names)
        return cls(**top).with_given(name for name in given if "." not in name)


@cache
def settings() -> tuple[Setting, ...]:
    """Return all settings, sections first."""
    sections = (item for name, made in SECTIONS.items() for item in declared(made, f"{name}."))
    return (*sections, *declared(Config))


@cache
def _known() -> Mapping[str, Setting]:
    return {item.name: item for item in settings()}


def _values(config: Config) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in (item for item in fields(config) if item.init):
        value = getattr(config, item.name)
        if item.name not in SECTIONS:
            values[item.name] = value
        elif isinstance(value, SECTIONS[item.name]):
            values |= {f"{item.name}.{x.name}": getattr(value, x.name) for x in fields(value) if x.init}
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two settings whose values contradict each other if `broken` returns True.

    A rule is skipped if a setting that it reads was refused already, so that one mistake is reported once.
    """

    first: str
    second: str
    broken: Callable[[SettingValues], bool]
    why: str
    then: str


def contradictions(values: SettingValues, where: Mapping[str, str]) -> list[str]:
    """Return a sentence for each contradiction between values. `where` has the source of each value."""
    problems: list[str] = []
    for rule in CONTRADICTIONS:
        # A setting that was refused has no value.
        with suppress(KeyError):
            if rule.broken(values):
                first, second = (_named(name, values, where) for name in (rule.first, rule.second))
                problems.append(f"{first} contradicts {second}: {rule.why}. {rule.then}.")
    return problems


def _named(name: str, values: SettingValues, where: Mapping[str, str]) -> str:
    if name == _MESSAGE_TOKENS and values[name] is None:
        mode = values["mode"]
        return f"{name} = {shown(threshold(None, mode))} (of mode = {shown(mode)})"
    text = f"{name} = {shown(values[name])}{where.get(name, '')}"
    if name == _BLOCK_AFTER and values[name] < LEAST_LIMIT:
        return f"{text}, which is {_blocks_at(values):,} tokens"
    return text


def _tail_limit(values: SettingValues) -> int:
    return threshold(values[_MESSAGE_TOKENS], values["mode"])


def _blocks_at(values: SettingValues) -> int:
    return block_at(values[_BLOCK_AFTER], _tail_limit(values))


def _shared_blocks_at(values: SettingValues) -> int:
    limit = shared_threshold(_tail_limit(values), values[_OBSERVATION_TOKENS], 0)
    return block_at(values[_BLOCK_AFTER], limit)


def _exclusive(first: str, second: str, value: bool, *, why: str, then: str) -> Contradiction:
    """Return the rule that `first` must not be True while `second` is `value`."""
    return Contradiction(
        first=first,
        second=second,
        broken=lambda values: values[first] is True and values[second] is value,
        why=why,
        then=then,
    )


CONTRADICTIONS: Final = (
    Contradiction(
        first="observation.buffer_tokens",
        second=_MESSAGE_TOKENS,
        broken=lambda values: values["observation.buffer_tokens"] >= _tail_limit(values),
        why="the log would take over before anything is buffered",
        then="Lower observation.buffer_tokens, or raise observation.message_tokens",
    ),
    Contradiction(
        first="observation.buffer_activation",
        second=_MESSAGE_TOKENS,
        broken=lambda values: (
            values["observation.buffer_activation"] >= max(LEAST_KEPT, _tail_limit(values))
        ),
        why="an activation would keep as many tokens as trigger it, so that nothing could leave the tail",
        then="Keep fewer tokens with observation.buffer_activation, or use a share such as 0.8",
    ),
    Contradiction(
        first=_BLOCK_AFTER,
        second=_MESSAGE_TOKENS,
        broken=lambda values: LEAST_LIMIT <= values[_BLOCK_AFTER] < _tail_limit(values),
        why="a turn would wait before the log takes over",
        then="Raise observation.block_after, or use a factor such as 1.2",
    ),
    Contradiction(
        first="reflection.buffer_activation",
        second=_OBSERVATION_TOKENS,
        broken=lambda values: values["reflection.buffer_activation"] >= max(LEAST_KEPT, values[_OBSERVATION_TOKENS]),
        why="the reflection would begin when it should be finished",
        then="Lower reflection.buffer_activation, or use a share such as 0.5",
    ),
    Contradiction(
        first="reflection.block_after",
        second=_OBSERVATION_TOKENS,
        broken=lambda values: LEAST_LIMIT <= values["reflection.block_after"] < values[_OBSERVATION_TOKENS],
        why="a turn would wait before a reflection takes over",
        then="Raise reflection.block_after, or use a factor such as 1.2",
    ),
    Contradiction(
        first="observation.previous_tokens",
        second=_OBSERVATION_TOKENS,
        broken=lambda values: values["observation.previous_tokens"] > values[_OBSERVATION_TOKENS],
        why="the observer would be shown more tokens of the log than the log ever has",
        then="Lower observation.previous_tokens, or raise reflection.observation_tokens",
    ),
    Contradiction(
        first="context_tokens",
        second=_BLOCK_AFTER,
        broken=lambda values: (
            values["context_tokens"] is not None and values["context_tokens"] < _blocks_at(values)
        ),
        why="messages would be cut off before a turn waits for them to be observed",
        then="Raise context_tokens, or lower observation.message_tokens or observation.block_after",
    ),
    Contradiction(
        first="context_tokens",
        second="share_token_budget",
        broken=lambda values: (
            values["context_tokens"] is not None
            and values["share_token_budget"]
            and _blocks_at(values) <= values["context_tokens"] < _shared_blocks_at(values)
        ),
        why="with a short log the tail may grow past the limit before it is observed",
        then="Raise context_tokens, or set share_token_budget = False",
    ),
    Contradiction(
        first="compaction.deep_after",
        second="compaction.after",
        broken=lambda values: values["compaction.deep_after"] < values["compaction.after"],
        why="only the summary of a message would be indexed before that summary exists",
        then="Raise compaction.deep_after, or lower compaction.after",
    ),
    Contradiction(
        first="heartbeat",
        second="lease",
        broken=lambda values: values["heartbeat"] >= values["lease"],
        why="a lease would end before it is renewed",
        then="Lower heartbeat to about a third of lease",
    ),
    *(
        _exclusive(name, "read_only", True, why=f"{what} has to be written", then="Set one of them to False")
        for name, what in (
            ("buffer_on_idle", "a buffered group"),
            ("manage_working_memory", "a change of the working memory"),
            ("keep_prompts", "a stored prompt"),
        )
    ),
    _exclusive(
        "buffer_on_idle", "observe", False,
        why="nothing is buffered if nothing is observed",
        then="Set observe = True, or buffer_on_idle = False",
    ),
    _exclusive(
        "manage_working_memory", "observe", False,
        why="it is the observer that maintains the working memory",
        then="Set observe = True, or manage_working_memory = False",
    ),
    _exclusive(
        "buffer_on_idle", "observation.buffer_tokens", False,
        why="buffering is off",
        then="Give observation.buffer_tokens a share such as 0.2, or set buffer_on_idle = False",
    ),
    _exclusive(
        "redact_raw", "redact", False,
        why="secrets would be removed from stored messages and left in everything else",
        then="Set redact = True, or redact_raw = False",
    ),
    Contradiction(
        first="redact_patterns",
        second="redact",
        broken=lambda values: values["redact_patterns"] is not None and not values["redact"],
        why="the patterns would remove nothing",
        then="Set redact = True, or leave redact_patterns out",
    ),
)  # fmt: skip
