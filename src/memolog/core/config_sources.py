"""Read settings from a mapping, a TOML file or environment variables.

A `Reading` holds the values, the source of each, and the problems: unknown names and values that are not allowed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike, fspath
from typing import Final, TypeAlias, cast

from memolog.core.setting_kinds import PREFIX, Setting, SettingGroup, SettingKind, nearest

KnownSettings: TypeAlias = Mapping[str, Setting]
Path: TypeAlias = str | PathLike[str]

RESERVED_VARIABLES: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CONFIG", "DB", "RESOURCE", "THREAD", "SESSION"),
        *("HOME", "HOOKS", "MCP_TOKEN", "PROXY_TOKEN", "UI_TOKEN", "LONG"),
    )
)
"""Environment variables that begin with MEMOLOG_ but are not settings.

The first line is for the command line. HOME is a folder for files of hooks that belong to no project, and LONG is for tests.
"""

_TABLE: Final = "memolog"

# A value that no kind of setting allows.
_REFUSED: Final = object()


@dataclass(slots=True, kw_only=True)
class Reading:
    """The settings of one source: values by dotted name, the source of each value, refused names, and a text for each problem."""

    values: dict[str, object] = field(default_factory=dict[str, object])
    where: dict[str, str] = field(default_factory=dict[str, str])
    refused: set[str] = field(default_factory=set[str])
    problems: list[str] = field(default_factory=list[str])


def read_mapping(given: object, known: KnownSettings, where: str = "") -> Reading:
    """Read settings with nested or dotted names. The values have their Python types, unlike those of variables."""
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        return Reading(problems=[f"Settings{where} must be a mapping of names to values, not {kind}."])
    named = _flat(cast("Mapping[object, object]", given), _sections(known))
    entries = ((name, known.get(name), value, where) for name, value in named)
    return _collected(entries, known, lambda kind, value: kind.take(value))


def read_toml(path: Path, known: KnownSettings) -> Reading:
    """Read a file: its table [memolog], or the whole file if it has none."""
    import tomllib  # noqa: PLC0415 - most programs never read a file

    name = fspath(path)
    where = f" (from {name})"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double the cost of importing this
            content = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:
        return Reading(problems=[f"The settings file {name} cannot be read: {error}. Check the path and its TOML."])
    if _TABLE not in content:
        return read_mapping(content, known, where)
    reading = read_mapping(content[_TABLE], known, where)
    reading.problems += [
        f"[{section}]{where} is outside of [{_TABLE}] and would be ignored. Write [{_TABLE}.{section}]."
        for section in _sections(known)
        if section in content
    ]
    return reading


def read_environment(given: Mapping[str, str], known: KnownSettings) -> Reading:
    """Read the variables that begin with MEMOLOG_. An empty variable counts as not set."""
    by_variable = {setting.environment: setting for setting in known.values()}
    ours = sorted(
        str(name)
        for name, text in given.items()
        if str(name).startswith(PREFIX) and name not in RESERVED_VARIABLES and str(text).strip()
    )
    entries = (
        (name, setting, given[name], f" (from {name})" if setting else " (in the environment)")
        for name in ours
        for setting in (by_variable.get(name),)
    )
    return _collected(entries, by_variable, _parsed)


def _collected(
    entries: Iterable[tuple[str, Setting | None, object, str]],
    known: Iterable[str],
    convert: Callable[[SettingKind, object], object],
) -> Reading:
    """Check and convert some entries: the name, the setting of that name (None if unknown), the value and the source."""
    reading = Reading()
    for name, setting, value, where in entries:
        if setting is None:
            reading.problems.append(_unknown(name, where, known))
        elif setting.name in reading.values or setting.name in reading.refused:
            reading.problems.append(f"{name}{where} is given twice, nested and dotted. Keep one of them.")
        else:
            try:
                converted = convert(setting.kind, value)
            except (ValueError, OverflowError):
                converted = _REFUSED
            if setting.kind.allows(converted):
                reading.values[setting.name], reading.where[setting.name] = converted, where
            else:
                reading.refused.add(setting.name)
                reading.problems.append(setting.problem(value, where))
    return reading


def _sections(known: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in known if "." in name))


def _flat(given: Mapping[object, object], sections: Collection[str]) -> Iterator[tuple[str, object]]:
    """Yield each setting of a mapping with its dotted name. A section object yields all of its settings."""
    for key, value in given.items():
        name = str(key)
        table = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None
        if "." not in name and table:
            for inner, item in table.items():
                yield f"{name}.{inner}", item
        elif isinstance(value, SettingGroup) and value.prefix == f"{name}.":
            for item in fields(value):
                if item.init:
                    yield f"{name}.{item.name}", getattr(value, item.name)
        elif name not in sections or table is None:
            yield name, value


def _unknown(name: str, where: str, known: Iterable[str]) -> str:
    if name in _sections(known):
        return f"{name}{where} is not a single setting but a table of settings."
    return f"{name[:200]}{where} is not a setting.{nearest(name, known) or ' `memolog config` lists all settings.'}"


def _parsed(kind: SettingKind, text: object) -> object:
    return kind.read(text.strip()) if isinstance(text, str) else _REFUSED
