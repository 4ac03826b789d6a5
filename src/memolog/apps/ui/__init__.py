"""The inspector: web pages on a database that show what an agent remembers, and why."""

from importlib.util import find_spec

from memolog.errors import ConfigError

if missing := [name for name in ("starlette", "jinja2", "uvicorn") if find_spec(name) is None]:
    raise ConfigError(
        f"The inspector needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed.",
        then='Install it with: pip install "memolog[ui]"',
    )

from memolog.apps.ui.app import Listening, UiSettings, serve, ui_app

__all__ = ["Listening", "UiSettings", "serve", "ui_app"]
