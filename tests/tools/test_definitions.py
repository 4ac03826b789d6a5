"""The definitions that models are given: small, valid in each provider's form, and true to what is checked."""

import json
import re
from typing import Any

import pytest

from memolog.core.own_tools import OWN_TOOLS
from memolog.errors import InputError
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter
from memolog.tools.actions import ACTIONS
from memolog.tools.arguments import shape_of, understand
from memolog.tools.definitions import FORMS, definition, definitions, guidance, schema_of
from memolog.working_memory.schema import check_schema, problems


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("counter", [HeuristicCounter(), SplintrCounter()])
def test_the_three_together_are_small(form: Any, counter: TokenCounter) -> None:
    """At most 2,500 tokens in every form: they are part of every request."""
    text = json.dumps([definition(tool, form) for tool in OWN_TOOLS])
    assert counter.count(text) <= 2_500


@pytest.mark.parametrize("counter", [HeuristicCounter(), SplintrCounter()])
def test_the_guidance_is_short(counter: TokenCounter) -> None:
    """At most 400 tokens, and it speaks of every tool."""
    assert counter.count(guidance()) <= 400
    assert "`task-query`" in guidance()
    assert "`task-mutate`" in guidance()
    assert "`memory-search`" in guidance()


def test_each_provider_gets_its_form() -> None:
    """The envelopes are those that the providers document; the schema inside is the same."""
    for tool in OWN_TOOLS:
        schema = schema_of(tool)
        openai, responses = definition(tool, "openai"), definition(tool, "openai-responses")
        anthropic, mcp = definition(tool, "anthropic"), definition(tool, "mcp")
        assert (openai["type"], openai["function"]["name"], openai["function"]["parameters"]) == (
            "function",
            tool,
            schema,
        )
        assert (responses["type"], responses["name"], responses["parameters"]) == ("function", tool, schema)
        assert (anthropic["name"], anthropic["input_schema"]) == (tool, schema)
        assert (mcp["name"], mcp["inputSchema"]) == (tool, schema)
        assert mcp["annotations"]["destructiveHint"] is False
        assert mcp["annotations"]["readOnlyHint"] is (tool == "task-query")
    with pytest.raises(InputError, match="openai, openai-responses, anthropic, mcp"):
        definition("task-query", "yaml")  # pyright: ignore[reportArgumentType]


def test_the_actions_are_those_of_the_design() -> None:
    """Every action has its place, and the description of a tool lists each of them."""
    assert {tool: list(actions) for tool, actions in ACTIONS.items()} == {
        "task-query": ["ready", "show", "list", "search"],
        "task-mutate": ["create", "update", "claim", "release", "close", "reopen", "dep", "link"],
        "memory-search": ["search", "recall", "remember", "update_context"],
    }
    for tool, actions in ACTIONS.items():
        described = definition(tool, "anthropic")["description"]
        assert all(action in described for action in actions)


@pytest.mark.parametrize("form", FORMS)
def test_a_read_only_memory_offers_nothing_that_writes(form: Any) -> None:
    """Tools, actions, fields and guidance of changes are left out."""
    given = definitions(form, read_only=True)
    text = json.dumps(given) + guidance(read_only=True)
    assert len(given) == 2
    assert "task-mutate" not in text
    assert "remember" not in text
    assert "update_context" not in text
    assert all("section" not in schema_of(tool, read_only=True)["properties"] for tool in OWN_TOOLS)
    if form == "mcp":
        assert all(one["annotations"]["readOnlyHint"] for one in given)


def test_the_guidance_speaks_of_no_log() -> None:
    """Tools may be offered without a context, without observations, or before the first: only what is always there is named."""
    for text in (guidance(), guidance(read_only=True)):
        assert not re.search(r"\blogs?\b|\babove\b|\bgroups?\b|\bg12\b", text)


@pytest.mark.parametrize("tool", OWN_TOOLS)
def test_a_schema_is_one_flat_object(tool: str) -> None:
    """Providers refuse alternatives at the top: every field of every action stands side by side, and says whose it is."""
    schema = schema_of(tool)
    check_schema(schema)
    assert schema["type"] == "object"
    assert schema["required"] == ["action"]
    assert schema["properties"]["action"]["enum"] == list(ACTIONS[tool])
    expected = {field.alias or name for kind in ACTIONS[tool].values() for name, field in kind.model_fields.items()}
    assert set(schema["properties"]) == expected | {"action"}
    assert all("type" in shape for shape in schema["properties"].values())


@pytest.mark.parametrize(("tool", "action"), [(tool, action) for tool in OWN_TOOLS for action in ACTIONS[tool]])
def test_examples_are_right(tool: str, action: str) -> None:
    """What a refusal shows as expected is understood, fits the schema, and names the fields that exist."""
    example = ACTIONS[tool][action].example
    fields = {name: value for name, value in example.items() if name != "action"}
    assert example["action"] == action
    assert understand(tool, example) == ACTIONS[tool][action].model_validate(fields)
    assert problems(example, schema_of(tool)) == ()
    assert HeuristicCounter().count(shape_of(tool, action)) < 120
    assert "Needed: action" in shape_of(tool, action)
