"""When a reflector is asked for a shorter answer."""

from datetime import UTC, datetime, timedelta

import pytest

from kit import rows
from memolog.observer.llm import observers_of
from memolog.observer.model import Model, ModelReply, ModelRequest
from memolog.observer.model_choice import ModelPair
from memolog.observer.prompt import ReflectInput
from memolog.testing import ScriptedModel
from memolog.text.tokens import HeuristicCounter

COUNTER = HeuristicCounter()
LINES = tuple(
    rows.line(
        text := f"Assistant looked at part{number:03}.py and found nothing unusual there",
        priority="low",
        ordinal=number,
        said_at=datetime(2026, 3, 14, 9, 0, tzinfo=UTC) + timedelta(minutes=number),
        tokens=COUNTER.count(text),
    )
    for number in range(100)
)
SIZE = sum(line.tokens for line in LINES)


def reply(share: float) -> str:
    """Return an answer that repeats this share of the lines and merges the others into them."""
    count = round(len(LINES) * share)
    body = "\n".join(f"* 🟢 (09:00) {line.text} [o{number}]" for number, line in enumerate(LINES[:count], start=1))
    return f"<observations>\nDate: 2026-03-14\n{body}\n</observations>"


async def asked(shares: list[float], *, target: float, most: float) -> tuple[int, int]:
    """Return how often the model was asked, and the number of lines of the answer that was used."""
    model = ScriptedModel([reply(share) for share in shares])
    _, reflector = observers_of(ModelPair(observe=model, reflect=model), COUNTER)
    given = ReflectInput(observations=LINES, target_tokens=round(SIZE * target))

    async def ask(model: Model, request: ModelRequest) -> ModelReply:
        return await model.complete(request)

    answer = await reflector.reflect(given, ask, size=SIZE, most=round(SIZE * most))
    levels = [request for request in model.requests if "<missing>" not in request.text]
    return len(levels), len(answer.parsed.lines)


@pytest.mark.parametrize(
    ("shares", "target", "most", "times", "used"),
    [
        pytest.param([0.5, 0.1], 0.55, 0.9, 1, 50, id="within the target"),
        pytest.param([0.6, 0.1], 0.5, 0.9, 1, 60, id="a little longer than the target"),
        pytest.param([0.9, 0.6, 0.1], 0.5, 0.9, 2, 60, id="hardly condensed at first"),
        pytest.param([0.6, 0.4, 0.1], 0.5, 0.55, 2, 40, id="longer than the log has room for"),
        pytest.param([0.85, 0.1], 0.88, 0.9, 1, 85, id="statements that must be kept make the target long"),
        pytest.param([0.95, 0.9, 0.85, 0.8, 0.79], 0.5, 0.9, 5, 79, id="never short enough"),
    ],
)
async def test_a_shorter_answer_is_asked_for_only_if_it_pays(
    shares: list[float], target: float, most: float, times: int, used: int
) -> None:
    """Another answer costs as much as the next reflection, so one that condensed the lines by a quarter is used."""
    assert await asked(shares, target=target, most=most) == (times, used)
