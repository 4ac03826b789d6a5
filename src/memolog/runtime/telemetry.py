"""Spans for OpenTelemetry, where its API is installed.

Knows the names. Without the API, or without a configured tracer, a span costs next to nothing.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["span"]


@cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - imported with the first span, not with the package
    except ImportError:
        return None
    return trace.get_tracer("memolog")


def span(name: str, attributes: Mapping[str, str | int]) -> AbstractContextManager[object]:
    """Open a span around a block of work."""
    tracer = _tracer()
    if tracer is None:
        return nullcontext()
    return tracer.start_as_current_span(name, attributes=dict(attributes))
