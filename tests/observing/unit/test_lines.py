"""Log lines: what they are about, in both forms, and what they never hold."""

import io
import json
import logging
import sys

import pytest
from django.core.exceptions import DisallowedHost

from accounts import domain as accounts
from jobs.operations import workers
from observing import fields, logs
from observing.logs import MASK, masked
from tests.looped import looped

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Sink:
    """A logger of its own, with what it wrote."""

    def __init__(self, form: str) -> None:
        made = logs.configuration(form=form, level="INFO")["formatters"]["line"]["()"]
        handler = logging.StreamHandler(io.StringIO())
        handler.setFormatter(getattr(sys.modules["observing.logs"], made.rpartition(".")[2])())
        handler.addFilter(logs.About())
        self._stream = handler.stream
        self.logger = logging.Logger("jobs")  # noqa: LOG001 (of its own: what it writes is only here)
        self.logger.addHandler(handler)

    def __str__(self) -> str:
        return str(self._stream.getvalue())

    @property
    def logged(self) -> dict[str, object]:
        """The one line, read as JSON."""
        [line] = str(self).splitlines()
        document: dict[str, object] = json.loads(line)
        return document


@pytest.fixture(params=logs.FORMS)
def either(request: pytest.FixtureRequest) -> Sink:
    """A sink of each form."""
    return Sink(request.param)


class TestJson:
    def test_is_one_object_a_line_with_what_the_work_is_about(self) -> None:
        sink = Sink("json")
        with fields.about(request_id="r-1234567", job_id=7, kind=None):
            fields.note(worker="gpu-box")
            sink.logger.warning("The job %s\nfailed", 7)
        logged = sink.logged
        assert str(logged.pop("time")).endswith("+00:00")
        assert isinstance(logged.pop("pid"), int)
        assert logged == {
            "level": "WARNING",
            "logger": "jobs",
            "message": "The job 7\nfailed",
            "request_id": "r-1234567",
            "worker": "gpu-box",
            "job_id": 7,
        }

    def test_has_the_traceback_and_what_a_call_adds(self) -> None:
        sink = Sink("json")
        try:
            raise ZeroDivisionError("no")
        except ZeroDivisionError:
            sink.logger.exception("It broke", extra={"status_code": 500, "request": object()})
        assert "ZeroDivisionError: no" in str(sink.logged["exc_info"])
        assert sink.logged["status_code"] == 500
        assert "request" not in sink.logged


class TestText:
    def test_ends_with_what_the_work_is_about(self) -> None:
        sink = Sink("text")
        with fields.about(job_id=7, delivery_id="evt_1"):
            sink.logger.info("It waits")
        sink.logger.info("Nothing more")
        first, second = str(sink).splitlines()
        assert first.endswith(" INFO jobs: It waits [job_id=7 delivery_id=evt_1]")
        assert second.endswith(" INFO jobs: Nothing more")


class TestSecrets:
    SECRETS = (
        workers.PREFIX + "kQ3xkq0tYz-8w_abcdefgh",
        accounts.KEY_PREFIX + "kQ3xkq0tYz-8w_abcdefgh",
        "0123456789abcdef0123456789abcdef",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "sk-proj-abcdefgh12345678",
        "hidden-word",
    )
    LINE = ("key {}, Authorization: Bearer {}, lease 12-{}, {}, {}, postgresql://farm:{}@db:5432/farm?x=1").format(
        *SECRETS
    )

    @looped("secret", SECRETS)
    def test_are_in_no_line_of_either_form(self, either: Sink, secret: str) -> None:
        either.logger.warning(self.LINE, extra={"seen": {"deep": [self.LINE]}})
        assert secret not in str(either)
        assert MASK in str(either)

    def test_in_a_traceback_are_hidden_too(self, either: Sink) -> None:
        try:
            raise ValueError(self.LINE)
        except ValueError:
            either.logger.exception("It broke")
        assert [secret for secret in self.SECRETS if secret in str(either)] == []

    def test_leaves_all_else_as_it_was(self) -> None:
        logged = "job 7 of the queue chat: 3-4 attempts, http://127.0.0.1:8000/jobs/7/, 0.5 s, a risk-free task"
        assert masked(logged) == logged


class TestFields:
    def test_end_with_their_block(self) -> None:
        with fields.about(job_id=1):
            with fields.about(job_id=2, worker="w"):
                fields.note(kind="chat")
                assert fields.current() == {"job_id": 2, "worker": "w", "kind": "chat"}
            assert fields.current() == {"job_id": 1}
        assert fields.current() == {}

    def test_have_names_that_are_known(self) -> None:
        with pytest.raises(ValueError, match="no field jobid"):
            fields.note(jobid=1)


class TestWhatAClientDidWrong:
    @pytest.mark.parametrize(("level", "is_kept"), [("WARNING", True), ("ERROR", False)])
    def test_a_foreign_name_is_a_warning_where_warnings_are_kept(
        self, caplog: pytest.LogCaptureFixture, level: str, is_kept: bool
    ) -> None:
        caplog.set_level(level)
        record = self._record(DisallowedHost("evil.example"))
        assert logs.Theirs().filter(record) is is_kept
        assert (record.levelname, record.levelno, record.exc_info) == ("WARNING", logging.WARNING, None)

    def test_what_we_did_wrong_keeps_its_level_and_its_traceback(self) -> None:
        record = self._record(ZeroDivisionError())
        assert logs.Theirs().filter(record)
        assert (record.levelname, record.exc_info is None) == ("ERROR", False)

    def _record(self, error: Exception) -> logging.LogRecord:
        of = "django.security.DisallowedHost"
        return logging.LogRecord(of, logging.ERROR, "", 0, "It broke", None, (type(error), error, None))


class TestTheForm:
    def test_is_text_or_json_and_nothing_else(self) -> None:
        with pytest.raises(logs.UnknownLogForm, match="'xml'; it may be text or json"):
            logs.configuration(form="xml", level="INFO")
