"""Log lines of a worker, each with the job it is about: as text, or as JSON with the names of the farm's own.

JOBFARM_LOG=json chooses JSON, one object a line.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any

from jobfarm_worker.protocol import ClaimedJob

_about: ContextVar[Mapping[str, Any]] = ContextVar("jobfarm_worker_about", default={})  # noqa: B039 (never written to)


def are_json() -> bool:
    return os.environ.get("JOBFARM_LOG") == "json"


def enter(claimed: ClaimedJob) -> Token[Mapping[str, Any]]:
    """Lines of this context are about this job from here on: those of its handler, in its thread as well."""
    return _about.set({"job_id": claimed.id, "kind": claimed.kind, "attempt": claimed.attempt})


@contextmanager
def about(claimed: ClaimedJob) -> Iterator[None]:
    token = enter(claimed)
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
