"""Every request from outside: named, counted, part of its caller's trace."""

from typing import Any

import pytest
from prometheus_client import REGISTRY

from core.asgi import Message, Receive, Scope, Send
from jobfarm.requests import Observed
from observing import fields, traces

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class App:
    """Answers with a status, or does not; remembers what was known meanwhile."""

    def __init__(self, status: int | None = 200, *, error: Exception | None = None) -> None:
        self.status, self.error = status, error
        self.about: dict[str, Any] = {}
        self.traceparent: str | None = None
        self.waiting = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.about, self.traceparent = dict(fields.current()), traces.current()
        self.waiting = _number("jobfarm_open_connections", kind="waiting requests")
        if self.error is not None:
            raise self.error
        if self.status is not None:
            await send({"type": "http.response.start", "status": self.status, "headers": [(b"a", b"b")]})
            await send({"type": "http.response.body", "body": b""})


async def headers_of(app: App, path: str = "/", **headers: str) -> dict[str, str]:
    """The headers of the answer; none if there was no answer."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nobody reads the body here")

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": raw}
    await Observed(app)(scope, receive, send)
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]} if sent else {}


def _number(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class TestARequest:
    async def test_has_an_id_that_its_log_lines_and_its_answer_have_too(self) -> None:
        app = App()
        answer = await headers_of(app)
        assert answer["a"] == "b"
        assert len(answer["x-request-id"]) == 32
        assert app.about == {"request_id": answer["x-request-id"]}
        assert fields.current() == {}

    @pytest.mark.parametrize(
        ("given", "is_kept"), [("f9d3-from.the_proxy", True), ("short", False), ("x" * 65, False), ("a b c d e", False)]
    )
    async def test_keeps_the_id_of_its_sender_if_it_may_stand_in_a_log(self, given: str, is_kept: bool) -> None:
        answer = await headers_of(App(), x_request_id=given)
        assert (answer["x-request-id"] == given) is is_kept

    @pytest.mark.parametrize(
        ("path", "job"),
        [
            ("/jobs/7/", 7),
            ("/api/v1/jobs/7", 7),
            ("/api/v1/worker/jobs/7/heartbeat", 7),
            ("/jobs/", None),
            ("/jobs/7x", None),
        ],
    )
    async def test_is_about_the_job_that_its_address_names(self, path: str, job: int | None) -> None:
        app = App()
        await headers_of(app, path)
        assert app.about.get("job_id") == job

    async def test_is_part_of_the_trace_that_it_came_with(self) -> None:
        app = App()
        await headers_of(app, traceparent=TRACEPARENT)
        assert app.traceparent == TRACEPARENT
        assert traces.current() is None


class TestCounting:
    @pytest.mark.parametrize(
        ("path", "part"),
        [
            ("/", "pages"), ("/api/v1/jobs", "api"), ("/api/v1/worker/jobs/1/finish", "worker"), ("/metrics", "health"),
            ("/api/v1/worker/claim", "waits"), ("/api/v1/jobs/1/events", "waits"),
            ("/api/v1/jobs/events", "waits"), ("/admin/", "admin"),
            ("/api/webhooks/github", "webhooks"), ("/clerk-users-webhook", "webhooks"), ("/static/a.css", "static"),
        ],
    )  # fmt: skip
    async def test_is_by_part_and_status(self, path: str, part: str) -> None:
        before = _number("jobfarm_http_requests_total", part=part, status="204")
        await headers_of(App(204), path)
        assert _number("jobfarm_http_requests_total", part=part, status="204") == before + 1

    async def test_knows_errors_and_clients_that_left(self) -> None:
        before = [_number("jobfarm_http_requests_total", part="pages", status=status) for status in ("500", "499")]
        with pytest.raises(ZeroDivisionError):
            await headers_of(App(error=ZeroDivisionError()))
        await headers_of(App(status=None))
        after = [_number("jobfarm_http_requests_total", part="pages", status=status) for status in ("500", "499")]
        assert after == [number + 1 for number in before]

    async def test_leaves_out_of_the_durations_what_waits(self) -> None:
        name = "jobfarm_http_request_seconds_count"
        before = [_number(name, part=part) for part in ("waits", "pages")]
        waiting = App()
        await headers_of(waiting, "/api/v1/worker/claim")
        await headers_of(App())
        assert [_number(name, part=part) for part in ("waits", "pages")] == [before[0], before[1] + 1]
        assert waiting.waiting == 1
        assert _number("jobfarm_open_connections", kind="waiting requests") == 0
