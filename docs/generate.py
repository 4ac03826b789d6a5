"""Write the pages that are generated from the code: configuration, command line, and the table of rules.

Run by `make docs`; a test fails when a page differs from what this would write.
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import typer.main
from growth import SCALES, growth, measured, table
from sync_stub import STUB, sync_stub

from memolog.apps.cli.command import EXIT_CODES
from memolog.apps.cli.main import app
from memolog.core.config import settings
from memolog.log.decide import RULES

__all__ = ["PAGES", "architecture_page", "cli_page", "configuration_page", "growing_page"]

HERE = Path(__file__).parent
CLI_BEGIN, CLI_END = "<!-- made from apps/cli: begin -->", "<!-- made from apps/cli: end -->"
BEGIN, END = "<!-- made from log/decide.py: begin -->", "<!-- made from log/decide.py: end -->"
SECTIONS = {
    "": "General",
    "observation": "Observing",
    "reflection": "Reflecting",
    "compaction": "Compaction",
    "recall": "Earlier messages by themselves",
    "semantic": "Search by meaning",
    "retention": "Retention",
}
"""The heading of each section of the configuration."""


def configuration_page() -> str:
    """Return the configuration reference."""
    lines = [
        "# Configuration",
        "",
        "A setting is taken from the first of these that has it: an argument, the environment, a TOML file, the default.",
        "A name with a dot is a field of a section: `Config(observation=ObservationConfig(deadline=10))`, or `[observation]`",
        "in TOML. Unknown names, wrong types and values that contradict each other are refused. The error lists all of them",
        "and says what to do.",
        "",
        'The environment and files are read only by `Config.load(toml="memolog.toml", environment=os.environ)`. Pass the',
        'result to the memory: `Memory("memolog.db", config=…)`.',
        "",
        "You can change settings for one thread or one turn:",
        "",
        '- `await thread.override({"observation.message_tokens": 20_000})` stores settings with the thread. They apply in',
        "  every process.",
        "- `thread.turn(settings={…})` changes settings for one turn. They win over the settings of the thread.",
        "",
        "Settings of the whole database (models, durability, the pool) are refused in both.",
        "",
        "The environment variable of a setting is `MEMOLOG_` and its name in capitals, with `_` for the dot:",
        "`MEMOLOG_OBSERVATION_DEADLINE=10s`. An empty variable counts as not set.",
    ]
    for section, title in SECTIONS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| setting | default | allowed values | meaning |",
            "| --- | --- | --- | --- |",
        ]
        for setting in settings():
            if setting.name.rpartition(".")[0] != section:
                continue
            default = "none" if setting.default is None else f"`{setting.default}`"
            accepts = setting.kind.accepts.replace("|", "\\|")
            lines.append(f"| `{setting.name}` | {default} | {accepts} | {setting.meaning} |")
    return "\n".join(lines) + "\n"


def architecture_page() -> str:
    """Return the architecture page with the current diagram and table of rules."""
    text = (HERE / "architecture.md").read_text("utf-8")
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n{_rules()}\n{END}{after}"


def _rules() -> str:
    names = [rule.decision.__name__ for rule in RULES]
    chart = ["![The rules in their order, each with its question and its decision](diagrams/rules.svg)"]
    table = ["", "| # | when | decision | what it does |", "| --- | --- | --- | --- |"]
    for number, rule in enumerate(RULES, start=1):
        doc = (inspect.getdoc(rule.test) or "").splitlines()[0]
        table.append(f"| {number} | {rule.when} | `{rule.decision.__name__}` | {doc} |")
    shortest = dedent(inspect.getsource(RULES[names.index("Trim")].test)).rstrip()
    quoted = ["", "Each rule is a short function. This is the shortest:", "", "```text", shortest, "```"]
    return "\n".join([*chart, *table, *quoted])


def growing_page() -> str:
    """Return the page about growing, with the current model of size and cost."""
    text = (HERE / "growing.md").read_text("utf-8")
    begin, end = "<!-- made by growth.py: begin -->", "<!-- made by growth.py: end -->"
    before, rest = text.split(begin, 1)
    rows = table([growth(resources, messages) for resources, messages in SCALES])
    return f"{before}{begin}\n{measured()}\n\n{rows}\n{end}{rest.split(end, 1)[1]}"


SHARED = ("resource_named", "thread_named", "db", "config_named", "as_json", "help")


def cli_page() -> str:
    """Return the reference of the command line, with the text that precedes it."""
    text = (HERE / "cli.md").read_text("utf-8")
    before, rest = text.split(CLI_BEGIN, 1)
    _, after = rest.split(CLI_END, 1)
    codes = [
        "| exit code | meaning |",
        "| --- | --- |",
        *(f"| {code} | {words} |" for code, words in EXIT_CODES.items()),
    ]
    verbs = "\n".join(line for lines in _verbs(typer.main.get_command(app), ()) for line in lines)
    return f"{before}{CLI_BEGIN}\n## Exit codes\n\n" + "\n".join(codes) + f"\n\n{verbs}\n{CLI_END}{after}"


def _verbs(command: Any, words: tuple[str, ...]) -> Iterator[list[str]]:
    if hasattr(command, "commands"):
        if words:
            yield [f"## memolog {' '.join(words)}", "", command.help or "", ""]
        elif words == ():
            yield ["## Commands", ""]
        # Verbs first, then groups of verbs.
        for name, inner in sorted(command.commands.items(), key=lambda item: hasattr(item[1], "commands")):
            yield from _verbs(inner, (*words, name))
        return
    name = " ".join(words)
    inputs = [item for item in command.params if item.param_type_name == "argument"]
    usage = " ".join(
        ["memolog", name, *(f"{item.name.upper()}" if item.required else f"[{item.name.upper()}]" for item in inputs)]
    )
    lines = [f"### {name}", "", command.help, "", "```sh", *dict.fromkeys((usage, *_examples(command))), "```", ""]
    rows = [
        f"| {_spelt(item)} | {(item.help or '').rstrip('.')} |" for item in command.params if item.name not in SHARED
    ]
    if rows:
        lines += ["| argument or option | meaning |", "| --- | --- |", *rows, ""]
    yield lines


def _examples(command: Any) -> list[str]:
    return [line.removeprefix("Example: ") for line in command.epilog.splitlines() if line.startswith("Example: ")]


def _spelt(item: Any) -> str:
    if item.param_type_name == "argument":
        return f"`{item.name.upper()}`"
    return " ".join(f"`{name}`" for name in (*item.opts, *item.secondary_opts))


PAGES: dict[str, Callable[[], str]] = {
    "architecture.md": architecture_page,
    "cli.md": cli_page,
    "configuration.md": configuration_page,
    "growing.md": growing_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
    STUB.write_text(sync_stub(), encoding="utf-8")
