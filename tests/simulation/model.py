"""A model that is sometimes slow, wrong or not available. It reports to the world which messages it is asked about."""

import asyncio
import random
import re
from collections.abc import Callable
from typing import Final

from memolog.core.run import Usage
from memolog.observer.model import ModelReply, ModelRequest
from simulation.faults import KINDS, Rates, Struck

MARKERS: Final = ("quokka", "walrus", "ibex", "narwhal")
"""One word a resource: where another's shows up, something leaked."""
MARKER: Final = re.compile(r"k\d+k")
"""Every stored row holds a word of its own."""

_ANIMAL: Final = re.compile("|".join(MARKERS))
_MESSAGE: Final = re.compile(r"^<message>\[(\d+)\](.*?)^</message>", re.MULTILINE | re.DOTALL)
_THREAD: Final = re.compile(r'^<thread id="([^"]+)">$', re.MULTILINE)
_LINE: Final = re.compile(r"^\s*(o\d+) (.*)$", re.MULTILINE)
_KINDS: Final = KINDS[: KINDS.index("model outage")]
_HANGS: Final = 5_000.0
_OUTAGE: Final = 90.0


class FaultyModel:
    """Answers as an observer and a reflector would, or fails as they do."""

    def __init__(
        self, rng: random.Random, rates: Rates, struck: Struck, asked: Callable[[list[str]], None], seconds: float
    ) -> None:
        self._rng, self._rates, self._struck, self._asked = rng, rates, struck, asked
        self._seconds = seconds
        self._outage_until = 0.0
        self.requests = 0
        self.answered = 0

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return "faulty"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer after a while, or fail."""
        self.requests += 1
        if request.purpose == "observe":
            self._asked([word for _, body in _MESSAGE.findall(request.text) for word in MARKER.findall(body)[:1]])
        rng, loop = self._rng, asyncio.get_running_loop()
        await asyncio.sleep(rng.expovariate(1 / self._seconds))
        kind = None
        if self._rates.model and loop.time() < self._outage_until:
            self._struck.note("model outage")
            raise ConnectionError("the provider is away")
        if rng.random() < self._rates.model:
            kind = rng.choice(_KINDS)
            self._struck.note(kind)
            if rng.random() < 0.15:
                self._outage_until = loop.time() + rng.random() * _OUTAGE
        text = await self._faulty(kind) if kind else self._dutiful(request)
        self.answered += 1
        return ModelReply(
            text=text, usage=Usage(model="faulty", input_tokens=10, output_tokens=5, kind=request.purpose)
        )

    async def _faulty(self, kind: str) -> str:
        match kind:
            case "model raises":
                raise ConnectionError("the provider refuses")
            case "model hangs":
                await asyncio.sleep(_HANGS)
                return ""
            case "model says nothing":
                return self._rng.choice(("", "   \n", "<observations>\n</observations>"))
            case "model says garbage":
                return "".join(chr(self._rng.randrange(32, 0x2FFF)) for _ in range(80))
            case "model repeats one text for ever":
                return "<observations>\n" + "* 🟡 It goes on and on [1]\n" * 400 + "</observations>"
            case _:
                words = " ".join(str(self._rng.random()) for _ in range(600))
                return f"<observations>\n* 🟡 {words}\n</observations>"

    def _dutiful(self, request: ModelRequest) -> str:
        if request.purpose == "reflect":
            return self._reflection(request.text)
        names = _THREAD.findall(request.text)
        if not names:
            return self._section(request.text)
        bodies = _THREAD.split(request.text)[2::2]
        answers = (f'<thread id="{n}">\n{self._section(b)}\n</thread>' for n, b in zip(names, bodies, strict=True))
        return "\n".join(answers)

    def _section(self, text: str) -> str:
        shown = _MESSAGE.findall(text)
        rng = self._rng
        if not shown or rng.random() < 0.05:
            return "<observations>\nNothing worth keeping.\n</observations>"
        lines: list[str] = []
        for number, body in shown:
            animal, marker = _ANIMAL.search(body), MARKER.search(body)
            if rng.random() < 0.6 or not lines:
                cite = f" [{number}]" if rng.random() < 0.9 else ""
                mark = rng.choice("🔴🟡🟢✅")
                # A line of its own for each message: one that the log has already is no answer.
                thing = marker[0].strip("k") if marker else number
                lines.append(f"* {mark} The {animal[0] if animal else 'user'} said thing {thing} at length{cite}")
        hints = f"<current-task>Going on from {shown[-1][0]}</current-task>" if rng.random() < 0.7 else ""
        title = "<thread-title>Animals</thread-title>" if rng.random() < 0.2 else ""
        body = "\n".join(lines)
        return f"<observations>\n{body}\n</observations>\n{hints}\n{title}"

    def _reflection(self, text: str) -> str:
        """Stand for everything in a few lines; leave some of it out now and then."""
        found = _LINE.findall(text.partition("</log>")[0])
        rng = self._rng
        ids = [name for name, _ in found if rng.random() < 0.9] or [name for name, _ in found]
        animal = _ANIMAL.search(text)
        size = rng.choice((4, 8, 10_000))
        lines = [
            f"* 🔴 The {animal[0] if animal else 'user'} in short [{', '.join(ids[at : at + size])}]"
            for at in range(0, len(ids), size)
        ]
        body = "\n".join(lines)
        return f"<observations>\n{body}\n</observations>"
