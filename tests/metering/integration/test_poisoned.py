"""One job, budget or day that cannot be counted keeps nobody else's usage from being counted."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.registry import METERED_KINDS
from metering import operations as metering
from metering.domain import MOST
from metering.errors import ExceedsBudget
from metering.models import Day, Model, Reading, Reservation, Settlement, Window
from metering.operations import meter
from scheduling.errors import SomeFailed
from tests import farm
from tests.metering import budgets
from tests.metering.budgets import answer, call, numbers
from tests.metering.integration.test_rollup import count_all, run

pytestmark = pytest.mark.django_db(transaction=True)
BIGGEST = 2**63 - 1


@pytest.fixture
def odd_kind() -> Iterator[None]:
    """A kind whose reader takes what it finds, and fails where there is nothing."""
    farm.kind("odd")
    metering.declare("odd", used=lambda result: metering.Tokens(result["in"], result["out"]))
    yield
    del meter._readers["odd"]
    METERED_KINDS.discard("odd")


def test_a_result_that_its_reader_cannot_read_counts_nothing_and_the_others_count(ada: User, odd_kind: None) -> None:
    gpu = farm.worker("gpu", "odd")
    results: list[Any] = [None, {"in": 1, "out": 2}, {"in": 10**30, "out": -5}]
    farm.submit(len(results), "odd", owner=ada)
    claimed = [farm.claim_one(gpu) for _ in results]
    jobs.finish(
        gpu,
        [
            jobs.Finished(job_id=each.id, lease=each.lease, outcome="success", result=result)
            for each, result in zip(claimed, results, strict=True)
        ],
    )
    readings = Reading.objects.order_by("job_id").values_list("tokens_in", "tokens_out")
    assert [*readings] == [(0, 0), (1, 2), (MOST, 0)]


def test_a_day_that_is_full_stands_still_and_the_others_are_counted(ada: User, bob: User) -> None:
    gpu = budgets.worker()
    call(ada)
    run(gpu, seconds=1, result=answer(10, 20))
    count_all(1)
    Day.objects.update(tokens_in=BIGGEST, tokens_out=BIGGEST)
    for person in (ada, bob):
        call(person)
        run(gpu, seconds=1, result=answer(10, 20))
    count_all(3)
    hers, his = Day.objects.order_by("person_id")
    assert (hers.attempts, hers.tokens_in) == (2, 9 * 10**18)
    assert (his.attempts, his.tokens_in, his.tokens_out) == (1, 10, 20)


def test_a_job_that_cannot_be_settled_is_put_aside_and_the_others_are_settled(ada: User, bob: User) -> None:
    hers, his = (budgets.budget("money", 1000, person=person) for person in (ada, bob))
    budgets.price(into=2, out=10)
    gpu = budgets.worker()
    poisoned, _ = call(ada), call(bob)
    kept = list(Reservation.objects.all())
    for result in (answer(1, 1), answer(500_000, 0)):
        farm.succeed(gpu, farm.claim_one(gpu), result)
    Settlement.objects.all().delete()
    Reservation.objects.bulk_create(kept)  # as if the meter had failed at both ends
    Reading.objects.filter(job_id=poisoned.pk).update(cost=10**18 - 1)
    Reading.objects.create(job_id=poisoned.pk, fence=99, model="", tokens_in=0, tokens_out=0, cost=10**18 - 1)
    with pytest.raises(SomeFailed, match="a job to settle"):
        metering.roll_up()
    assert [*Reservation.objects.values_list("job_id", flat=True)] == [poisoned.pk]
    assert numbers(his) == (1.0, 0)
    assert numbers(hers)[1] > 0


def test_a_price_beyond_measure_is_a_call_that_its_budget_has_no_room_for(ada: User) -> None:
    budgets.budget("money", 1000, person=ada)
    Model.objects.create(name=budgets.MODEL, price_out=Decimal(10**18 - 1))
    with pytest.raises(ExceedsBudget):
        call(ada, most=MOST)


def test_a_budget_that_is_used_beyond_measure_is_folded_with_the_others(ada: User, bob: User) -> None:
    hers, his = (budgets.budget("tokens", 1000, person=person) for person in (ada, bob))
    gpu = budgets.worker()
    for person in (ada, bob):
        call(person)
        farm.succeed(gpu, farm.claim_one(gpu), answer(12, 5))
    metering.roll_up()
    assert numbers(his) == (17, 0)
    Window.objects.filter(budget=hers).update(used=10**18 - 1)
    begins = Window.objects.get(budget=hers).starts_at
    Settlement.objects.create(budget=hers, starts_at=begins, used=17, reserved=0)
    call(bob)
    farm.succeed(gpu, farm.claim_one(gpu), answer(12, 5))
    metering.roll_up()
    assert not Settlement.objects.exists()
    assert numbers(his) == (34, 0)
