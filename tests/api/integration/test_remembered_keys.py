"""A worker whose key this process knows from a moment ago gets the answers of one that comes for the first time."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs import operations
from jobs.models import Worker
from jobs.operations import workers
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
Change = Callable[[Worker], object]


def _switched_off(worker: Worker) -> None:
    User.objects.filter(workers=worker).update(is_active=False)


def _deleted(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).delete()


def _nothing(_worker: Worker) -> None:
    """All is as it was."""


def _seen_elsewhere(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(last_seen_at=farm.now())


def _has_another_queue(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(queues=["other"])
    farm.submit(1, "other", owner=worker.owner)


def _steals(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(steals=["*"])


def _of_bob(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(owner=User.objects.get_or_create(username="bob")[0])


CHANGES: list[Change] = [
    operations.revoke, operations.rotate_key, operations.drain, _switched_off, _deleted, _nothing, _seen_elsewhere,
    _has_another_queue, _steals, _of_bob,
]  # fmt: skip


class Caller:
    """Whoever calls with this worker's key; answers are as if its first job were number 1."""

    def __init__(self, key: str, *, remembers: bool) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {key}"})
        self._remembers = remembers
        self.answers: list[tuple[int, Any]] = []

    def call(self, path: str, **body: Any) -> Any:
        """The answer, which is also noted."""
        if not self._remembers:
            workers.REMEMBERED.clear()
        response = self._client.post(f"/api/v1/worker/{path}", json.dumps(body), content_type="application/json")
        self.answers.append((response.status_code, response.json()))
        return response.json()

    def about(self, job: Any, verb: str, **body: Any) -> Any:
        """A call about a job that was claimed."""
        return self.call(f"jobs/{job['id']}/{verb}", lease=job["lease"], **body)


def _plain(answer: Any) -> Any:
    """Without what differs from one run to the next."""
    if isinstance(answer, dict):
        left_out = {"id", "lease", "lease_expires_at", "unclaimed"}
        return {name: _plain(value) for name, value in answer.items() if name not in left_out}
    return [_plain(each) for each in answer] if isinstance(answer, list | tuple) else answer


def _make_calls(worker: Caller, held: list[Any]) -> None:
    one, two, three, four = held
    lost = one | {"lease": three["lease"]}
    worker.about(one, "heartbeat")
    worker.about(lost, "heartbeat")
    worker.about(two, "output", seq=0, text="x")
    worker.about(lost, "output", seq=0, text="x")
    worker.call("claim", queues=["other"])
    worker.call("claim", queues=["unknown"])
    worker.about(lost, "finish", outcome="success", claim_next=1)
    worker.about(one, "finish", outcome="success")
    worker.about(one, "finish", outcome="success")
    worker.about(two, "finish", outcome="success", claim_next=1)
    worker.about(three, "finish", outcome="failed", error="it broke")
    worker.call("finish", finished=[job | {"outcome": "success"} for job in _named(one, four)], claim_next=1)
    worker.call("claim", limit=2)
    worker.call("claim", request_id="a")
    worker.call("claim", request_id="a")


def _named(*jobs: Any) -> list[dict[str, Any]]:
    return [{"id": job["id"], "lease": job["lease"]} for job in jobs]


def _answers(change: Change, *, remembers: bool) -> Any:
    """What a worker of a new person's with four jobs is answered after this change, and what became of the jobs."""
    ada = farm.user(f"ada{remembers}")
    row, key = operations.create_worker("hers", queues=["work"], owner=ada)
    worker = Caller(key, remembers=remembers)
    jobs = farm.submit(9, owner=ada)
    operations.authenticate(key)  # notes that it was heard of; the next look is remembered
    held = worker.call("claim", limit=4)["jobs"]
    assert workers.REMEMBERED.get(row.key_hash) is not None
    change(row)
    _make_calls(worker, held)
    return _plain(worker.answers), farm.statuses(job.pk for job in jobs)


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_each_call_is_answered_as_one_whose_key_nobody_remembers(change: Change) -> None:
    farm.kind()
    farm.kind("other")
    assert _answers(change, remembers=True) == _answers(change, remembers=False)


def test_a_key_is_remembered_for_as_long_as_nothing_need_be_noted_of_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, key = operations.create_worker("hers", queues=["work"])
    first, second, third = operations.authenticate(key), operations.recognize(key), operations.recognize(key)
    assert [worker.version is None for worker in (first, second, third)] == [True, True, False]
    assert {worker.pk for worker in (first, second, third)} == {first.pk}
    monkeypatch.setattr(workers.REMEMBERED, "for_s", -1.0)
    operations.authenticate(key)
    assert operations.recognize(key).version is None


def test_no_more_keys_are_remembered_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.REMEMBERED, "most", 3)
    workers.REMEMBERED.clear()
    for n in range(5):
        _, key = operations.create_worker(f"w{n}", queues=["work"])
        for _ in range(2):
            operations.authenticate(key)
    assert 1 <= len(workers.REMEMBERED) <= 3
