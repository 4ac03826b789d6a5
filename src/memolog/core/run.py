"""Values of runs (of the observer and the reflector), leases, usage and calibration."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

from memolog.core.exact_json import JsonObject, nothing
from memolog.core.observation import Span

RunKind: TypeAlias = Literal["observe", "reflect"]
RunStatus: TypeAlias = Literal["running", "done", "failed", "abandoned"]
UsageKind: TypeAlias = Literal["turn", "observe", "reflect", "other"]
USAGE_KINDS: Final[tuple[str, ...]] = get_args(UsageKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An exclusive claim that expires. `fence` increases at every change of owner, and writes with an older fence are refused."""

    name: str
    owner: str
    fence: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and cost of one model request, as reported by its provider."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float = 0.0
    """In US dollars. The database stores billionths of a dollar."""
    kind: UsageKind = "turn"
    thread: str | None = None
    task: str | None = None
    run: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """The sum of several usages."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The factor between the tokens that a model reports and the tokens that Memolog counts. `samples` are the reports so far."""

    model: str
    factor: float = 1.0
    samples: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the observer or the reflector. `inputs` are stored when it starts, so that it can be repeated."""

    id: str
    kind: RunKind
    status: RunStatus
    thread: str | None
    span: Span | None
    inputs: JsonObject = field(default_factory=nothing)
    attempt: int = 1
    model: str | None = None
    prompt_version: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    retry_at: datetime | None = None
    error: str | None = None
    usage: UsageTotal = field(default_factory=UsageTotal)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPrompt:
    """One model call of a run: the request and the reply."""

    call: int
    asked: JsonObject
    """The request: purpose, system prompt, text, temperature and names of files. Also the error, if the call failed."""
    reply: str | None
