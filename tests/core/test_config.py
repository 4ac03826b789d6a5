"""Settings: each arrives from every source, and what cannot be meant is refused with advice."""

import json
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memolog.core.config import CONTRADICTIONS as RULES
from memolog.core.config import SECTIONS, Config, ObservationConfig, ReflectionConfig, settings
from memolog.core.config_sources import RESERVED_VARIABLES
from memolog.core.setting_kinds import MODE_TOKENS, KeepRecent, Setting
from memolog.errors import ConfigError

# For each kind of setting a value that is no default, and that contradicts no default.
OF_KIND: dict[str, Any] = {
    "count": 45,
    "tokens": 37_000,
    "seconds": 25,
    "dollars": 2.5,
    "share": 0.3,
    "share-or-tokens": 0.3,
    "factor-or-tokens": 1.5,
    "text": "small",
    "prose": "Keep prices.\nKeep names.",
    "patterns": "badge: B[0-9]{6}\nticket: TCK-\\d+",
    "window": KeepRecent(hours=48, observations=5),
}


def other_value(setting: Setting) -> Any:
    """Return a value that is not the default."""
    if setting.kind.name == "flag":
        return not setting.default
    chosen = (choice for choice in setting.kind.choices if choice != setting.default)
    return OF_KIND[setting.kind.name] if setting.kind.name in OF_KIND else next(chosen)


OTHER: dict[str, Any] = {item.name: other_value(item) for item in settings()}

every_setting = pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)


def value_of(config: Config, name: str) -> object:
    """Return one value by its dotted name."""
    value: object = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def plain(value: object) -> object:
    """Return the value as a file or JSON would hold it."""
    return value.to_dict() if isinstance(value, KeepRecent) else value


def toml(name: str, value: object) -> str:
    """Write one setting as a TOML line, dotted."""
    if isinstance(value, KeepRecent):
        text = f"{{ hours = {value.hours}, observations = {value.observations} }}"
    else:
        text = json.dumps(value)
    return f"{name} = {text}\n"


def refusal(make: Callable[[], object]) -> str:
    """Return the message with which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        make()
    return str(caught.value)


def lone_change(config: Config, setting: Setting) -> bool:
    """Return whether this setting has the other value, which is not its default, and every other setting its default."""
    assert OTHER[setting.name] != setting.default
    expected = {item.name: item.default for item in settings()} | {setting.name: OTHER[setting.name]}
    return all(value_of(config, name) == value for name, value in expected.items())


@every_setting
def test_arrives_as_argument(setting: Setting) -> None:
    """A setting given to a constructor is the one that is kept."""
    value = OTHER[setting.name]
    section, _, leaf = setting.name.rpartition(".")
    arguments: dict[str, Any] = {section: SECTIONS[section](**{leaf: value})} if section else {leaf: value}
    config = Config(**arguments)
    assert lone_change(config, setting)


@every_setting
def test_arrives_from_a_mapping(setting: Setting) -> None:
    """Dotted and nested names, and overrides of a configuration, all arrive."""
    value = OTHER[setting.name]
    section, _, leaf = setting.name.rpartition(".")
    nested = {section: {leaf: plain(value)}} if section else {leaf: value}
    assert lone_change(Config.from_dict({setting.name: value}), setting)
    assert lone_change(Config.from_dict(nested), setting)
    assert lone_change(Config().with_overrides({setting.name: plain(value)}), setting)


@every_setting
@pytest.mark.parametrize("table", ["", "[memolog]\n"])
def test_arrives_from_toml(setting: Setting, table: str, tmp_path: Path) -> None:
    """A setting in a file arrives, with our own table and without."""
    path = tmp_path / "settings.toml"
    path.write_text(table + toml(setting.name, OTHER[setting.name]), encoding="utf-8")
    assert lone_change(Config.from_toml(path), setting)


@every_setting
def test_arrives_from_the_environment(setting: Setting) -> None:
    """A setting in a variable is read by its kind; other programs' variables are left alone."""
    value = OTHER[setting.name]
    text = "48h, 5" if isinstance(value, KeepRecent) else str(value)
    config = Config.from_environment({setting.environment: text, "PATH": "/bin"})
    assert lone_change(config, setting)
    assert type(value_of(config, setting.name)) is type(value)


@every_setting
def test_is_documented(setting: Setting) -> None:
    """Each setting says in a sentence what it means, and accepts its own default."""
    assert re.fullmatch(r"[A-Z].{15,}\.", setting.meaning)
    assert setting.environment == f"MEMOLOG_{setting.name.upper().replace('.', '_')}"
    assert setting.kind.allows(setting.default)
    assert value_of(Config(), setting.name) == setting.default


@every_setting
def test_refuses_what_its_kind_is_not(setting: Setting) -> None:
    """Values of no use are refused under their dotted name, whatever the type."""
    values: tuple[object, ...] = (nan, inf, -inf, -1, 10**5_000, object(), [], b"x", "", "\ud800")
    for value in values:
        message = refusal(lambda given=value: Config.from_dict({setting.name: given}))
        assert message.startswith(f"{setting.name} = ")


@every_setting
def test_a_boolean_is_no_number(setting: Setting) -> None:
    """True is accepted by flags alone."""
    if setting.kind.name != "flag":
        assert f"{setting.name} = True is not" in refusal(lambda: Config.from_dict({setting.name: True}))
    else:
        assert "is not True or False" in refusal(lambda: Config.from_dict({setting.name: 1}))


def test_variables_are_distinct() -> None:
    """No two settings share a variable, and none is reserved for others."""
    variables = [item.environment for item in settings()]
    assert len(set(variables)) == len(variables)
    assert not set(variables) & RESERVED_VARIABLES


def test_round_trip_of_all_settings() -> None:
    """A configuration in which everything that can differ does survives JSON."""
    quiet = {"buffer_on_idle", "manage_working_memory", "keep_prompts", "redact", "context_tokens", "lease"}
    given = {name: value for name, value in OTHER.items() if name not in quiet}
    config = Config.from_dict(given)
    again = Config.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert hash(again) == hash(config)
    assert all(value_of(config, name) == value for name, value in given.items())


def test_derived_numbers_at_the_defaults() -> None:
    """The numbers of the design, as tokens."""
    config = Config()
    assert config.threshold == 30_000
    assert config.buffer_step == 6_000
    assert config.floor == 6_000
    assert config.block_at_for(0) == 36_000
    assert config.reflect_at == 40_000
    assert config.reflect_background_at == 20_000
    assert config.reflect_block_at == 48_000
    assert config.keep_recent_at_most == 20_000
    assert config.reflection_target_for(10_000) == 5_000


def test_derived_numbers_of_absolute_settings() -> None:
    """Numbers of tokens are taken as they are."""
    config = Config(
        observation=ObservationConfig(buffer_tokens=4_000, buffer_activation=2_500, block_after=31_000),
        reflection=ReflectionConfig(buffer_activation=15_000, block_after=40_000),
    )
    assert config.buffer_step == 4_000
    assert config.floor == 2_500
    assert config.block_at_for(0) == 31_000
    assert config.reflect_background_at == 15_000
    assert config.reflect_block_at == 40_000


def test_edges_of_shares_and_factors() -> None:
    """A share of 1 keeps nothing, a factor of 1 waits at once, 99 is a factor and 100 is tokens."""
    all_of_it = ObservationConfig(message_tokens=50, buffer_activation=1, block_after=1)
    assert Config(observation=all_of_it).floor == 0
    assert Config(observation=all_of_it).block_at_for(0) == 50
    assert Config(observation=replace(all_of_it, block_after=99)).block_at_for(0) == 4_950
    assert Config(observation=replace(all_of_it, block_after=100)).block_at_for(0) == 100
    assert Config(observation=ObservationConfig(buffer_tokens=False)).buffer_step is None


def test_shared_budget() -> None:
    """Messages may use what the log leaves free, and never get less than their own share."""
    assert Config().threshold_for(0) == 30_000
    config = Config(share_token_budget=True)
    assert config.threshold_for(0) == 70_000
    assert config.threshold_for(15_000) == 55_000
    assert config.threshold_for(90_000) == 30_000
    assert config.block_at_for(0) == 84_000
    absolute = config.with_overrides({"observation.block_after": 40_000})
    assert absolute.block_at_for(0) == 70_000
    assert absolute.block_at_for(40_000) == 40_000


@pytest.mark.parametrize(("mode", "tokens"), MODE_TOKENS.items())
def test_a_mode_sets_the_threshold_unless_it_was_given(mode: str, tokens: int) -> None:
    """The mode decides T, and steps and floors with it; a number that was given stays."""
    config = Config.from_dict({"mode": mode})
    assert config.threshold == tokens
    assert config.buffer_step == tokens // 5
    assert config.floor == tokens // 5
    given = config.with_overrides({"observation": {"message_tokens": 30_000}})
    assert given.threshold == 30_000
    assert given.with_overrides({"observation.message_tokens": None}).threshold == tokens


def test_modes_are_those_of_the_table() -> None:
    """Each mode that can be chosen has a threshold."""
    mode = next(item for item in settings() if item.name == "mode")
    assert set(mode.kind.choices) == set(MODE_TOKENS)


# For each rule settings that break it and no other one.
CONTRADICTIONS: list[dict[str, Any]] = [
    {"observation.buffer_tokens": 30_000},
    {"observation.buffer_activation": 30_000},
    {"observation.block_after": 35_000, "mode": "explore"},
    {"reflection.buffer_activation": 40_000},
    {"reflection.block_after": 39_999},
    {"reflection.observation_tokens": 1_999},
    {"context_tokens": 35_999},
    {"context_tokens": 83_999, "share_token_budget": True},
    {"compaction.deep_after": 20},
    {"heartbeat": 30},
    {"read_only": True, "buffer_on_idle": True},
    {"read_only": True, "manage_working_memory": True},
    {"read_only": True, "keep_prompts": True},
    {"observe": False, "buffer_on_idle": True},
    {"observe": False, "manage_working_memory": True},
    {"observation.buffer_tokens": False, "buffer_on_idle": True},
    {"redact": False, "redact_raw": True},
    {"redact": False, "redact_patterns": "x: y"},
]


def test_contradictions_name_both_sides() -> None:
    """A contradiction is refused in one sentence with both settings, their values and a way out."""
    for rule, broken in zip(RULES, CONTRADICTIONS, strict=True):
        message = refusal(lambda broken=broken: Config.from_dict(broken))
        assert re.match(rf"{rule.first} = \S.* contradicts {rule.second} = \S.*: \w.*\. [A-Z].* \S+\.$", message)
        assert all(f"{name} = {value:,}" in message for name, value in broken.items() if type(value) is int)
        assert "problems" not in message


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"context_tokens": 35_999}, "observation.block_after = 1.2, which is 36,000 tokens"),
        ({"observation.block_after": 35_000, "mode": "explore"}, "message_tokens = 60,000 (of mode = 'explore')"),
    ],
)
def test_a_contradiction_shows_what_a_setting_results_in(given: dict[str, Any], shown: str) -> None:
    """A factor in tokens, and the threshold of a mode."""
    assert shown in refusal(lambda: Config.from_dict(given))


def test_contradictions_stop_at_the_edge() -> None:
    """The nearest values that make sense are accepted."""
    config = Config.from_dict(
        {
            "observation.buffer_tokens": 29_999,
            "observation.buffer_activation": 29_999,
            "observation.block_after": 30_000,
            "observation.previous_tokens": 40_000,
            "reflection.buffer_activation": 39_999,
            "reflection.block_after": 40_000,
            "context_tokens": 30_000,
            "heartbeat": 29.9,
        }
    )
    assert config.block_at_for(0) == config.context_tokens == 30_000
    # A promise about writes is empty without writes, and no contradiction.
    assert Config(read_only=True, durability="full", redact_raw=True).read_only


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observation.message_tokens", 0),
        ("observation.message_tokens", 30_000.0),
        ("observation.message_tokens", "30000"),
        ("observation.buffer_tokens", 0),
        ("observation.buffer_tokens", 1.5),
        ("observation.buffer_tokens", None),
        ("observation.buffer_activation", 0),
        ("observation.buffer_activation", 1.2),
        ("observation.buffer_activation", 999),
        ("observation.block_after", 0.9),
        ("observation.block_after", 100.5),
        ("observation.parallel", 0),
        ("reflection.buffer_activation", 0.0),
        ("reflection.block_after", 0.99),
        ("reflection.target", 0),
        ("reflection.target", 1),
        ("reflection.target", 1.0),
        ("reflection.keep_recent", {"hours": 24}),
        ("reflection.keep_recent", {"hours": -1, "observations": 50}),
        ("reflection.keep_recent", {"hours": 1, "observations": True}),
        ("activate_after_idle", 0),
        ("activate_after_idle", "soon"),
        ("last_messages", 0),
        ("lease", 0),
        ("statement_timeout", 0),
        ("statement_timeout", 3_000_000),
        ("scope", "world"),
        ("mode", None),
        ("model", " "),
        ("budget", -0.01),
    ],
)
def test_out_of_range(name: str, value: object) -> None:
    """Values outside of what a setting can be are refused with what it can be."""
    message = refusal(lambda: Config.from_dict({name: value}))
    assert message.startswith(f"{name} = ")
    assert " is not " in message


def test_direct_construction_is_checked() -> None:
    """The constructors refuse what the sources refuse."""
    bad: Any = True
    assert "observation.message_tokens = True" in refusal(lambda: ObservationConfig(message_tokens=bad))
    assert "reflection.target = 2" in refusal(lambda: ReflectionConfig(target=2))
    assert "keep_recent.hours = nan" in refusal(lambda: KeepRecent(hours=nan))
    assert "keep_recent.observations = -1" in refusal(lambda: KeepRecent(observations=-1))
    assert "heartbeat = 50 contradicts lease = 30" in refusal(lambda: Config(heartbeat=50))
    table: Any = {"message_tokens": 5}
    message = refusal(lambda: Config(observation=table, pool_size=0, heartbeat=50))
    assert message.startswith("3 problems")
    assert "is not of type ObservationConfig" in message
    with pytest.raises(ConfigError):
        replace(Config(), last_messages=0)


def test_configurations_cannot_be_changed() -> None:
    """A configuration is a value."""
    config: Any = Config()
    with pytest.raises(FrozenInstanceError):
        config.scope = "resource"
    with pytest.raises(TypeError):
        Config(*[ObservationConfig()])


def test_all_problems_at_once(tmp_path: Path) -> None:
    """One error lists what is wrong in the file, the environment and the arguments together."""
    path = tmp_path / "settings.toml"
    path.write_text(
        "[memolog]\nscoop = 1\n[memolog.reflection]\ntarget = 4\nblock_after = 200\n",
        encoding="utf-8",
    )
    message = refusal(
        lambda: Config.load(
            toml=path,
            environment={"MEMOLOG_LEASE": "5s", "MEMOLOG_POOL_SIZ": "3", "MEMOLOG_STRICT": "si"},
            arguments={"observation": {"parallel": 0, "model": ""}, "mode": "expand"},
        )
    )
    file = re.escape(f" (from {path})")
    expected = [
        rf"scoop{file} is not a setting\. Did you mean scope\?",
        rf"reflection\.target = 4{file} is not a share",
        r"MEMOLOG_POOL_SIZ \(in the environment\) is not a setting\. Did you mean MEMOLOG_POOL_",
        r"strict = 'si' \(from MEMOLOG_STRICT\) is not True or False",
        r"observation\.parallel = 0 is not a whole number from 1",
        r"observation\.model = '' is not a text",
        r"mode = 'expand' is not one of default, explore",
        rf"reflection\.block_after = 200{file} contradicts reflection\.observation_tokens = 40,000",
        r"heartbeat = 10 contradicts lease = 5 \(from MEMOLOG_LEASE\)",
    ]
    assert message.startswith(f"{len(expected)} problems in the settings:\n- ")
    for line in expected:
        assert re.search(f"^- {line}", message, re.MULTILINE), line


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("observation.mesage_tokens", "observation.message_tokens"),
        ("message_tokens", "observation.message_tokens"),
        ("observations.parallel", "observation.parallel"),
        ("block_after", "observation.block_after or reflection.block_after"),
        ("shareTokenBudget", "share_token_budget"),
        ("reflection.keep_recent.hours", "reflection.keep_recent"),
    ],
)
def test_unknown_names_suggest_the_nearest(name: str, near: str) -> None:
    """A name that nobody knows is refused, with the one that was probably meant."""
    message = refusal(lambda: Config.from_dict({name: 1}))
    assert message == f"{name} is not a setting. Did you mean {near}?"
    # A far-off name gets no bad advice, and its value, which may be a secret, is not shown.
    far = refusal(lambda: Config.from_environment({"MEMOLOG_XYZZY_QQQ_KKK_VVV": "hunter2"}))
    assert (
        far == "MEMOLOG_XYZZY_QQQ_KKK_VVV (in the environment) is not a setting. `memolog config` lists all settings."
    )


def test_reserved_variables_are_left_to_their_owners() -> None:
    """The few variables of command line, hooks and tests are no settings and no mistakes."""
    names = {
        "CONFIG",
        "DB",
        "HOME",
        "HOOKS",
        "LONG",
        "MCP_TOKEN",
        "PROXY_TOKEN",
        "RESOURCE",
        "SESSION",
        "THREAD",
        "UI_TOKEN",
    }
    assert {f"MEMOLOG_{name}" for name in names} == RESERVED_VARIABLES
    assert Config.from_environment(dict.fromkeys(RESERVED_VARIABLES, "x")) == Config()


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("MEMOLOG_OBSERVATION_BUFFER_TOKENS", "0.3", "observation.buffer_tokens", 0.3),
        ("MEMOLOG_OBSERVATION_BUFFER_TOKENS", "false", "observation.buffer_tokens", False),
        ("MEMOLOG_OBSERVATION_MESSAGE_TOKENS", "None", "observation.message_tokens", None),
        ("MEMOLOG_ACTIVATE_AFTER_IDLE", "auto", "activate_after_idle", "auto"),
        ("MEMOLOG_ACTIVATE_AFTER_IDLE", "off", "activate_after_idle", False),
        ("MEMOLOG_ACTIVATE_AFTER_IDLE", " 1.5h ", "activate_after_idle", 5_400),
        ("MEMOLOG_STATEMENT_TIMEOUT", "1d", "statement_timeout", 86_400),
        ("MEMOLOG_OBSERVATION_DEADLINE", "500ms", "observation.deadline", 0.5),
        ("MEMOLOG_BUSY_TIMEOUT", "0", "busy_timeout", 0),
        ("MEMOLOG_OBSERVATION_BUFFER_ACTIVATION", "3_000", "observation.buffer_activation", 3_000),
        *(("MEMOLOG_STRICT", text, "strict", True) for text in ("1", "on", "YES", "true")),
        *(("MEMOLOG_OBSERVE", text, "observe", False) for text in ("0", "off", "no", "FALSE")),
    ],
)
def test_texts_of_variables(variable: str, text: str, name: str, value: object) -> None:
    """Variables are read by the kind of their setting."""
    found = value_of(Config.from_environment({variable: text}), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("LAST_MESSAGES", text) for text in ("30,000", "3e4", "nan", "inf", "1" * 5_000, "30k")),
        # A number that is out of range does not switch anything off by accident.
        *(("OBSERVATION_BUFFER_TOKENS", "0"), ("ACTIVATE_AFTER_IDLE", "0")),
    ],
)
def test_texts_that_are_no_number(name: str, text: str) -> None:
    """A number that cannot be read, or is out of range, is refused with the name of its variable."""
    assert f"(from MEMOLOG_{name}) is not" in refusal(lambda: Config.from_environment({f"MEMOLOG_{name}": text}))


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_is_not_set(text: str) -> None:
    """It gives no value, whatever the kind of its setting, and leaves the value of the file."""
    empty = dict.fromkeys((item.environment for item in settings()), text)
    assert Config.from_environment(empty).named == set()
    assert Config.load(toml=None, environment=empty) == Config()


def test_durations_in_files_may_have_a_unit() -> None:
    """Mappings and files take "5m" for seconds, and nothing else as text in place of a number."""
    assert Config.from_dict({"lease": "5m"}).lease == 300
    assert "lease = 'long'" in refusal(lambda: Config.from_dict({"lease": "long"}))
    assert "lease = '1e999'" in refusal(lambda: Config.from_dict({"lease": "1e999"}))


def test_layers(tmp_path: Path) -> None:
    """Arguments beat the environment, which beats the file, which beats the defaults."""
    path = tmp_path / "settings.toml"
    path.write_text('scope = "resource"\npool_size = 1\nlast_messages = 1\n', encoding="utf-8")
    config = Config.load(
        toml=str(path),
        environment={"MEMOLOG_POOL_SIZE": "2", "MEMOLOG_LAST_MESSAGES": "2"},
        arguments={"last_messages": 3},
    )
    assert (config.scope, config.pool_size, config.last_messages) == ("resource", 2, 3)
    assert config.lease == 30
    assert Config.load() == Config()


def test_a_section_object_replaces_the_section() -> None:
    """A section given as a value stands for all of its settings, defaults included."""
    config = Config.from_dict({"observation": {"parallel": 9, "deadline": 1}})
    changed = config.with_overrides({"observation": ObservationConfig(parallel=2)})
    assert changed == Config(observation=ObservationConfig(parallel=2))


def test_overrides_leave_the_rest_and_the_original() -> None:
    """Overrides change what they name, in a copy, and are checked together with the rest."""
    config = Config(lease=60, mode="testing")
    changed = config.with_overrides({"observation.message_tokens": 100, "reflection": {}})
    assert changed.threshold == 100
    assert (changed.lease, changed.mode) == (60, "testing")
    assert config.threshold == 40_000
    assert "heartbeat = 60 contradicts lease = 60" in refusal(lambda: config.with_overrides({"heartbeat": 60}))


def test_the_same_name_twice() -> None:
    """A setting that is given dotted and nested is refused, since one of them would be dropped."""
    given = {"observation": {"parallel": 1}, "observation.parallel": 2}
    assert "observation.parallel is given twice" in refusal(lambda: Config.from_dict(given))


@pytest.mark.parametrize("section", ["observation", "reflection"])
def test_a_section_is_a_table(section: str) -> None:
    """A section with a single value is refused as such."""
    message = refusal(lambda: Config.from_dict({section: 5}))
    assert message == f"{section} is not a single setting but a table of settings."


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"scope = ", "cannot be read: Invalid value"),
        (b"model = '\xff'", "cannot be read: "),
        (b"memolog = 3", "must be a mapping of names to values, not int"),
        (b"[memolog]\n[observation]\nparallel = 2\n", "Write [memolog.observation]."),
        (b"[other]\nx = 2\n", "other.x (from "),
        (b"lease = 1979-05-27\n", "lease = datetime.date(1979, 5, 27) (from "),
    ],
)
def test_files_that_cannot_be_used(content: bytes, problem: str, tmp_path: Path) -> None:
    """A broken file is refused under its own name."""
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    message = refusal(lambda: Config.from_toml(path))
    assert problem in message
    assert "settings.toml" in message
    path.unlink()
    assert "settings.toml cannot be read" in refusal(lambda: Config.from_toml(path))


def test_a_file_shared_with_others(tmp_path: Path) -> None:
    """With a table of our own in it, the rest of a file is left alone."""
    path = tmp_path / "settings.toml"
    path.write_text('name = "app"\n[memolog]\nlease = "1m"\n[web]\nport = 1\n', encoding="utf-8")
    assert Config.from_toml(path) == Config(lease=60)


class Unprintable:
    """A value whose text cannot be made."""

    def __repr__(self) -> str:
        raise RuntimeError


def test_values_that_cannot_be_shown() -> None:
    """A message is made for whatever was handed in, and stays short."""
    message = refusal(lambda: Config.from_dict({"lease": Unprintable(), "mode": "x" * 10_000}))
    assert "lease = a value of type Unprintable is not" in message
    assert len(message) < 1_000
    no_mapping: Any = ["scope"]
    assert refusal(lambda: Config.from_dict(no_mapping)).endswith("not list.")


NAMES = st.sampled_from(
    [
        *(item.name for item in settings()),
        *(item.name.rpartition(".")[2] for item in settings()),
        "observation",
        "reflection",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([0.5, 1, 100, 1_000, 30_000, 10**400, "auto", "24h", "thread", "explore"]),
    st.text(max_size=8),
    st.binary(max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(NAMES | st.sampled_from(["hours", "observations"]), inner, max_size=4),
    ),
    max_leaves=8,
)
LEGAL = st.lists(st.sampled_from(sorted(OTHER)), unique=True)


def made_or_refused(make: Callable[[], Config]) -> None:
    """Check that a source gives a sound configuration or a ConfigError, and nothing else."""
    try:
        config = make()
    except ConfigError as error:
        assert str(error)  # noqa: PT017 - either outcome is fine, a third is not
    else:
        assert Config.from_dict(config.to_dict()) == config
        assert 0 <= config.floor <= config.threshold <= config.block_at_for(0)
        assert config.reflect_background_at <= config.reflect_at <= config.reflect_block_at


@given(st.dictionaries(NAMES | st.text() | st.integers(), VALUES, max_size=6))
@example({"reflection.keep_recent": {1: 2}})
@example({"observation": {"message_tokens": 10**5_000}})
def test_any_mapping_is_made_or_refused(given: Mapping[Any, object]) -> None:
    """Random names and values never raise anything but a ConfigError."""
    made_or_refused(lambda: Config.from_dict(given))
    made_or_refused(lambda: Config().with_overrides(given))


@given(
    st.dictionaries(
        st.sampled_from([item.environment for item in settings()]) | st.text().map("MEMOLOG_".__add__) | st.text(),
        st.text()
        | st.integers().map(str)
        | st.floats().map(str)
        | st.sampled_from(["1e999h", "-5m", "24h,50", "infh, 3", "none", "0.5"]),
        max_size=6,
    )
)
def test_any_environment_is_made_or_refused(given: Mapping[str, str]) -> None:
    """Random variables never raise anything but a ConfigError."""
    made_or_refused(lambda: Config.from_environment(given))


@given(st.binary(max_size=60) | st.sampled_from([b"[" * 5_000, b"a=" + b"[" * 5_000]))
def test_any_file_is_made_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Random bytes in a file never raise anything but a ConfigError."""
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(content)
    made_or_refused(lambda: Config.from_toml(path))


@given(LEGAL)
def test_any_combination_of_legal_values_is_made_or_contradicts(names: list[str]) -> None:
    """Values that are legal alone are refused together only as a contradiction."""
    given = {name: OTHER[name] for name in names}
    try:
        config = Config.from_dict(given)
    except ConfigError as error:
        assert "contradicts" in str(error)  # noqa: PT017 - the other outcome is checked below
    else:
        assert all(value_of(config, name) == value for name, value in given.items())


def test_a_configuration_knows_what_it_was_given() -> None:
    """By whatever source, also where it is the default; copies know it too."""
    assert Config().named == frozenset()
    made = Config(scope="thread", observation=ObservationConfig(message_tokens=900))
    assert made.named == {"scope", "observation.message_tokens"}
    assert made.lasting == {"scope": "thread", "observation.message_tokens": 900}
    assert Config.from_dict({"scope": "thread", "strict": True}).named == {"scope", "strict"}
    assert Config.from_environment({"MEMOLOG_RECALL_RESULTS": "0"}).named == {"recall.results"}
    assert made.with_overrides({"strict": False}).named == {*made.named, "strict"}
    assert replace(made, strict=True).named >= {"strict", "observation.message_tokens"}
    assert replace(Config(), strict=True).named == {"strict"}
    assert Config.from_dict(Config(mode="explore").to_dict()).named == {"mode"}
    assert pickle.loads(pickle.dumps(made)).named == made.named  # noqa: S301 - made here
    assert Config(scope="thread") == Config()
    assert "given" not in repr(made)


def test_stored_settings_fill_in_what_was_not_given() -> None:
    """What was given stays, what contradicts it or is not known any more is left out."""
    stored = {"scope": "resource", "observation.message_tokens": 900, "gone": 1, "reflection.observation_tokens": 1_000}
    made = Config(scope="thread", observation=ObservationConfig(previous_tokens=3_000)).completed(stored)
    assert (made.scope, made.observation.message_tokens, made.reflection.observation_tokens) == ("thread", 900, 40_000)
    assert Config().completed({}) == Config()
