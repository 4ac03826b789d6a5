"""The metrics that follow from events: one table of instruments, and what each event adds to them.

The servers expose them at `/metrics`. If the application has set a meter provider of OpenTelemetry, they are recorded there too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from memolog.events import Degraded, Event, Listener, Recovered, RunEnded, RunFailed, RunStarted, StepEnded, Trimmed

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The bounds of the buckets of durations."""
_UNITS: Final = {"": "", "s": "_seconds", "USD": "_dollars"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """A counter, or a histogram of seconds."""

    name: str
    """The name for OpenTelemetry."""
    text: str
    labels: tuple[str, ...] = ()
    unit: Literal["", "s", "USD"] = ""
    kind: Literal["counter", "histogram"] = "counter"

    @property
    def exposed(self) -> str:
        """Return the name at `/metrics`, for a counter without `_total`."""
        return self.name.replace(".", "_") + _UNITS[self.unit]


def _duration(step: str) -> Instrument:
    text = f"Time that a call of {step} took."
    return Instrument(name=f"memolog.{step}.duration", text=text, unit="s", kind="histogram")


DURATIONS: Final = {step: _duration(step) for step in ("prepare", "record")}
STARTED: Final = Instrument(name="memolog.runs.started", text="Runs that this process began.", labels=("kind",))
ENDED: Final = Instrument(
    name="memolog.runs.ended",
    text="Runs of this process that ended, by outcome: done, failed (tried again later) or abandoned.",
    labels=("kind", "outcome"),
)
RETRIES: Final = Instrument(name="memolog.runs.retries", text="Failed runs that this process tried again.")
TAKEOVERS: Final = Instrument(
    name="memolog.runs.takeovers", text="Runs that this process took over because the lease of another one had ended."
)
TOKENS: Final = Instrument(
    name="memolog.runs.tokens", text="Tokens of the runs of this process.", labels=("kind", "direction")
)
COST: Final = Instrument(
    name="memolog.runs.cost", text="Cost of the runs of this process in US dollars.", labels=("kind",), unit="USD"
)
DEGRADED: Final = Instrument(
    name="memolog.degraded", text="Actions that failed and that Memolog continued without.", labels=("what",)
)
TRIMMED: Final = Instrument(name="memolog.contexts.trimmed", text="Contexts that were shortened to fit their limit.")
INSTRUMENTS: Final = (*DURATIONS.values(), STARTED, ENDED, RETRIES, TAKEOVERS, TOKENS, COST, DEGRADED, TRIMMED)


def recorded(event: Event) -> Iterator[tuple[Instrument, float, tuple[str, ...]]]:
    """Yield what an event adds: the instrument, the amount, and the values of its labels, which are no ids."""
    match event:
        case StepEnded():
            yield DURATIONS[event.step], event.seconds, ()
        case RunStarted():
            yield STARTED, 1, (event.run_kind,)
        case RunEnded():
            yield ENDED, 1, (event.run_kind, "done")
            yield TOKENS, event.input_tokens, (event.run_kind, "input")
            yield TOKENS, event.output_tokens, (event.run_kind, "output")
            yield COST, event.cost, (event.run_kind,)
        case RunFailed():
            yield ENDED, 1, (event.run_kind, "abandoned" if event.retry_at is None else "failed")
        case Recovered():
            yield TAKEOVERS if event.is_takeover else RETRIES, 1, ()
        case Degraded():
            # The keys of extractors are the application's own words.
            yield DEGRADED, 1, ("extracting a value" if event.what.startswith("extracting ") else event.what,)
        case Trimmed():
            yield TRIMMED, 1, ()
        case _:
            pass


@cache
def meter() -> Listener | None:
    """Return a function that records an event with OpenTelemetry. None if OpenTelemetry is not installed."""
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - slow to import, and optional
    except ImportError:
        return None
    # Until the application sets a provider, these record nothing.
    found: Any = metrics.get_meter("memolog")
    add: dict[Instrument, Callable[..., None]] = {}
    for one in INSTRUMENTS:
        if one.kind == "histogram":
            bounds = list(SECONDS)
            made = found.create_histogram(one.name, one.unit, one.text, explicit_bucket_boundaries_advisory=bounds)
            add[one] = made.record
        else:
            add[one] = found.create_counter(one.name, one.unit, one.text).add

    def record(event: Event) -> None:
        for instrument, amount, values in recorded(event):
            add[instrument](amount, dict(zip(instrument.labels, values, strict=True)))

    return record
