"""Every limit at its edge: what is exactly as large as allowed is taken, and one more is refused with a sentence."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from tests import farm

pytestmark = pytest.mark.django_db
MEGABYTE = configured.JOBFARM["PAYLOAD_BYTES"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Who calls, and a job to call about."""

    client: Client
    worker: Client
    browser: Client
    job: int
    lease: str

    def submit(self, **more: Any) -> int:
        """The status of a job submitted."""
        return self._post(self.client, "jobs", {"kind": "chat", "payload": {}} | more)

    def submit_many(self, count: int) -> int:
        """The status of so many jobs submitted."""
        return self._post(self.client, "jobs/bulk", {"jobs": [{"kind": "chat", "payload": {}}] * count})

    def say(self, verb: str, **more: Any) -> int:
        """The status of a verb about the job."""
        return self._post(self.worker, f"worker/jobs/{self.job}/{verb}", {"lease": self.lease} | more)

    def ask(self, path: str, **body: Any) -> int:
        """The status of another call of a worker."""
        return self._post(self.worker, f"worker/{path}", body)

    def put(self, name: str, content: bytes) -> int:
        """The status of a file handed in."""
        path = f"/api/v1/worker/jobs/{self.job}/files/{name}?lease={self.lease}"
        return int(self.worker.generic("PUT", path, content).status_code)

    def list(self, **given: Any) -> int:
        """The status of a list asked for."""
        return int(self.client.get("/api/v1/jobs", given).status_code)

    def fill_in(self, path: str, **form: Any) -> int:
        """The status of a form filled in."""
        return int(self.browser.post(path, form).status_code)

    @staticmethod
    def _post(client: Client, path: str, body: Any) -> int:
        return int(client.post(f"/api/v1/{path}", body, content_type="application/json").status_code)


@pytest.fixture
def stage(settings: Settings, tmp_path: Path) -> Stage:
    settings.MEDIA_ROOT = tmp_path
    settings.JOBFARM = {**settings.JOBFARM, "FILE_BYTES": 2 * MEGABYTE}
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * MEGABYTE
    operations.sync()
    ada = farm.user("ada")
    ada.user_permissions.set(Permission.objects.filter(codename="raise_priority"))  # beyond it is a limit, too
    _, token = accounts.create_token(ada, name="tests")
    worker, key = operations.create_worker("w1", queues=["chat"])
    operations.submit("chat", {}, owner=ada)
    claimed = farm.claim_one(worker)
    browser = Client()
    browser.force_login(ada)
    browser.post("/accounts/confirm/", {"password": farm.PASSWORD})
    return Stage(
        client=Client(headers={"Authorization": f"Bearer {token}"}),
        worker=Client(headers={"Authorization": f"Bearer {key}"}),
        browser=browser, job=claimed.id, lease=str(claimed.lease),
    )  # fmt: skip


def _payload(size: int) -> str:
    """A text whose JSON is so many bytes, as it is sent: whatever has more than a megabyte is stored so."""
    return "x" * (size - 2)


def _deep(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


Call = Callable[[Stage, int], int]
# What it is, its limit, a call with so much of it, and the status of what is taken and of what is refused.
LIMITS: dict[str, tuple[int, Call, int, int]] = {
    "payload, bytes": (2 * MEGABYTE, lambda at, n: at.submit(payload=_payload(n)), 201, 413),
    "payload, levels": (100, lambda at, n: at.submit(payload=_deep(n)), 201, 422),
    "unique key": (200, lambda at, n: at.submit(unique_key="é" * n), 201, 422),
    "priority": (100, lambda at, n: at.submit(priority=n), 201, 422),
    "lowest priority": (100, lambda at, n: at.submit(priority=-n), 201, 422),
    "jobs at once": (1000, lambda at, n: at.submit_many(n), 201, 422),
    "jobs in a list": (200, lambda at, n: at.list(limit=n), 200, 422),
    "cursor": (2**63 - 1, lambda at, n: at.list(cursor=n), 200, 422),
    "output, bytes": (MEGABYTE, lambda at, n: at.say("output", seq=0, text="é" * 5 + "x" * (n - 10)), 200, 413),
    "result, bytes": (2 * MEGABYTE, lambda at, n: at.say("finish", outcome="success", result=_payload(n)), 200, 413),
    "progress": (1, lambda at, n: at.say("heartbeat", progress=n), 200, 422),
    "file, bytes": (2 * MEGABYTE, lambda at, n: at.put("x.bin", b"x" * n), 201, 413),
    "name of a file": (100, lambda at, n: at.put("x" * n, b"x"), 201, 422),
    "jobs of a claim": (100, lambda at, n: at.ask("claim", limit=n), 200, 422),
    "queues of a claim": (100, lambda at, n: at.ask("claim", queues=["chat"] * n), 200, 422),
    "seconds of waiting": (60, lambda at, n: at.ask("claim", wait=n), 200, 422),
    "ends at once": (
        1000, lambda at, n: at.ask("finish", finished=[{"id": 7, "lease": "1-x", "outcome": "success"}] * n), 200, 422,
    ),
    "name of a token": (
        100, lambda at, n: at.fill_in("/accounts/tokens/", name="x" * n, scopes="read"), 200, 422,
    ),
    "name of a group": (60, lambda at, n: at.fill_in("/accounts/groups/", name="x" * n), 302, 422),
    "name of a worker": (100, lambda at, n: at.fill_in("/workers/connect/", name="x" * n, queues="chat"), 200, 422),
}  # fmt: skip


def test_at_the_limit_is_taken_and_one_more_is_refused(stage: Stage) -> None:
    found = {}
    for what, (limit, call, _, _) in LIMITS.items():
        statuses = []
        for size in (limit, limit + 1):
            with transaction.atomic():
                statuses.append(call(stage, size))
                transaction.set_rollback(True)
        found[what] = tuple(statuses)
    assert found == {what: (taken, refused) for what, (_, _, taken, refused) in LIMITS.items()}


@pytest.mark.parametrize(("field", "limit"), [("detail", 200), ("error", 100_000)])
def test_what_a_worker_says_for_people_is_cut_and_not_refused(stage: Stage, field: str, limit: int) -> None:
    text = "é" * (limit + 1)
    if field == "detail":
        assert stage.say("heartbeat", detail=text) == 200
    else:
        assert stage.say("finish", outcome="failed", error=text, retryable=False) == 200
    document = stage.client.get(f"/api/v1/jobs/{stage.job}").json()
    assert document[field] == "é" * limit


def test_a_request_of_ten_megabytes_is_read_and_no_larger(stage: Stage, settings: Settings) -> None:
    """In front of it stands jobfarm.requests, which reads no more than that either (api/edges/test_bad_input)."""
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == settings.JOBFARM["BODY_BYTES"] == 10 * MEGABYTE
    fits = json.dumps({"kind": "chat", "payload": None}).ljust(10 * MEGABYTE).encode()
    assert _raw(stage.client, fits) == 201
    assert _raw(stage.client, fits + b" ") == 413


def _raw(client: Client, body: bytes) -> int:
    return int(client.generic("POST", "/api/v1/jobs", body, content_type="application/json").status_code)


@pytest.mark.parametrize("owner", ["nobody's", "ada's"])
def test_a_queue_that_is_named_a_hundred_times_is_looked_at_once(stage: Stage, owner: str) -> None:
    """The claim's work is that of its queues taken three at a time: a hundred of them once took twelve seconds."""
    ada = User.objects.get(username="ada")
    worker, _ = operations.create_worker("w2", queues=["chat"], owner=ada if owner == "ada's" else None)
    farm.submit(3, "chat", owner=ada)
    read = []
    for times in (1, 100):
        before = _looks()
        with transaction.atomic():
            assert len(operations.claim(worker, queues=["chat"] * times, limit=2)) == 2
            transaction.set_rollback(True)
        read.append(_looks() - before)
    # Five or seven, as PostgreSQL plans it for these values or for any. A hundred queues would be hundreds of searches.
    assert 0 < min(read) <= max(read) < 20


def _looks() -> int:
    """How often jobs were searched in this transaction: by an index, or, where a small table was just analyzed,
    without one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT idx_scan + seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'")
        return int(cursor.fetchone()[0] or 0)
