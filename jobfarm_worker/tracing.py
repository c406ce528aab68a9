"""Each attempt as a span of the trace in which its job was submitted, where OpenTelemetry is installed.

`pip install '.[tracing]'` in a checkout, and an SDK: `opentelemetry-instrument python -m jobfarm_worker ...` configures
it by the usual OTEL_* variables, so spans go where the rest of that machine's go. Without them nothing happens here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobfarm_worker.protocol import ClaimedJob

_otel: Any = None
try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    pass  # it is optional
else:
    _otel = trace


class Attempt:
    """The span of one attempt, or nothing where there is no OpenTelemetry."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def ended(self, how: str, *, error: str = "") -> None:
        """Record how the attempt ended; anything but success marks the span, with the error's last line."""
        if self._span is None:
            return
        self._span.set_attribute("jobfarm.outcome", how)
        if how != "success":
            message = error.strip().rsplit("\n", maxsplit=1)[-1]
            self._span.set_status(_otel.Status(_otel.StatusCode.ERROR, message or how))


@contextmanager
def attempt(claimed: ClaimedJob) -> Iterator[Attempt]:
    """Let the block be the span of this attempt. Handlers that run in it find it as the current span."""
    if _otel is None or (claimed.traceparent is None and not _is_configured()):
        yield Attempt()
        return
    about = {
        "jobfarm.job.id": claimed.id,
        "jobfarm.job.kind": claimed.kind,
        "jobfarm.job.queue": claimed.queue,
        "jobfarm.job.attempt": claimed.attempt,
    }
    with _otel.get_tracer("jobfarm_worker").start_as_current_span(
        f"job {claimed.kind}", context=_parent(claimed), kind=_otel.SpanKind.CONSUMER, attributes=about
    ) as span:
        yield Attempt(span)


def _is_configured() -> bool:
    """Whether spans go anywhere. An installed OpenTelemetry without an SDK makes none: 0.1 ms a job for nothing."""
    return not isinstance(_otel.get_tracer_provider(), _otel.ProxyTracerProvider)


def _parent(claimed: ClaimedJob) -> Any:
    if claimed.traceparent is None:
        return None
    return TraceContextTextMapPropagator().extract({"traceparent": claimed.traceparent})
