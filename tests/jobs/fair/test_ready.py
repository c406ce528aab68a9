"""Jobs of a fair queue that a worker keeps ready: of several shares, counted as used, charged for their run alone."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Charge, Job, Live, Served, Weight, Worker
from jobs.protocol import verbs
from jobs.protocol.answers import Claimed
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    operations.set_fair("work", "owner")
    return farm.worker()


def whose(claimed: list[operations.ClaimedJob]) -> list[str]:
    names = dict(Job.objects.filter(pk__in=[one.id for one in claimed]).values_list("pk", "owner__username"))
    return [names[one.id] for one in claimed]


def people(*names: str) -> list[User]:
    return [farm.user(name) for name in names]


def age(claimed: operations.ClaimedJob, seconds: float) -> None:
    Live.objects.filter(pk=claimed.id).update(claimed_at=Now() - timedelta(seconds=seconds))


def finished(claimed: operations.ClaimedJob, **fields: Any) -> operations.Finished:
    return operations.Finished(job_id=claimed.id, lease=claimed.lease, **{"outcome": "success", **fields})


def charged() -> list[float]:
    return [round(seconds, 2) for seconds in Charge.objects.values_list("seconds", flat=True)]


def test_one_claim_takes_in_the_order_of_shares_so_that_what_lies_ready_is_nobodys_alone(worker: Worker) -> None:
    ada, bo, cy = people("ada", "bo", "cy")
    Weight.objects.create(owner=cy, weight=2)
    farm.submit(50, owner=ada)
    operations.claim(worker, limit=2)
    farm.submit(50, owner=bo)
    farm.submit(50, owner=cy)
    order = whose(operations.claim(worker, limit=18))
    assert Counter(order) == {"ada": 3, "bo": 5, "cy": 10}
    for count in range(1, len(order) + 1):  # whoever of them is begun first: each share has its part of any beginning
        taken = Counter(order[:count])
        assert abs(2 * taken["bo"] - taken["cy"]) <= 2, order


def test_says_whether_a_job_may_lie_ready_also_when_it_is_repeated(worker: Worker) -> None:
    farm.submit(3)
    for ceiling, expected in ((None, (False, True)), (3, (True, False))):
        operations.set_ceiling("work", ceiling)
        for _ in range(2):
            claimed = operations.claim(worker, limit=1, request_id=f"once {ceiling}")
            assert [(one.has_ceiling, one.is_shared) for one in claimed] == [expected]
            [answered] = Claimed(jobs=claimed, drained=False).model_dump(mode="json")["jobs"]
            assert (answered.get("has_ceiling", False), answered.get("is_shared", False)) == expected
    operations.set_fair("work", "off")
    operations.set_ceiling("work", None)
    [plain] = operations.claim(worker, limit=1)
    assert (plain.has_ceiling, plain.is_shared) == (False, False)


def test_what_lies_ready_counts_as_used_by_its_share(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    farm.submit(20, owner=ada)
    operations.claim(worker, limit=6)
    farm.submit(20, owner=bo)
    assert whose(operations.claim(farm.worker("w2"), limit=6)) == ["bo"] * 6


def test_what_goes_back_unbegun_is_charged_to_nobody_and_goes_out_again_by_share(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    farm.submit(6, owner=ada)
    ready = operations.claim(worker, limit=6)
    for one in ready:
        age(one, 5)
    farm.submit(6, owner=bo)
    assert len(operations.withdraw(worker, [(one.id, one.lease) for one in ready])) == 6
    assert charged() == []
    assert Counter(whose(operations.claim(farm.worker("w2"), limit=8))) == {"ada": 4, "bo": 4}
    assert not Served.objects.filter(share=0).exists()


def test_a_lease_that_nobody_named_in_time_is_charged(worker: Worker) -> None:
    """Its worker may have run the job all the while, and died of it."""
    farm.submit(1)
    [claimed] = operations.claim(worker)
    age(claimed, 25)
    farm.expire_lease(claimed, is_confirmed=False)
    operations.sweep()
    assert [seconds >= 25 for seconds in charged()] == [True]


@pytest.mark.parametrize("how", [{"outcome": "success"}, {"outcome": "failed", "error": "no"}])
def test_what_lay_ready_is_charged_for_its_run_alone(worker: Worker, how: dict[str, Any]) -> None:
    farm.submit(2)
    [claimed] = operations.claim(worker)
    age(claimed, 10)
    operations.finish(worker, [finished(claimed, ran_s=0.25, **how)])
    assert charged() == [pytest.approx(0.25, abs=0.2)]


def test_so_it_is_where_the_same_call_claims_the_next(worker: Worker) -> None:
    farm.submit(2)
    [claimed] = operations.claim(worker)
    age(claimed, 10)
    assert len(operations.finish_and_claim(worker, [finished(claimed, ran_s=0.25)], limit=1)[1]) == 1
    assert Served.objects.get(share=0).seconds == pytest.approx(0.25, abs=0.2), "of a run, as that claim has it"


@pytest.mark.parametrize(("age_s", "ran_s", "expected"), [(10, 99.0, 10.0), (100, 0.0, 80.0), (10, None, 10.0)])
def test_a_run_is_never_longer_than_since_its_claim_and_lay_ready_for_a_heartbeat_interval_at_most(
    worker: Worker, age_s: float, ran_s: float | None, expected: float
) -> None:
    farm.submit(1)
    [claimed] = operations.claim(worker)
    age(claimed, age_s)
    operations.finish(worker, [finished(claimed, ran_s=ran_s)])
    assert charged() == [pytest.approx(expected, abs=0.5)]


def test_a_lease_that_is_lost_changes_nothing_of_what_its_successor_is_charged(worker: Worker) -> None:
    farm.submit(1)
    [first] = operations.claim(worker)
    operations.withdraw(worker, [(first.id, first.lease)])
    [second] = operations.claim(worker)
    age(second, 10)
    operations.finish(worker, [finished(first, ran_s=0.0), finished(second)])
    assert charged() == [pytest.approx(10, abs=0.5)]


def test_the_call_of_a_worker_says_how_long_its_job_ran(worker: Worker) -> None:
    farm.submit(1)
    [claimed] = operations.claim(worker)
    age(claimed, 10)
    body = verbs.Finish.model_validate({"lease": str(claimed.lease), "outcome": "success", "ran_s": 2.5})
    verbs.VERBS["finish"].perform(worker, claimed.id, body)
    assert charged() == [pytest.approx(2.5, abs=0.2)]
