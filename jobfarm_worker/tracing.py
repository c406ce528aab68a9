"""Each attempt as a span of the trace in which its job was submitted, where OpenTelemetry is installed.

`pip install '.[tracing]'` in a checkout, and an SDK: `opentelemetry-instrument python -m jobfarm_worker ...` configures
it by the usual OTEL_* variables, so spans go where the rest of that machine's go. Without them nothing happens here.
"""

from collections.abc import Mapping
from typing import Any

from jobfarm_worker.protocol import ClaimedJob

_otel: Any = None
try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    pass  # it is optional
else:
    _otel = trace


class Attempt:
    """The span of one attempt, or nothing where there is no OpenTelemetry."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def enter(self) -> None:
        """Let it be the current span of this context, which is the handler's alone."""
        if self._span is not None:
            context.attach(_otel.set_span_in_context(self._span))

    def ended(self, how: str, *, error: str = "") -> None:
        """Record how the attempt ended; anything but success marks the span, with the error's last line."""
        if self._span is None:
            return
        self._span.set_attribute("jobfarm.outcome", how)
        if how != "success":
            message = error.strip().rsplit("\n", maxsplit=1)[-1]
            self._span.set_status(_otel.Status(_otel.StatusCode.ERROR, message or how))
        self._span.end()


_NOTHING = Attempt()


def begun(claimed: ClaimedJob) -> Attempt:
    if _otel is None or (claimed.traceparent is None and not _is_configured()):
        return _NOTHING
    about = {
        "jobfarm.job.id": claimed.id,
        "jobfarm.job.kind": claimed.kind,
        "jobfarm.job.queue": claimed.queue,
        "jobfarm.job.attempt": claimed.attempt,
    }
    tracer = _otel.get_tracer("jobfarm_worker")
    kind = _otel.SpanKind.CONSUMER
    return Attempt(tracer.start_span(f"job {claimed.kind}", context=_parent(claimed), kind=kind, attributes=about))


def describe(about: Mapping[str, Any]) -> None:
    """Set these attributes of the attempt's span; None, and what is of a type that none has, is left out."""
    if _otel is not None and (span := _otel.get_current_span()).is_recording():
        for name, value in about.items():
            if isinstance(value, bool | int | float | str | tuple):
                span.set_attribute(name, value)


def _is_configured() -> bool:
    """Whether spans go anywhere. An installed OpenTelemetry without an SDK makes none: 0.1 ms a job for nothing."""
    return not isinstance(_otel.get_tracer_provider(), _otel.ProxyTracerProvider)


def _parent(claimed: ClaimedJob) -> Any:
    if claimed.traceparent is None:
        return None
    return TraceContextTextMapPropagator().extract({"traceparent": claimed.traceparent})
