"""Extract values that the application defines, along with the observations."""

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memolog.domain.codec import JsonObject, JsonValue, check_json
from memolog.domain.errors import ConfigError
from memolog.domain.extract import Extract, NewExtract
from memolog.domain.message import Message
from memolog.prompt.extracts import Wanted, mismatches, read_value
from memolog.prompt.redact import Redactor
from memolog.runtime.runner import Problem

__all__ = ["Drawn", "Extractor", "Extractors", "latest"]

_KEY: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
# Names of sections in a reply.
_TAKEN: Final = frozenset(
    {"observations", "current-task", "suggested-response", "thread-title", "off-track", "extract"}
)
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractor:
    """One value that is kept for each thread: what a model is asked for, or a function of the messages, or both.

    `schema` is a pydantic model, any class with `json_schema()`, a JSON schema as a mapping, or None for plain text. With the
    embedded observer the function draws the value; with a model the model does, unless there are no instructions.
    """

    key: str
    instructions: str = ""
    schema: Any = None
    function: Callable[[Sequence[Message]], Any] | None = None

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key) or self.key in _TAKEN:
            raise ConfigError(
                f"`key` of an extractor must be a new short name, got {self.key!r}.",
                then="Use up to 64 lower-case letters, digits, - and _, starting with a letter; section names are reserved.",
            )
        if not self.instructions.strip() and self.function is None:
            raise ConfigError(
                f"The extractor {self.key} has neither instructions nor a function.",
                then="Give it instructions for a model, a function of the messages, or both.",
            )
        self.json_schema()

    def json_schema(self) -> JsonObject | None:
        """Return the JSON schema of its values; None is plain text."""
        if self.schema is None or isinstance(self.schema, Mapping):
            return cast("JsonObject | None", self.schema)
        for name in ("model_json_schema", "json_schema"):
            made = getattr(self.schema, name, None)
            if callable(made):
                return cast("JsonObject", made())
        raise ConfigError(
            f"`schema` of the extractor {self.key} is not supported: {type(self.schema).__name__}.",
            then="Pass a pydantic model, a class with json_schema(), a JSON schema, or nothing for plain text.",
        )

    def checked(self, value: Any) -> JsonValue:
        """Return a value as JSON if it fits the schema; raises otherwise."""
        validate = getattr(self.schema, "model_validate", None)
        if callable(validate):
            value = validate(value)
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        schema = self.json_schema()
        problems = mismatches(value, schema) if schema else []
        if schema is None and not isinstance(value, str):
            problems = [f"{type(value).__name__} is not text"]
        if problems:
            raise ValueError("; ".join(problems))
        check_json("The value", value)
        return value


@dataclass(slots=True, kw_only=True)
class Drawn:
    """The new values, and what failed."""

    values: list[NewExtract] = field(default_factory=list[NewExtract])
    problems: list[Problem] = field(default_factory=list[Problem])


class Extractors:
    """All extractors of a memory."""

    def __init__(self, extractors: Sequence[Extractor] = ()) -> None:
        keys = [extractor.key for extractor in extractors]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ConfigError(f"Two extractors have the key {twice[0]}.", then="Give each value a key of its own.")
        self._all = tuple(extractors)

    def __bool__(self) -> bool:
        return bool(self._all)

    def wanted(self, known: Mapping[str, JsonValue]) -> tuple[Wanted, ...]:
        """Return what a model is asked for, beside what is known."""
        return tuple(
            Wanted(key=e.key, instructions=e.instructions, schema=e.json_schema(), known=known.get(e.key))
            for e in self._all
            if e.instructions.strip()
        )

    async def drawn(
        self,
        messages: Sequence[Message],
        said: Mapping[str, str] | None,
        known: Mapping[str, JsonValue],
        redactor: Redactor,
    ) -> Drawn:
        """Return the new values: as a model said them or, without a model, as the functions return them."""
        result = Drawn()
        for extractor in self._all:
            try:
                value = await _value(extractor, messages, said)
                if value is None:
                    continue
                value = redactor.value(extractor.checked(value))
            except Exception as error:  # noqa: BLE001 - a failing extractor must not stop the others
                what = f"extracting {extractor.key}"
                result.problems.append(Problem(what=what, error=f"{type(error).__name__}: {error}"))
                continue
            if extractor.key not in known or known[extractor.key] != value:
                result.values.append(NewExtract(key=extractor.key, value=value))
        return result


async def _value(extractor: Extractor, messages: Sequence[Message], said: Mapping[str, str] | None) -> Any:
    is_asked = said is not None and bool(extractor.instructions.strip())
    if is_asked:
        text = said.get(extractor.key) if said else None
        return None if text is None else read_value(text, extractor.json_schema())
    if extractor.function is None:
        return None
    async with asyncio.timeout(_SECONDS):
        # It may take long or block: keep it off the event loop.
        value = await asyncio.to_thread(extractor.function, messages)
        return await value if inspect.isawaitable(value) else value


def latest(versions: Sequence[Extract]) -> dict[str, Extract]:
    """Return the newest version of each value."""
    return {version.key: version for version in versions}
