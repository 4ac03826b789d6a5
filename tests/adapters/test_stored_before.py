"""Foreign messages that an earlier release stored come back as the same JSON.

Each file in `fixtures/foreign` holds messages of one library beside the rows that were stored for them. Do not regenerate these
files: add new ones when the stored form changes.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from adapters.kit import exact
from memolog import NewMessage
from memolog.adapters.agent_framework import to_agent_framework
from memolog.adapters.anthropic import messages as anthropic
from memolog.adapters.langchain import to_langchain
from memolog.adapters.openai import chat, responses
from memolog.adapters.pydantic_ai.messages import dumped, to_model_messages
from memolog.core.message import parts_from_json

Json = dict[str, Any]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "foreign"


def langchain(rows: list[NewMessage]) -> list[Json]:
    """Return the messages of LangChain without the fields that are no JSON."""
    return [made.model_dump() for row in rows for made in to_langchain(row)]


def agent_framework(rows: list[NewMessage]) -> list[Json]:
    """Return the messages of Agent Framework."""
    return [to_agent_framework(row).to_dict() for row in rows]


def pydantic_ai(rows: list[NewMessage]) -> list[Json]:
    """Return the messages of Pydantic AI."""
    return [dumped(one) for one in to_model_messages(rows)]


WRITERS: dict[str, Callable[[list[NewMessage]], list[Json]]] = {
    "openai-chat": chat.to_messages,
    "openai-responses": responses.to_items,
    "anthropic": anthropic.to_messages,
    "langchain": langchain,
    "agent-framework": agent_framework,
    "pydantic-ai": pydantic_ai,
}


def cases(name: str) -> list[Json]:
    """Return the messages of one library with their rows."""
    return cast("list[Json]", json.loads((FIXTURES / f"{name}.json").read_text("utf-8")))


@pytest.mark.parametrize("name", WRITERS)
def test_rows_of_an_earlier_release_read_back_exactly(name: str) -> None:
    """Every stored message becomes the message that it was made of."""
    for case in cases(name):
        rows = [
            NewMessage(role=row["role"], speaker=row["speaker"], parts=parts_from_json(json.dumps(row["parts"])))
            for row in case["stored"]
        ]
        assert [exact(made) for made in WRITERS[name](rows)] == [exact(one) for one in case["foreign"]]
