"""Tells what the memory does, in words for somebody who sees it for the first time.

Knows the events of a memory and how to say them. Counts what happened; decides nothing.
"""

from dataclasses import dataclass, field

from memolog.apps.demo.screen import Level, Screen
from memolog.runtime.events import Activated, Event, GenerationMade, Recovered, RunEnded, RunStarted, Windows

__all__ = ["Happened", "Narrator"]

_MARK = "             "


@dataclass(slots=True)
class Happened:
    """What the memory did in all."""

    observed: int = 0
    """How many times it noted messages in the background."""
    lines: int = 0
    activations: int = 0
    reflections: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Of each, the tokens of the log before and after."""
    recovered: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Narrator:
    """Listens to a memory and shows what it hears."""

    screen: Screen
    happened: Happened = field(default_factory=Happened)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """The messages of each run."""
    covered: dict[str, int] = field(default_factory=dict[str, int])
    """The last message of each thread that its log stands for."""
    levels: dict[str, Level] = field(default_factory=dict[str, Level])

    def hear(self, event: Event) -> None:
        """Show an event, if it is one that a newcomer can use."""
        match event:
            case RunStarted(first_seq=int(first), last_seq=int(last)):
                self.spans[event.run] = (first, last)
            case RunEnded(run_kind="observe"):
                self._observed(event)
            case Activated():
                self._activated(event)
            case GenerationMade(generation_kind="reflection"):
                self._reflected(event)
            case Recovered():
                self.happened.recovered.append(event.run)
                first, last = self.spans.get(event.run, (0, 0))
                self._tell("crash", event, f"a new process takes over messages {first}–{last}")
            case Windows(thread=str(thread)):
                self.levels[thread] = Level(
                    messages=event.message_tokens,
                    messages_limit=event.message_limit,
                    log=event.observation_tokens,
                    log_limit=event.observation_limit,
                )
                self.screen.levels(self.levels)
            case _:
                pass

    def _observed(self, event: RunEnded) -> None:
        self.happened.observed += 1
        self.happened.lines += event.observations
        first, last = self.spans.get(event.run, (0, 0))
        lines = f"{event.observations} line{'' if event.observations == 1 else 's'}"
        self._tell("note", event, f"in the background: messages {first}–{last} → {lines}, kept aside")

    def _activated(self, event: Activated) -> None:
        self.happened.activations += 1
        first = self.covered.get(event.thread or "", 0) + 1
        self.covered[event.thread or ""] = event.last_seq
        text = (
            f"into the log: messages {first}–{event.last_seq} leave the prompt, {event.tokens:,} tokens stand for them"
        )
        self._tell("log", event, text)

    def _reflected(self, event: GenerationMade) -> None:
        self.happened.reflections.append((event.tokens_before, event.tokens_after))
        self._tell("fold", event, f"log condensed: {event.tokens_before:,} → {event.tokens_after:,} tokens")

    def _tell(self, style: str, event: Event, text: str) -> None:
        self.screen.line(_MARK, (f"· {event.thread} {text}", style))
