"""Declare a setting once, on its dataclass field: default, kind and meaning."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self, TypeVar

from memolog.config.kinds import Kind
from memolog.config.problems import refuse, shown

__all__ = ["PREFIX", "Given", "Setting", "declare", "declared", "wrong_values"]

PREFIX: Final = "MEMOLOG_"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is to know about one setting."""

    name: str
    """The dotted name, such as observation.message_tokens."""
    kind: Kind
    default: object
    meaning: str
    environment: str
    """The environment variable that sets it."""

    def problem(self, value: object, where: str = "") -> str:
        """Return why this value cannot be taken, as a sentence."""
        return f"{self.name} = {shown(value)}{where} is not {self.kind.accepts}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Remembers which settings were named when it was made: a default that was asked for is more than a default."""

    given: frozenset[str] = field(init=False, repr=False, compare=False)
    prefix: ClassVar[str] = ""
    """What stands before the names of its settings, such as `observation.`"""

    def __new__(cls, **values: object) -> Self:
        """Note the names before the values are checked."""
        return object.__new__(cls).with_given(_named(cls, values))

    def __post_init__(self) -> None:
        refuse([*wrong_values(self, self.prefix).values()])

    def with_given(self, names: Iterable[str]) -> Self:
        """Let these names be the ones that were given; returns itself."""
        object.__setattr__(self, "given", frozenset(names))
        return self


def _named(made: type[Any], values: Mapping[str, object]) -> Iterable[str]:
    own = {item.name: item for item in fields(made) if item.init}
    if own.keys() != values.keys():
        return values
    # `dataclasses.replace` names all of them: those count that are not as they would be anyway.
    return [name for name, item in own.items() if "kind" not in item.metadata or values[name] != item.default]


def declare(kind: Kind, default: Value, meaning: str) -> Value:
    """Return a dataclass field that carries its own documentation and check."""
    # Typed as the default, as `dataclasses.field` is, so that a wrong default is a type error.
    made: Any = field(default=default, metadata={"kind": kind, "meaning": meaning})
    return made


def declared(section: type[Any], prefix: str = "") -> Iterator[Setting]:
    """List the settings of one dataclass, in the order in which they are written there."""
    for item in fields(section):
        if "kind" in item.metadata:
            name = prefix + item.name
            yield Setting(
                name=name,
                kind=item.metadata["kind"],
                default=item.default,
                meaning=item.metadata["meaning"],
                environment=PREFIX + name.replace(".", "_").upper(),
            )


def wrong_values(owner: object, prefix: str = "") -> dict[str, str]:
    """Return the problem, by name, of each field whose value its kind does not allow."""
    problems: dict[str, str] = {}
    for setting in declared(type(owner), prefix):
        value = getattr(owner, setting.name.removeprefix(prefix))
        if not setting.kind.allows(value):
            problems[setting.name] = setting.problem(value)
    return problems
