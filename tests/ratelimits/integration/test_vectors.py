"""Every unsharded vector on the functions of the database: the same answers as the Python algebra."""

from collections.abc import Callable

import pytest
from django.db import connection

from ratelimits.domain import possible
from ratelimits.errors import CountExceedsLimit
from ratelimits.models import Bucket
from tests.looped import looped
from tests.ratelimits.integration import database
from tests.ratelimits.unit.test_vectors import decide, same, stored
from tests.ratelimits.unit.vectors import Step, close, sequences

pytestmark = pytest.mark.django_db

Take = Callable[[Step], tuple[bool, float | None, float | None]]
GROUPS = sorted({each.group for each in sequences(sharded=False)})


def one(step: Step) -> tuple[bool, float | None, float | None]:
    """By the function for one limit."""
    return database.take(
        step.config, step.key, now=step.now, count=step.count, reserve=step.reserve, offset=step.offset
    )


def all_of_one(step: Step) -> tuple[bool, float | None, float | None]:
    """By the function for several limits, of which there is one."""
    request = database.request(step.config, step.key, count=step.count, reserve=step.reserve)
    [answer] = database.take_all([request], now=step.now, draw=(step.offset + 0.5) / step.config.period_ms)
    return answer


def is_possible(step: Step) -> bool:
    """What is never granted is refused in Python, before the database is asked."""
    try:
        possible(step.config, count=step.count, reserve=step.reserve)
    except CountExceedsLimit:
        return False
    return True


@looped("take", [one, all_of_one])
@looped("group", GROUPS, rolled_back=True)
def test_answers_every_step_as_the_vectors_do(group: str, take: Take) -> None:
    for sequence in sequences(sharded=False):
        if sequence.group != group:
            continue
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM ratelimits_bucket")  # a few rows: new files would cost more
        for step in sequence.steps:
            _play(step, take)
            [state] = database.states(step.key)
            assert stored(state, step.expect), (sequence.id, step, state)


def _play(step: Step, take: Take) -> None:
    if step.op == "reset":
        Bucket.objects.filter(name="x", key=step.key).delete()
    elif not is_possible(step):
        assert step.expect == {**step.expect, "error": "count_exceeds"}
    elif step.op == "check":
        [state] = database.states(step.key)
        decision = decide(step, state)
        assert same(decision, step.expect), (step, state, decision)
    else:
        granted, retry_after, _ = take(step)
        assert granted is step.expect["ok"], step
        assert close(retry_after, step.expect["retryAfter"]), (step, retry_after)
