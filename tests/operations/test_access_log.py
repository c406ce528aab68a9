"""The access log of a server that runs, as whoever collects it reads it."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from websockets.sync.client import connect

from accounts import operations as accounts
from jobs import operations
from observing import logs
from tests import farm
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def talkative(transactional_db: None) -> Iterator[Server]:
    with serve(LOG_LEVEL="INFO", JOBFARM_LOG="json") as server:
        yield server


def lines_of(server: Server, request_id: str) -> list[dict[str, Any]]:
    """All lines, whoever logs them, with this id."""
    objects = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    return [each for each in objects if each.get("request_id") == request_id]


def test_a_request_is_one_line_with_who_called(talkative: Server, ada: User) -> None:
    row, key = accounts.create_token(ada, name="tests")
    headers = {"Authorization": f"Bearer {key}", "X-Request-ID": "request-of-ada"}
    answer = httpx.get(f"{talkative.url}/api/v1/jobs?limit=7", headers=headers)
    assert answer.headers["x-request-id"] == "request-of-ada"
    [line] = farm.until(lambda: lines_of(talkative, "request-of-ada"))
    assert (line["logger"], line["level"]) == ("jobfarm.access", "INFO")
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/jobs", 200)
    assert (line["user"], line["token"], line["bytes"]) == (ada.pk, row.pk, len(answer.content))
    assert (line["client"], "limit" in line["message"]) == ("127.0.0.1", False)
    assert talkative.log.count("/api/v1/jobs") == 2  # the message and the path of that line: nobody else logs it


def test_a_page_is_a_line_with_whose_session_it_was(talkative: Server, ada: User) -> None:
    from tests.jobs.presence.running import session_of

    headers = {"X-Request-ID": "a-page-of-ada"}
    assert httpx.get(f"{talkative.url}/jobs/", cookies=session_of(ada), headers=headers).status_code == 200
    [line] = farm.until(lambda: lines_of(talkative, "a-page-of-ada"))
    assert line["user"] == ada.pk


def test_who_submits_a_job_or_is_given_one_has_its_number_on_the_line(talkative: Server, ada: User) -> None:
    farm.kind()
    _, token = accounts.create_token(ada, name="tests")
    _, key = operations.create_worker("gpu-box", queues=["work"])
    ids = []
    for name, path, bearer, body in (
        ("a-submit-of-ada", "jobs", token, {"kind": "work", "payload": {}}),
        ("claim-of-gpu-box", "worker/claim", key, {}),
    ):
        headers = {"Authorization": f"Bearer {bearer}", "X-Request-ID": name}
        job = httpx.post(f"{talkative.url}/api/v1/{path}", headers=headers, json=body).json()
        ids.append((job["jobs"][0] if "jobs" in job else job)["id"])
        [line] = farm.until(partial(lines_of, talkative, name))
        assert line["job_id"] == ids[0], path
    assert ids[0] == ids[1]


def test_a_janitor_names_each_job_that_it_takes_back_or_ends(
    transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    farm.kind()
    lost, late = farm.submit(2)
    farm.expire_lease(farm.claim_one(farm.worker("gpu-box")))
    farm.alter(late, expires_at=farm.now())
    caplog.handler.addFilter(logs.About())
    with caplog.at_level("INFO"):
        operations.sweep()
    fields = [record.fields for record in caplog.records if record.name == "jobs.operations.janitor"]  # type: ignore[attr-defined]
    assert [(each["job_id"], each["kind"]) for each in fields] == [(lost.pk, "work"), (late.pk, "work")]
    assert fields[0]["worker"] == "gpu-box"


def test_a_worker_s_socket_is_two_lines(talkative: Server) -> None:
    farm.kind()
    _, key = operations.create_worker("gpu-box", queues=["work"])
    address = talkative.url.replace("http", "ws") + "/ws/worker/"
    headers = {"Authorization": f"Bearer {key}", "X-Request-ID": "socket-of-gpu"}
    with connect(address, additional_headers=headers) as socket:
        socket.send('{"type": "claim", "ref": 1}')
        socket.recv(timeout=10)
    farm.until(lambda: len(lines_of(talkative, "socket-of-gpu")) == 2)
    lines = lines_of(talkative, "socket-of-gpu")
    assert [line["method"] for line in lines] == ["OPEN", "CLOSE"]
    assert (lines[1]["worker"], lines[1]["code"]) == ("gpu-box", 1000)
