"""Why: the decisions of a resource with their reasons, its runs, failures and retries, as they happen."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.formats import brief, counted, cut, dollars
from memolog.apps.ui.view import Page, memory_of, number_of, resource_of, show
from memolog.errors import InputError

_A_PAGE: Final = 40
_RUNS: Final = 12
# What a person looks for, and the kinds of stored events that answer it.
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "decisions": ("Decided",),
    "runs": ("RunStarted", "RunEnded", "RunFailed", "Recovered"),
    "failures": ("RunFailed", "Recovered", "Trimmed"),
    "changes of the log": ("Activated", "GenerationMade", "CompactionMade", "Withdrawn"),
    "everything else": (
        "HintsChanged",
        "TitleChanged",
        "WorkingMemoryChanged",
        "SettingsChanged",
        "Windows",
        "Trimmed",
    ),
}
_NAMES: Final = {
    "Activated": "activated",
    "CompactionMade": "compacted",
    "Decided": "decided",
    "GenerationMade": "new generation",
    "HintsChanged": "new hints",
    "Recovered": "recovered",
    "RunEnded": "run ended",
    "RunFailed": "run failed",
    "RunStarted": "run began",
    "SettingsChanged": "new settings",
    "TitleChanged": "new title",
    "Trimmed": "trimmed",
    "Windows": "sizes",
    "Withdrawn": "withdrawn",
    "WorkingMemoryChanged": "working memory",
}
_BAD: Final = frozenset({"RunFailed", "Recovered", "Trimmed"})
_GOOD: Final = frozenset({"RunEnded", "Activated", "GenerationMade"})
# Fields that are ids, or that stand in the words already.
_HIDDEN: Final = frozenset({"run", "groups", "compaction"})


async def why(request: Request) -> Response:
    """Show a page of stored events, the newest first, with the runs under way and the last ones."""
    resource, memory = resource_of(request), memory_of(request)
    thread, kind = request.query_params.get("thread") or None, request.query_params.get("kind", "")
    if kind and kind not in _KINDS:
        raise InputError(f"There is no kind {kind[:40]!r}.", then=f"Use one of {', '.join(_KINDS)}.")
    before = number_of(request, "before")
    found = await resource.journal(thread=thread, kinds=_KINDS.get(kind, ()), before=before, limit=_A_PAGE + 1)
    events, more = found[-_A_PAGE:][::-1], len(found) > _A_PAGE
    runs = await (resource.thread(thread).runs(limit=_RUNS) if thread else resource.runs(limit=_RUNS))
    values: dict[str, Any] = {
        "events": [(one, _words(one.kind, one.data), _tone(one.kind)) for one in events],
        "older": events[-1].number if more else None,
        "is_first": before is None,
        "runs": runs,
        "held": await memory.held(),
        "kinds": tuple(_KINDS),
        "kind": kind,
        "names": _NAMES,
    }
    return show(request, "why.html", **values)


def _tone(kind: str) -> str:
    return "failing" if kind in _BAD else "ok" if kind in _GOOD else ""


def _words(kind: str, data: Mapping[str, Any]) -> str:
    """Return what an event says, in words."""
    match kind:
        case "Decided":
            return f"{data['decision']}: {data['reason']}"
        case "RunStarted":
            of = f" messages {data['first_seq']}–{data['last_seq']}" if data.get("first_seq") else ""
            return f"{data['run_kind']}{of}" + (f", attempt {data['attempt']}" if data["attempt"] > 1 else "")
        case "RunEnded":
            tokens = data["input_tokens"] + data["output_tokens"]
            spent = f", {brief(tokens)} tokens, {dollars(data['cost'])}" if tokens else ""
            faults = f"; {', '.join(data['faults'])}" if data.get("faults") else ""
            return f"{data['run_kind']}: {counted(data['observations'], 'observation')}{spent}{faults}"
        case "RunFailed":
            then = f"; retried at {data['retry_at']}" if data.get("retry_at") else "; not retried"
            return f"{data['run_kind']}: {data['error']}{then}"
        case "Recovered":
            return f"{'taken over from a dead process' if data.get('is_takeover') else 'retried'}: {data['reason']}"
        case "Activated":
            return f"{counted(len(data['groups']), 'group')}, {brief(data['tokens'])} tokens, up to message {data['last_seq']}"
        case "GenerationMade":
            change = f"{brief(data['tokens_before'])} → {brief(data['tokens_after'])} tokens"
            return f"generation {data['number']} by {data['generation_kind']}, {change}, {data['dropped']} left out"
        case "Windows":
            return (
                f"tail {brief(data['message_tokens'])} of {brief(data['message_limit'])} tokens, "
                f"log {brief(data['observation_tokens'])} of {brief(data['observation_limit'])}"
            )
        case _:
            shown = (
                (name, value) for name, value in data.items() if name not in _HIDDEN and value not in (None, "", [])
            )
            return ", ".join(f"{name.replace('_', ' ')} {cut(str(value), 200)}" for name, value in shown)


PAGES = (Page(path="/why", title="Why", endpoint=why, about="resource"),)
