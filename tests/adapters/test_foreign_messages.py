"""Messages of every library come back from ours as the same JSON: those that are read now, and rows of earlier releases.

Each file in `fixtures/foreign` holds messages of one library, one of every kind, beside the rows that were stored for them.
Do not regenerate these files: add new ones when the stored form changes.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agent_framework import Message
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic_ai.messages import ModelMessagesTypeAdapter

from adapters.kit import exact, foreign_cases, through_the_store
from memolog import NewMessage
from memolog.adapters.agent_framework import from_agent_framework, to_agent_framework
from memolog.adapters.anthropic import messages as anthropic
from memolog.adapters.langchain import from_langchain, to_langchain
from memolog.adapters.openai import chat, responses
from memolog.adapters.pydantic_ai.messages import dumped, to_messages, to_model_messages
from memolog.core.message import parts_from_json, parts_to_json

Read = Callable[[list[Any]], Sequence[NewMessage]]
Write = Callable[[list[NewMessage]], list[Any]]

KINDS: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "chat": ChatMessage,
}
LIBRARIES: dict[str, tuple[Read, Write]] = {
    "openai-chat": (chat.from_messages, chat.to_messages),
    "openai-responses": (responses.from_items, responses.to_items),
    "anthropic": (anthropic.from_messages, anthropic.to_messages),
    "langchain": (
        lambda said: [from_langchain(KINDS[one["type"]].model_validate(one)) for one in said],
        lambda rows: [made.model_dump() for row in rows for made in to_langchain(row)],
    ),
    "agent-framework": (
        lambda said: [from_agent_framework(Message.from_dict(one)) for one in said],
        lambda rows: [to_agent_framework(row).to_dict() for row in rows],
    ),
    "pydantic-ai": (
        lambda said: [made for one in ModelMessagesTypeAdapter.validate_python(said) for made in to_messages(one)],
        lambda rows: [dumped(one) for one in to_model_messages(rows)],
    ),
}
CASES = [
    pytest.param(*LIBRARIES[name], case, id=f"{name}-{number}")
    for name in LIBRARIES
    for number, case in enumerate(foreign_cases(name))
]


@pytest.mark.parametrize(("read", "write", "case"), CASES)
def test_a_message_comes_back_exactly(read: Read, write: Write, case: Any) -> None:
    """Through our parts, the store and back; and what is stored is what an earlier release stored."""
    ours = read(case["foreign"])
    assert exact(write([through_the_store(one) for one in ours])) == exact(case["foreign"])
    assert [json.loads(parts_to_json(one.parts)) for one in ours] == [row["parts"] for row in case["stored"]]


@pytest.mark.parametrize(("read", "write", "case"), CASES)
def test_rows_of_an_earlier_release_read_back_exactly(read: Read, write: Write, case: Any) -> None:
    """Every stored message becomes the message that it was made of."""
    del read
    rows = [
        NewMessage(role=row["role"], speaker=row["speaker"], parts=parts_from_json(json.dumps(row["parts"])))
        for row in case["stored"]
    ]
    assert exact(write(rows)) == exact(case["foreign"])
