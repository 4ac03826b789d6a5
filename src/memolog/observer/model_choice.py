"""Turn the `model` setting into a model, and call any provider that pydantic-ai supports, or any OpenAI-compatible endpoint.

Only this module, that of embedders and the adapter for pydantic-ai use that package. The import takes seconds, so it happens at
the first check or call of a model, in a worker thread.
"""

import asyncio
import importlib.util
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar, cast, get_args

from memolog.core.config import Config
from memolog.core.message import FilePart, ToolCallPart
from memolog.core.run import Usage
from memolog.errors import ConfigError, MemologError
from memolog.observer.model import (
    DEFAULT_RETRY,
    DEFAULT_SECONDS,
    BudgetSpent,
    CallableModel,
    FinishReason,
    ManagedModel,
    Model,
    ModelError,
    ModelFunction,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnavailable,
    Price,
    Retry,
    check_model,
    complete_in_time,
    in_time,
    is_transport_error,
)
from memolog.text.redaction import REDACTION
from memolog.text.tokens import HeuristicCounter, TokenCounter

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai.messages import BinaryContent, DocumentUrl, ImageUrl, ModelResponse
    from pydantic_ai.models import Model as Client
    from pydantic_ai.models import StreamedResponse

_STAND_IN: Final = (
    "Until then the embedded observer is used. A worker, or a memory with `strict`, does not start instead."
)
_INSTALL: Final = 'Run: pip install "memolog[llm]". '
_SHOWN: Final = 300  # maximum characters of a provider's message in an error
_VARIABLE: Final = re.compile(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`")
# Variables for the keys of providers that do not follow the pattern PROVIDER_API_KEY.
_KEYS: Final = {"azure": "AZURE_OPENAI_API_KEY", "cohere": "CO_API_KEY", "gateway": "PYDANTIC_AI_GATEWAY_API_KEY"}
_KINDS: Final = re.compile(r"-(?:chat|responses|cloud)$|/.*$")
_NOT_ALLOWED: Final = frozenset({401, 403})
_FINISHED: Final[Mapping[str, FinishReason]] = {reason: reason for reason in get_args(FinishReason)}
# Added to `max_tokens` for reasoning models, because providers count reasoning tokens as part of the answer.
_THOUGHT_TOKENS: Final = 16_000
# A pause between two pieces of a streamed answer may last a quarter of the timeout. The wait for the first piece may last the
# whole timeout, because a model reads the prompt first.
_PAUSE_SHARE: Final = 4


ClientT = TypeVar("ClientT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAt:
    """A model at an OpenAI-compatible address, such as a local server. Keys from the environment are not sent to it."""

    base_url: str
    name: str
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.base_url)
        except ValueError:
            parts = None
        if parts is None or parts.scheme not in {"http", "https"} or not parts.netloc or not self.name.strip():
            raise ConfigError(
                "The address of a model must have http:// or https://, a host, and the name of the model.",
                then='Write "http://127.0.0.1:8000/v1#model-name", or ModelAt(base_url=…, name=…).',
            )

    @property
    def label(self) -> str:
        """Return the address and the name of the model, without user, password and query, which may be secret."""
        parts = urllib.parse.urlsplit(self.base_url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        return f"{urllib.parse.urlunsplit(shown)}#{self.name}"

    @property
    def is_openai(self) -> bool:
        """Return whether the server belongs to OpenAI or Azure.

        These servers refuse a request that has both `max_tokens` and `max_completion_tokens`.
        """
        host = urllib.parse.urlsplit(self.base_url).hostname or ""
        return host.endswith(("openai.com", "azure.com"))

    @classmethod
    def parse(cls, text: str) -> "Self | str":
        """Return a ModelAt for `"http://…#name"`. Return any other text unchanged if it has the form `"provider:model"`."""
        if text.startswith(("http://", "https://")):
            base_url, _, name = text.partition("#")
            return cls(base_url=base_url, name=name)
        provider, _, name = text.partition(":")
        if not provider.strip() or not name.strip():
            raise ConfigError(
                f"{text!r} is not the name of a model.",
                then='Write "provider:model", such as "openai:gpt-5-mini", or "extractive" for the embedded observer.',
            )
        return text


class ProviderCalls(Generic[ClientT]):
    """Base of models and embedders that are called through pydantic-ai: their client, and their errors."""

    _setting: ClassVar = "model"
    """The setting that names the model, for errors."""
    _until_then: ClassVar = _STAND_IN
    """What happens until an error of the configuration is corrected."""

    def __init__(self, model: str | ModelAt, retry: Retry | None) -> None:
        self._address = ModelAt.parse(model) if isinstance(model, str) else model
        self.name = self._address if isinstance(self._address, str) else self._address.label
        """`"provider:model"`, or the address and the name of a ModelAt."""
        self._retry = retry or Retry(attempts=1)
        self._client: ClientT | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _connect(self, address: str | ModelAt) -> ClientT:
        """Return a new client."""
        raise NotImplementedError

    async def check(self) -> None:
        """Raise ConfigError if a key or a package is missing or the provider is unknown. Makes no call."""
        await self._ready()

    async def _ready(self) -> ClientT:
        """Return the client for this event loop. Each loop needs a new client, because connections belong to one loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            client = await asyncio.to_thread(self._new_client)
            if self._client is None or self._loop is not loop:
                self._client, self._loop = client, loop
        return self._client

    def _new_client(self) -> ClientT:
        if importlib.util.find_spec("pydantic_ai") is None:
            raise ConfigError(
                f"The model {self.name} needs pydantic-ai-slim, which is not installed.",
                why="Model providers are an optional part of Memolog.",
                then=_INSTALL + self._until_then,
            )
        try:
            return self._connect(self._address)
        except Exception as error:
            raise self._misconfigured(error) from error

    def _misconfigured(self, error: Exception) -> ConfigError:
        variables = " or ".join(dict.fromkeys(_VARIABLE.findall(str(error))))
        if variables and not isinstance(error, ImportError):
            return ConfigError(
                f"The model {self.name} has no key or address.",
                why=f"{variables} is not set.",
                then=f"Set {variables} in the environment of this process. {self._until_then}",
            )
        what = f"The model {self.name} cannot be used with its configuration."
        return ConfigError(what, why=_text(error), then=f"Correct the setting `{self._setting}`. {self._until_then}")

    def _translated(self, error: Exception, client: ClientT) -> MemologError | None:
        """Return Memolog's error for an error of pydantic-ai; None for any other error."""
        from pydantic_ai import exceptions as theirs  # noqa: PLC0415 - an extra

        final = (theirs.ModelRequestRejectedError, theirs.ModelQuotaExceededError)
        match error:
            case theirs.ModelHTTPError():
                what = f"The model {self.name} answered with HTTP {error.status_code}."
                why = _text(_message_in(error.body), _key_of(client))
                if is_transport_error(error) and not isinstance(error, final):
                    return ModelUnavailable(what, why=why, retry_after=error.retry_after)
                return ModelRefused(what, why=why, then=self._advice(error.status_code))
            case theirs.ModelAPIError():
                what, why = f"The model {self.name} gave no answer.", _text(error, _key_of(client))
                if isinstance(error, final):
                    return ModelRefused(what, why=why)
                return ModelUnavailable(what, why=why, retry_after=error.retry_after)
            case theirs.UserError():
                return self._misconfigured(error)
            case theirs.AgentRunError():
                return ModelRefused(f"The answer of the model {self.name} cannot be read.", why=_text(error))
            case _:
                return None

    def _advice(self, status: int) -> str:
        if status not in _NOT_ALLOWED:
            return ""
        if isinstance(self._address, ModelAt):
            return "Check the `api_key` of the ModelAt."
        provider = _KINDS.sub("", self._address.partition(":")[0])
        variable = _KEYS.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")
        return f"Check the key in {variable}."


class PydanticModel(ProviderCalls["Client"], ManagedModel):
    """Calls a provider through pydantic-ai: `PydanticModel("anthropic:…")`, or `PydanticModel(ModelAt(…))`.

    `settings` are passed to the provider unchanged, for example `thinking`, `extra_body`, `openai_reasoning_effort` or
    `anthropic_thinking`. They override the fields of a request, and the `options` of the request override both.
    """

    def __init__(
        self,
        model: str | ModelAt,
        *,
        settings: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        max_tokens: int | None = None,
        price: Price | None = None,
        retry: Retry | None = DEFAULT_RETRY,
        stream: bool = False,
    ) -> None:
        """Pass `price` if the price list of pydantic-ai does not contain the model.

        `timeout` limits one attempt and overrides `model_timeout`. With `stream` the answer is read piece by piece: `timeout`
        limits the wait for the first piece, a quarter of it limits each pause, and the whole answer may take any time.
        """
        super().__init__(model, retry)
        self._settings, self._timeout, self._stream = dict(settings or {}), timeout, stream
        self._max_tokens, self._price = max_tokens, price

    def _connect(self, address: str | ModelAt) -> "Client":
        return _client_for(address)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the provider's answer. After a transport error the call is repeated, within the limits of `retry`."""
        client = await self._ready()

        async def ask(seconds: float) -> ModelReply:
            call = self._ask(client, request, seconds)
            # The time of a streamed answer is limited in `_read`.
            return await (call if self._stream else in_time(call, seconds, self.name))

        return await self._retry.run(ask, self._timeout or request.timeout or DEFAULT_SECONDS)

    async def converse(
        self, messages: Sequence[Any], request: ModelRequest, tools: Sequence[Mapping[str, Any]]
    ) -> tuple[ModelReply, tuple[ToolCallPart, ...]]:
        """Return the provider's answer to messages of pydantic-ai, and the tool calls that it asks for.

        `request` has the instructions and the settings. `tools` are definitions in the form of OpenAI. Answers are not streamed.
        """
        from pydantic_ai.messages import ModelRequest as Question  # noqa: PLC0415 - an extra
        from pydantic_ai.messages import SystemPromptPart  # noqa: PLC0415

        client = await self._ready()
        messages = [Question(parts=[SystemPromptPart(request.system)]), *messages]

        async def ask(seconds: float) -> tuple[ModelReply, tuple[ToolCallPart, ...]]:
            response = await in_time(self._respond(client, messages, request, seconds, tools), seconds, self.name)
            calls = tuple(
                ToolCallPart(id=call.tool_call_id, name=call.tool_name, arguments=call.args_as_dict())
                for call in response.tool_calls
            )
            return self._reply(response, request), calls

        return await self._retry.run(ask, self._timeout or request.timeout or DEFAULT_SECONDS)

    async def aclose(self) -> None:
        """Close all connections. The next call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            # pydantic-ai closes the connections of a client at the end of its context.
            async with client:
                pass

    # ------------------------------------------------------------ one attempt

    async def _ask(self, client: "Client", request: ModelRequest, seconds: float) -> ModelReply:
        from pydantic_ai.messages import ModelRequest as Question  # noqa: PLC0415 - an extra
        from pydantic_ai.messages import UserPromptPart  # noqa: PLC0415

        content: Any = [request.text, *map(_attached, request.files)] if request.files else request.text
        question = Question(parts=[UserPromptPart(content)], instructions=request.system)
        return self._reply(await self._respond(client, [question], request, seconds), request)

    async def _respond(
        self,
        client: "Client",
        messages: Sequence[Any],
        request: ModelRequest,
        seconds: float,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> "ModelResponse":
        from pydantic_ai.direct import model_request, model_request_stream  # noqa: PLC0415 - an extra
        from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415
        from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

        settings: Any = self._settings_for(client, request, seconds)
        offered = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool["function"]["name"],
                    description=tool["function"]["description"],
                    parameters_json_schema=tool["function"]["parameters"],
                )
                for tool in tools
            ]
        )
        try:
            if self._stream and not tools:
                stream = model_request_stream(client, messages, model_settings=settings)
                return await self._read(stream, seconds)
            return await model_request(client, messages, model_settings=settings, model_request_parameters=offered)
        except Exception as error:
            translated = self._translated(error, client)
            if translated is None:
                raise
            raise translated from error

    def _reply(self, response: "ModelResponse", request: ModelRequest) -> ModelReply:
        return ModelReply(
            text=response.text or "",
            usage=self._usage(response, request),
            finish_reason=_FINISHED.get(response.finish_reason or ""),
        )

    async def _read(self, opening: "AbstractAsyncContextManager[StreamedResponse]", seconds: float) -> "ModelResponse":
        """Return the whole streamed answer. The first piece may take `seconds`, and each later piece a quarter of that."""
        pause, loop, waiting_for = seconds / _PAUSE_SHARE, asyncio.get_running_loop(), "begin"
        limit = asyncio.timeout(seconds)
        try:
            async with limit, opening as stream:
                async for _ in stream:
                    waiting_for = "continue"
                    limit.reschedule(loop.time() + pause)
                return stream.get()
        except TimeoutError as error:
            if not limit.expired():
                raise
            after = seconds if waiting_for == "begin" else pause
            raise ModelUnavailable(
                f"The model {self.name} did not {waiting_for} its answer within {after:g} s.",
                why="The call was cancelled.",
                then="The model is asked again later. If this happens often, raise model_timeout, or make prompts shorter.",
            ) from error

    def _settings_for(self, client: "Client", request: ModelRequest, seconds: float) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "temperature": request.temperature,
            "max_tokens": min(filter(None, (request.max_tokens, self._max_tokens)), default=None),
            "timeout": seconds,
            # `Retry` repeats calls. Retries by the provider's client as well would take too long.
            "max_retries": 0,
        }
        given = {**self._settings, **request.options}
        if not _takes_temperature(client, given):
            del asked["temperature"]
            if self._max_tokens is None and request.max_tokens is not None:
                asked["max_tokens"] = request.max_tokens + _THOUGHT_TOKENS
        if asked["max_tokens"] and isinstance(self._address, ModelAt) and not self._address.is_openai:
            # Many compatible servers support only the older name `max_tokens`, which pydantic-ai does not send.
            body: dict[str, Any] = given.get("extra_body") or {}
            given["extra_body"] = {"max_tokens": given.get("max_tokens", asked["max_tokens"]), **body}
        # Unsupported settings are left out, because a client warns about each of them at every call.
        asked = {name: value for name, value in asked.items() if name not in client.unsupported_settings}
        return {name: value for name, value in {**asked, **given}.items() if value is not None}

    def _usage(self, response: "ModelResponse", request: ModelRequest) -> Usage:
        counted = response.usage
        read, write = counted.cache_read_tokens, counted.cache_write_tokens
        usage = Usage(
            model=self.name,
            # pydantic-ai counts cached tokens as input tokens too, but Memolog stores them separately.
            input_tokens=max(0, counted.input_tokens - read - write),
            output_tokens=counted.output_tokens,
            cache_read_tokens=read,
            cache_write_tokens=write,
            kind=request.purpose,
        )
        return replace(usage, cost=self._price.cost(usage) if self._price else _cost(response))


def _client_for(address: str | ModelAt) -> "Client":
    if isinstance(address, str):
        from pydantic_ai.models import infer_model  # noqa: PLC0415 - an extra

        return infer_model(address)
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

    provider = OpenAICompatibleProvider(name="compatible", base_url=address.base_url, api_key=address.api_key)
    return OpenAIChatModel(address.name, provider=provider)


def _attached(file: FilePart) -> "BinaryContent | ImageUrl | DocumentUrl":
    from pydantic_ai.messages import BinaryContent, DocumentUrl, ImageUrl  # noqa: PLC0415 - an extra

    if file.data is not None:
        return BinaryContent(file.data, media_type=file.media_type)
    url = file.url or ""
    return ImageUrl(url) if file.media_type.startswith("image/") else DocumentUrl(url)


def _takes_temperature(client: "Client", given: Mapping[str, Any]) -> bool:
    """Return whether the model accepts a temperature. Many reasoning models do not."""
    profile: Mapping[str, Any] = dict(client.profile)
    thinks = profile.get("openai_supports_reasoning") and profile.get("thinking_enabled_by_default")
    efforts = (value for name, value in given.items() if "thinking" in name or "reasoning" in name)
    is_asked_to = any(value not in (None, False, "none") for value in efforts)
    return not (thinks or is_asked_to or profile.get("anthropic_disallows_sampling_settings"))


def _cost(response: "ModelResponse") -> float:
    """Return the cost of a call in dollars; 0 if the price list of pydantic-ai does not contain the model."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return 0.0


def _key_of(client: object) -> str:
    """Return the API key of a client or "". It is removed from error texts, because a provider may repeat it there."""
    provider = getattr(client, "provider", None) or getattr(client, "_provider", None)
    inner: Any = getattr(provider, "client", None)
    key: object = getattr(inner, "api_key", None)
    return key if isinstance(key, str) else ""


def _message_in(body: object) -> object:
    """Return the message of a provider's error without the JSON around it."""
    while isinstance(body, dict):
        table = cast("dict[str, object]", body)
        inner = table.get("error") or table.get("message")
        if not inner:
            break
        body = inner
    return "" if body is None else cast("object", body)


def _text(value: object, key: str = "") -> str:
    """Return a value as one short sentence without secrets."""
    text = str(value)
    if key:
        text = text.replace(key, "[redacted]")
    text = " ".join(REDACTION.redact(text).split())
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


ModelSpec: TypeAlias = Model | ModelAt | ModelFunction | str

EMBEDDED: Final = "extractive"
"""The name of the embedded observer, which needs no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPair:
    """The model that observes and the model that reflects. None stands for the embedded observer."""

    observe: Model | None
    reflect: Model | None


def resolve_model(
    spec: ModelSpec | None,
    *,
    settings: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    max_tokens: int | None = None,
    price: Price | None = None,
    retry: Retry | None = DEFAULT_RETRY,
) -> Model | None:
    """Return the model for `spec`; None for the embedded observer.

    `spec` is `"provider:model"`, `"http://127.0.0.1:8000/v1#model"`, a ModelAt, any object with `complete`, or a function from
    ModelRequest to text. The other arguments are for the first three forms. `timeout` is also for functions, and for objects
    that have `complete` but no `name`.
    """
    if spec is None or spec == EMBEDDED:
        return None
    if isinstance(spec, str | ModelAt):
        return PydanticModel(spec, settings=settings, timeout=timeout, max_tokens=max_tokens, price=price, retry=retry)
    if isinstance(spec, type):
        raise ConfigError(
            f"`model` must be an object, got the class {spec.__name__}.", then=f"Pass an object: {spec.__name__}(…)."
        )
    if isinstance(spec, Model):
        return spec
    if callable(getattr(spec, "complete", None)):
        answering: Any = spec
        return CallableModel(answering.complete, name=type(spec).__name__, timeout=timeout)
    if callable(spec):
        return CallableModel(spec, timeout=timeout)
    raise ConfigError(
        f"`model` must be the name of a model, a model or a function, got {type(spec).__name__}.",
        then='Pass "provider:model", an address, an object with `complete`, a function, or "extractive".',
    )


def needed_model(spec: ModelSpec) -> Model:
    """Return the model for `spec`. Raises ConfigError if `spec` is the embedded observer."""
    model = resolve_model(spec)
    if model is None:
        raise ConfigError(
            f"{EMBEDDED!r} cannot be one of several models.",
            why="The embedded observer reads messages, not prompts.",
            then='Pass a model here. To use only the embedded observer, pass model="extractive" to the memory.',
        )
    return model


def models_for(config: Config, given: ModelSpec | ModelPair | None = None, **options: Any) -> ModelPair:
    """Return the models for observing and reflecting.

    Each is the configured model for its role, else the `given` model, else the configured general model.
    """
    if isinstance(given, ModelPair):
        return given
    general = config.model if given is None else given
    observing, reflecting = config.observation.model or general, config.reflection.model or general
    observe = resolve_model(observing, **options)
    # The same model in both roles is one object, so that its connections are shared.
    reflect = observe if reflecting == observing else resolve_model(reflecting, **options)
    return ModelPair(observe=observe, reflect=reflect)


class TieredModel(ManagedModel):
    """Selects a model by the number of input tokens: `TieredModel({8_000: small, 64_000: middle}, above=large)`."""

    def __init__(
        self, up_to: Mapping[int, ModelSpec], *, above: ModelSpec, counter: TokenCounter | None = None
    ) -> None:
        """Pass a model for each maximum number of input tokens, and a model for all larger inputs."""
        if any(size <= 0 for size in up_to):
            raise ConfigError(
                f"The size of a tier must be 1 or more, got {min(up_to)} tokens.",
                then="Use the maximum number of input tokens of each model as the key.",
            )
        self._tiers = [(size, needed_model(spec)) for size, spec in sorted(up_to.items(), key=lambda tier: tier[0])]
        self._above = needed_model(above)
        self._counter = counter or HeuristicCounter()
        self.name = " | ".join(dict.fromkeys(model.name for model in self._inside()))
        """The names of all models, from the smallest tier. The usage of a reply has the name of the model that answered."""

    def pick(self, request: ModelRequest) -> Model:
        """Return the model for the size of this request."""
        size = self._counter.count(request.system) + self._counter.count(request.text)
        return next((model for most, model in self._tiers if size <= most), self._above)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the model for the size of this request."""
        return await complete_in_time(self.pick(request), request)

    def _inside(self) -> list[Model]:
        return [*(model for _, model in self._tiers), self._above]


class NoModelAnswered(ModelError):
    """A model and all its fallbacks failed."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        super().__init__(
            "No model answered.",
            why=" ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures.items()),
            then="The run is tried again later.",
        )
        self.retryable = any(is_transport_error(error) for error in failures.values())


class FallbackModel(ManagedModel):
    """Calls several models in order until one of them answers: `FallbackModel("openai:…", "anthropic:…")`."""

    def __init__(self, first: ModelSpec, *others: ModelSpec, seconds: float | None = None) -> None:
        """Pass the models in order. `seconds` limits each model, including its retries.

        If it is None, the timeout of the request limits each model, or each attempt of a model that retries.
        """
        if not others:
            raise ConfigError("A FallbackModel needs at least two models.", then="Pass a second model.")
        self._models: list[Model] = [needed_model(spec) for spec in (first, *others)]
        self._seconds = seconds
        self.name = self._models[0].name
        """The name of the first model. The usage of a reply has the name of the model that answered."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the first model that does not fail."""
        failures: dict[str, Exception] = {}
        for number, model in enumerate(self._models, start=1):
            try:
                if self._seconds is None:
                    return await complete_in_time(model, request)
                return await in_time(model.complete(request), self._seconds, model.name)
            except BudgetSpent:
                raise
            except Exception as error:  # noqa: BLE001 - the next model is called after any failure
                failures[model.name if model.name not in failures else f"{model.name} ({number})"] = error
        raise NoModelAnswered(failures) from next(reversed(failures.values()))

    async def check(self) -> None:
        """Raise ConfigError if all models fail their check."""
        problem: MemologError | None = None
        for model in self._models:
            try:
                await check_model(model)
            except ConfigError as error:
                problem = problem or error
            else:
                return
        if problem is not None:
            raise problem

    def _inside(self) -> list[Model]:
        return self._models
