"""Check the database: `doctor`."""

from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, verb
from memolog.apps.cli.output import counted, fields, styled
from memolog.core.exact_json import encode
from memolog.errors import NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.core.reports import Report

app = typer.Typer()


# The database is opened for writing, because only then can SQLite check the file.
@verb(app, needs="database", writes=True, example="memolog doctor")
async def doctor(
    call: Call,
    resource: Annotated[str | None, typer.Option("--resource", "-r", help="Only this resource. Default: all.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Copy the database, make the repairs that are safe, and rebuild the index.")
    ] = False,
) -> Answer:
    """Check that nothing in the database is lost, duplicated or misplaced. Exit code 1: there are problems."""
    if resource is not None and resource not in await call.memory.resources():
        # Without this check, the report for a misspelt resource would say that it is healthy.
        raise NotFound(f"{resource} has no memory in this database.", then="Check --resource, or omit it to check all.")
    with call.progress("repairing" if repair else "examining"):
        report = await call.memory.doctor(resource, repair=repair)
    data = {"healthy": report.is_healthy, **encode(report), "examined": dict(report.examined)}
    return Answer(data=data, show=lambda: _show_report(report, repair=repair), code=0 if report.is_healthy else 1)


def _show_report(report: "Report", *, repair: bool) -> "RenderableType":
    from rich.text import Text

    rows: list[tuple[str, Text | str]] = [("examined", ", ".join(f"{n:,} {what}" for what, n in report.examined))]
    for finding in report.findings:
        state = "repaired" if finding.repaired else "can be repaired" if finding.is_safe else "cannot be repaired"
        text = styled(f"{state}: ", "green" if finding.repaired else "bold red")
        rows.append((finding.kind, text.append_text(styled(f"{finding.where}: {finding.explanation}", "default"))))
    if report.copy:
        rows.append(("copy before the repair", report.copy))
    if report.is_healthy:
        rows.append(("result", styled("healthy", "green")))
    else:
        left = sum(not finding.repaired for finding in report.findings)
        advice = "" if repair or not any(f.is_safe for f in report.findings) else "; try --repair"
        rows.append(("result", styled(f"{counted(left, 'problem')}{advice}", "bold red")))
    return fields(rows)
