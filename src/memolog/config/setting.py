"""One declaration for each setting: its default, its kind and its meaning, kept on the field.

Knows how to declare and to list. Knows none of the settings themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from memolog.config.kinds import Kind
from memolog.config.problems import shown

__all__ = ["PREFIX", "Setting", "declare", "declared", "wrong_values"]

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
