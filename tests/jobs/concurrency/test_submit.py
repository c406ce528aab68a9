"""Submitting from many sides: unique keys hold, nobody waits in a circle, and a rollback leaves nothing."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from jobs import operations
from jobs.errors import NotUnique
from jobs.models import Job, Live
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)


def _bulk(keys: list[str]) -> list[int | NotUnique]:
    return operations.submit_many([operations.NewJob(kind="work", payload=key, unique_key=key) for key in keys])


class TestBulkSubmits:
    def test_in_opposite_orders_never_deadlock_and_store_each_key_once(self) -> None:
        farm.kind()
        rounds = share(160, of=4)
        for round_no in range(rounds):
            keys = [f"{round_no}-{n}" for n in range(12)]
            there, back = farm.at_once(partial(_bulk, keys), partial(_bulk, keys[::-1]))
            stored = [isinstance(answer, int) for answer in there]
            assert [isinstance(answer, int) for answer in back[::-1]] == [not mine for mine in stored]
        assert Job.objects.count() == Job.objects.values("unique_key").distinct().count() == rounds * 12

    def test_for_several_owners_of_one_key_in_opposite_orders_never_deadlock(self) -> None:
        farm.kind()
        owners = [*[farm.user(f"user{n}") for n in range(11)], None]
        rounds = share(80, of=4)
        for round_no in range(rounds):
            topics = [
                operations.NewJob(kind="work", payload=1, unique_key=f"{round_no}", owner=owner) for owner in owners
            ]
            there, back = farm.at_once(
                partial(operations.submit_many, topics), partial(operations.submit_many, topics[::-1])
            )
            stored = [isinstance(answer, int) for answer in there]
            assert [isinstance(answer, int) for answer in back[::-1]] == [not mine for mine in stored]
        assert Job.objects.count() == rounds * 12

    def test_against_the_ends_of_twins_in_opposite_orders_never_deadlock(self) -> None:
        """Who finds that a twin has ended begins anew: after the later keys the earlier one would be out of order."""
        farm.kind()
        for round_no in range(share(60, of=4)):
            keys = [f"{round_no}-{n}" for n in range(8)]
            old = [answer for answer in _bulk(keys[:4]) if isinstance(answer, int)]
            calls: list[Callable[[], Any]] = [partial(operations.cancel, pk, by=None) for pk in old]
            *_, there, back = farm.at_once(*calls, partial(_bulk, keys), partial(_bulk, keys[::-1]))
            live = dict(Job.objects.waiting().values_list("unique_key", "pk"))
            for key, one, other in zip(keys, there, back[::-1], strict=True):
                made = [answer for answer in (one, other) if isinstance(answer, int)]
                assert made == ([live[key]] if key in live else [])
                assert {answer.job for answer in (one, other) if isinstance(answer, NotUnique)} <= {*made, *old}
            farm.end(Job.objects.waiting(), "canceled")

    def test_of_the_same_key_by_sixteen_have_one_winner(self) -> None:
        farm.kind()
        answers = farm.at_once(*[partial(_bulk, ["only"])] * 16)
        assert sum(isinstance(answer, int) for [answer] in answers) == 1
        assert Job.objects.count() == Live.objects.count() == 1

    def test_against_the_end_of_the_twin_leave_at_most_one_alive(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(share(40, of=2)):
            [first] = _bulk(["same"])
            assert isinstance(first, int)
            claimed = farm.claim_one(me)
            _, [second] = farm.at_once(partial(farm.succeed, me, claimed), partial(_bulk, ["same"]))
            live = list(Job.objects.waiting().values_list("pk", flat=True))
            assert live == ([second] if isinstance(second, int) else [])
            for pk in live:
                operations.cancel(pk, by=None)

    def test_and_retries_by_hand_of_one_job_make_one_new_one(self) -> None:
        farm.kind()
        [old] = _bulk(["same"])
        assert isinstance(old, int)
        operations.cancel(old, by=None)

        def again() -> Job | NotUnique:
            try:
                return operations.retry(old, by=None)
            except NotUnique as refusal:
                return refusal

        answers = farm.at_once(*[again] * 8)
        [new] = [answer for answer in answers if isinstance(answer, Job)]
        assert (new.retry_of_id, new.unique_key) == (old, "same")
        assert Job.objects.count() == 2
