"""The trace that the work in this context is part of: carried from a submit to the worker (W3C Trace Context).

Without OpenTelemetry the `traceparent` of whoever submits is carried along and nothing else happens. Where its API is
installed (`pip install '.[tracing]'`), the farm's steps are spans; they go nowhere until an SDK with an exporter is
configured in the process, as `opentelemetry-instrument` does by its own environment variables (docs/operations.md).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final

_otel: Any = None
try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    pass  # it is optional
else:
    _otel = trace

# Version 00 of the header; what a later version would mean nobody here can say, so it is not passed on.
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
LONGEST: Final = 55
_TRACER: Final = "jobfarm"
_carried: ContextVar[str | None] = ContextVar("observing_traceparent", default=None)


def understood(header: str) -> str | None:
    """The header if it is a `traceparent` that may be passed on, else None."""
    return header if _TRACEPARENT.fullmatch(header) else None


def current() -> str | None:
    """The `traceparent` that what begins here would have as parent; None outside of any trace."""
    if _otel is not None and _otel.get_current_span().get_span_context().is_valid:
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return understood(carrier.get("traceparent", ""))
    return _carried.get()


def ids() -> Mapping[str, str]:
    """`trace_id` and `span_id` of this moment, for log lines; empty outside of any trace."""
    match = _TRACEPARENT.fullmatch(current() or "")
    return {"trace_id": match[1], "span_id": match[2]} if match else {}


@contextmanager
def carrying(traceparent: str | None) -> Iterator[None]:
    """Let the block be part of the caller's trace, as the header of its request says."""
    token = _carried.set(understood(traceparent or ""))
    try:
        yield
    finally:
        _carried.reset(token)


@contextmanager
def span(name: str, *, kind: str = "internal", **attributes: str | int) -> Iterator[None]:
    """Let the block be a span of this trace, or of a new one. `kind`: internal, producer, consumer, server. Without
    OpenTelemetry it is nothing."""
    # Without an SDK a span is nothing, at the price of a tenth of a submit.
    is_recorded = _otel is not None and not isinstance(_otel.get_tracer_provider(), _otel.ProxyTracerProvider)
    with _started(name, kind, attributes) if is_recorded else nullcontext():
        yield


def _started(name: str, kind: str, attributes: Mapping[str, str | int]) -> Any:
    inside = _otel.get_current_span().get_span_context().is_valid
    carried = _carried.get()
    parent = None if inside or carried is None else TraceContextTextMapPropagator().extract({"traceparent": carried})
    return _otel.get_tracer(_TRACER).start_as_current_span(
        name, context=parent, kind=_otel.SpanKind[kind.upper()], attributes=dict(attributes)
    )
