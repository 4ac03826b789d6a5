"""Tests of who may use the inspector: tokens, names of hosts, origins, forms, and what is in its answers and its log."""

import logging
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from memolog import Config, ConfigError, Memory, UserMessage
from memolog.apps.ui import UiSettings, serve
from memolog.apps.ui import app as application
from memolog.apps.ui.view import Page, see
from ui.conftest import TOKEN, inspecting

SAID = "the words that no log may have"


async def _write(_: object) -> object:
    return see("/", done="yes")


async def _fail(_: object) -> object:
    raise ValueError(SAID)


PAGES = (
    Page(path="/write", title="Write", endpoint=_write, is_listed=False, methods=("POST",)),  # pyright: ignore[reportArgumentType]
    Page(path="/fail", title="Fail", endpoint=_fail, is_listed=False),  # pyright: ignore[reportArgumentType]
)


@pytest_asyncio.fixture
async def client(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a new inspector that may write. It has no cookie yet."""
    monkeypatch.setattr(application, "PAGES", (*application.PAGES, *PAGES))
    address = f"{tmp_path}/memolog.db"
    async with Memory(address) as memory:
        await memory.thread("t", resource="alice").save("Hello")
    async with (
        inspecting(address, write=True) as (_, listening),
        httpx.AsyncClient(base_url=listening.base, trust_env=False, timeout=120) as made,
    ):
        yield made


async def enter(client: httpx.AsyncClient) -> None:
    """Get the cookie."""
    answer = await client.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_the_token_becomes_a_cookie_and_leaves_the_address(client: httpx.AsyncClient) -> None:
    """The token is asked for once. What is left of the address after it is kept, and never leads to another host."""
    assert (await client.get("/")).status_code == 401
    wrong = await client.get("/", params={"token": f"{TOKEN}x"})
    assert wrong.status_code == 403
    assert 'name="token"' in wrong.text
    assert (await client.get("/")).status_code == 401
    answer = await client.get("/thread", params={"token": TOKEN, "resource": "a&b", "thread": "x/y"})
    assert answer.headers["location"] == "/thread?resource=a%26b&thread=x%2Fy"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
    assert TOKEN not in cookie
    base = str(client.base_url).rstrip("/")
    assert (await client.get(f"{base}//evil.example?token={TOKEN}")).headers["location"] == "/evil.example"
    assert (await client.get("/")).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.1.2.3", "[", ""])
async def test_foreign_hosts_are_refused(client: httpx.AsyncClient, host: str) -> None:
    """A page whose name leads to this machine (DNS rebinding) gets nothing, not even with the token."""
    await enter(client)
    for path in ("/", f"/?token={TOKEN}", "/static/style.css", "/events"):
        answer = await client.get(path, headers={"host": host})
        assert answer.status_code in {400, 403}, path
        assert "alice" not in answer.text
    port = urlsplit(str(client.base_url)).port
    assert (await client.get("/", headers={"host": f"localhost:{port}"})).status_code == 200


async def test_other_origins_are_refused(client: httpx.AsyncClient) -> None:
    """A page of another web site cannot read, even if a browser sends the cookie for it."""
    await enter(client)
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert (await client.get("/", headers={"origin": origin})).status_code == 403


async def test_writing_needs_the_token_of_the_forms(client: httpx.AsyncClient) -> None:
    """A form is accepted with the right origin and the token, which may be a field or a header."""
    await enter(client)
    own = {"origin": str(client.base_url).rstrip("/")}
    csrf = UiSettings(token=TOKEN).csrf
    assert f'"{csrf}"' in (await client.get("/")).text.replace("&#34;", '"')
    for headers, data in [
        (own, {}),
        (own, {"csrf": "wrong"}),
        ({}, {"csrf": csrf}),
        ({"origin": "https://evil.example"}, {"csrf": csrf}),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, {"csrf": csrf}),
    ]:
        assert (await client.post("/write", headers=headers, data=data)).status_code == 403
    for headers, data in [
        (own, {"csrf": csrf}),
        ({**own, "x-csrf-token": csrf}, {"name": "x"}),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, {"csrf": csrf}),
    ]:
        assert (await client.post("/write", headers=headers, data=data)).status_code == 303
    client.cookies.clear()
    assert (await client.post("/write", headers=own, data={"csrf": csrf})).status_code == 401


async def test_behind_a_proxy_with_tls(client: httpx.AsyncClient) -> None:
    """The cookie is only for TLS if a proxy on this machine says that the browser uses it. Forms are accepted then."""
    said = {"x-forwarded-proto": "https"}
    answer = await client.get("/", params={"token": TOKEN}, headers=said)
    assert answer.headers["set-cookie"].endswith("; Secure")
    cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    here = str(client.base_url).removeprefix("http").rstrip("/")
    for scheme, status in [("https", 303), ("http", 403)]:
        own = {**said, **cookie, "origin": f"{scheme}{here}"}
        answer = await client.post("/write", headers=own, data={"csrf": UiSettings(token=TOKEN).csrf})
        assert answer.status_code == status


async def test_without_write_nothing_is_written(demo: str) -> None:
    """A form is refused by an inspector that only reads, whatever it has."""
    async with (
        inspecting(demo) as (_, listening),
        httpx.AsyncClient(base_url=listening.base, trust_env=False) as client,
    ):
        await enter(client)
        headers = {"origin": listening.base, "x-csrf-token": UiSettings(token=TOKEN).csrf}
        answer = await client.post("/", headers=headers)
        assert (answer.status_code, "--write" in answer.text) == (403, True)


async def test_without_write_no_run_is_started(tmp_path: object) -> None:
    """A thread waits to be observed. Whoever looks at all pages about it starts no run."""
    address = f"{tmp_path}/memolog.db"
    async with Memory(address, config=Config(background="worker")) as memory:
        thread = memory.thread("t", resource="alice")
        await thread.save([UserMessage(f"{number} {'word ' * 2_000}") for number in range(20)])
        status = await thread.status()
        assert status.backlog_tokens > status.messages.limit
    async with (
        inspecting(address) as (memory, listening),
        httpx.AsyncClient(base_url=listening.base, trust_env=False, timeout=120) as client,
    ):
        await enter(client)
        names = {"resource": "alice", "thread": "t", "q": "word"}
        for page in application.PAGES:
            if "GET" in page.methods and page.path != "/events":
                await client.get(page.path, params=names)
        await memory.settled()
        assert await memory.resource("alice").runs() == ()
        after = await memory.thread("t", resource="alice").status()
        assert (after.running, after.groups, after.buffered_groups) == (0, 0, 0)


async def test_every_answer_has_the_headers_that_protect_it(client: httpx.AsyncClient) -> None:
    """Also refusals, missing pages and files have them. No answer allows scripts in a page or frames around it."""
    paths = ["/", f"/?token={TOKEN}", "/", "/missing", "/static/style.css", "/static/..%2fapp.py", "/write"]
    answers = [await client.get(path) for path in paths]
    assert [answer.status_code for answer in answers] == [401, 303, 200, 404, 200, 404, 405]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        # Without any referrer, browsers would send forms over plain HTTP with the origin `null`, which is refused.
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] in {"no-store", "no-cache"}


async def test_a_failure_is_a_page_and_its_text_is_in_no_log(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The text of an error may quote a message. The page and the log say which error it was, and where."""
    caplog.set_level(logging.DEBUG)
    await enter(client)
    answer = await client.get("/fail", params={"q": SAID})
    assert answer.status_code == 500
    assert "ValueError at test_guard.py" in answer.text
    assert "ValueError at test_guard.py" in caplog.text
    assert SAID not in answer.text.replace(f'value="{SAID}"', "")
    assert SAID not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith(("memolog", "uvicorn"))
    )


async def test_the_server_demands_a_token_that_cannot_be_guessed(tmp_path: object) -> None:
    """A short token is refused, and one host that is reachable from elsewhere may be named by its address."""
    async with Memory(f"{tmp_path}/memolog.db") as memory:
        with pytest.raises(ConfigError, match="token"):
            async with serve(memory, UiSettings(token="short")):  # pragma: no branch
                pass
        settings = UiSettings(token=TOKEN, only_here=False, hosts=("Box.example",))
        async with (
            serve(memory, settings, host="0.0.0.0", port=0) as at,  # noqa: S104
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{at.port}", trust_env=False) as client,
        ):
            for host, status in [
                ("10.1.2.3", 401),
                ("box.example", 401),
                ("BOX.Example:80", 401),
                ("evil.example", 403),
            ]:
                assert (await client.get("/", headers={"host": host})).status_code == status
