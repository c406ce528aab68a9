"""What a call over HTTP asks the database, and that its answer is what a look at the job says."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import operations as accounts
from jobs import operations
from jobs.operations import lanes, quotas
from tests import farm, wire

pytestmark = pytest.mark.django_db(transaction=True)
PLAIN = {"kind": "work", "payload": {"n": 1}}
CHOSEN = PLAIN | {
    "payload": {"ü": ["é", None, True, 1.5, 10**20, {"b": 1, "a": 2}]},
    "priority": -3,
    "unique_key": "once",
    "run_at": "2099-01-01T12:00:00.123456+02:00",
    "group": "painters",
}


class Caller:
    """Whoever calls with this key, in this process: what it asks the database is seen."""

    def __init__(self, key: str) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {key}"})

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """The answer to a POST that is accepted."""
        response = self._client.post(
            f"/api/v1/{path}", json.dumps(body), content_type="application/json", headers=headers
        )
        assert response.status_code in {200, 201}, response.content
        return response.json()

    def get(self, path: str) -> Any:
        """The answer to a GET."""
        return self._client.get(f"/api/v1/{path}").json()

    def statements(self, path: str, body: Any) -> list[str]:
        """The names of the statements of a POST; of those without one, the first word.

        Without the one by which a process hastens crons: it comes once in ten seconds.
        """
        with CaptureQueriesContext(connection) as captured:
            self.post(path, body)
        sql = [query["sql"] for query in captured.captured_queries]
        named = [re.search(r"/\* (\S+) \*/", text) for text in sql]
        names = [match[1] if match else text.split()[0] for match, text in zip(named, sql, strict=True)]
        return [name for name in names if name != "scheduling.hasten"]


@pytest.fixture
def ada() -> Caller:
    """A member of a group."""
    farm.kind()
    person = farm.user(groups=[Group.objects.create(name="painters")])
    return Caller(accounts.create_token(person, name="tests")[1])


@pytest.fixture
def worker() -> Caller:
    """A worker that serves everybody."""
    return Caller(operations.create_worker("w", queues=["work"])[1])


def test_a_submit_makes_two_statements_and_has_them_published(ada: Caller) -> None:
    """Its kind and its token are looked at by the statement that stores it."""
    quotas.WAITING.forget()  # what a test before this one read is good for five seconds
    for _ in range(2):  # notes that the token was used, and reads what waits; then it is remembered
        ada.post("jobs", PLAIN)
    submit = ["ratelimits.take_all", "jobs.submit_one"]
    assert ada.statements("jobs", PLAIN) == [*submit, "NOTIFY"]  # which a server sends by its event loop


def test_each_call_of_a_worker_is_one_transaction_of_at_most_four_statements(ada: Caller, worker: Caller) -> None:
    """The key is looked at by the statement that acts for it; a NOTIFY is sent by the event loop of a server."""
    ada.post("jobs/bulk", {"jobs": [PLAIN] * 6})
    for _ in range(2):  # it is noted that the key was used; then it is remembered
        worker.post("worker/claim", {})
    claim = ["BEGIN", "jobs.claim", "COMMIT"]
    assert worker.statements("worker/claim", {}) == [*claim, "NOTIFY"]
    named = {"request_id": "one"}
    assert worker.statements("worker/claim", named) == ["BEGIN", "jobs.claimed_before", *claim[1:], "NOTIFY"]
    one, two = worker.post("worker/claim", {"limit": 2})["jobs"]
    assert worker.statements("worker/claim", {"request_id": "nothing-is-left", "wait": 1}) == [
        "BEGIN", "jobs.claimed_before", *claim[1:]
    ]  # fmt: skip
    assert worker.statements(f"worker/jobs/{one['id']}/heartbeat", {"lease": one["lease"]}) == ["jobs.heartbeat"]
    output = {"lease": one["lease"], "text": "x"}
    worker.post(f"worker/jobs/{one['id']}/output", output | {"seq": 0})  # reads how much room there is
    assert worker.statements(f"worker/jobs/{one['id']}/output", output | {"seq": 1}) == ["jobs.write_output", "NOTIFY"]
    ada.post("jobs", PLAIN)
    done = {"lease": one["lease"], "outcome": "success"}
    both = ["BEGIN", "jobs.succeed", "jobs.claim", "COMMIT", "NOTIFY"]
    assert worker.statements(f"worker/jobs/{one['id']}/finish", done | {"claim_next": 1}) == both
    done = {"lease": two["lease"], "outcome": "success"}
    assert worker.statements(f"worker/jobs/{two['id']}/finish", done) == ["BEGIN", "jobs.succeed", "COMMIT", "NOTIFY"]


def test_a_submit_and_a_finish_with_the_next_claim_wait_twice_for_the_database(
    ada: Caller, worker: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements and their BEGIN; the COMMIT. The NOTIFY is sent and not waited for."""
    monkeypatch.setattr(lanes, "EVERY_S", 3600.0)  # moving a mark is a round trip of its own
    monkeypatch.setattr(lanes, "_UNTIDIED", lanes.Untidied())
    ada.post("jobs/bulk", {"jobs": [PLAIN] * 5})
    [held] = worker.post("worker/claim", {})["jobs"]
    for _ in range(3):  # the first prepares, and notes that the keys were used; then they are remembered
        with wire.traced() as submit:
            ada.post("jobs", PLAIN)
        body = {"lease": held["lease"], "outcome": "success", "claim_next": 1}
        with wire.traced() as finish:
            [held] = worker.post(f"worker/jobs/{held['id']}/finish", body)["jobs"]
    assert (submit.round_trips - 1, finish.round_trips - 1) == (2, 2)


@pytest.mark.parametrize("body", [PLAIN, CHOSEN], ids=["plain", "chosen"])
def test_the_answer_to_a_submit_is_what_a_look_at_the_job_says(ada: Caller, body: Any) -> None:
    answer = ada.post("jobs", body)
    assert answer == ada.get(f"jobs/{answer['id']}")


def test_the_answer_to_a_bulk_and_to_its_repeat_is_what_looks_at_the_jobs_say(ada: Caller) -> None:
    bulk = {"jobs": [PLAIN, CHOSEN, CHOSEN]}
    first, repeat = (ada.post("jobs/bulk", bulk, **{"Idempotency-Key": "k"})["jobs"] for _ in range(2))
    assert first == repeat
    assert [job.get("error") for job in first] == [None, None, "not_unique"]
    assert first[:2] == [ada.get(f"jobs/{job['id']}") for job in first[:2]]
