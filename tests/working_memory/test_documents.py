"""Working memory as text: sections, patches, schemas, merges. No store."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memolog.core.document import Document, DocumentVersion
from memolog.errors import (
    DocumentConflict,
    DocumentInvalid,
    MemologError,
)
from memolog.working_memory.document import (
    checked,
    edited_section,
    merged,
    merged_patch,
    replaced,
    section_named,
    sections_of,
    settled,
)
from memolog.working_memory.schema import TEMPLATES, check_schema, problems, template

AT = datetime(2026, 3, 14, tzinfo=UTC)
TEXT = """# Project

Name: Tally

## Set up

make

```sh
# no heading
```

# People

Ann
"""


def version(text: str, number: int = 1, by: str = "me") -> DocumentVersion:
    """Return a version with this text."""
    return DocumentVersion(number=number, text=text, by=by, at=AT)


def document(text: str, **fields: Any) -> Document:
    """Return a document with this text."""
    return Document(
        **{"resource": "alice", "thread": None, "format": "markdown", "current": version(text)} | fields  # pyright: ignore[reportArgumentType]
    )


# ---------------------------------------------------------------- sections


def test_sections_are_headings_outside_code() -> None:
    """A heading in a code block is code; an inner section lies within its outer one."""
    assert [section.path for section in sections_of(TEXT)] == [("Project",), ("Project", "Set up"), ("People",)]
    project, inner, people = sections_of(TEXT)
    assert project.first < inner.first < inner.end == project.end == people.first


@pytest.mark.parametrize("name", ["People", "people", " PEOPLE ", "# People", "## people ##", "**People**", "People:"])
def test_a_section_is_found_however_its_heading_is_written(name: str) -> None:
    """Case, marks and blanks do not matter."""
    found = section_named(TEXT, name)
    assert found is not None
    assert found.title == "People"


def test_sections_of_one_name_are_told_apart_by_their_outer_ones() -> None:
    """A name that two sections have is refused, and its path is not."""
    text = "# A\n\n## Notes\n\none\n\n# B\n\n## Notes\n\ntwo\n"
    with pytest.raises(DocumentInvalid, match="A > Notes, B > Notes"):
        section_named(text, "notes")
    changed = edited_section("B > Notes", "three")(document(text)).text
    assert changed == "# A\n\n## Notes\n\none\n\n# B\n\n## Notes\n\nthree\n"


@pytest.mark.parametrize(
    ("heading", "body", "mode", "expected"),
    [
        ("People", "Bob", "replace", TEXT.replace("Ann", "Bob")),
        ("people", "# People\n\nBob\n", "replace", TEXT.replace("Ann", "Bob")),
        ("People", "Bob", "append", TEXT.replace("Ann", "Ann\nBob")),
        ("Set up", "make all", "replace", "# Project\n\nName: Tally\n\n## Set up\n\nmake all\n\n# People\n\nAnn\n"),
        ("Project", "gone", "replace", "# Project\n\ngone\n\n# People\n\nAnn\n"),
        ("Decisions", "SQLite", "replace", TEXT + "\n# Decisions\n\nSQLite\n"),
        ("Decisions", "SQLite", "append", TEXT + "\n# Decisions\n\nSQLite\n"),
        ("Decisions", "", "replace", TEXT + "\n# Decisions\n"),
        ("People", "", "replace", TEXT.replace("\n\nAnn\n", "\n")),
        ("People", None, "remove", TEXT.replace("\n# People\n\nAnn\n", "")),
        ("Set up", None, "remove", "# Project\n\nName: Tally\n\n# People\n\nAnn\n"),
    ],
)
def test_a_section_is_replaced_added_to_or_removed(heading: str, body: str | None, mode: Any, expected: str) -> None:
    """Everything else stays byte for byte."""
    assert edited_section(heading, body, mode)(document(TEXT)).text == expected


def test_the_first_section_of_an_empty_document() -> None:
    """A document begins with whatever is written first."""
    assert edited_section("Facts", "one")(None).text == "## Facts\n\none\n"
    assert edited_section("Facts", "one")(document("# Title\n")).text == "# Title\n\n# Facts\n\none\n"
    assert edited_section("New", "x")(document("# Title\n\n## Facts\n")).text == "# Title\n\n## Facts\n\n## New\n\nx\n"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda: edited_section("Nowhere", None, "remove"), "There is no section 'Nowhere'. There are: Project"),
        (lambda: edited_section("People", "x\n# Other\ny"), "would end the section"),
        (lambda: edited_section(" ", "x"), "must be one line"),
        (lambda: edited_section("People", 5), "got int"),  # pyright: ignore[reportArgumentType]
        (lambda: edited_section("People", "x", "destroy"), "`mode` must be"),  # pyright: ignore[reportArgumentType]
        (lambda: merged_patch({"a": 1}), "Only a JSON working memory"),
        (lambda: merged_patch([1]), "`patch` must be an object, got list"),  # pyright: ignore[reportArgumentType]
        (lambda: replaced({"a": 1}), "This working memory is Markdown"),
    ],
)
def test_what_cannot_be_done_to_markdown_is_told(change: Any, problem: str) -> None:
    """Each refusal says why."""
    with pytest.raises(MemologError) as caught:
        change()(document(TEXT))
    assert problem in str(caught.value)


_LINES = st.lists(st.sampled_from(["# A", "## B", "### C", "text", "", "```", "# A", "- x", "#no", "    # code"]))


@given(_LINES, st.sampled_from(["A", "B", "New"]), st.sampled_from(["one", "one\n\ntwo", "- x\n- y"]))
def test_a_replaced_section_says_what_was_asked(lines: list[str], heading: str, body: str) -> None:
    """Whatever the document looks like: the section is found afterwards with that content, and a second time changes nothing."""
    try:
        once = edited_section(heading, body)(document("\n".join(lines))).text
    except DocumentInvalid:
        return
    section = section_named(once, heading)
    if section is None:
        # An open code block swallows what comes after it, in every reader of Markdown.
        assert once.count("```") % 2
        return
    assert "\n".join(once.split("\n")[section.first + 1 : section.end]).strip("\n") == body
    assert edited_section(heading, body)(document(once)).text == once


# ---------------------------------------------------------------- merging two changes


def test_sections_that_come_and_go_are_merged() -> None:
    """A section that one adds and one that the other removes."""
    mine = edited_section("Decisions", "SQLite")(document(TEXT)).text
    theirs = edited_section("Set up", None, "remove")(document(TEXT)).text
    text, both = merged(TEXT, theirs, mine)
    assert both == ()
    assert [section.title for section in sections_of(text)] == ["Project", "People", "Decisions"]


@given(st.lists(st.sampled_from(["A", "B", "C", "D"]), min_size=1), st.data())
def test_merging_loses_nothing(names: list[str], data: st.DataObject) -> None:
    """Each edit of a section that only one side touched is in the result."""
    base = "".join(f"# {name}\n\nold {name}\n\n" for name in dict.fromkeys(names))
    ours = data.draw(st.sets(st.sampled_from(names)))
    mine, theirs = base, base
    for name in set(names):
        if name in ours:
            mine = mine.replace(f"old {name}", f"mine {name}")
        else:
            theirs = theirs.replace(f"old {name}", f"theirs {name}")
    text, both = merged(base, theirs, mine)
    assert both == ()
    for name in set(names):
        assert f"{'mine' if name in ours else 'theirs'} {name}" in text


def test_a_change_from_an_old_version_is_settled() -> None:
    """Fields of JSON merge like sections of Markdown, null included."""
    base = version('{"a": 1, "b": null}', 1)
    present = document('{"a": 2, "b": null}', format="json")
    assert settled(present, base, merged_patch({"c": 3})).text == '{\n  "a": 2,\n  "b": null,\n  "c": 3\n}\n'
    with pytest.raises(DocumentConflict, match="Both changed: a"):
        settled(present, base, merged_patch({"a": 3}))


# ---------------------------------------------------------------- JSON

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 10},
        "age": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 3, "uniqueItems": True},
        "mood": {"enum": ["good", "bad"]},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string", "pattern": "^[a-z]+$"}},
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "Ann"}, []),
        ({"name": "Ann", "age": 3, "tags": ["a", "b"], "mood": "good"}, []),
        ({"name": "Ann", "age": None}, []),
        ({"name": "Ann", "age": 3.0}, []),
        ({}, ["the whole lacks 'name'"]),
        ({"name": 5}, ["name must be string, not number"]),
        ({"name": ""}, ["name has 0 characters, fewer than 1"]),
        ({"name": "x" * 11}, ["name has 11 characters, more than 10"]),
        ({"name": "Ann", "age": -1}, ["age fits no alternative: age must be at least 0"]),
        ({"name": "Ann", "age": True}, ["age fits no alternative: age must be integer, not boolean"]),
        ({"name": "Ann", "tags": ["A"]}, ["tags[0] does not match ^[a-z]+$"]),
        ({"name": "Ann", "tags": ["a", "a"]}, ["tags has the same item twice"]),
        ({"name": "Ann", "tags": list("abcd")}, ["tags has 4 items, more than 3"]),
        ({"name": "Ann", "mood": "so so"}, ['mood must be one of "good", "bad", not "so so"']),
        (
            {"name": "Ann", "x": 1},
            ["the whole has the field 'x', which is not one of: name, age, tags, mood"],
        ),
        ({"tags": 1, "mood": 1}, 3),
    ],
)
def test_a_schema_tells_every_problem(value: dict[str, Any], expected: Any) -> None:
    """Each with its place, all at once."""
    found = list(problems(value, SCHEMA))
    assert len(found) == expected if isinstance(expected, int) else found == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "text"},
        {"oneOf": [{"type": "object"}]},
        {"properties": {"a": {"if": {}}}},
        {"properties": {"a": {"minLength": -1}}},
        {"properties": {"a": {"minimum": "1"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"$ref": "http://example.com/x"}}},
        {"properties": []},
        {"required": "a"},
        {"items": 5},
    ],
)
def test_a_schema_that_is_not_understood_is_refused(schema: dict[str, Any]) -> None:
    """No rule is silently ignored."""
    with pytest.raises(DocumentInvalid, match="schema cannot be used"):
        check_schema(schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    """A tree of trees is checked as deep as it goes, and a circle without a value is refused, not followed for ever."""
    tree = {
        "properties": {"child": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"properties": {"child": {"$ref": "#/$defs/node"}}}},
    }
    check_schema(tree)
    assert problems({"child": {"child": {"child": {}}}}, tree) == ()
    circle = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/x"}}}
    assert problems({"a": 1}, circle) == ("a is nested too deep",)


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        # The examples that the standard for merge patches describes in words.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "text"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": [1]}, {"a": [2, None]}, {"a": [2, None]}),
    ],
)
def test_a_patch_merges(value: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    """Null removes, objects merge, everything else takes the place of what was there."""
    import json

    made = merged_patch(patch)(document(json.dumps(value), format="json"))
    assert json.loads(made.text) == expected


def test_json_stays_json() -> None:
    """A JSON document takes an object or its text, and nothing else."""
    present = document('{"a": 1}', format="json", schema={"properties": {"a": {"type": "integer"}}})
    assert replaced('{"a": 2}')(present).text == '{\n  "a": 2\n}\n'
    for wrong in ("hello", "[1]", "5"):
        with pytest.raises(DocumentInvalid):
            replaced(wrong)(present)
    with pytest.raises(DocumentInvalid, match="a must be integer"):
        checked(merged_patch({"a": "x"})(present), 1000)
    with pytest.raises(DocumentInvalid, match="fields, not sections"):
        edited_section("a", "b")(present)


# ---------------------------------------------------------------- size, templates, differences


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_short_and_have_sections(name: str) -> None:
    """Every template is there, fits easily, and each of its sections can be edited."""
    text = template(name)
    assert len(text) < 1_000
    assert len(sections_of(text)) >= 4
    for section in sections_of(text):
        assert "new words" in edited_section(section.title, "new words")(document(text)).text
