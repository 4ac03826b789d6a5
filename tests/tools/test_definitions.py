"""The definitions that models are given: small, valid in each provider's form, and true to what is checked."""

import json
from typing import Any

import pytest

from memolog.core.own_tools import OWN_TOOLS
from memolog.errors import InputError
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter
from memolog.tools.actions import ACTIONS
from memolog.tools.arguments import shape_of, understand
from memolog.tools.definitions import FORMS, definition, guidance, schema_of
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
        assert mcp["annotations"]["readOnlyHint"] is (tool != "task-mutate")
    with pytest.raises(InputError, match="openai, openai-responses, anthropic, mcp"):
        definition("task-query", "yaml")  # pyright: ignore[reportArgumentType]


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
    assert understand(tool, example) == (ACTIONS[tool][action].model_validate(fields), ())
    assert problems(example, schema_of(tool)) == ()
    assert HeuristicCounter().count(shape_of(tool, action)) < 120
    assert "Needed: action" in shape_of(tool, action)
