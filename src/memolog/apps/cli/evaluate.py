"""Evaluate a memory with questions about long conversations: `eval talks`, `eval longmemeval`, `eval locomo`, `eval beam`."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli import output
from memolog.apps.cli.command import Answer, Call, listing, verb
from memolog.errors import InputError, MemologError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from rich.console import RenderableType

    from memolog.apps.eval.datasets import Kind
    from memolog.apps.eval.evaluation import Outcome, Plan, Tell
    from memolog.apps.eval.figures import ArmFigures, Figures
    from memolog.models import Price

app = typer.Typer(
    help="Evaluate a memory: live through conversations, ask questions about them, and judge the answers.",
    no_args_is_help=True,
)

_ALL_ARMS = "memory,memory+search,search,full,last:20,oracle"
_KEPT = "What was done is stored. Run the same command again to continue."

_Data = Annotated[Path, typer.Option("--data", help="File with the data, also compressed with gzip.")]
_Arms = Annotated[str, typer.Option(help="What the model sees: memory, memory+search, search, full, last:N, oracle.")]
_Answer = Annotated[str, typer.Option("--answer", help="Model that answers, or extractive for the best line.")]
_Observer = Annotated[str | None, typer.Option(help="Model that observes. Default: that of the settings.")]
_Reflector = Annotated[str | None, typer.Option(help="Model that reflects. Default: the observer.")]
_Judge = Annotated[str, typer.Option(help="Model that judges, or strings for a comparison of words.")]
_Votes = Annotated[int, typer.Option(help="How often the judge is asked about each answer.", min=1, max=15)]
_Limit = Annotated[int | None, typer.Option("--limit", "-n", help="Only the first questions.", min=1)]
_Types = Annotated[str | None, typer.Option(help="Only questions of these types, separated by commas.")]
_Parallel = Annotated[int, typer.Option(help="How many questions are asked at the same time.", min=1, max=64)]
_Budget = Annotated[float | None, typer.Option(help="Most US dollars for all models together.", min=0)]
_Prices = Annotated[
    list[str] | None,
    typer.Option("--price", help='Price of a model, US dollars for a million tokens: "openai:gpt-5-mini=0.25/2".'),
]
_Report = Annotated[Path | None, typer.Option(help="HTML file of the report. Default: beside the results.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the expected tokens and cost, and call no model.")]
_File = Annotated[Path | None, typer.Option("--file", "-f", help="SQLite file of memories and results.")]


@verb(app, needs="nothing", example="memolog eval talks --limit 13 --arms memory,full --file talks.db")
async def talks(
    call: Call,
    arms: _Arms = _ALL_ARMS,
    answer: _Answer = "extractive",
    observer: _Observer = None,
    reflector: _Reflector = None,
    judge: _Judge = "strings",
    votes: _Votes = 1,
    limit: _Limit = None,
    types: _Types = None,
    parallel: _Parallel = 4,
    budget: _Budget = None,
    price: _Prices = None,
    file: _File = None,
    report: _Report = None,
    dry_run: _DryRun = False,
) -> Answer:
    """Evaluate with 150 questions about the twelve conversations that come with Memolog. Needs no data and no key."""
    return await _evaluate(call, "talks", None, locals())


@verb(
    app,
    needs="nothing",
    example="memolog eval longmemeval --data longmemeval_oracle.json --limit 2 --arms memory,search",
)
async def longmemeval(
    call: Call,
    data: _Data,
    arms: _Arms = _ALL_ARMS,
    answer: _Answer = "extractive",
    observer: _Observer = None,
    reflector: _Reflector = None,
    judge: _Judge = "strings",
    votes: _Votes = 1,
    limit: _Limit = None,
    types: _Types = None,
    parallel: _Parallel = 4,
    budget: _Budget = None,
    price: _Prices = None,
    file: _File = None,
    report: _Report = None,
    dry_run: _DryRun = False,
) -> Answer:
    """Evaluate with LongMemEval: a file of the setting oracle, S or M."""
    return await _evaluate(call, "longmemeval", data, locals())


@verb(app, needs="nothing", example="memolog eval locomo --data locomo10.json --limit 5 --arms memory,search")
async def locomo(
    call: Call,
    data: _Data,
    arms: _Arms = _ALL_ARMS,
    answer: _Answer = "extractive",
    observer: _Observer = None,
    reflector: _Reflector = None,
    judge: _Judge = "strings",
    votes: _Votes = 1,
    limit: _Limit = None,
    types: _Types = None,
    parallel: _Parallel = 4,
    budget: _Budget = None,
    price: _Prices = None,
    file: _File = None,
    report: _Report = None,
    dry_run: _DryRun = False,
) -> Answer:
    """Evaluate with LoCoMo. The first speaker is the user, the second the assistant."""
    return await _evaluate(call, "locomo", data, locals())


@verb(app, needs="nothing", example="memolog eval beam --data beam --arms memory,search")
async def beam(
    call: Call,
    data: _Data,
    arms: _Arms = _ALL_ARMS,
    answer: _Answer = "extractive",
    observer: _Observer = None,
    reflector: _Reflector = None,
    judge: _Judge = "strings",
    votes: _Votes = 1,
    limit: _Limit = None,
    types: _Types = None,
    parallel: _Parallel = 4,
    budget: _Budget = None,
    price: _Prices = None,
    file: _File = None,
    report: _Report = None,
    dry_run: _DryRun = False,
) -> Answer:
    """Evaluate with BEAM: a folder of chats with their probing questions. Its rubrics need a model as judge."""
    return await _evaluate(call, "beam", data, locals())


async def _evaluate(call: Call, kind: "Kind", data: Path | None, given: "Mapping[str, Any]") -> Answer:
    from memolog.apps.eval.arms import arm_of
    from memolog.apps.eval.datasets import read
    from memolog.apps.eval.evaluation import Evaluation, Plan
    from memolog.apps.eval.figures import figures_of
    from memolog.apps.eval.report import write_report
    from memolog.apps.eval.results import open_results

    types = tuple(one.strip() for one in str(given["types"] or "").split(",") if one.strip())
    path = given["file"] or Path(f"eval-{kind}.db")
    page = given["report"] or path.with_suffix(".html")
    if page.resolve() == path.resolve():
        raise InputError(
            f"The report would replace the results in {path}.",
            then="Name a file that does not end with .html, or another --report.",
        )
    observer = given["observer"] or call.config.observation.model or call.config.model
    plan = Plan(
        data=read(kind, data).part(limit=given["limit"], types=types),
        config=call.config,
        arms=tuple({arm.name: arm for arm in map(arm_of, given["arms"].split(","))}.values()),
        answer=given["answer"],
        observer=observer,
        reflector=given["reflector"] or call.config.reflection.model or observer,
        judge=None if given["judge"] == "strings" else given["judge"],
        votes=given["votes"],
        parallel=given["parallel"],
        budget=given["budget"],
        prices=_prices(given["price"] or []),
    )
    if given["dry_run"]:
        return _expected(plan)
    with _progress(call, f"evaluating {kind}") as tell, await open_results(path) as results:
        outcome = await Evaluation(plan, results, tell).run()
        figures = figures_of(plan, results)
        write_report(plan, figures, page)
    return Answer(
        data=_data(plan, outcome, figures, path, page),
        show=lambda: _shown(plan, outcome, figures, path, page),
        code=0 if outcome.stopped is None else 4,
    )


def _expected(plan: "Plan") -> Answer:
    """Return the expected tokens and the cost of a plan."""
    from memolog.apps.eval.forecast import forecast

    rows = forecast(plan)
    known = [row.dollars for row in rows if row.dollars is not None]
    data = {
        "dry_run": True,
        "questions": len(plan.data.questions),
        "expected": [
            {
                "role": row.role,
                "arm": row.arm,
                "model": row.model,
                "calls": row.calls,
                "input_tokens": row.read,
                "output_tokens": row.written,
                "dollars": row.dollars,
            }
            for row in rows
        ],
        "dollars": sum(known),
        "unpriced": sorted({row.model for row in rows if row.dollars is None}),
    }
    without = (
        "" if len(known) == len(rows) else " The price of a model without dollars is unknown; pass it with --price."
    )
    return listing(
        data,
        rows,
        ("role!", "arm", "model", ">calls", ">tokens in", ">tokens out", ">$"),
        lambda row: (
            *(row.role, row.arm or "-", row.model, f"{row.calls:,}", f"{row.read:,}", f"{row.written:,}"),
            "-" if row.dollars is None else f"{row.dollars:.2f}",
        ),
        "No model would be called, so nothing would be paid.",
        caption=f"Expected from measured ratios, together ${sum(known):.2f}.{without}",
        code=0,
    )


def _prices(given: list[str]) -> "dict[str, Price]":
    from memolog.models import Price

    prices: dict[str, Price] = {}
    for text in given:
        name, _, both = text.rpartition("=")
        read, _, written = both.partition("/")
        try:
            prices[name] = Price(input=float(read), output=float(written))
        except ValueError:
            raise InputError(
                f"{text!r} is not a price.", then='Write "MODEL=INPUT/OUTPUT", such as "openai:gpt-5-mini=0.25/2".'
            ) from None
    return prices


@contextmanager
def _progress(call: Call, words: str) -> "Generator[Tell]":
    """Show a progress bar on a terminal while the block runs."""
    err = output.console(to_stderr=True)
    call.work.words, call.work.then = words, _KEPT
    if call.as_json or not err.is_terminal:
        yield call.work.report
        call.work.words = ""
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(words, total=None)

        def tell(what: str, done: int, total: int) -> None:
            call.work.report(what, done, total)
            bar.update(task, completed=done, total=total)

        yield tell
    call.work.words = ""


# ---------------------------------------------------------------- output


def _data(plan: "Plan", outcome: "Outcome", figures: "Figures", path: Path, page: Path) -> dict[str, Any]:
    return {
        "data": plan.data.kind,
        "fingerprint": plan.data.fingerprint,
        "answer": plan.reader,
        "observer": plan.setup["observer"],
        "reflector": plan.setup["reflector"],
        "judge": plan.judge_name,
        "file": str(path),
        "report": str(page),
        "done": outcome.done,
        "total": outcome.total,
        "stopped": _reason(outcome.stopped),
        "arms": [_arm_data(arm) for arm in figures.arms],
        "raw_tokens": figures.raw_tokens,
        "log_tokens": figures.log_tokens,
        "observer_tokens_per_raw_token": _ratio(figures.observer_tokens, figures.raw_tokens),
        "dollars": round(figures.dollars, 6),
        "living_seconds": round(figures.living_seconds, 1),
        "problems": dict(figures.problems),
    }


def _by_type(figures: "Figures") -> "RenderableType":
    counts = {kind: count for arm in figures.arms for kind, (_, count) in sorted(arm.by_type.items())}
    rows = [
        (
            kind,
            f"{count:,}",
            *(_percent(arm.by_type[kind][0] if kind in arm.by_type else None) for arm in figures.arms),
        )
        for kind, count in sorted(counts.items())
    ]
    return output.table(("type!", ">questions", *(f">{arm.arm}" for arm in figures.arms)), rows)


def _reason(error: MemologError | None) -> str | None:
    return None if error is None else str(error)


def _ratio(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def _arm_data(arm: "ArmFigures") -> dict[str, Any]:
    return {
        "arm": arm.arm,
        "questions": arm.questions,
        "judged": arm.judged,
        "plain_mean": arm.plain,
        "macro_mean": arm.macro,
        "interval": arm.interval,
        "by_type": {kind: {"mean": mean, "questions": count} for kind, (mean, count) in arm.by_type.items()},
        "evidence": dict(arm.evidence),
        "context_tokens": round(arm.tokens),
        "model_tokens": round(arm.paid_tokens),
        "dollars": round(arm.dollars, 6),
        "seconds": round(arm.seconds, 3),
    }


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _shown(plan: "Plan", outcome: "Outcome", figures: "Figures", path: Path, page: Path) -> "RenderableType":
    from rich.console import Group

    heads = ("arm!", ">plain mean", ">macro mean", ">95 %", ">evidence", ">tokens", ">$ a question")
    rows = [
        (
            arm.arm,
            _percent(arm.plain),
            _percent(arm.macro),
            "-" if arm.interval is None else f"{100 * arm.interval[0]:.0f}-{100 * arm.interval[1]:.0f}",
            _percent(arm.evidence.get("any")),
            f"{arm.tokens:,.0f}",
            f"{arm.dollars:.4f}",
        )
        for arm in figures.arms
    ]
    title = f"{plan.data.kind}: {plan.reader} answers, {plan.setup['observer']} observes, {plan.judge_name} judges"
    pieces: list[Any] = [output.table(heads, rows, title=title), _by_type(figures)]
    lines = [f"{outcome.done:,} of {outcome.total:,} answers. Results: {path}. Report: {page}."]
    unjudged = max((arm.questions - arm.judged for arm in figures.arms), default=0)
    if unjudged:
        lines.append(f"{unjudged} questions of each arm were not judged: a comparison of words cannot judge them.")
    lines += [f"Not all of {name} was observed: {problem}" for name, problem in figures.problems.items()]
    if outcome.stopped is not None:
        lines.append(f"Stopped: {outcome.stopped}")
    pieces += [output.styled(line) for line in lines]
    return Group(*pieces)
