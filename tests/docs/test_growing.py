"""The page about growing: its model of size and cost, and what it says about the keys of the schema."""

import importlib
import re
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from kit.engines import store_at

ROOT = Path(__file__).parents[2]

# The unique keys of the schema of an address, as the table and the names of the columns.
KEYS = """
select relname as name, array(
  select attname::text from pg_attribute where attrelid = pg_class.oid and attnum = any(indkey)
) as columns
from pg_index join pg_class on pg_class.oid = indrelid
where indisunique and relkind = 'r' and relnamespace = $1::text::regnamespace
"""


async def test_the_page_names_the_tables_whose_keys_have_the_resource(postgres_url: str) -> None:
    """A new table or key fails this test until the page is right again."""
    async with await store_at(postgres_url):
        pass
    server, schema = postgres_url.rsplit("schema=", 1)
    connection: Any = await cast("Any", asyncpg).connect(server.rstrip("?&"))
    try:
        rows = await connection.fetch(KEYS, schema)
    finally:
        await connection.close()
    have = {row["name"] for row in rows if "resource" in row["columns"]}
    lack = {row["name"] for row in rows if "resource" not in row["columns"]}

    page = (ROOT / "docs" / "growing.md").read_text("utf-8")
    assert _named(page, r"All unique keys of these tables have the column: (.*?)\.") == have - lack
    assert _named(page, r"Some unique keys of these tables have it: (.*?)\.") == have & lack
    assert {"processes", "memolog_migrations"} <= lack


def _named(page: str, pattern: str) -> set[str]:
    found = re.search(pattern, page, re.DOTALL)
    assert found is not None
    return set(re.findall(r"\w+", found[1])) - {"and"}


def test_the_command_of_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It needs none of its options. A price changes its column."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    module: Any = importlib.import_module("growth")
    rows: list[str] = []
    for options in ([], ["--tokens", "0.5"]):
        monkeypatch.setattr("sys.argv", ["growth.py", *options])
        module.main()
        rows.append(capsys.readouterr().out.splitlines()[-1])
    (plain, dear) = ([cell.strip() for cell in row.split("|")] for row in rows)
    assert plain[1:3] == ["1,000,000", "10,000"]
    assert plain[:8] == dear[:8]
    assert float(dear[8].strip("$").replace(",", "")) == 2 * float(plain[8].strip("$").replace(",", ""))


@pytest.mark.parametrize(
    "option",
    [
        "--months=0",
        "--months=nan",
        "--months=inf",
        "--resources=-1",
        "--resources=0",
        "--messages=0",
        "--core=-1",
        "--tokens=nan",
    ],
)
def test_numbers_that_make_no_sense(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused with the name of their option."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    module: Any = importlib.import_module("growth")
    monkeypatch.setattr("sys.argv", ["growth.py", option])
    with pytest.raises(SystemExit):
        module.main()
    assert f"{option.partition('=')[0]} must be a number" in capsys.readouterr().err


def test_the_model_grows_with_the_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many resources, or a tenth of the time, need ten times as much."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    module: Any = importlib.import_module("growth")
    one, ten = module.growth(1_000, 1_000), module.growth(10_000, 1_000)
    quick = module.growth(1_000, 1_000, months=1.2)
    assert one.gigabytes == pytest.approx(1_000_000 * module.MEASURED["bytes_a_message"]["value"] / 1e9)
    assert ten.gigabytes == pytest.approx(10 * one.gigabytes)
    assert quick.gigabytes == one.gigabytes
    assert quick.cores == pytest.approx(10 * one.cores)
    assert quick.observer_dollars == pytest.approx(10 * one.observer_dollars)
    assert module.growth(1_000, 1_000, prices=module.Prices(million_tokens=0.0)).observer_dollars == 0
