"""Small models: whichever of the recorded shapes their replies have, the log is at least as good as the embedded observer's."""

import re
from datetime import date

import pytest

from kit.engines import OpenMemory, engines, memories
from kit.talk import hold, logged
from memolog import Config
from memolog.core.observation import Observation
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import FakeClock, ScriptedModel
from prompts.small_models import SHAPES, Shape

RESOURCE, THREAD = "nadia", "moving"

# A house move over five days: what the user said on each, and what must be known of it.
DAYS: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        ("We are moving to Utrecht on the 14th of May, into a flat on Oudegracht 211.", "Congratulations!"),
        ("My son Milo is allergic to latex, so no latex paint please.", "Understood: no latex paint."),
    ),
    (
        ("The movers are called Van Dijk and they want 1,340 euros.", "That is a fair price."),
        ("Which floor did I say?", "You did not say yet."),
    ),
    (("The flat is on the third floor and there is no lift.", "Then the piano needs a crane."),),
    (
        ("I sold the piano to Mrs. Okonkwo, it stays here.", "So no crane is needed."),
        ("Thanks, that helps a lot!", "You are welcome."),
    ),
    (("Van Dijk cancelled, we now go with Mulder Transport for 1,510 euros.", "Noted: Mulder Transport."),),
)
FACTS: dict[str, int] = {
    "Utrecht": 1,
    "Oudegracht 211": 1,
    "Milo": 1,
    "latex": 1,
    "Van Dijk": 2,
    "1,340": 2,
    "third floor": 3,
    "Okonkwo": 4,
    "Mulder": 5,
    "1,510": 5,
}
FIRST = date(2026, 3, 14)
# Words of the replies that are no observations.
NEVER = (
    *("I'm sorry", "Leider", "Lo siento", "désolé", "dispiace", "Desculpe", "spijt", "Unfortunately", "omitted", "N/A"),
    *("bakery", "two to six", "what is being worked on", "old harbour", "Keep the log", "[3]", "told a fact"),
    *("what the user", "submarine", "<message>", "message&gt;"),
)


class Shaped(ScriptedModel):
    """A model whose observations have one shape: always, or on the first try about each span."""

    def __init__(self, shape: Shape, *, always: bool, clock: FakeClock) -> None:
        super().__init__()
        self._shape, self._always, self._clock = shape, always, clock
        self._tried: set[str] = set()

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.purpose == "observe" and (self._always or request.text not in self._tried):
            self._tried.add(request.text)
            self.requests.append(request)
            # The time of a back-off passes as well.
            self._clock.advance(minutes=2)
            return ModelReply(text=self._shape(request))
        self.answers.append(_well)
        return await super().complete(request)


def _well(request: ModelRequest) -> str:
    """Answer as a good observer would: each message in a line of its own."""
    found = re.findall(r"^<message>\[(\d+)\] (\d\d:\d\d) user:\n(.*?)\n</message>", request.text, re.MULTILINE)
    lines = [f"* 🔴 ({time}) User: {words} [{number}]" for number, time, words in found]
    return "<observations>\n" + "\n".join(lines or ["nothing worth keeping"]) + "\n</observations>"


async def lived(memory: Memory, clock: FakeClock) -> list[Observation]:
    """Tell the story day by day, observe each day's end, and return the lines of the log."""
    for number, day in enumerate(DAYS):
        clock.time = clock.time.replace(day=FIRST.day + number, hour=9, minute=0)
        for said, answer in day:
            await hold(memory, said, answer, thread=THREAD, resource=RESOURCE)
            clock.advance(minutes=10)
        if number != 2:
            # Two days are observed together.
            await settle(memory, clock)
    await settle(memory, clock)
    status = await memory.thread(THREAD, resource=RESOURCE).status()
    assert status.cursor == status.last_seq
    assert (await memory.doctor()).is_healthy
    return await logged(memory, THREAD, RESOURCE)


async def settle(memory: Memory, clock: FakeClock) -> None:
    """Observe what was said, however often the model has to be asked."""
    for _ in range(8):
        status = await memory.thread(THREAD, resource=RESOURCE).observe()
        if status.cursor == status.last_seq:
            return
        clock.advance(minutes=20)


def kept(lines: list[Observation]) -> dict[str, list[date]]:
    """Return the facts that a line says, and the days under which it says them."""
    found: dict[str, list[date]] = {}
    for fact in FACTS:
        days = [line.said_at.date() for line in lines if line.said_at and fact.lower() in line.text.lower()]
        found |= {fact: days} if days else {}
    return found


engine_name = engines("memory")
opened = memories(Config())


@pytest.mark.parametrize("always", [True, False], ids=["always", "first try"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
async def test_the_log_is_at_least_as_good_as_without_a_model(
    opened: OpenMemory, clock: FakeClock, shape: Shape, always: bool
) -> None:
    """Every fact that the embedded observer keeps is kept, under the day on which it was said, and no reply stands as it was."""
    lines = await lived(opened(model=Shaped(shape, always=always, clock=clock)), clock)
    found = kept(lines)
    assert found.keys() == FACTS.keys()
    for fact, days in found.items():
        assert date(2026, 3, 13 + FACTS[fact]) in days, (fact, days)
    texts = "\n".join(line.text for line in lines)
    for words in NEVER:
        assert words not in texts


async def test_the_embedded_observer_keeps_every_fact(opened: OpenMemory, clock: FakeClock) -> None:
    """Without a model all facts are kept."""
    assert kept(await lived(opened(), clock)).keys() == FACTS.keys()
