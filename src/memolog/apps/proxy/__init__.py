"""The gateway: memory for any client in any language, between it and its provider.

Knows the names that programs need. Everything else is in the modules beside it, and needs the extra `web`.
"""

from importlib.util import find_spec

from memolog.domain.errors import ConfigError

if missing := [name for name in ("httpx", "starlette", "uvicorn") if find_spec(name) is None]:
    raise ConfigError(
        f"The gateway needs {' and '.join(missing)}.",
        why="Servers are an extra.",
        then='Run: pip install "memolog[web]".',
    )

from memolog.apps.proxy.app import proxy_app
from memolog.apps.proxy.serving import Listening, serve
from memolog.apps.proxy.settings import ProxySettings

__all__ = ["Listening", "ProxySettings", "proxy_app", "serve"]
