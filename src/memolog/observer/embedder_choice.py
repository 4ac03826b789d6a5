"""Turn the `embedder` setting into an embedder: a function, a provider, a server with the embeddings protocol, or fastembed.

The packages of providers and of fastembed are imported at the first check or call, in a worker thread, because it takes seconds.
"""

import asyncio
import importlib
import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from memolog.core.run import Usage
from memolog.errors import ConfigError
from memolog.observer.model import DEFAULT_RETRY, ModelRefused, Price, Retry, in_time
from memolog.observer.model_choice import ModelAt, ProviderCalls
from memolog.search.embedding import Embedded, Embedder, Vector, numpy
from memolog.text.tokens import HeuristicCounter

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel as Client
    from pydantic_ai.embeddings import EmbeddingResult

_FASTEMBED: Final = "fastembed:"
_WORDS_ONLY: Final = "Until then search finds words only. A worker, or a memory with `strict`, does not start instead."
_ATTEMPT_SECONDS: Final = 30.0
_COUNTER: Final = HeuristicCounter()

EmbedderFunction: TypeAlias = Callable[[Sequence[str]], "Sequence[Vector] | Awaitable[Sequence[Vector]]"]
EmbedderSpec: TypeAlias = Embedder | ModelAt | EmbedderFunction | str


class CallableEmbedder:
    """Calls a function that returns one vector for each text. A plain function is called in a worker thread.

    `name` is stored with the vectors. Change it when the function returns other vectors than before, so that all are made again.
    """

    def __init__(self, function: EmbedderFunction, *, name: str | None = None) -> None:
        self._function = function
        known = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = name or f"{getattr(function, '__module__', '')}.{known}".strip(".")

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Embedded:  # noqa: ARG002 - part of the interface
        """Return the vectors of the function, with the tokens by Memolog's counter."""
        if inspect.iscoroutinefunction(self._function):
            made: Any = self._function(texts)
        else:
            made = await asyncio.to_thread(self._function, texts)
        vectors: Sequence[Vector] = await made if inspect.isawaitable(made) else made
        return Embedded(vectors=vectors, tokens=sum(map(_COUNTER.count, texts)))


class FastEmbedder:
    """Calls a model of the package fastembed, which runs in this process: `FastEmbedder("BAAI/bge-small-en-v1.5")`."""

    def __init__(self, model: str) -> None:
        self._model, self.name = model, f"{_FASTEMBED}{model}"
        self._loaded: Any = None
        self._loading = asyncio.Lock()

    async def check(self) -> None:
        """Raise ConfigError if the package is not installed. Loads no model."""
        if importlib.util.find_spec("fastembed") is None:
            raise ConfigError(
                f"The embedder {self.name} needs fastembed, which is not installed.",
                then=f"Run: pip install fastembed. {_WORDS_ONLY}",
            )

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Embedded:
        """Return the vectors of the model. The first call loads the model, and may download it."""
        await self.check()
        async with self._loading:
            if self._loaded is None:
                self._loaded = await asyncio.to_thread(self._load)
        made = await asyncio.to_thread(self._run, list(texts), is_query)
        return Embedded(vectors=made, tokens=sum(map(_COUNTER.count, texts)))

    def _load(self) -> object:
        return importlib.import_module("fastembed").TextEmbedding(model_name=self._model)

    def _run(self, texts: list[str], is_query: bool) -> list[Vector]:
        return list(self._loaded.query_embed(texts) if is_query else self._loaded.embed(texts))


class ProviderEmbedder(ProviderCalls["Client"]):
    """Calls a provider through pydantic-ai, or a server with OpenAI's embeddings protocol at an address.

    `ProviderEmbedder("openai:text-embedding-3-small")`, or `ProviderEmbedder(ModelAt(…))`.
    """

    _setting = "embedder"
    _until_then = _WORDS_ONLY

    def __init__(
        self, model: str | ModelAt, *, price: float | None = None, retry: Retry | None = DEFAULT_RETRY
    ) -> None:
        """Pass the `price` of a million tokens in US dollars if the price list of pydantic-ai does not contain the model."""
        super().__init__(model, retry)
        self._price = None if price is None else Price(input=price, output=0.0)

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Embedded:
        """Return the vectors of the provider. After a transport error the call is repeated, within the limits of the retry."""
        client = await self._ready()

        async def ask(seconds: float) -> Embedded:
            return await in_time(self._ask(client, texts, is_query), seconds, self.name)

        return await self._retry.run(ask, _ATTEMPT_SECONDS)

    async def _ask(self, client: "Client", texts: Sequence[str], is_query: bool) -> Embedded:
        try:
            made = await client.embed(list(texts), input_type="query" if is_query else "document")
        except Exception as error:
            translated = self._translated(error, client)
            if translated is None and isinstance(error, ValueError):
                # The client of OpenAI raises this for an answer without vectors.
                translated = ModelRefused(
                    f"The answer of the embedder {self.name} cannot be read.",
                    why=f"{error}.",
                    then="Check that the address is that of a server with embeddings, and the name of the model.",
                )
            if translated is None:
                raise
            raise translated from error
        tokens = made.usage.input_tokens or sum(map(_COUNTER.count, texts))
        cost = _cost(made) if self._price is None else self._price.cost(Usage(model=self.name, input_tokens=tokens))
        return Embedded(vectors=made.embeddings, tokens=tokens, cost=cost)

    async def aclose(self) -> None:
        """Close all connections. The next call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            inner: Any = getattr(getattr(client, "_provider", None), "client", None)
            close = getattr(inner, "close", None)
            if inspect.iscoroutinefunction(close):
                await close()

    def _connect(self, address: str | ModelAt) -> "Client":
        if isinstance(address, str):
            from pydantic_ai.embeddings import infer_embedding_model  # noqa: PLC0415 - an extra

            return infer_embedding_model(address)
        from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel  # noqa: PLC0415
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

        provider = OpenAICompatibleProvider(name="compatible", base_url=address.base_url, api_key=address.api_key)
        return OpenAIEmbeddingModel(address.name, provider=provider)


def _cost(made: "EmbeddingResult") -> float:
    """Return the cost of a request in dollars; 0 if the price list of pydantic-ai does not contain the model."""
    try:
        return float(made.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return 0.0


def resolve_embedder(spec: EmbedderSpec | None) -> Embedder | None:
    """Return the embedder for `spec`; None for None.

    `spec` is `"provider:model"`, `"http://127.0.0.1:8000/v1#model"`, `"fastembed:NAME"`, a ModelAt, any object with `name` and
    `embed`, or a function from texts to vectors.
    """
    if spec is None:
        return None
    if isinstance(spec, str) and spec.startswith(_FASTEMBED):
        return FastEmbedder(spec.removeprefix(_FASTEMBED))
    if isinstance(spec, str | ModelAt):
        return ProviderEmbedder(spec)
    if isinstance(spec, type):
        raise ConfigError(
            f"`embedder` must be an object, got the class {spec.__name__}.", then=f"Pass an object: {spec.__name__}(…)."
        )
    if isinstance(spec, Embedder):
        return spec
    if callable(spec):
        return CallableEmbedder(spec)
    raise ConfigError(
        f"`embedder` must be the name of a model, an embedder or a function, got {type(spec).__name__}.",
        then='Pass "provider:model", an address, "fastembed:NAME", or a function from texts to vectors.',
    )


async def check_embedder(embedder: Embedder) -> None:
    """Raise ConfigError if numpy, a key or a package is missing. Makes no call."""
    await asyncio.to_thread(numpy)
    check = getattr(embedder, "check", None)
    if check is not None:
        await cast("Callable[[], Awaitable[None]]", check)()


async def close_embedder(embedder: Embedder) -> None:
    """Close the connections of an embedder that has any."""
    if isinstance(embedder, ProviderEmbedder):
        await embedder.aclose()
