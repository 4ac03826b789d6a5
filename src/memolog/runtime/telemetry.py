"""Open OpenTelemetry spans where its API is installed."""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    return _opened(tracer, name, attributes)


@contextmanager
def _opened(tracer: Any, name: str, attributes: Mapping[str, str | int]) -> Generator[object]:
    # What an exception says may hold a secret or the words of a message: an exporter is told its kind and no more.
    with tracer.start_as_current_span(
        name, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield opened
        except Exception as error:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - it is installed where there is a tracer

            opened.set_status(StatusCode.ERROR, type(error).__name__)
            raise
