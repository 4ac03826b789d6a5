"""The gateway: memory for any client in any language, between it and its provider.

Knows the names that programs need. Needs the extra `web`: `pip install "memolog[web]"`.
"""

from memolog.apps.proxy.app import proxy_app
from memolog.apps.proxy.serving import Listening, serve
from memolog.apps.proxy.settings import ProxySettings

__all__ = ["Listening", "ProxySettings", "proxy_app", "serve"]
