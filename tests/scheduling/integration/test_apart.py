"""Work for many: one that fails is put aside, and the others are done."""

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from core.refusal import Refusal
from scheduling import context, operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.errors import SomeFailed
from scheduling.operations.functions import insert, new
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_fails_in_a_transaction_leaves_nothing_and_the_others_are_done() -> None:
    failures = scheduling.Failures()
    with transaction.atomic():
        for name in ("a", "", "b"):
            with failures.aside(f"group {name}"):
                Group.objects.create(name=f"new {name}")
                Group.objects.create(name=name)
                if not name:
                    Group.objects.create(name=name)  # the database refuses the second one
    assert set(Group.objects.values_list("name", flat=True)) == {"new a", "a", "new b", "b"}
    [(name, reason)] = failures.reasons.items()
    assert (name, reason.partition(":")[0], "\n" in reason) == ("group ", "IntegrityError", False)
    with pytest.raises(SomeFailed, match=r"A part of it failed, and the rest was done\. group : IntegrityError"):
        failures.raise_any()


def test_a_refusal_is_a_sentence_and_no_failure_raises_nothing() -> None:
    failures = scheduling.Failures()
    failures.raise_any()
    for sentence in ("No\x00, not\n  today.",):
        with failures.aside("it"):
            raise Refusal(sentence)
    assert failures.reasons == {"it": "No\N{REPLACEMENT CHARACTER}, not today."}


@pytest.mark.parametrize("sqlstate", ["40001", "57P01"])
def test_a_collision_and_a_database_that_is_away_are_no_fault_of_the_one_that_met_them(sqlstate: str) -> None:
    failures = scheduling.Failures()

    def meet() -> None:
        with transaction.atomic(), failures.aside("it"), connection.cursor() as cursor:
            cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$")

    with pytest.raises(OperationalError):
        meet()
    assert failures.reasons == {}


def test_an_action_that_schedules_many_asks_once_whether_it_was_canceled() -> None:
    row = scheduling.run_after(60, sample.say, word="hi")
    running = context.Running(id=row.pk, function=row.function, kind=Kind.ACTION, attempt=1)
    with context.running(running), CaptureQueriesContext(connection) as queries:
        made = insert([new(sample.say, {"word": "hi"}) for _ in range(50)])
    assert sum("FOR SHARE" in query["sql"] for query in queries) == 1
    assert {(one.parent_id, one.status) for one in made} == {(row.pk, "pending")}
