"""Add memory to any OpenAI, Anthropic or Gemini client: an HTTP gateway between the client and the provider."""

from importlib.util import find_spec

from memolog.errors import ConfigError

if missing := [name for name in ("httpx", "starlette", "uvicorn") if find_spec(name) is None]:
    raise ConfigError(
        f"The gateway needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed.",
        then='Install it with: pip install "memolog[web]"',
    )

from memolog.apps.gateway.app import Listening, gateway_app, serve
from memolog.apps.gateway.settings import GatewaySettings

__all__ = ["GatewaySettings", "Listening", "gateway_app", "serve"]
