"""The files of `deploy/`: they parse, name only metrics and options that exist, and what they start works as plain processes."""

import asyncio
import json
import os
import re
import signal
import sys
import tomllib
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.main
import yaml

from memolog.apps.cli.main import app
from monitoring.scrape import samples

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_METRIC = re.compile(r"\bmemolog_\w+")
_NUMBER = re.compile(r"_(?:bucket|count|sum)$")
_URL = re.compile(r"http://127\.0\.0\.1:\d+")
_LIMIT = 120
TOKEN = "a-token-of-the-tests-1234"


def compose() -> Any:
    """Return the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def kubernetes() -> list[Any]:
    """Return the documents of the Kubernetes file."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))


def containers() -> Iterator[tuple[str, Any]]:
    """Yield the name and the container of each deployment."""
    for one in kubernetes():
        if one["kind"] == "Deployment":
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]["containers"][0]


def commands() -> dict[str, list[str]]:
    """Return every command line of Memolog in the files."""
    found = {f"compose {name}": one["command"] for name, one in compose()["services"].items() if "command" in one}
    found |= {f"kubernetes {name}": one["args"] for name, one in containers()}
    written = next(line for line in (DEPLOY / "Dockerfile").read_text("utf-8").splitlines() if line.startswith("CMD "))
    return found | {"Dockerfile": json.loads(written.removeprefix("CMD "))}


def documented() -> set[str]:
    """Return the metrics of the page, which another test compares with what is exposed."""
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    return {line.split("`")[1] for line in page.splitlines() if line.startswith("| `memolog_")}


def test_every_metric_exists() -> None:
    """Dashboard and alerts use documented metrics only, and every alert says what it means."""
    dashboard = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    rules = [
        rule
        for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    used = [name for one in [*rules, *targets] for name in _METRIC.findall(one["expr"])]
    known = documented()
    assert len(used) > 15
    assert [name for name in used if name not in known and _NUMBER.sub("", name) not in known] == []
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    # The age also counts messages that are too few to be observed now.
    waits = next(rule["expr"] for rule in rules if rule["alert"] == "MemologMessagesWait")
    assert " and max(sum by (instance) (memolog_backlog_logs)) > 0" in waits
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_every_command_can_be_parsed() -> None:
    """The command line of Memolog accepts the words of each container."""
    found = commands()
    assert len(found) == 7
    group: Any = typer.main.get_command(app)
    for where, words in found.items():
        assert all(isinstance(word, str) for word in words), where
        with group.make_context("memolog", list(words)) as context:
            name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
            parsed = command.make_context(name, rest, parent=context)
        assert parsed.params["log"] == "json", where


def test_containers_are_not_root() -> None:
    """No container runs as root, every image has a plain name, and probes ask the addresses that exist."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert text.count("FROM ") == 2
    assert "USER 10001" in text
    assert all("." not in image.split(":")[0] for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    for name, one in containers():
        assert "/" not in one["image"], name
        assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert one["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert one["securityContext"]["allowPrivilegeEscalation"] is False
    for one in kubernetes():
        if one["kind"] == "Deployment":
            assert one["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
            assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]


def test_the_image_installs_what_it_needs() -> None:
    """The extras of the Dockerfile exist, the pinned versions remain without hashes, and the files are in the source package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = re.search(r"\.\[([\w,-]+)\]", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["project"]["optional-dependencies"])
    assert "deploy" in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    script = re.search(r"sed -E '(.*?)'", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert script is not None
    assert script[1] == r"/^ +--hash/d; s/ \\$//"
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert f"!{name}" in kept


# ---------------------------------------------------------------- starting them


class Server:
    """A process of the files, with the address on which it listens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.lines = process, list[str]()
        self.url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())
            found = _URL.search(self.lines[-1])
            if found and not self.url.done():
                self.url.set_result(found[0])
        if not self.url.done():
            self.url.set_exception(AssertionError("".join(self.lines)))

    async def end(self) -> int:
        """Ask the process to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(_LIMIT):
            code = await self.process.wait()
            await self._reading
            return code


def on_loopback(words: Sequence[str]) -> list[str]:
    """Return a command line that listens on any free port of loopback."""
    changed = ["127.0.0.1" if word == "0.0.0.0" else word for word in words]  # noqa: S104 - it is replaced
    return [
        "0" if before in {"--port", "--metrics-port"} else word
        for before, word in zip(["", *changed], changed, strict=False)
    ]


@asynccontextmanager
async def running(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> AsyncGenerator[Server]:
    """Run a container's command as a plain process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMOLOG_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "memolog", *on_loopback(words)),
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env={**kept, **environment, "HOME": str(folder)},
    )
    server = Server(process)
    try:
        yield server
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def environment_of(service: Mapping[str, Any], url: str) -> dict[str, str]:
    """Return the variables of a service, with the database of the tests, and values for those that a user sets."""
    given = {"MEMOLOG_RESOURCE": "team", "MEMOLOG_PROXY_TOKEN": TOKEN, "MEMOLOG_MCP_TOKEN": TOKEN}
    return {
        name: url if name == "MEMOLOG_DB" else given.get(name, "") if value.startswith("${") else value
        for name, value in service.get("environment", {}).items()
        # A variable without a value is passed on only if the user has set it.
        if value is not None
    }


async def test_what_compose_starts(postgres_url: str, tmp_path: Path) -> None:
    """Worker, gateway and MCP server start on an empty database, become ready, show the same metrics, and end on SIGTERM."""
    services = {name: one for name, one in compose()["services"].items() if "command" in one}
    assert set(services) == {"worker", "gateway", "mcp"}
    async with AsyncExitStack() as stack, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        servers = {
            name: await stack.enter_async_context(running(one["command"], environment_of(one, postgres_url), tmp_path))
            for name, one in services.items()
        }
        for name, server in servers.items():
            async with asyncio.timeout(_LIMIT):
                url = await server.url
            assert (await http.get(f"{url}/healthz")).text == "ok\n", name
            assert (await http.get(f"{url}/readyz")).text == "ready\n", name
            text = (await http.get(f"{url}/metrics")).text
            assert samples(text)("memolog_backlog_logs", kind="observe") == 0, name
            foreign = await http.get(f"{url}/metrics", headers={"host": "memory.example"})
            assert foreign.status_code == 403, name
        refused = await http.get(f"{await servers['mcp'].url}/mcp")
        assert refused.status_code == 401
        refused = await http.get(f"{await servers['gateway'].url}/v1/models")
        assert refused.status_code == 401
        for name, server in servers.items():
            assert await server.end() == 0, (name, server.lines)
            assert {json.loads(line)["level"] for line in server.lines} == {"info"}, server.lines


@pytest.mark.parametrize("name", ["memolog-worker", "memolog-gateway", "memolog-mcp"])
async def test_what_kubernetes_starts(postgres_url: str, tmp_path: Path, name: str) -> None:
    """Each container starts with all variables of the config map and of the secret, and answers its probes."""
    settings = next(one for one in kubernetes() if one["kind"] == "ConfigMap")["data"]
    secret = {"MEMOLOG_DB": postgres_url, "MEMOLOG_PROXY_TOKEN": TOKEN, "MEMOLOG_MCP_TOKEN": TOKEN}
    container = dict(containers())[name]
    async with (
        running(container["args"], settings | secret, tmp_path) as server,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        async with asyncio.timeout(_LIMIT):
            url = await server.url
        for probe in ("livenessProbe", "readinessProbe"):
            answer = await http.get(url + container[probe]["httpGet"]["path"], timeout=60)
            assert answer.status_code == 200
        assert await server.end() == 0, server.lines
