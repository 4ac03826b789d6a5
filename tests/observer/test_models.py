"""Models behind the seam: how one is named, and what retries, tiers, fallback and budget do around it. No network."""

import asyncio
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any, cast

import pytest

from kit.models import PRICE, Priced
from memolog.core.config import Config
from memolog.core.run import Usage
from memolog.errors import ConfigError
from memolog.observer.model import (
    BudgetedModel,
    BudgetSpent,
    CallableModel,
    Limit,
    Model,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnavailable,
    Price,
    Retry,
    RetryingModel,
    cause_of,
    check_model,
    close_model,
    is_transport_error,
)
from memolog.observer.model_choice import (
    FallbackModel,
    ModelAt,
    ModelPair,
    NoModelAnswered,
    PydanticModel,
    TieredModel,
    models_for,
    needed_model,
    resolve_model,
)
from memolog.testing import ScriptedModel

ASKED = ModelRequest(purpose="observe", system="Observe.", text="Hello.")


class Waits:
    """A clock and a sleep that only count."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def policy(self, **options: Any) -> Retry:
        """Return a policy on this clock, without chance."""
        given: dict[str, Any] = {"chance": lambda: 1.0, "sleep": self.sleep, "time": self.time, **options}
        return Retry(**given)


# ---------------------------------------------------------------- naming a model


@pytest.mark.parametrize("spec", [None, "extractive"])
def test_no_model_is_the_embedded_observer(spec: str | None) -> None:
    """No model is made for either. As one of several models, the embedded observer is refused."""
    assert resolve_model(spec) is None
    with pytest.raises(ConfigError, match="embedded observer"):
        needed_model("extractive")


def test_names_and_addresses_are_for_the_default_client() -> None:
    """A provider's model, an address and a ModelAt become the default client, under the name they were given."""
    for spec, name in [
        ("openai:gpt-5-mini", "openai:gpt-5-mini"),
        ("ollama:llama3:8b", "ollama:llama3:8b"),
        ("http://127.0.0.1:8000/v1#qwen/3", "http://127.0.0.1:8000/v1#qwen/3"),
        (ModelAt(base_url="https://me:secret@host/v1?key=secret", name="m"), "https://host/v1#m"),
    ]:
        model = resolve_model(spec)
        assert isinstance(model, PydanticModel)
        assert model.name == name
    # What is printed of an address does not hold its key.
    assert "sk-1" not in repr(ModelAt(base_url="https://host/v1", name="m", api_key="sk-1"))


async def test_an_object_without_a_name_gets_one() -> None:
    """Events and the ledger need a name: that of its type. What has one stays as it is."""

    class Nameless:
        async def complete(self, request: ModelRequest) -> ModelReply:
            return ModelReply(text=request.text)

    model = needed_model(cast("Any", Nameless()))
    assert model.name == "Nameless"
    assert (await model.complete(ASKED)).text == "Hello."
    assert resolve_model(model) is model


@pytest.mark.parametrize(
    ("specs", "advice"),
    [
        (["gpt-5", "openai:", ":gpt-5", "", "http://host/v1", "http://#m", "http://[#m", "https:///v1#m"], "Write "),
        ([42, ScriptedModel, object()], "`model` must"),
    ],
    ids=["a wrong name", "another object"],
)
def test_what_is_no_model_is_refused(specs: list[Any], advice: str) -> None:
    """It is refused when it is named, not when it is asked, and the message says how a model is written."""
    for spec in specs:
        with pytest.raises(ConfigError, match=advice):
            resolve_model(spec)


def test_each_role_may_have_its_own_model() -> None:
    """A model for one role beats the given one, which beats the general one; one name in both roles is one object."""
    config = Config.from_dict({"model": "openai:a", "reflection": {"model": "openai:b"}})
    pair = models_for(config)
    assert [m.name for m in (pair.observe, pair.reflect) if m] == ["openai:a", "openai:b"]
    given = ScriptedModel()
    assert models_for(config, given).observe is given
    assert models_for(Config(), given) == ModelPair(observe=given, reflect=given)
    assert models_for(Config()) == ModelPair(observe=None, reflect=None)
    same = models_for(Config(model="openai:a"))
    assert same.observe is same.reflect
    mixed = models_for(Config.from_dict({"reflection.model": "openai:b"}))
    assert mixed.observe is None
    assert mixed.reflect is not None


# ---------------------------------------------------------------- functions


async def test_functions_of_either_colour() -> None:
    """A coroutine function runs on the loop, a plain one in a thread; both may answer with text or a reply."""

    async def on_the_loop(request: ModelRequest) -> str:
        return f"{request.text} {threading.current_thread() is threading.main_thread()}"

    def in_a_thread(request: ModelRequest) -> ModelReply:
        return ModelReply(text=f"{request.text} {threading.current_thread() is threading.main_thread()}")

    first, second = needed_model(on_the_loop), needed_model(in_a_thread)
    assert (first.name, second.name) == ("callable:on_the_loop", "callable:in_a_thread")
    assert (await first.complete(ASKED)).text == "Hello. True"
    assert (await second.complete(ASKED)).text == "Hello. False"
    disguised = needed_model(lambda asked: on_the_loop(replace(asked, text="Bye.")))
    assert (await disguised.complete(ASKED)).text == "Bye. True"


async def test_a_function_that_answers_with_something_else() -> None:
    """The error says what it returned and what it should."""
    wrong: Any = hash
    with pytest.raises(ConfigError, match="type int"):
        await CallableModel(wrong).complete(replace(ASKED, options=cast("Any", ())))


async def test_a_function_that_hangs_is_cancelled() -> None:
    """After its time the call is cancelled and counts as a transport error."""
    was_cancelled = False

    async def hang(request: ModelRequest) -> str:
        nonlocal was_cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled = True
            raise
        return request.text

    with pytest.raises(ModelUnavailable, match="did not answer within"):
        await CallableModel(hang, timeout=60).complete(replace(ASKED, timeout=0.01))
    assert was_cancelled


# ---------------------------------------------------------------- retries


async def test_transport_errors_are_retried_with_growing_waits() -> None:
    """Each wait is twice the last, up to the longest, and the answer of the first success is returned."""
    waits = Waits()
    model = ScriptedModel([ConnectionResetError(), TimeoutError(), ModelUnavailable("Busy."), "yes"])
    retrying = RetryingModel(model, waits.policy(attempts=5, first=1.0, longest=3.0))
    assert (await retrying.complete(ASKED)).text == "yes"
    assert waits.slept == [1.0, 2.0, 3.0]
    assert retrying.name == "scripted"
    # Between half and all of a wait is slept, so that callers who failed together do not return together.
    assert [Retry(first=4.0, chance=lambda c=c: c).wait(1, ConnectionError()) for c in (0.0, 0.5)] == [2.0, 3.0]


@pytest.mark.parametrize("error", [ModelRefused("A wrong key."), ConfigError("No key."), ValueError("a bug")])
async def test_other_errors_are_not_retried(error: Exception) -> None:
    """A refused call would be refused again, so the error is raised without a second attempt."""
    waits = Waits()
    model = ScriptedModel([error])
    with pytest.raises(type(error)):
        await RetryingModel(model, waits.policy()).complete(ASKED)
    assert len(model.requests) == 1
    assert waits.slept == []
    assert not is_transport_error(error)


class StatusError(Exception):
    """An error as clients raise them: it carries the status of the answer."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("the provider answered with an error")
        for name, value in fields.items():
            setattr(self, name, value)


class APIConnectionError(Exception):
    """A client's own error for a broken connection."""


def caused(outer: Exception, *causes: BaseException) -> Exception:
    """Return an error with a chain of causes."""
    last: BaseException = outer
    for cause in causes:
        last.__cause__ = cause
        last = cause
    return outer


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("name", ["status_code", "status", "code", "response"])
def test_errors_of_any_client_that_pass_by_themselves(status: int, name: str) -> None:
    """The status is found wherever clients keep it, also in what caused the error."""
    error = StatusError(**{name: StatusError(status_code=status) if name == "response" else status})
    assert is_transport_error(error)
    assert is_transport_error(caused(RuntimeError("mine"), error))
    assert cause_of(error) == "away"


@pytest.mark.parametrize(
    ("status", "cause"), [(400, "refused"), (413, "refused"), (422, "refused"), (401, "denied"), (404, "denied")]
)
def test_errors_of_any_client_that_stay(status: int, cause: str) -> None:
    """Some statuses are about the content of a request, others about the key, the model or the bill."""
    error = caused(RuntimeError("mine"), StatusError(status_code=status), ConnectionError())
    assert not is_transport_error(error)
    assert cause_of(error) == cause


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), APIConnectionError()])
def test_a_connection_error_among_the_causes(error: Exception) -> None:
    """A connection error is found among the causes of any client's error."""
    assert is_transport_error(caused(RuntimeError("mine"), ValueError("theirs"), error))
    assert cause_of(ValueError("a bug")) == "refused"
    assert cause_of(ConfigError("No key.")) == "denied"


async def test_a_function_may_take_the_limits_as_arguments() -> None:
    """A function with parameters for the token limit and the timeout is passed both."""
    seen: list[object] = []

    def mine(request: ModelRequest, max_tokens: int | None = None, *, timeout: float | None = None) -> str:
        seen.append((max_tokens, timeout))
        return request.text

    await needed_model(mine).complete(replace(ASKED, max_tokens=700, timeout=33.0))
    assert seen == [(700, 33.0)]


async def test_retries_end() -> None:
    """After the last attempt the last error is raised. A provider that wants more time than there is gets no second call."""
    waits = Waits()
    model = ScriptedModel([ConnectionError(str(number)) for number in range(9)])
    with pytest.raises(ConnectionError, match="2"):
        await RetryingModel(model, waits.policy(attempts=3)).complete(ASKED)
    assert len(model.requests) == 3
    waits = Waits()
    model = ScriptedModel([ModelUnavailable("Busy.", retry_after=3600.0), "yes"])
    with pytest.raises(ModelUnavailable):
        await RetryingModel(model, waits.policy(total=60)).complete(ASKED)
    assert waits.slept == []


async def test_a_second_attempt_has_its_whole_time() -> None:
    """A second attempt begins however long the first took. A third begins only within the total."""
    waits = Waits()

    def slow(request: ModelRequest) -> str:
        waits.now += 30.0
        raise ConnectionError(request.text)

    model = ScriptedModel([slow, "yes"])
    await RetryingModel(model, waits.policy(first=2.0, total=20)).complete(replace(ASKED, timeout=45.0))
    assert [request.timeout for request in model.requests] == [45.0, 45.0]
    model = ScriptedModel([slow, slow, "too late"])
    with pytest.raises(ConnectionError):
        await RetryingModel(model, waits.policy(first=2.0)).complete(replace(ASKED, timeout=30.0))
    assert len(model.requests) == 2


# ---------------------------------------------------------------- tiers


async def test_the_size_of_the_input_picks_the_model() -> None:
    """A tier takes inputs up to its size, both ends checked; what is larger goes to the last."""
    small, middle, large = (ScriptedModel(name=name) for name in ("small", "middle", "large"))
    tiers = TieredModel({100: middle, 10: small}, above=large)
    for length, expected in [(0, small), (40, small), (41, middle), (400, middle), (401, large), (9_999, large)]:
        asked = replace(ASKED, system="", text="x" * length)
        assert tiers.pick(asked) is expected
    reply = await tiers.complete(replace(ASKED, text="x" * 300))
    assert reply.usage is not None
    assert reply.usage.model == "middle"
    assert tiers.name == "small | middle | large"
    # A long system text fills a tier as the transcript does.
    assert tiers.pick(replace(ASKED, system="x" * 401)) is large
    with pytest.raises(ConfigError, match="0 tokens"):
        TieredModel({0: small}, above=large)


# ---------------------------------------------------------------- fallback


@pytest.mark.parametrize("error", [ModelRefused("No."), ConnectionError(), ConfigError("No key."), ValueError()])
async def test_the_second_answers_when_the_first_fails(error: Exception) -> None:
    """Whatever was wrong with the first, the second is asked the same; it costs nothing until it is needed."""
    first, second = ScriptedModel([error], name="first"), ScriptedModel(["yes"], name="second")
    fallback = FallbackModel(first, second)
    reply = await fallback.complete(ASKED)
    assert reply.text == "yes"
    assert reply.usage is not None
    assert reply.usage.model == "second"
    assert second.requests == [ASKED]
    assert fallback.name == "first"
    assert (await fallback.complete(ASKED)).usage.model == "first"  # pyright: ignore[reportOptionalMemberAccess]
    assert second.requests == [ASKED]


async def test_a_first_that_hangs_leaves_time_for_the_second() -> None:
    """Each model has its own time limit."""
    fallback = FallbackModel(ScriptedModel(seconds=3600.0), ScriptedModel(["yes"]), seconds=0.01)
    assert (await fallback.complete(ASKED)).text == "yes"


async def test_when_all_fail_the_error_names_each() -> None:
    """The error has both reasons. It may be tried again if one of the failures is temporary."""
    fallback = FallbackModel(
        ScriptedModel([ModelRefused("A wrong key.")]), ScriptedModel([ModelUnavailable("It is busy.")])
    )
    with pytest.raises(NoModelAnswered, match=r"A wrong key.*It is busy") as caught:
        await fallback.complete(ASKED)
    assert caught.value.retryable
    with pytest.raises(NoModelAnswered) as caught:
        await FallbackModel(ScriptedModel([ValueError()]), ScriptedModel([ValueError()])).complete(ASKED)
    assert not caught.value.retryable
    with pytest.raises(ConfigError, match="second"):
        FallbackModel(ScriptedModel())


async def test_a_spent_budget_is_spent_for_the_stand_in_too() -> None:
    """A fallback is no way around a budget."""
    second = ScriptedModel()
    with pytest.raises(BudgetSpent):
        await FallbackModel(ScriptedModel([BudgetSpent("run", 1.0, 1.0)]), second).complete(ASKED)
    assert second.requests == []


# ---------------------------------------------------------------- budget


def limit(dollars: float, spent: float, of: str = "resource") -> Limit:
    """Return a limit whose books always say the same."""

    async def books() -> float:
        return spent

    return Limit(of=of, dollars=dollars, spent=books)


async def test_a_spent_budget_stops_the_call() -> None:
    """The model is not asked, and the error says whose money it was and what to do."""
    model = Priced()
    with pytest.raises(BudgetSpent, match=r"5 US dollars for this thread is spent: 5\.0000.*Raise `budget`") as caught:
        await BudgetedModel(model, limit(9.0, 5.0), limit(5.0, 5.0, "thread")).complete(ASKED)
    assert model.requests == []
    assert (caught.value.of, caught.value.dollars, caught.value.spent) == ("thread", 5.0, 5.0)
    assert not caught.value.retryable


async def test_what_the_guard_let_through_counts_at_once() -> None:
    """The books do not know a run's own calls until it has ended; the guard adds them."""
    model = Priced()
    guarded = BudgetedModel(model, limit(2.5 * PRICE, 0.0))
    for _ in range(3):
        await guarded.complete(ASKED)
    with pytest.raises(BudgetSpent):
        await guarded.complete(ASKED)
    assert len(model.requests) == 3


async def test_no_books_no_call() -> None:
    """If the spent dollars cannot be read, the model is not called."""

    async def unreadable() -> float:
        raise ConnectionError

    model = Priced()
    with pytest.raises(ConnectionError):
        await BudgetedModel(model, Limit(of="run", dollars=1.0, spent=unreadable)).complete(ASKED)
    assert model.requests == []


def test_a_price_of_ones_own() -> None:
    """Where no list knows a model, its price is a sum over four kinds of tokens; the cache costs as input unless said."""
    usage = Usage(
        model="m", input_tokens=1_000_000, output_tokens=500_000, cache_read_tokens=100_000, cache_write_tokens=200_000
    )
    assert Price(input=2.0, output=8.0).cost(usage) == pytest.approx(2.0 + 4.0 + 0.2 + 0.4)
    assert Price(input=2.0, output=8.0, cache_read=0.2, cache_write=2.5).cost(usage) == pytest.approx(6.0 + 0.02 + 0.5)


# ---------------------------------------------------------------- what is missing


@pytest.mark.parametrize(
    ("model", "variable"),
    [("openai:gpt-5-mini", "OPENAI_API_KEY"), ("anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY")],
)
async def test_a_missing_key_is_named(model: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable and says that memory works on, whether the model is checked or asked."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    made = needed_model(model)
    with pytest.raises(
        ConfigError, match=rf"Set {variable} in the environment.*observer is used. A worker, or .* does not start"
    ):
        await check_model(made)
    with pytest.raises(ConfigError, match=variable):
        await made.complete(ASKED)


async def test_a_missing_provider_or_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that the client does not know is named. Without the extra the message says what to install."""
    with pytest.raises(ConfigError, match="nobody:nothing"):
        await check_model(resolve_model("nobody:nothing"))
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ConfigError, match=r'pip install "memolog\[llm\]".*embedded observer is used'):
        await check_model(resolve_model("openai:gpt-5-mini"))


async def test_checks_reach_the_models_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrapping a model hides nothing: every tier is needed, one of several stand-ins is enough."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    keyless, sound = "openai:gpt-5-mini", ScriptedModel()
    wrapped: list[Model] = [
        TieredModel({10: sound}, above=keyless),
        FallbackModel(keyless, keyless),
        RetryingModel(needed_model(keyless)),
        BudgetedModel(needed_model(keyless)),
    ]
    for model in wrapped:
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            await check_model(model)
        await close_model(model)
    await check_model(FallbackModel(keyless, sound))
    await check_model(sound)


def test_naming_a_model_loads_no_provider() -> None:
    """The libraries are loaded by the first call, not by a configuration that names one."""
    program = (
        "import sys\nfrom memolog.models import resolve_model\nresolve_model('openai:gpt-5-mini')\n"
        "print(*sorted({'pydantic_ai', 'openai', 'anthropic', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
