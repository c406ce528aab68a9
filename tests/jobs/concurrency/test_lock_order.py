"""Who ends a batch of jobs locks them in the order of their ids, however the batch and the plan are ordered."""

import threading
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from jobs import operations
from jobs.models import Live, Worker
from jobs.queries import moves
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)

BATCH = 100
# Without these a plan goes through the batch as it was given, and looks each job up.
ORDERLY = ("hashjoin", "mergejoin", "seqscan", "bitmapscan", "material")


def _finish(worker: Worker, jobs: list[operations.ClaimedJob], outcome: Any) -> list[Any]:
    ended = [operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome, retryable=False) for job in jobs]
    with farm.plans_without(*ORDERLY):
        return operations.finish(worker, ended)


def _unlocked() -> list[int]:
    with transaction.atomic():
        jobs = Live.objects.select_for_update(skip_locked=True).order_by("pk")
        return list(jobs.values_list("pk", flat=True))


@pytest.fixture
def me(monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(moves, "_WAIT", "60s")  # the batch waits for as long as the other takes to look, however slow
    farm.kind()
    return farm.worker()


@pytest.mark.parametrize("outcome", ["success", "failed"])
class TestABatch:
    @pytest.mark.parametrize("is_backwards", [False, True], ids=["in order", "backwards"])
    def test_that_waits_for_a_job_has_locked_those_before_it(
        self, me: Worker, outcome: str, *, is_backwards: bool
    ) -> None:
        ids = [job.pk for job in farm.submit(BATCH)]
        mine = sorted(operations.claim(me, limit=BATCH), key=lambda job: job.id, reverse=is_backwards)
        middle, has_it = ids[BATCH // 2], threading.Event()

        def hold_one() -> list[int]:
            with transaction.atomic():
                Live.objects.select_for_update().get(pk=middle)
                has_it.set()
                farm.until(lambda: farm.waiting_for_locks() == 1, what="the batch")
                [unlocked] = farm.at_once(_unlocked)
                return unlocked

        def end() -> list[Any]:
            assert has_it.wait(timeout=30)
            return _finish(me, mine, outcome)

        unlocked, ended = farm.at_once(hold_one, end)
        assert unlocked == [pk for pk in ids if pk > middle]
        assert ended == [outcome] * BATCH

    def test_and_its_opposite_end_each_job_once(self, me: Worker, outcome: str) -> None:
        for _ in range(10):
            farm.submit(BATCH)
            mine = operations.claim(me, limit=BATCH)
            there, back = farm.at_once(partial(_finish, me, mine, outcome), partial(_finish, me, mine[::-1], outcome))
            story = "success" if outcome == "success" else "failed"
            assert there == back == [story] * BATCH
        assert set(farm.statuses()) == {outcome}
