"""What the crons of the inbox do for many: one that fails is put aside with its reason, and the rest is done."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs import operations as jobs
from scheduling import operations as scheduling
from scheduling.errors import SomeFailed
from scheduling.operations import retention
from tests.webhooks.inbox.support import receive
from tests.webhooks.inbox.test_maintenance import HOUR, age, lose_runs, telemetry
from webhooks.models import Delivery, DeliveryAttempt
from webhooks.operations import attempts, drain_sandbox_queue, maintenance, reconcile

pytestmark = pytest.mark.usefixtures("transactional_db")
DAYS = timedelta(days=400)


def spoil(monkeypatch: pytest.MonkeyPatch, poisoned: Delivery, where: str = "_ended") -> None:
    """Let what an attempt of this delivery came to be something that cannot be written."""
    plain = getattr(attempts, where)

    def spoilt(row: Any, *args: Any, **more: Any) -> Any:
        if row.id == poisoned.pk:
            raise OverflowError(f"{row.id}")
        return plain(row, *args, **more)

    monkeypatch.setattr(attempts, where, spoilt)


def test_telemetry_that_cannot_be_settled_is_one_deliverys_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [telemetry(number) for number in range(3)]
    spoil(monkeypatch, rows[0])
    assert drain_sandbox_queue() == 3
    statuses = dict(Delivery.objects.values_list("pk", "status"))
    assert statuses == {rows[0].pk: "failed", rows[1].pk: "processed", rows[2].pk: "processed"}
    assert DeliveryAttempt.objects.get(delivery_id=rows[0].pk).error == f"OverflowError: {rows[0].pk}"


def test_a_delivery_that_cannot_be_mended_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [receive(delivery_id=f"d{number}") for number in range(3)]
    lose_runs()
    for row in rows:
        age(row, HOUR)
    plain = scheduling.run_after

    def run_after(delay: Any, function: Any, **given: Any) -> Any:
        if given.get("delivery") == rows[0].pk:
            raise OverflowError
        return plain(delay, function, **given)

    monkeypatch.setattr(scheduling, "run_after", run_after)
    assert maintenance.reschedule_stuck() == [row.pk for row in rows[1:]]


@pytest.mark.parametrize("step", ["reschedule_stuck", "sweep"])
def test_a_part_of_reconciliation_that_fails_keeps_the_others_from_nothing(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    done: list[str] = []

    def replace(where: Any, name: str, result: Any) -> None:
        def one(**_: Any) -> Any:
            if name == step:
                raise OverflowError(name)
            done.append(name)
            return result

        monkeypatch.setattr(where, name, one)

    sweep = jobs.janitor.Sweep(taken_back=0, expired=0, next_in_s=None)
    replace(maintenance, "reschedule_stuck", [])
    replace(jobs, "sweep", sweep)
    with pytest.raises(SomeFailed, match=f"OverflowError: {step}"):
        reconcile()
    assert len(done) == 1


@pytest.fixture
def naming() -> Any:
    """A table of another app that names a delivery, so that the database refuses to delete that."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE of_another_app (it bigint REFERENCES webhooks_delivery DEFERRABLE INITIALLY DEFERRED)"
        )
        yield lambda row: connection.cursor().execute("INSERT INTO of_another_app VALUES (%s)", [row.pk])
        cursor.execute("DROP TABLE of_another_app")


def test_a_delivery_that_cannot_be_deleted_stays_and_the_others_go(
    naming: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(retention._declared, "deliveries", (retention._declared["deliveries"][0], 4))
    rows = [receive(delivery_id=f"d{number}") for number in range(9)]
    Delivery.objects.update(status="processed", ended_at="2020-01-01T00:00Z", received_at="2020-01-01T00:00Z")
    Delivery.objects.filter(pk=rows[1].pk).update(received_at="2019-01-01T00:00Z")
    for row in (rows[1], rows[5]):
        naming(row)
    with pytest.raises(SomeFailed, match=rf"deliveries, 1: IntegrityError: .*\({rows[1].pk}\) is still referenced"):
        scheduling.retain()
    assert set(Delivery.objects.values_list("pk", flat=True)) == {rows[1].pk, rows[5].pk}


def test_a_part_of_retention_that_fails_keeps_the_others_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    old = receive()
    Delivery.objects.update(status="processed", ended_at="2020-01-01T00:00Z", received_at="2020-01-01T00:00Z")

    def refused(_limit: int, _skip: int) -> int:
        raise OverflowError("no")

    monkeypatch.setitem(retention._declared, "functions", (refused, 1000))
    with pytest.raises(SomeFailed, match="functions, 1: OverflowError: no"):
        scheduling.retain()
    assert not Delivery.objects.filter(pk=old.pk).exists()
