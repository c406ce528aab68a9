"""Repeats that come at the same moment: each request once, whatever else goes on, and nobody waits in a circle."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from jobs import limits, operations
from jobs.errors import NotUnique
from jobs.models import IdempotencyKey, Job
from jobs.queries.submits import DELETED_AFTER_S
from ratelimits import operations as ratelimits
from ratelimits.operations import LimitRequest
from tests import farm
from tests.effort import share
from tests.jobs.limits.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def _count(owner: User, jobs: int) -> None:
    asks = [
        LimitRequest(name=name, key=f"user:{owner.pk}", count=jobs)
        for name in (limits.SUBMIT_USER, limits.SUBMIT_TOKEN)
    ]
    ratelimits.limit_all(asks, throws=True)


def _bulk(owner: User, keys: Sequence[str | None]) -> list[int | NotUnique]:
    return operations.submit_many(
        [operations.NewJob(kind="work", payload=1, unique_key=key, owner=owner) for key in keys]
    )


def _once(owner: User, key: str, keys: Sequence[str | None]) -> list[Any]:
    answers = operations.once(
        operations.repeatable(owner, key, keys),
        count=partial(_count, owner, len(keys)),
        submit=partial(_bulk, owner, keys),
    )
    return [("twin", answer.job) if isinstance(answer, NotUnique) else answer for answer in answers]


class TestTwelveOfThreeRequests:
    def test_at_the_same_moment_are_three_submits_counted_once(self) -> None:
        farm.kind()
        ada, bob = farm.user("ada"), farm.user("bob")
        rounds = share(15, of=2)
        for round_no in range(rounds):
            of_ada, of_bob = (partial(_once, who, f"one {round_no}", [None] * 3) for who in (ada, bob))
            other = partial(_once, ada, f"other {round_no}", [None])
            answers = farm.at_once(*[of_ada, of_bob, other] * 4)
            for n in range(3):
                assert answers[n::3] == [answers[n]] * 4
        assert Job.objects.count() == rounds * (3 + 3 + 1)
        used = sample.used(limits.SUBMIT_USER)
        assert used == {f"user:{ada.pk}": rounds * 4.0, f"user:{bob.pk}": rounds * 3.0}


class TestRequestsOfOnePerson:
    def test_with_keys_and_without_never_deadlock_over_limits_twins_and_ends(self) -> None:
        sample.kind(limit=sample.PLENTY)
        ada = farm.user("ada")

        def cancel_some() -> list[Any]:
            for job_id in Job.objects.waiting().values_list("pk", flat=True)[:4]:
                operations.cancel(job_id, by=ada)
            return []

        for round_no in range(share(25, of=2)):
            keys = [f"u{n}" for n in range(6)]
            calls: list[Callable[[], list[Any]]] = [
                partial(_once, ada, f"there {round_no}", keys), partial(_once, ada, f"there {round_no}", keys),
                partial(_once, ada, f"back {round_no}", keys[::-1]),
                partial(_bulk, ada, keys), partial(_bulk, ada, keys[::-1]), cancel_some, cancel_some,
            ]  # fmt: skip
            there, again, *_ = farm.at_once(*calls)
            assert there == again
        live = list(Job.objects.waiting().values_list("unique_key", flat=True))
        assert len(live) == len(set(live))
        assert sample.used(sample.PLENTY) == {"": float(len(live))}  # each canceled one gave back its token


class TestAKeyThatIsForgottenAtThatMoment:
    def test_is_one_that_nobody_counts_on(self) -> None:
        """The cron deletes what is too old; a new request takes the same rows over."""
        farm.kind()
        ada = farm.user("ada")
        for _ in range(share(25, of=2)):
            for n in range(3):
                _once(ada, f"k{n}", [None])
            IdempotencyKey.objects.update(created_at=Now() - timedelta(seconds=DELETED_AFTER_S + 1))
            before = Job.objects.count()
            takers = [partial(_once, ada, f"k{n}", [None]) for n in range(3)]
            *answers, _ = farm.at_once(*takers, *takers, lambda: [farm.retain("idempotency keys")])
            assert answers[:3] == answers[3:]
            assert Job.objects.count() == before + 3
            assert IdempotencyKey.objects.count() == 3
