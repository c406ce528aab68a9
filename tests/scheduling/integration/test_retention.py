"""Retention of scheduled functions: what ended long ago is forgotten, in batches."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from scheduling.operations import retention
from tests.farm import rescanning
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_ended_seven_days_ago_is_forgotten_and_nothing_else() -> None:
    old, new = (scheduling.run_after(0, sample.say, word=w) for w in ("old", "new"))
    scheduling.run_due()
    waiting = scheduling.run_after(timedelta(days=30), sample.say, word="waiting")
    _age([old])
    assert scheduling.retain() == {"functions": 1}
    assert set(ScheduledFunction.objects.values_list("pk", flat=True)) == {new.pk, waiting.pk}


def test_the_rest_is_left_to_a_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCHES", 2)
    monkeypatch.setitem(retention._declared, "functions", (_forget(), 2))
    old = [scheduling.run_after(0, sample.say, word=str(n)) for n in range(5)]
    scheduling.run_due()
    _age(old)
    assert scheduling.retain() == {"functions": 4}
    [next_run] = ScheduledFunction.objects.filter(status="pending")
    assert (next_run.function, next_run.args) == ("scheduling.operations.retention.retain", {"names": ["functions"]})
    scheduling.run_due()
    assert ScheduledFunction.objects.get(pk=next_run.pk).result == {"functions": 1}
    assert ScheduledFunction.objects.count() == 1


def test_no_more_than_a_batch_is_forgotten_in_one_statement_whatever_its_plan() -> None:
    old = [scheduling.run_after(0, sample.say, word=str(n)) for n in range(5)]
    scheduling.run_due()
    _age(old)
    with rescanning():
        assert [_forget()(2, 0) for _ in range(4)] == [2, 2, 1, 0]


def _forget() -> Callable[[int, int], int]:
    return retention._declared["functions"][0]


def _age(rows: list[ScheduledFunction]) -> None:
    """Let ended functions be older than a week: only with their guard out of the way can that be written."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE scheduling_scheduledfunction DISABLE TRIGGER USER")
        cursor.execute(
            "UPDATE scheduling_scheduledfunction SET ended_at = ended_at - interval '7 days 1 hour',"
            " created_at = created_at - interval '8 days' WHERE id = ANY (%s)",
            [[row.pk for row in rows]],
        )
        cursor.execute("ALTER TABLE scheduling_scheduledfunction ENABLE TRIGGER USER")
