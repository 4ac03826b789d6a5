"""Try out and set up: `demo`, `init` and `config`."""

from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, chosen_resource, is_missing, listing, refuse_unknown, verb
from memolog.apps.cli.output import Exact, counted, fields, styled
from memolog.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.text import Text

    from memolog.core.config import Config
    from memolog.core.setting_kinds import Setting

app = typer.Typer()


@verb(app, needs="nothing", writes=True, example="memolog demo --db demo.db")
async def demo(
    call: Call,
    db: Annotated[
        str | None,
        typer.Option(help="Database to create: a file, or postgresql://…. Default: a temporary file."),
    ] = None,
) -> Answer:
    """Play a scripted conversation of ten days with a real memory. Needs no key. You can explore the database afterwards."""
    import tempfile
    from pathlib import Path

    from memolog.apps.demo.play import Demo, show, went_well
    from memolog.apps.demo.screen import Screen

    address = db or str(Path(tempfile.mkdtemp(prefix="memolog-demo-")) / "demo.db")
    screen = Screen(quiet=call.as_json)
    try:
        result = await Demo(address, screen).play()
    finally:
        screen.close()
    show(result, screen)
    return Answer(data=result, is_printed=not call.as_json, code=0 if went_well(result) else 3)


@verb(app, needs="database", writes=True, makes=True, installed=False, example="memolog init --db project.db")
async def init(call: Call) -> Answer:
    """Create a database, or upgrade an older one and keep its content."""
    resources, model = await call.memory.resources(), _shown(call.config.model)
    data = {"database": call.shown_address, "resources": len(resources), "model": model}
    rows = [
        ("database", f"{call.shown_address} is ready"),
        ("contains", f"the memory of {counted(len(resources), 'resource')}" if resources else "nothing yet"),
        ("model", "extractive (embedded, needs no key and no network)" if model == "extractive" else str(model)),
        ("next", f'memolog import FILE --db {call.shown_address}, or Memory("{call.shown_address}") in Python'),
    ]
    return Answer(data=data, show=lambda: fields(rows))


@verb(app, needs="address", writes=True, example="memolog config observation.message_tokens")
async def config(
    call: Call,
    name: Annotated[str | None, typer.Argument(help="Name of a setting. Default: all.")] = None,
    resource: Annotated[
        str | None,
        typer.Option("--resource", "-r", envvar="MEMOLOG_RESOURCE", help="Resource. Default: the only one."),
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only settings that differ from their default.")] = False,
    toml: Annotated[bool, typer.Option("--toml", help="Print a settings file.")] = False,
) -> Answer:
    """Show the settings in use, from the settings file, the environment and the database, with their meaning."""
    from memolog.core.config import settings

    known = {setting.name: setting for setting in settings()}
    if name is not None and name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=3, cutoff=0.4)
        advice = f"Did you mean {' or '.join(near)}?" if near else "`memolog config` lists all settings."
        raise InputError(f"{name} is not a setting.", then=advice)
    stored = await _stored(call, resource, known)
    values = _values(call.config, known) | (stored or {})
    origins = {
        one: "given" if one in call.config.named else "database" for one in (*call.config.named, *(stored or ()))
    }
    shown = [
        setting
        for setting in known.values()
        if name in {None, setting.name} and not (changed and values[setting.name] == _default(setting))
    ]
    data = {
        "file": call.settings_file,
        "database": call.shown_address if stored is not None else None,
        "settings": {
            setting.name: {
                "value": values[setting.name],
                "default": _default(setting),
                "from": origins.get(setting.name, "default"),
                "meaning": setting.meaning,
                "environment": setting.environment,
            }
            for setting in shown
        },
    }
    if toml:
        # Values of the database are not written to the file, because in a settings file they would count as given by the user.
        lines = _toml(shown, _values(call.config, known))
        return Answer(data=data, show=lambda: Exact([(line, "") for line in lines]), code=0 if shown else 1)

    def row(setting: "Setting") -> "tuple[Text | str, ...]":
        value = values[setting.name]
        name = styled(setting.name, "bold" if value != _default(setting) else "")
        origin = origins.get(setting.name, "default")
        return name, "–" if value is None else str(value), origin, setting.meaning, setting.environment

    heads = ("setting!", "value", "from!?", "meaning??", "environment!???")
    of = f"Settings for {call.shown_address}" if stored is not None else "Settings"
    return listing(data, shown, heads, row, "Every setting has its default.", title=of)


async def _stored(call: Call, resource: str | None, known: "Mapping[str, Setting]") -> dict[str, object] | None:
    """Return the settings in use that come from the database, by name. Return None without a database or a unique resource."""
    from memolog.memory import Memory

    if is_missing(call.address):
        return None
    opened = call.config.with_overrides({"read_only": True})
    async with Memory(call.address, config=opened) as memory:
        if resource is None and len(await memory.resources()) != 1:
            return None
        name = await chosen_resource(memory, resource)
        await refuse_unknown(memory, name)
        completed = await memory.resource(name).config()
    values = _values(completed, known)
    return {name: values[name] for name in completed.named - opened.named}


def _values(config: "Config", known: "Mapping[str, Setting]") -> dict[str, object]:
    nested = config.to_dict()
    values: dict[str, object] = {}
    for name in known:
        section, _, leaf = name.rpartition(".")
        values[name] = _shown(nested[section][leaf] if section else nested[leaf])
    return values


def _shown(value: object) -> object:
    """Return the value of a setting. The password or key of a URL is replaced by dots."""
    from memolog.db.postgres_address import safe_url

    return safe_url(value) if isinstance(value, str) and "://" in value else value


def _default(setting: "Setting") -> object:
    from memolog.core.setting_kinds import KeepRecent

    return setting.default.to_dict() if isinstance(setting.default, KeepRecent) else setting.default


def _toml(shown: "list[Setting]", values: "Mapping[str, object]") -> list[str]:
    """Return the lines of a settings file. Settings with their default value are written as comments."""
    lines: list[str] = []
    section = ""
    # Settings without a section must be first, because after a table header they would belong to that table.
    for setting in sorted(shown, key=lambda item: item.name.rpartition(".")[0]):
        of, _, leaf = setting.name.rpartition(".")
        if of != section:
            lines += ["", f"[{of}]"]
            section = of
        value = values[setting.name]
        mark = "# " if value == _default(setting) else ""
        lines += [f"# {setting.meaning}", f"{mark or ('# ' if value is None else '')}{leaf} = {_toml_value(value)}"]
    return lines


def _toml_value(value: object) -> str:
    from json import dumps

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + " }"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    # Texts, numbers and booleans have the same form in JSON and TOML. TOML has no null.
    return '""' if value is None else dumps(value)
