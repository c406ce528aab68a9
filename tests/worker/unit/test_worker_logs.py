"""A worker's log lines as JSON."""

import json
import logging
import sys

import pytest

from jobfarm_worker import observing
from jobfarm_worker.protocol import ClaimedJob

FORM = "%(levelname)s %(message)s"
JOB = ClaimedJob(id=7, kind="chat", queue="chat", payload=None, attempt=2, lease="1-x", heartbeat_s=20.0)


def logged(message: str, *, error: bool = False) -> dict[str, object]:
    """One line, read back."""
    error_now = sys.exc_info() if error else None
    record = logging.LogRecord("handlers", logging.WARNING, "", 0, message, None, error_now)
    line = observing.JsonLines().format(record)
    assert "\n" not in line
    document: dict[str, object] = json.loads(line)
    return document


def line(message: str) -> str:
    """The same as a line of text."""
    record = logging.LogRecord("handlers", logging.WARNING, "", 0, message, None, None)
    return observing.TextLines(FORM).format(record)


class TestTextLines:
    def test_say_which_job_they_are_about(self) -> None:
        with observing.logging_as(JOB):
            within = line("Loading the model")
        assert within == "WARNING job 7 chat: Loading the model"
        assert line("Afterwards") == "WARNING Afterwards"

    def test_say_it_once(self) -> None:
        with observing.logging_as(JOB):
            assert line("job 7 chat: success after 0.1 s") == "WARNING job 7 chat: success after 0.1 s"
            assert line("job 70 is another") == "WARNING job 7 chat: job 70 is another"


class TestJsonLines:
    def test_say_which_job_they_are_about(self) -> None:
        with observing.logging_as(JOB):
            within = logged("Two\nlines")
        assert str(within.pop("time")).endswith("+00:00")
        assert within == {
            "level": "WARNING",
            "logger": "handlers",
            "message": "Two\nlines",
            "job_id": 7,
            "kind": "chat",
            "attempt": 2,
        }
        assert "job_id" not in logged("Afterwards")

    def test_have_the_traceback(self) -> None:
        try:
            raise ZeroDivisionError("no")
        except ZeroDivisionError:
            assert "ZeroDivisionError: no" in str(logged("It broke", error=True)["exc_info"])

    def test_are_chosen_by_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JOBFARM_LOG", "json")
        assert observing.logs_are_json()
        monkeypatch.setenv("JOBFARM_LOG", "text")
        assert not observing.logs_are_json()
