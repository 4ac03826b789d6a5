"""Write the report of an evaluation: one HTML file without scripts, with plots and every answer, the failures first."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from memolog.apps.eval.evaluation import Plan
from memolog.apps.eval.figures import ArmFigures, Case, Figures

_COLOURS: Final = ("#0b6e4f", "#3066be", "#c05621", "#8e44ad", "#b7950b", "#7f8c8d", "#c0392b", "#16a085")
_PLACES: Final = (
    ("log", "in the log"),
    ("tail", "in the tail"),
    ("search", "by search"),
    ("history", "shown as it is"),
)
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
svg { max-width: 100%; height: auto; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .2rem 1rem; margin: .4rem 0; }
dl { background: var(--soft); padding: .6rem 1rem; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
.arm { display: inline-block; min-width: 8.5rem; opacity: .75; }
"""


def write_report(plan: Plan, figures: Figures, path: Path) -> None:
    """Write the report into a file. A reader of an older report never sees a half of the new one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(report(plan, figures), "utf-8")
    part.replace(path)


def report(plan: Plan, figures: Figures) -> str:
    """Return the report as HTML."""
    title = f"Evaluation with {plan.data.kind}"
    sections = (
        _head(plan, figures),
        _section("Accuracy by type", _bars(figures)),
        _section("Tokens a question", _tokens(figures)),
        _section("Accuracy against context size", _scatter(figures)),
        _section("Figures", _table(figures)),
        _section("Where the evidence was", _evidence(figures)),
        _section("Models", _models(figures)),
        _answers(
            "Failures", [case for case in figures.cases if case.verdict.score is not None and case.verdict.score < 1]
        ),
        _answers("Not judged", [case for case in figures.cases if case.verdict.score is None]),
        _answers("Right answers", [case for case in figures.cases if case.verdict.score == 1]),
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{''.join(sections)}</body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f'<h2>{escape(title)}</h2>\n<div class="wide">{body}</div>\n'


def _head(plan: Plan, figures: Figures) -> str:
    ratio = figures.observer_tokens / figures.raw_tokens if figures.raw_tokens else 0.0
    rows = (
        ("answers", plan.reader),
        ("observes", plan.setup["observer"]),
        ("reflects", plan.setup["reflector"]),
        ("judges", plan.judge_name),
        ("configuration", plan.setup["configuration"]),
        ("data", f"{plan.data.kind}, fingerprint {plan.data.fingerprint}"),
        ("answers judged", f"{len(figures.cases):,} of {len(plan.cases):,}"),
        ("conversations", f"{figures.raw_tokens:,} tokens; their logs have {figures.log_tokens:,}"),
        ("observer", f"{ratio:.2f} tokens of models for each token of conversation"),
        ("cost", f"${figures.dollars:.4f}"),
        ("time", f"{figures.living_seconds:,.1f} s to live through the conversations, added up"),
        *((f"not observed: {name}", problem) for name, problem in figures.problems.items()),
    )
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in rows)}</dl>\n"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _table(figures: Figures) -> str:
    heads = (
        *("arm", "questions", "judged", "plain mean", "95 % interval", "macro mean"),
        *("context tokens", "model tokens", "$ a question", "s a question"),
    )
    return _html_table(
        heads,
        [
            (
                arm.arm,
                f"{arm.questions:,}",
                f"{arm.judged:,}",
                _percent(arm.plain),
                "–" if arm.interval is None else f"{100 * arm.interval[0]:.1f} to {100 * arm.interval[1]:.1f}",
                _percent(arm.macro),
                f"{arm.tokens:,.0f}",
                f"{arm.paid_tokens:,.0f}",
                f"{arm.dollars:.5f}",
                f"{arm.seconds:.2f}",
            )
            for arm in figures.arms
        ],
    )


def _evidence(figures: Figures) -> str:
    heads = ("arm", *(words for _, words in _PLACES), "anywhere")
    note = "<p>Percent of the questions with evidence all of whose evidence was there.</p>"
    rows = [
        (arm.arm, *(_percent(arm.evidence.get(place)) for place, _ in _PLACES), _percent(arm.evidence.get("any")))
        for arm in figures.arms
    ]
    return note + _html_table(heads, rows)


def _models(figures: Figures) -> str:
    if not figures.calls:
        return "<p>No model was called.</p>"
    heads = ("role", "arm", "model", "calls", "tokens in", "tokens out", "$")
    rows = [
        (
            *(one.role, one.arm or "–", one.model, f"{one.count:,}"),
            *(f"{one.input_tokens:,}", f"{one.output_tokens:,}", f"{one.cost:.4f}"),
        )
        for one in figures.calls
    ]
    return _html_table(heads, rows)


# ---------------------------------------------------------------- plots

_WIDTH, _LEFT, _ROW = 900, 210, 16


def _svg(height: float, body: str, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}" '
        f'role="img" aria-label="{escape(label, quote=True)}">{body}</svg>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _bar(y: float, share: float, colour: str, words: str) -> str:
    width = share * (_WIDTH - _LEFT - 90)
    return (
        f'<rect x="{_LEFT}" y="{y:.1f}" width="{width:.1f}" height="{_ROW - 3}" fill="{colour}"/>'
        f"{_text(_LEFT + width + 6, y + _ROW - 5, words)}"
    )


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _legend(arms: Sequence[ArmFigures]) -> tuple[str, int]:
    marks = [
        f'<rect x="{(place % 6) * 150}" y="{4 + 18 * (place // 6)}" width="11" height="11" fill="{_colour(place)}"/>'
        f"{_text((place % 6) * 150 + 16, 14 + 18 * (place // 6), arm.arm)}"
        for place, arm in enumerate(arms)
    ]
    return "".join(marks), 10 + 18 * (1 + (len(arms) - 1) // 6)


def _bars(figures: Figures) -> str:
    kinds = sorted({kind for arm in figures.arms for kind in arm.by_type})
    body, y = _legend(figures.arms)
    pieces = [body]
    for kind in kinds:
        y += 8
        count = max(arm.by_type[kind][1] for arm in figures.arms if kind in arm.by_type)
        pieces.append(_text(_LEFT - 10, y + _ROW * len(figures.arms) / 2 + 4, f"{kind} ({count})", "end"))
        for place, arm in enumerate(figures.arms):
            if kind in arm.by_type:
                share = arm.by_type[kind][0]
                pieces.append(_bar(y, share, _colour(place), f"{100 * share:.1f} %"))
            y += _ROW
    return _svg(y + 8, "".join(pieces), "Accuracy by type and arm, in percent")


def _tokens(figures: Figures) -> str:
    most = max((arm.tokens for arm in figures.arms), default=0.0) or 1.0
    pieces = list[str]()
    for place, arm in enumerate(figures.arms):
        pieces.append(_text(_LEFT - 10, place * 22 + 14, arm.arm, "end"))
        pieces.append(_bar(place * 22 + 3, arm.tokens / most, _colour(place), f"{arm.tokens:,.0f}"))
    return _svg(len(figures.arms) * 22 + 8, "".join(pieces), "Mean tokens of a context, by arm")


def _scatter(figures: Figures) -> str:
    """Return a plot with one circle for each arm, and a line for its interval."""
    height, bottom, right = 320, 280, _WIDTH - 130
    most = max((arm.tokens for arm in figures.arms), default=0.0) * 1.05 or 1.0
    pieces = [f'<path d="M60 10V{bottom}H{right}" fill="none" stroke="currentColor"/>']
    for tick in range(0, 101, 20):
        y = bottom - tick * (bottom - 10) / 100
        pieces.append(f'<path d="M56 {y:.1f}h4" stroke="currentColor"/>{_text(50, y + 4, f"{tick} %", "end")}')
    for part in range(5):
        x = 60 + part * (right - 60) / 4
        pieces.append(_text(x, bottom + 18, f"{most * part / 4:,.0f}", "middle"))
    pieces.append(_text((60 + right) / 2, bottom + 36, "mean tokens of a context", "middle"))
    for place, arm in enumerate(figures.arms):
        if arm.plain is None or arm.interval is None:
            continue
        x = 60 + arm.tokens / most * (right - 60)
        low, high, y = (bottom - share * (bottom - 10) for share in (*arm.interval, arm.plain))
        pieces.append(
            f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{_colour(place)}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{_colour(place)}"/>{_text(x + 9, y + 4, arm.arm)}'
        )
    return _svg(height, "".join(pieces), "Accuracy against the size of the context, one circle for each arm")


# ---------------------------------------------------------------- answers


def _answers(title: str, cases: Sequence[Case]) -> str:
    if not cases:
        return ""
    ordered = sorted(cases, key=lambda case: (case.question.type, case.question.id))
    return f"<h2>{escape(title)} ({len(cases):,})</h2>\n{''.join(map(_answer, ordered))}"


def _answer(case: Case) -> str:
    question, answer, verdict = case.question, case.answer, case.verdict
    expected = question.answer or "The conversations do not contain the answer."
    found = ", ".join(
        f"{words} {100 * answer.evidence[place]:.0f} %" for place, words in _PLACES if answer.evidence.get(place)
    )
    evidence = "\n".join(
        f"{name}: {case.history.by_name[name].text[:600]}" for name in sorted(question.evidence, key=_by_number)
    )
    rows = (
        ("expected", expected),
        ("rubric", "\n".join(question.rubric)),
        ("answer", answer.text),
        ("verdict", f"{_score(verdict.score)}: {verdict.why}"),
        ("votes", ", ".join(f"{vote:g}" for vote in verdict.votes)),
        ("context", f"{answer.tokens:,} tokens, {answer.searches} searches"),
        ("evidence", (found or "not in the context") if question.evidence else "there is none"),
        ("what was said", evidence),
    )
    body = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    return (
        f'<details><summary><span class="arm">{escape(case.arm)}</span> {escape(question.text)} '
        f"<small>{escape(question.type)}, {escape(question.id)}</small></summary><dl>{body}</dl></details>\n"
    )


def _score(score: float | None) -> str:
    return "not judged" if score is None else "right" if score == 1 else "wrong" if score == 0 else f"{score:.2f}"


def _by_number(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition(":")
    return head, int(number) if number.isdecimal() else 0
