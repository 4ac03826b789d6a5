"""Execute a claimed run: read its messages or lines, ask the observer within the budget, and check the answer.

Code, not the model, sets ids, sources, trust and grounding. The database row of a run stores its inputs, which do not change.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from memolog.core.cache import Cache, remembered
from memolog.core.config import Config
from memolog.core.deadline import at_once, in_slices, offload
from memolog.core.document import Proposal
from memolog.core.exact_json import JsonValue, dumps, encode
from memolog.core.message import Message, Part, ToolResultPart, has_many_parts, parts_to_json
from memolog.core.observation import KEPT, Observation, Span
from memolog.core.pairs import PartPlace, part_at, results_of_calls
from memolog.core.run import Run, Usage
from memolog.core.thread import Hints, ThreadInfo
from memolog.core.zones import zone_of
from memolog.errors import DocumentNotFound, LeaseLost, MemologError, ThreadNotFound
from memolog.log.runner import Problem, RunFault, RunOutcome
from memolog.log.runs import RunClaim, RunResult, StoredRun
from memolog.log.snapshot import GroupRow
from memolog.observer.drafts import Parsed, ParsedReflection
from memolog.observer.evidence import Evidence, joined, together
from memolog.observer.extractors import Extractors
from memolog.observer.judge import (
    Judge,
    Judged,
    Voices,
    cited_places,
    conversations,
    judge_reflection,
    log_voices,
    trusted_document,
)
from memolog.observer.llm import (
    TRIES,
    EmbeddedObserver,
    Observed,
    Observer,
    Reflected,
    embedded_answer,
    embedded_statements,
    observe_in_parts,
    readings_of,
)
from memolog.observer.model import (
    BudgetedModel,
    BudgetSpent,
    CallableModel,
    Limit,
    Model,
    ModelReply,
    ModelRequest,
    cause_of,
    reason_of,
)
from memolog.observer.observations import (
    Guarded,
    NewGroup,
    archived,
    draft_hints,
    guarded,
    lines_to_condense,
    making_observations,
    observations_from,
    reflected_hints,
    reflections_from,
    unchanged,
)
from memolog.observer.prompt import ObserveInput, ReflectInput
from memolog.observer.reply import failure
from memolog.text.redaction import REDACTION, Redactor, cleaned, messages_without_secrets, redactor_for
from memolog.text.tokens import TokenCounter
from memolog.working_memory.schema import template

if TYPE_CHECKING:
    from memolog.store import Store


async def spent_of(store: "Store", resource: str, thread: str | None, config: Config) -> float:
    """Return the dollars spent within the scope of the budget: on observing, reflecting, vectors and summaries of tasks.

    If the budget is that of a thread, work that belongs to no thread has a budget of its own.
    """
    if config.budget_scope == "all":
        return await store.spent()
    if config.budget_scope == "thread" and thread is None:
        return await store.ledger.spent_outside(resource)
    of = thread if config.budget_scope == "thread" else None
    lines = await store.ledger.lines(resource, thread=of)
    # The requests of turns are those of the agent.
    return sum(line.total.cost for line in lines if line.kind != "turn")


class ModelCalls:
    """Calls models for the runs of one batch, with their resource and configuration and within their budget."""

    def __init__(self, store: "Store", resource: str, thread: str | None, runs: Sequence[str], config: Config) -> None:
        self._store, self._runs, self.resource, self.config = store, runs, resource, config
        self._guarded: BudgetedModel | None = None
        self._limits: tuple[Limit, ...] = ()
        if config.budget is not None:
            of = {"thread": "thread", "resource": "resource", "all": "database"}[config.budget_scope]
            spent = lambda: spent_of(store, resource, thread, config)  # noqa: E731 - a short closure
            self._limits = (Limit(of=of, dollars=config.budget, spent=spent),)
        self.usage: Usage | None = None
        """The total usage of all calls."""

    async def __call__(self, model: Model, request: ModelRequest) -> ModelReply:
        """Return the model's answer. Raises BudgetSpent without a call if the budget is spent, or RunFault if the call fails."""
        if self._guarded is None:
            self._guarded = BudgetedModel(model, *self._limits)
        most = min(filter(None, (request.max_tokens, self.config.reply_tokens)))
        own = model.timeout if isinstance(model, CallableModel) else None
        request = replace(request, max_tokens=most, timeout=own or self.config.model_timeout)
        try:
            return await self._once(self._guarded, request)
        except (BudgetSpent, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if _is_ours(error):
                raise
            if not request.files or cause_of(error) != "refused":
                reason = f"the model failed: {reason_of(error, request)}"
                raise RunFault(reason, cause=cause_of(error)) from error
        # The model refused a request with files. Ask again without them. The text has a placeholder for each file.
        return await self(model, replace(request, files=()))

    async def _once(self, model: Model, request: ModelRequest) -> ModelReply:
        try:
            reply = await model.complete(request)
        except BudgetSpent:
            raise
        except Exception as error:
            await self._keep(request, None, error)
            raise
        if reply.usage is not None:
            self.usage = _sum(self.usage, replace(reply.usage, kind=request.purpose))
        await self._keep(request, reply.text, None)
        return reply

    async def _keep(self, request: ModelRequest, reply: str | None, error: Exception | None) -> None:
        if not self.config.keep_prompts:
            return
        asked = {
            "purpose": request.purpose,
            "system": request.system,
            "text": request.text,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "files": [file.name or file.media_type for file in request.files],
            "error": None if error is None else REDACTION.redact(f"{type(error).__name__}: {error}"),
        }
        for run in self._runs:
            # The answer is used even if its prompt cannot be stored.
            with contextlib.suppress(MemologError):
                await self._store.runs.keep_prompt(self.resource, run, dumps(encode(asked)), reply)


def _is_ours(error: BaseException) -> bool:
    """Return whether the error cancels this asyncio task. Any other CancelledError is a failure of the model."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _sum(one: Usage | None, other: Usage) -> Usage:
    if one is None:
        return other
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in _SUMMED})


_SUMMED: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost")
# The call of a tool result is searched in at most this many messages before the span.
_LOOKED_BACK: Final = 200
_ANSWERED: Final = 6
"""This many messages before a span are passed to the observer, because the first messages of the span may answer them."""
# The second answer of a reflector adds details that the first one lost. It may exceed the target by a tenth of `reflect_at`.
_LOST_SHARE: Final = 10
# The most logs for which the executor remembers that it has reported a fault of the reflector.
_UNCONDENSED: Final = 1_000
# Lines that are merged need up to a fifth more tokens than before, for the words that join them and the names of threads.
_JOINED: Final = 1.2
_FIRST: Final = "personal"
"""The template that the observer starts from if there is no working memory yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClaimedRun:
    claim: RunClaim
    work: StoredRun
    messages: tuple[Message, ...]
    given: ObserveInput
    known: Mapping[str, JsonValue]
    """The extracted values of the application before this span."""
    config: Config
    observer: Observer
    log: Voices
    """The lines of the log that the observer is shown, by origin."""
    foreign: tuple[Evidence, ...] = ()
    """The other conversations in the same prompt."""

    def messages_of(self, answer: Observed) -> tuple[Message, ...]:
        """Return the messages that an answer covers. If the answer was cut off, a later run observes the other messages."""
        last = answer.last_seq
        return self.messages if last is None else tuple(message for message in self.messages if message.seq <= last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownLog:
    """The end of a log that an observer is shown, and its lines."""

    text: str
    lines: tuple[Observation, ...]
    voices: Voices


_ShownLogs: TypeAlias = dict[tuple[int, int, int], _ShownLog]
"""By log, generation and number of entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read for the runs of one model call."""

    rows: Mapping[str, tuple[Message, ...]]
    """By run, the messages of its span and the few messages directly before it, including tombstones."""
    threads: Mapping[str, ThreadInfo]
    aliases: Mapping[str, str]
    logs: _ShownLogs = field(default_factory=dict[tuple[int, int, int], _ShownLog])


class RunExecutor:
    """Produces the outcomes of claimed runs, with a model or the embedded observer."""

    def __init__(
        self,
        store: "Store",
        observer: Observer,
        reflector: Observer,
        *,
        counter: TokenCounter,
        extractors: Extractors | None = None,
    ) -> None:
        self._store, self._observer, self._reflector, self._counter = store, observer, reflector, counter
        self._embedded = EmbeddedObserver(counter)
        self._extractors = extractors or Extractors()
        # Resources whose spent budget was reported, so that it is not reported again at every run.
        self._over_budget: set[str] = set()
        # The reported fault of each log that the reflector could not condense. "" after the reflector has condensed it.
        self._uncondensed = Cache[int, str](_UNCONDENSED)

    async def execute(
        self, resource: str, thread: str, claims: Sequence[RunClaim], config: Config
    ) -> tuple[RunOutcome, ...]:
        """Return the outcome of each claimed run. `thread` is the thread for which the runs were started."""
        works = await self._store.runs.stored(resource, [claim.run for claim in claims])
        found = [(claim, works[claim.run]) for claim in claims if claim.run in works]
        if not found:
            # The thread was deleted while the runs were waiting, so there is nothing to observe.
            raise LeaseLost(claims[0].run, claims[0].owner, claims[0].fence)
        ask = ModelCalls(
            self._store, resource, found[0][1].run.thread or thread, [claim.run for claim, _ in found], config
        )
        try:
            return await self._with_fallback(found, ask)
        except RunFault as fault:
            raise fault.billed(ask.usage) from fault

    async def _with_fallback(
        self, found: Sequence[tuple[RunClaim, StoredRun]], ask: ModelCalls
    ) -> tuple[RunOutcome, ...]:
        work = found[0][1]
        observer = self._reflector if work.run.kind == "reflect" else self._observer
        problems: tuple[Problem, ...] = ()
        try:
            outcomes = await self._outcomes(found, observer, ask)
            self._over_budget.discard(ask.resource)
            if work.run.kind == "reflect":
                self._uncondensed.put(work.log_pk, "")
        except BudgetSpent as spent:
            if ask.config.over_budget == "wait":
                raise RunFault(str(spent)) from spent
            if ask.resource not in self._over_budget:
                self._over_budget.add(ask.resource)
                problems = (Problem(what="asking the model", error=f"{spent} The embedded observer is used."),)
            outcomes = await self._outcomes(found, self._embedded, ask)
            outcomes = [replace(outcome, faults=(*outcome.faults, "over_budget")) for outcome in outcomes]
        except RunFault as fault:
            is_full = fault.cause == "incompressible" and observer is not self._embedded
            if not is_full and not _is_stuck(work, fault):
                raise
            # Without a model the embedded reflector is always used, so it is not named.
            other = "" if isinstance(observer, EmbeddedObserver) else " The embedded reflector is used."
            error = f"{str(fault).rstrip('.')}.{other}"
            try:
                outcomes = await self._outcomes(found, self._embedded, ask)
            except RunFault as another:
                raise (another if another.cause == "incompressible" else fault) from another
            outcomes = [replace(outcome, faults=(*outcome.faults, "stood_in")) for outcome in outcomes]
            if error != self._uncondensed.get(work.log_pk):
                problems = (Problem(what="condensing the log", error=error),)
                self._uncondensed.put(work.log_pk, error)
        # The usage of all calls is stored with the first run.
        first = outcomes[0]
        result = replace(first.result, usage=ask.usage) if first.result else None
        return (replace(first, result=result, usage=ask.usage, problems=(*first.problems, *problems)), *outcomes[1:])

    async def _outcomes(
        self, found: Sequence[tuple[RunClaim, StoredRun]], observer: Observer, ask: ModelCalls
    ) -> list[RunOutcome]:
        if found[0][1].run.kind == "reflect":
            return [await self._reflect(*found[0], observer, ask)]
        read = await self._read(found, ask.resource)
        tasks = [
            await self._task(claim, work, observer, read.aliases.get(work.run.thread or "", f"c{number}"), ask, read)
            for number, (claim, work) in enumerate(found, start=1)
        ]
        spoken = [task for task in tasks if task.messages]
        outcomes = await self._observe(spoken, ask) if spoken else []
        nothing = Observed(parsed=Parsed(nothing=True))
        return [*outcomes, *(at_once(self._outcome(task, nothing)) for task in tasks if not task.messages)]

    # ------------------------------------------------------------ observing

    async def _aliases(self, resource: str, log_pk: int, threads: Iterable[str]) -> dict[str, str]:
        """Return the aliases of threads in a shared log; an empty dict for the log of one thread."""
        numbers = await self._store.logs.aliases(resource, log_pk, list(dict.fromkeys(threads)))
        return {thread: f"t{number}" for thread, number in numbers.items()}

    async def _read(self, found: Sequence[tuple[RunClaim, StoredRun]], resource: str) -> _Read:
        """Read what the runs of one call need: their messages with those directly before, their threads and the aliases."""
        spans: list[tuple[str, Span]] = []
        for _, work in found:
            thread, span = work.run.thread, work.run.span
            if thread is None or span is None:
                raise RunFault("the run has no span")
            spans.append((thread, Span(first=max(1, span.first - _ANSWERED), last=span.last)))
        threads = list(dict.fromkeys(thread for thread, _ in spans))
        rows = await self._store.messages.spans(resource, spans)
        return _Read(
            rows={claim.run: messages for (claim, _), messages in zip(found, rows, strict=True)},
            threads=await self._store.threads.get_all(resource, threads),
            aliases=await self._aliases(resource, found[0][1].log_pk, threads),
        )

    async def _task(
        self,
        claim: RunClaim,
        work: StoredRun,
        observer: Observer,
        alias: str,
        ask: ModelCalls,
        read: _Read,
    ) -> _ClaimedRun:
        run, resource, config = work.run, ask.resource, ask.config
        if run.thread is None or run.span is None:
            raise RunFault("the run has no span")
        redactor = redactor_for(config)
        rows = read.rows[claim.run]
        first = run.span.first
        # Messages are redacted before they are shortened, because a secret is recognised by the name beside it.
        messages = await cleaned([row for row in rows if row.seq >= first and row.state == "live"], redactor)
        hints = read.threads[run.thread].hints
        if run.inputs.get("hinted", hints.last_seq) != hints.last_seq:
            hints = await self._store.logs.hints_of(resource, work.log_pk, work.thread_pk, int(run.inputs["hinted"]))
        shown = await self._shown_log(resource, work, config, read.logs)
        known: dict[str, JsonValue] = {}
        if self._extractors:
            drawn = await self._store.extracts.list(resource, run.thread, before=run.span.first)
            known = {extract.key: extract.value for extract in drawn}
        given = ObserveInput(
            messages=(
                *await cleaned(await self._calls_before(resource, run.thread, run.span, messages), redactor),
                *messages,
            ),
            before=tuple(row for row in rows if row.seq < first),
            previous=shown.text,
            lines=shown.lines,
            previous_tokens=config.observation.previous_tokens,
            most_tokens=config.observation.prompt_tokens,
            hints=hints,
            mode=config.mode,
            voice=config.voice,
            custom=config.observation.instructions or "",
            zone=_zone(messages),
            redactor=redactor,
            alias=alias,
            wanted=self._extractors.wanted(known),
            attach_files=config.observation.attach_files,
            document=await self._document(resource, run),
            document_most=config.working_memory_characters,
        )
        return _ClaimedRun(
            claim=claim,
            work=work,
            messages=messages,
            given=given,
            known=known,
            config=config,
            observer=observer,
            log=shown.voices,
        )

    async def _shown_log(self, resource: str, work: StoredRun, config: Config, known: _ShownLogs) -> _ShownLog:
        """Return the end of a log as it was when a run started. Most runs of one call saw their log at the same moment."""
        log_pk, inputs = work.log_pk, work.run.inputs
        generation, entries = int(inputs.get("generation", 0)), int(inputs.get("entries", 0))
        moment = log_pk, generation, entries
        if moment not in known:
            choose = partial(_last_groups, tokens=config.observation.previous_tokens)
            shown, lines = await self._store.logs.lines_at(resource, log_pk, generation, entries=entries, choose=choose)
            text = "\n".join(filter(None, (_without_tags(group.text) for group in shown)))
            known[moment] = _ShownLog(text=text, lines=lines, voices=log_voices(lines))
        return known[moment]

    async def _document(self, resource: str, run: Run) -> str | None:
        """Return the working memory that the observer is shown; None if the observer must not write the working memory."""
        given = run.inputs.get("document")
        if given is None:
            return None
        if not given["version"]:
            return template(_FIRST)
        owner = run.thread if given["of_thread"] else None
        try:
            return (await self._store.working_memory.version(resource, given["version"], thread=owner)).text
        except DocumentNotFound:
            return None

    async def _calls_before(
        self, resource: str, thread: str, span: Span, messages: Sequence[Message]
    ) -> tuple[Message, ...]:
        """Return messages before this span, reduced to the tool calls whose results are in this span."""
        missing = await offload(_results_without_calls, messages, when=has_many_parts(messages))
        if not missing or span.first == 1:
            return ()
        before = Span(first=max(1, span.first - _LOOKED_BACK), last=span.first - 1)
        rows = [row for row in await self._store.messages.span(resource, thread, before) if row.state == "live"]
        found: dict[int, list[Part]] = {}
        for call, (number, place) in results_of_calls([*rows, *messages]).items():
            if (number - len(rows), place) in missing and call[0] < len(rows):
                found.setdefault(call[0], []).append(part_at(rows, call))
        return tuple(replace(rows[number], parts=tuple(parts)) for number, parts in sorted(found.items()))

    async def _observe(self, tasks: Sequence[_ClaimedRun], ask: ModelCalls) -> list[RunOutcome]:
        if len(tasks) == 1 and tasks[0].work.run.attempt > TRIES:
            return [await self._observe_divided(tasks[0], ask)]
        answers = await tasks[0].observer.observe([task.given for task in tasks], ask)
        spoken = [conversations(task.messages) for task in tasks]
        outcomes: list[RunOutcome] = []
        for number, (task, answer) in enumerate(zip(tasks, answers, strict=True)):
            others = together([text for other in (*spoken[:number], *spoken[number + 1 :]) for text in other])
            outcomes.append(await self._finished(replace(task, foreign=others), answer))
        return outcomes

    async def _finished(self, task: _ClaimedRun, answer: Observed) -> RunOutcome:
        """Return the outcome of an answer, with the extracted values. A failing extractor is only reported.

        If all lines of the answer are dropped, the embedded observer observes the messages.
        """
        has_many = has_many_parts(task.messages)
        outcome = await in_slices(self._outcome(task, answer), apart=has_many)
        if answer.parsed.observations and outcome.result and not outcome.result.observations:
            embedded = await in_slices(embedded_answer(task.given, task.messages_of(answer)), apart=has_many)
            answer = replace(embedded, said=answer.said, last_seq=answer.last_seq)
            again = await in_slices(self._outcome(task, answer), apart=has_many)
            outcome = replace(again, faults=(*outcome.faults, *again.faults, "stood_in"))
        if outcome.result is None or not self._extractors:
            return outcome
        values, problems = await self._extractors.extract(
            task.messages_of(answer), answer.said, task.known, task.given.redactor
        )
        return replace(
            outcome,
            result=replace(outcome.result, extracts=values),
            problems=(*outcome.problems, *problems),
            faults=(*outcome.faults, *("extract" for _ in problems)),
        )

    async def _observe_divided(self, task: _ClaimedRun, ask: ModelCalls) -> RunOutcome:
        """Observe a span in parts after it failed as a whole, so that one message does not block the log forever."""
        divided = await observe_in_parts(
            task.observer,
            task.given,
            ask,
            attempt=task.work.run.attempt,
            is_alive=_is_alive(task.work),
        )
        outcome = await self._finished(task, divided.observed)
        if divided.missing or divided.embedded:
            span = task.work.run.span
            of = f"of the messages {span.first if span else ''}–{span.last if span else ''}"
            error = (
                f"{divided.missing} {of} could not be observed: {divided.error} "
                "A line of the log replaces them, and recall returns them."
            )
            if divided.embedded:
                error = f"The embedded observer observed {divided.embedded} {of}: {divided.error}"
            noted = Problem(what="observing a part of the conversation", error=error)
            outcome = replace(outcome, problems=(*outcome.problems, noted), faults=(*outcome.faults, "stood_in"))
        return outcome

    def _outcome(self, task: _ClaimedRun, answer: Observed) -> Generator[None, None, RunOutcome]:
        parsed = answer.parsed
        task = replace(task, messages=task.messages_of(answer))
        problem = str(answer.fault) if answer.fault else None if parsed.nothing else failure(parsed)
        result = None
        faults: tuple[str, ...] = parsed.faults.kinds
        if problem is None:
            result, found = yield from self._result(task, answer)
            faults = (*faults, *found)
            if parsed.observations and not result.observations and "foreign_line" in found:
                result, problem = None, "empty: no line of the answer is about this conversation"
        thread = task.work.run.thread
        return RunOutcome(claim=task.claim, result=result, kind="observe", thread=thread, faults=faults, error=problem)

    def _result(self, task: _ClaimedRun, answer: Observed) -> Generator[None, None, tuple[RunResult, tuple[str, ...]]]:
        hinted, name, thread = answer.parsed.hints, task.observer.name, task.work.run.thread or ""
        group = self._new_group(task.given.redactor)
        drafted = yield from making_observations(
            answer.parsed, task.messages, answer.shown, thread, group, task.given.mode
        )
        first = task.messages[0].seq if task.messages else 0
        log = _seen_log(task.given, [message for message in task.given.messages if message.seq < first])
        judge = Judge(
            task.messages,
            log=log,
            policy=task.config.grounding,
            foreign=task.foreign,
            lines=task.log,
            readings=partial(readings_of, task.given, task.messages),
            extracted=[line.id for line in drafted if EmbeddedObserver.name in {name, line.metadata.get("observer")}],
        )
        yield
        judged = self._with_statements((yield from judge.judging(drafted)), task, group)
        yield
        hints, wrong = draft_hints(
            hinted, task.given, task.messages, foreign=task.foreign, log=task.log, spoken=judge.spoken
        )
        proposal, refused = _proposal(hinted.working_memory, task)
        result = RunResult(
            group=group.id,
            observations=judged.observations,
            proposal=proposal,
            hints=hints,
            tokens=sum(observation.tokens for observation in judged.observations),
            model=name,
            prompt_version=answer.version,
            last_seq=answer.last_seq,
        )
        return result, (*judged.faults, *wrong, *refused)

    def _new_group(self, redactor: Redactor) -> NewGroup:
        new_id = self._store.new_id
        return NewGroup(id=new_id(), new_id=new_id, counter=self._counter, redactor=redactor)

    def _with_statements(self, judged: Judged, task: _ClaimedRun, group: NewGroup) -> Judged:
        """Add statements of users that the embedded observer finds in messages whose lines were lowered in priority."""
        places = {(message.thread, message.seq): message for message in task.messages if message.role == "user"}
        doubtful = (line for line in judged.observations if line.is_unverified)
        lowered = {
            place for line in doubtful if line.metadata.get("lowered_from") in KEPT for place in cited_places(line)
        }
        covered = {place for line in judged.observations if line.priority in KEPT for place in cited_places(line)}
        messages = tuple(places[place] for place in sorted(lowered) if place in places and place not in covered)
        if not messages or task.observer is self._embedded:
            return judged
        found = embedded_statements(task.given, messages)
        thread = task.work.run.thread or ""
        drafted = observations_from(found.parsed, messages, found.shown, thread, group, task.given.mode)
        readings = partial(readings_of, task.given, messages)
        more = Judge(task.messages, policy="keep", readings=readings).judge(drafted).observations
        after = len(judged.observations)
        added = (replace(line, ordinal=line.ordinal + after) for line in more if line.priority in KEPT)
        return replace(judged, observations=(*judged.observations, *added))

    # ------------------------------------------------------------ reflecting

    async def _reflect(self, claim: RunClaim, work: StoredRun, observer: Observer, ask: ModelCalls) -> RunOutcome:
        resource, config = ask.resource, ask.config
        names = [str(name) for name in work.run.inputs.get("groups", ())]
        lines = await self._store.logs.observations(resource, work.log_pk, names)
        lines = tuple(line for line in lines if line.state == "active")
        if not lines:
            raise RunFault("the log has no lines to condense", is_final=True)
        size = sum(line.tokens for line in lines)
        # The embedded reflector reads all lines, because it costs no tokens, and needs no room for other words.
        is_embedded = isinstance(observer, EmbeddedObserver)
        shown, staying = (lines, ()) if is_embedded else await in_slices(lines_to_condense(lines))
        shown_size = sum(line.tokens for line in shown)
        # The target has room for the lines that must not be dropped and for the words that join them.
        needed = sum(line.tokens for line in shown if line.priority in KEPT)
        target = max(config.reflection_target_for(shown_size), needed if is_embedded else round(needed * _JOINED))
        hints = await self._hints_before(resource, work)
        given = await self._reflect_input(work, ask, shown, target, hints, zone=_zone(lines))
        try:
            most = target + config.reflect_at // _LOST_SHARE
            answer = await observer.reflect(given, ask, size=shown_size, most=most)
        except RunFault as fault:
            if fault.cause != "incompressible" or observer is not self._embedded:
                raise
            # The lines cannot be condensed further. Those that do not fit in the log are archived.
            answer = Reflected(parsed=ParsedReflection(), version="archive")
        group, kept, faults = await in_slices(self._kept(given, staying, answer, config, work.run.inputs.get("room")))
        length = sum(observation.tokens for observation in kept.observations)
        if not 0 < length < size:
            raise RunFault(
                "the log cannot be condensed without losing statements of users or finished work",
                cause="incompressible",
            )
        redactor = redactor_for(config)
        new_hints, wrong = await asyncio.to_thread(_changed_hints, given, answer.parsed, hints, redactor)
        return RunOutcome(
            claim=claim,
            result=RunResult(
                group=group,
                observations=kept.observations,
                hints=new_hints.pop(str(work.run.inputs.get("thread")), None),
                thread_hints=new_hints,
                tokens=length,
                model=observer.name,
                prompt_version=answer.version,
                omitted=kept.omitted,
            ),
            kind="reflect",
            thread=None,
            faults=(*faults, *wrong),
        )

    async def _reflect_input(
        self,
        work: StoredRun,
        ask: ModelCalls,
        shown: Sequence[Observation],
        target: int,
        hints: Mapping[str, Hints],
        *,
        zone: tzinfo,
    ) -> ReflectInput:
        config = ask.config
        threads = dict.fromkeys(source.thread for line in shown for source in line.sources)
        return ReflectInput(
            observations=tuple(shown),
            target_tokens=target,
            hints=hints.get(str(work.run.inputs.get("thread")), Hints()),
            mode=config.mode,
            voice=config.voice,
            custom=config.reflection.instructions or "",
            zone=zone,
            aliases=await self._aliases(ask.resource, work.log_pk, threads),
            thread_hints={} if "thread" in work.run.inputs else hints,
        )

    def _kept(
        self,
        given: ReflectInput,
        staying: Sequence[Observation],
        answer: Reflected,
        config: Config,
        room: int | None,
    ) -> Generator[None, None, tuple[str, Guarded, tuple[str, ...]]]:
        """Return the id of the new group, its lines after the loss guard and the archive, and the faults."""
        parsed, lines = answer.parsed, given.observations
        limit = config.reflect_at if room is None else room
        group = self._new_group(redactor_for(config))
        if not parsed.lines:
            copied = unchanged([*lines, *staying], group)
            yield
            return group.id, (yield from archived(copied, limit, group)), ()
        drafted = yield from reflections_from(parsed, lines, group, given.aliases)
        judged = yield from judge_reflection(drafted, lines, policy=config.grounding)
        kept = yield from guarded(judged.observations, lines, group, staying=staying)
        faults = (
            *parsed.faults.kinds,
            *judged.faults,
            *(("carried_over",) if kept.carried else ()),
            *(("lost",) if kept.omitted else ()),
        )
        return group.id, (yield from archived(kept, limit, group)), faults

    async def _hints_before(self, resource: str, work: StoredRun) -> dict[str, Hints]:
        """Return the hints of the log's threads by thread, without hints that changed since the run was created."""
        inputs = work.run.inputs
        pinned = {str(inputs["thread"]): inputs.get("hinted")} if "thread" in inputs else inputs.get("hinted", {})
        found: dict[str, Hints] = {}
        for thread, last_seq in pinned.items():
            # A thread may have been deleted since the run was created.
            with contextlib.suppress(ThreadNotFound):
                hints = (await self._store.threads.get(resource, thread)).hints
                found |= {thread: hints} if hints.last_seq == last_seq else {}
        return found


def embedded_lines(
    thread: str,
    group: str,
    messages: Sequence[Message],
    *,
    config: Config,
    new_id: Callable[[], str],
    counter: TokenCounter,
) -> tuple[Observation, ...]:
    """Observe the messages of a group again with the embedded observer, and mark the lines with its name."""
    redactor = redactor_for(config)
    given = ObserveInput(
        messages=messages_without_secrets(messages, redactor),
        mode=config.mode,
        voice=config.voice,
        zone=_zone(messages),
    )
    found = at_once(embedded_answer(given, given.messages))
    new = NewGroup(id=group, new_id=new_id, counter=counter, redactor=redactor)
    return observations_from(found.parsed, given.messages, found.shown, thread, new, config.mode)


def _results_without_calls(messages: Sequence[Message]) -> set[PartPlace]:
    """Return the indexes of message and part for each tool result whose call is in none of these messages."""
    answered = set(results_of_calls(messages).values())
    return {
        (number, place)
        for number, message in enumerate(messages)
        for place, part in enumerate(message.parts)
        if isinstance(part, ToolResultPart) and (number, place) not in answered
    }


def _proposal(answered: str | None, task: _ClaimedRun) -> tuple[Proposal | None, tuple[str, ...]]:
    """Return the new working memory of an answer (None if it does not change), and its faults.

    The new text takes effect when its group is activated.
    """
    base, shown, most = task.work.run.inputs.get("document"), task.given.document, task.given.document_most
    if answered is None or base is None or shown is None:
        return None, ()
    wanted = task.given.redactor.redact(answered)
    is_json = shown.lstrip().startswith("{")
    text = trusted_document(shown, wanted, task.messages, foreign=task.foreign, whole=is_json)
    wrong = () if text.strip() == wanted.strip() else ("untrusted_document",)
    if text.strip() == shown.strip() or len(text) > most:
        return None, (*wrong, *(("long_document",) if len(text) > most else ()))
    return Proposal(of_thread=bool(base["of_thread"]), base=int(base["version"]), text=text, most=most), wrong


def _is_alive(work: StoredRun) -> bool:
    """Return whether another run of this log has succeeded since this run began. Then the model works."""
    began, succeeded = work.run.started_at, work.succeeded_at
    return succeeded is not None and began is not None and succeeded >= began


def _is_stuck(work: StoredRun, fault: RunFault) -> bool:
    """Return whether a reflection failed too often, although the model answers."""
    is_tried = work.run.kind == "reflect" and work.run.attempt > TRIES and not fault.is_final
    return is_tried and (fault.cause == "answer" or (fault.cause == "refused" and _is_alive(work)))


def _seen_log(given: ObserveInput, earlier: Sequence[Message]) -> Evidence:
    """Return the log, the hints and the earlier tool calls that an observer was shown beside its messages."""
    hints = given.hints
    calls = (parts_to_json(message.parts) for message in earlier)
    said = filter(None, (hints.current_task, hints.suggested_response, hints.title))
    # All threads of a batch are shown the same end of the log, so it is analysed once.
    return joined((given.previous, *said, *calls))


# The texts of the lines are escaped, so only the tags of the group itself begin like this.
_TAG: Final = re.compile(r"^</?(?:observations|reflection)\b.*\n?", re.MULTILINE)
# Most runs are shown the same last groups of a log as the run before.
_FEW_GROUPS: Final = 32
_TAG_THREAD: Final = re.compile(r'\bthread="([^"]*)"')


@remembered(_FEW_GROUPS)
def _without_tags(text: str) -> str:
    """Return the lines of a rendered group. A group of a shared log begins with the name of its thread."""
    return _TAG.sub(lambda tag: f"{thread[1]}:\n" if (thread := _TAG_THREAD.search(tag[0])) else "", text).rstrip("\n")


def _last_groups(groups: Sequence[GroupRow], tokens: int) -> list[GroupRow]:
    """Return the newest groups that together have at least `tokens` tokens, or all groups. The prompt shortens the oldest one."""
    shown: list[GroupRow] = []
    for group in reversed(groups):
        if tokens <= 0:
            break
        shown.append(group)
        # The tags of a group are not shown.
        tokens -= group.tokens * len(_without_tags(group.text)) // max(len(group.text), 1)
    return shown[::-1]


def _changed_hints(
    given: ReflectInput, parsed: ParsedReflection, hints: Mapping[str, Hints], redactor: Redactor
) -> tuple[dict[str, Hints], tuple[str, ...]]:
    changed: dict[str, Hints] = {}
    faults: list[str] = []
    for thread, old in hints.items():
        said = parsed.threads.get(given.aliases.get(thread, ""))
        if said is None and len(given.aliases) <= 1:
            # The log has only one thread.
            said = parsed.hints
        if said is None:
            continue
        lines = [line for line in given.observations if any(source.thread == thread for source in line.sources)]
        new, wrong = reflected_hints(said, old, lines, redactor)
        changed |= {thread: new} if new else {}
        faults += wrong
    return changed, tuple(faults)


def _zone(values: Sequence[Message] | Sequence[Observation]) -> tzinfo:
    """Return the zone of the newest message or line that has one; UTC if there is none or it is unknown on this system."""
    return zone_of(next((value.zone for value in reversed(values) if value.zone), None))[0]
