"""What is seen of an attempt from outside: its place on the status line, its log lines, its span.

Log lines are text, or with JOBFARM_LOG=json JSON, one object a line with the names of the farm's own. Spans belong to
the trace in which the job was submitted, where OpenTelemetry is installed: `pip install '.[tracing]'` in a checkout,
and an SDK. `opentelemetry-instrument python -m jobfarm_worker ...` configures it by the usual OTEL_* variables, so
spans go where the rest of that machine's go.
"""

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import ClaimedJob

_otel: Any = None
try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    pass  # it is optional
else:
    _otel = trace

Ending = Literal["success", "failed", "suspended", "stopped"]
_about: ContextVar[Mapping[str, Any]] = ContextVar("jobfarm_worker_about", default={})  # noqa: B039 (never written to)


@dataclass(slots=True, kw_only=True)
class Running:
    id: int
    kind: str
    outbox: Outbox
    is_stuck: bool = False  # it was taken away, and its handler has run on for a while


class Scoreboard:
    """Counts endings and knows what runs; touched on the loop's thread only."""

    def __init__(self) -> None:
        self.endings: Counter[Ending] = Counter()
        self.jobs: dict[int, Running] = {}
        self.on_stuck: Callable[[], None] = lambda: None
        """Called when `stuck` has changed."""

    def began(self, claimed: ClaimedJob, outbox: Outbox) -> None:
        self.jobs[claimed.id] = Running(id=claimed.id, kind=claimed.kind, outbox=outbox)

    def ended(self, claimed: ClaimedJob) -> None:
        ended = self.jobs.pop(claimed.id, None)  # the same job may be here twice, stopped and claimed again
        if ended is not None and ended.is_stuck:
            self.on_stuck()

    def stuck_on(self, job: int) -> None:
        """A job that was taken away still has its slot."""
        if (running := self.jobs.get(job)) and not running.is_stuck:
            running.is_stuck = True
            self.on_stuck()

    @property
    def stuck(self) -> list[int]:
        """The jobs that were taken away and still have their slots."""
        return sorted(job for job, running in self.jobs.items() if running.is_stuck)


def logs_are_json() -> bool:
    return os.environ.get("JOBFARM_LOG") == "json"


def log_as(claimed: ClaimedJob) -> Token[Mapping[str, Any]]:
    """Lines of this context are about this job from here on: those of its handler, in its thread as well."""
    return _about.set({"job_id": claimed.id, "kind": claimed.kind, "attempt": claimed.attempt})


@contextmanager
def logging_as(claimed: ClaimedJob) -> Iterator[None]:
    token = log_as(claimed)
    try:
        yield
    finally:
        _about.reset(token)


class TextLines(logging.Formatter):
    """Lines of text; within a job `job 7 chat: ` stands before the message, whoever logged it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is logging's)
        if about := _about.get():
            prefix = f"job {about['job_id']} {about['kind']}"
            if not record.message.startswith(prefix):
                record.message = f"{prefix}: {record.message}"
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """`time level logger message` of all lines, `job_id kind attempt` within a job, `exc_info` with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_about.get(),
        }
        if record.exc_info:
            entry["exc_info"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def last_line(error: str) -> str:
    return error.strip().rsplit("\n", maxsplit=1)[-1]


class Span:
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
            self._span.set_status(_otel.Status(_otel.StatusCode.ERROR, last_line(error) or how))
        self._span.end()


def span_of(claimed: ClaimedJob) -> Span:
    if _otel is None or (claimed.traceparent is None and not _is_configured()):
        return Span()
    about = {
        "jobfarm.job.id": claimed.id,
        "jobfarm.job.kind": claimed.kind,
        "jobfarm.job.queue": claimed.queue,
        "jobfarm.job.attempt": claimed.attempt,
    }
    parent = None
    if claimed.traceparent is not None:
        parent = TraceContextTextMapPropagator().extract({"traceparent": claimed.traceparent})
    tracer, kind = _otel.get_tracer("jobfarm_worker"), _otel.SpanKind.CONSUMER
    return Span(tracer.start_span(f"job {claimed.kind}", context=parent, kind=kind, attributes=about))


def describe_span(about: Mapping[str, Any]) -> None:
    """Set these attributes of the attempt's span; None, and what is of a type that none has, is left out."""
    if _otel is not None and (span := _otel.get_current_span()).is_recording():
        for name, value in about.items():
            if isinstance(value, bool | int | float | str | tuple):
                span.set_attribute(name, value)


def _is_configured() -> bool:
    """Whether spans go anywhere. An installed OpenTelemetry without an SDK makes none: 0.1 ms a job for nothing."""
    return not isinstance(_otel.get_tracer_provider(), _otel.ProxyTracerProvider)
