"""How log lines look: text for people, or one JSON object a line for what collects them (JOBFARM_LOG=json). No line
that leaves a process holds a secret, whoever wrote it there."""

import json
import logging
import re
import time
from asyncio import CancelledError
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, Final

from django.core.exceptions import DisallowedHost
from pythonjsonlogger.json import JsonFormatter

from observing import fields, traces

MASK: Final = "[hidden]"
_SECRETS: Final = (
    # Keys of workers and tokens of clients (their prefixes are declared by jobs and accounts; a test compares).
    (re.compile(r"\b(jf[wt]_)[A-Za-z0-9_-]{8,}"), rf"\1{MASK}"),
    # Leases: claim number and secret.
    (re.compile(r"\b([1-9][0-9]{0,17}-)[0-9a-f]{32}\b"), rf"\1{MASK}"),
    # Secrets of webhooks, and keys of the services that the farm calls.
    (re.compile(r"\b((?:whsec|sk|rk)_|sk-)[A-Za-z0-9_+/=-]{8,}"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    # The password in an address, as of a database.
    (re.compile(r"(://[^\s:/@]*:)[^\s@/]+@"), rf"\1{MASK}@"),
    (
        re.compile(r"(?i)\b(password|passwd|secret_key|sessionid|csrftoken)(\s*[=:]\s*)['\"]?[^\s'\",;&}]+"),
        rf"\1\2{MASK}",
    ),
)


def text_of(error: object) -> str:
    """Its text; that of an application's error may raise when it is asked for."""
    try:
        return str(error)
    except Exception as fault:
        return f"its text raises {type(fault).__name__}"


def sentence_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of(error)}"


def in_short(text: str) -> str:
    """The text; of a long one the beginning and the end, where an error says what it was."""
    half = (_LONGEST_SENTENCE - len(_LEFT_OUT)) // 2
    return text if len(text) <= _LONGEST_SENTENCE else f"{text[:half]}{_LEFT_OUT}{text[-half:]}"


def masked(text: str) -> str:
    """The text with everything that looks like a key, lease, token or password replaced."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class UnknownLogForm(Exception):
    """JOBFARM_LOG names no form of log lines; there are text and json."""


MOST_KEPT: Final = 5
KEPT_S: Final = 300.0  # what fails again and again is tried each minute
_LONGEST_SENTENCE: Final = 300
_LEFT_OUT: Final = " [...] "
FORMS: Final = ("text", "json")
_CUT: Final = "timeout graceful shutdown exceeded"  # as uvicorn cancels
_TEXT: Final = "{asctime} {levelname} {name}: {message}{about}"
# Strangers cause these as they please: one line each, or none, and no traceback.
_QUIET: Final[dict[str, Any]] = {
    "django.security.DisallowedHost": {"filters": ["theirs"]},
    "django.request": {"level": "ERROR"},
    "uvicorn.error": {"filters": ["theirs"]},
}


def configuration(*, form: str, level: str, filters: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """The LOGGING of Django: lines of this form on standard error, from this level on, through these filters (the paths
    of their classes) too. Raises UnknownLogForm."""
    if form not in FORMS:
        raise UnknownLogForm(f"JOBFARM_LOG is {form!r}; it may be text or json.")
    formatter = {"()": f"observing.logs.{'Json' if form == 'json' else 'Text'}Lines"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {
            "about": {"()": "observing.logs.About"},
            "theirs": {"()": "observing.logs.Theirs"},
            **{name: {"()": path} for name, path in filters.items()},
        },
        "formatters": {"line": formatter},
        "handlers": {
            "console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["about", *filters]},
            "latest": {"()": lambda: LATEST_ERRORS},
        },
        "loggers": _QUIET,
        "root": {"handlers": ["console", "latest"], "level": level},
    }


class LatestErrors(logging.Handler):
    """Keeps the last sentences that this process logged as errors, each for a while: it reports them with itself, and
    the doctor names them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._until_s: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.keep([_sentence(record)])
        except Exception:  # what is to be logged has no text
            self.handleError(record)

    def keep(self, sentences: Iterable[str]) -> None:
        """Keep these too, as a process does that reports for another."""
        with self.lock or nullcontext():
            for sentence in sentences:
                self._until_s.pop(sentence, None)
                self._until_s[sentence] = time.monotonic() + KEPT_S
            while len(self._until_s) > MOST_KEPT:
                del self._until_s[next(iter(self._until_s))]

    def sentences(self) -> list[str]:
        """Those of the last minutes, the latest at the end."""
        with self.lock or nullcontext():
            return [sentence for sentence, until_s in self._until_s.items() if until_s > time.monotonic()]

    def forget(self) -> None:
        self._until_s.clear()


LATEST_ERRORS: Final = LatestErrors()


def _sentence(record: logging.LogRecord) -> str:
    """One line that PostgreSQL stores: what is said, and the error that it is said of."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    sentence, why = record.getMessage(), text_of(error).partition("\n")[0]
    if error and why not in sentence:
        sentence = f"{sentence}: {type(error).__name__}: {why}"
    line = " ".join(sentence.replace("\0", " ").split())
    return in_short(masked(line)).encode(errors="replace").decode()


class About(logging.Filter):
    """Writes into each record what the work in this context is about. It is read where the line is written, so the
    context is the right one."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.fields = {**fields.current(), **traces.ids()}
        return True


class Theirs(logging.Filter):
    """Makes one line, a warning at most, of what a client did wrong and a library logs as if we had broken: a request
    by a name that is not ours, and a text frame on a socket that is no UTF-8. What the server's end cuts off, when its
    deadline has passed, uvicorn counts in one line before."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record without its traceback; one for a foreign name only where warnings are kept."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, CancelledError) and _CUT in text_of(error):
            return False
        if isinstance(error, UnicodeDecodeError):
            record.exc_info = None
        if isinstance(error, DisallowedHost):
            record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
            return logging.getLogger().isEnabledFor(logging.WARNING)
        return True


class TextLines(logging.Formatter):
    """`2026-11-21 06:20:00,000 WARNING jobs: sentence [worker=gpu-box job_id=7]`"""

    def __init__(self) -> None:
        super().__init__(_TEXT, style="{")

    def format(self, record: logging.LogRecord) -> str:
        pairs = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        record.about = f" [{pairs}]" if pairs else ""
        return masked(super().format(record))


class JsonLines(JsonFormatter):
    """One object a line: `time level logger message process` and whatever of fields.NAMES is known; `exc_info` holds a
    traceback. What a call passed as `extra` comes along."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname)s %(name)s %(message)s %(process)d",
            rename_fields={"levelname": "level", "name": "logger", "process": "pid"},
            timestamp="time",
            json_default=str,
            json_ensure_ascii=False,
        )

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Put what the line is about beside what it says, not within a field of its own."""
        super().add_fields(log_data, record, message_dict)
        for name in ("fields", "about", "taskName", "request"):  # a request is an object: it says nothing in JSON
            log_data.pop(name, None)
        log_data.update(_fields(record))

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """The line, without secrets: each text is masked by itself, so that what is left is JSON."""
        return super().jsonify_log_record({key: _masked(value) for key, value in log_data.items()})


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    known: dict[str, Any] = getattr(record, "fields", {})
    return known


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict | list | tuple):
        return json.loads(masked(json.dumps(value, default=str)))
    return value
