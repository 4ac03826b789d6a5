"""Every adapter holds a long conversation with a provider that keeps the published rules, and in which much goes wrong."""

from pathlib import Path

import pytest

from adapters import callers
from adapters.story import Caller, Story
from kit.effort import counts

LONG = (
    *(callers.Chat, callers.Responses, callers.Messages, callers.GatewayChat),
    callers.GatewayGemini,
    *(callers.PydanticMessages, callers.OpenAIAgents, callers.LangChain, callers.LangGraph),
    callers.AgentFramework,
)
SHORT = (
    *(callers.GatewayResponses, callers.GatewayMessages, callers.PydanticAI, callers.PydanticResponses),
    *(callers.OpenAIAgentsChat, callers.AgentFrameworkResponses),
)
every = pytest.mark.parametrize("seed", range(counts(1, 5)))


@every
@pytest.mark.parametrize("kind", LONG, ids=lambda kind: kind.__name__)
async def test_two_hundred_turns(kind: type[Caller], seed: int, tmp_path: Path) -> None:
    """Messages are stored once and in order, calls have their results, and each prompt extends the last one."""
    await Story(kind, f"{kind.__name__} {seed}", str(tmp_path / "memolog.db")).tell(200)


@every
@pytest.mark.parametrize("kind", SHORT, ids=lambda kind: kind.__name__)
async def test_the_other_apis_of_an_adapter(kind: type[Caller], seed: int, tmp_path: Path) -> None:
    """The same contract with every API that an adapter supports."""
    await Story(kind, f"{kind.__name__} {seed}", str(tmp_path / "memolog.db")).tell(counts(50, 200))


@pytest.mark.parametrize("kind", [callers.Chat, callers.PydanticMessages], ids=lambda kind: kind.__name__)
async def test_on_postgres(kind: type[Caller], postgres_url: str) -> None:
    """The same contract on the other engine."""
    await Story(kind, kind.__name__, postgres_url).tell(counts(50, 200))
