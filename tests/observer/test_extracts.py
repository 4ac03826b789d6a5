"""Extracts as text: what is asked for, what a reply says of it, and whether that fits."""

from typing import Any

import pytest
from pydantic import BaseModel

from memolog import Extractor
from memolog.errors import ConfigError
from memolog.observer.extractors import Extractors, mismatches, read_value, take_extracts, wanted_section

LINES = "<observations>\n* 🔴 (09:30) User drinks tea [3]\n</observations>"


def test_what_is_asked_for() -> None:
    """The prompt has the form and the stored value of each extractor. A stored value cannot open or close a section."""
    text = wanted_section(
        [
            (Extractor(key="diet", instructions="What the user eats."), None),
            (
                Extractor(key="team", instructions="Who is who.", schema={"type": "object"}),
                {"dana": "</wanted> & lead"},
            ),
        ]
    )
    assert "- diet: What the user eats. (plain text)" in text
    assert '- team: Who is who. (JSON by this schema: {"type":"object"})' in text
    assert 'known so far: {"dana":"&lt;/wanted> & lead"}' in text
    assert wanted_section([]) == ""


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (f'{LINES}\n<extract name="diet">vegan</extract>', {"diet": "vegan"}),
        (
            f"{LINES}<extract key='diet'>vegan</extract><EXTRACT id=team>\n[1]\n</EXTRACT>",
            {"diet": "vegan", "team": "[1]"},
        ),
        (f'<extract name="diet">vegan</extract>\n{LINES}', {"diet": "vegan"}),
        (f'{LINES}\n<extract name="diet">vegan', {"diet": "vegan"}),
        (f'{LINES}\n<extract name="diet">vegan\n<extract name="team">[1]</extract>', {"diet": "vegan", "team": "[1]"}),
        (f'{LINES}\n<extract name="diet">vegan\n<thread-title>Food</thread-title>', {"diet": "vegan"}),
        # The first counts: a second is an echo.
        (f'{LINES}\n<extract name="diet">vegan</extract><extract name="diet">meat</extract>', {"diet": "vegan"}),
        # Nobody asked, nothing new, or said among the observations.
        (f'{LINES}\n<extract name="wallet">all of it</extract>', {}),
        (f'{LINES}\n<extract name="diet">unchanged</extract><extract name="team">null</extract>', {}),
        ('<observations>\n* 🔴 tea <extract name="diet">meat</extract> [3]\n</observations>', {}),
        ('<observations>\n<extract name="diet">meat</extract>\n</observations>\n<observations>\n</observations>', {}),
        (LINES, {}),
    ],
)
def test_what_a_reply_says(reply: str, found: dict[str, str]) -> None:
    """Sections are found outside the observations, closed or not; the observations stay as they were."""
    rest, values = take_extracts(reply, ["diet", "team"])
    assert values == found
    assert LINES in rest or "meat" in rest
    assert "vegan" not in rest


def test_a_reply_of_tags_is_read_in_time() -> None:
    """A megabyte of tags that never close takes no longer than a megabyte of anything."""
    for tag in ("<observations>", "</observations>", '<extract name="diet">', "<extract "):
        take_extracts(tag * (1_000_000 // len(tag)), ["diet"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Here it is: {"a": [1, 2]} as asked.', {"a": [1, 2]}),
        ('{"a": "x &lt; y"}', {"a": "x &lt; y"}),
        ("[1]", [1]),
    ],
)
def test_json_that_is_nearly_right(text: str, value: object) -> None:
    """Text and code fences around a JSON value are ignored."""
    assert read_value(text, {"type": ["object", "array"]}) == value


@pytest.mark.parametrize("text", ["vegan", "{'a': 1}", '{"a": ', "[" * 100_000])
def test_what_is_no_json(text: str) -> None:
    """A text that is not JSON raises ValueError."""
    with pytest.raises(ValueError):
        read_value(text, {"type": "object"})


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "mood": {"enum": ["good", "bad"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "done": {"type": "boolean"},
    },
}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"name": "Dana", "age": None, "mood": "good", "tags": ["a"], "done": True}, ""),
        ({"age": 3}, "the value.name is missing"),
        ({"name": 3}, "the value.name is not of type string"),
        ({"name": "x", "age": 1.5}, "the value.age is not of type integer or null"),
        ({"name": "x", "age": True}, "the value.age is not of type integer or null"),
        ({"name": "x", "mood": "fine"}, 'the value.mood must be one of ["good","bad"]'),
        ({"name": "x", "tags": ["a", 2]}, "the value.tags[1] is not of type string"),
        ({"name": "x", "done": 1}, "the value.done is not of type boolean"),
        ({"name": "x", "hat": 1}, "the value.hat is not in the schema"),
        ([], "the value is not of type object"),
    ],
)
def test_what_does_not_fit_is_told(value: object, problem: str) -> None:
    """A problem has the path of the value that does not fit."""
    assert "; ".join(mismatches(value, SCHEMA)) == problem


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = 0


class Plain:
    """A class with a schema and nothing else."""

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        return SCHEMA


def test_schemas_of_every_kind() -> None:
    """A pydantic model validates by itself; a class or a mapping by its schema; plain text is text."""
    person = Extractor(key="person", instructions="Who?", schema=Person)
    assert person.checked({"name": "Dana", "age": "7"}) == {"name": "Dana", "age": 7}
    assert person.checked(Person(name="Dana")) == {"name": "Dana", "age": 0}
    for schema in (Plain, SCHEMA):
        other = Extractor(key="other", instructions="Who?", schema=schema)
        assert other.checked({"name": "Dana"}) == {"name": "Dana"}
        with pytest.raises(ValueError, match="name is missing"):
            other.checked({})
    for extractor, value in ((person, {"age": 1}), (Extractor(key="text", instructions="?"), 5)):
        with pytest.raises(ValueError):
            extractor.checked(value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "Diet", "instructions": "x"},
        {"key": "", "instructions": "x"},
        {"key": "observations", "instructions": "x"},
        {"key": "diet"},
        {"key": "diet", "instructions": " "},
        {"key": "diet", "instructions": "x", "schema": object()},
    ],
)
def test_extractors_that_cannot_be(wrong: dict[str, Any]) -> None:
    """A wrong extractor is refused when it is created, and the error has advice."""
    with pytest.raises(ConfigError) as caught:
        Extractor(**wrong)
    assert caught.value.then


def test_one_key_one_extractor() -> None:
    """Two extractors with the same key are refused, because their values would overwrite each other."""
    with pytest.raises(ConfigError, match="Two extractors have the key diet"):
        Extractors([Extractor(key="diet", instructions="a"), Extractor(key="diet", instructions="b")])
