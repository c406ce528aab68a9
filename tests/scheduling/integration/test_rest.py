"""What a cluster at rest asks: one statement, on the connection that listens."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django_q.tasks import async_task

from postgres import clock
from scheduling import operations as scheduling
from scheduling.cluster.process_group import Listener
from scheduling.domain.calls import Kind
from scheduling.models import Cron, Due
from scheduling.operations import crons
from scheduling.queries import functions
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
ACTIONS = "jobfarm"


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """One that listens, on a farm without crons."""
    monkeypatch.setattr(crons, "_declared", {})
    Cron.objects.all().delete()
    made = Listener({"mutation"})
    made.listen()
    yield made
    made.close()


def seconds(listener: Listener, kind: Kind = Kind.MUTATION, *, own: str | None = None) -> float | None:
    (answer,), _ = listener.ask(*functions.rest(kind, queues=None, own=own, declared=crons.declared()))
    assert answer is None or isinstance(answer, float)
    return answer


class TestAClusterAtRest:
    def test_has_nothing_ahead_on_an_empty_farm(self, listener: Listener) -> None:
        assert seconds(listener) is None

    def test_sleeps_until_the_first_function_of_its_kind_and_queues(self, listener: Listener) -> None:
        scheduling.run_after(60, sample.put, row=1)
        scheduling.run_after(30, sample.put, queue="other", row=2)
        found = seconds(listener)
        assert found is not None
        assert 20 < found <= 30
        (mine,), _ = listener.ask(*functions.rest(Kind.MUTATION, queues=["default"], own=None, declared=[]))
        assert isinstance(mine, float)
        assert 50 < mine <= 60
        assert seconds(listener, Kind.ACTION) is None
        Due.objects.update(next_at=clock.now() - timedelta(seconds=1))
        assert (seconds(listener) or 0) < 0

    def test_sleeps_no_longer_than_until_a_cron_fires_that_is_not_paused(self, listener: Listener) -> None:
        scheduling.declare("greet", scheduling.interval(seconds=60), sample.say, word="hi")
        scheduling.sync_crons()
        assert (seconds(listener) or 0) < 0
        scheduling.pause("greet")
        assert seconds(listener) is None

    def test_sees_tasks_of_django_q2_where_it_runs_them(self, listener: Listener) -> None:
        async_task("operator.add", 1, 2, q_options={"broker": None})
        assert seconds(listener, Kind.ACTION) is None
        assert (seconds(listener, Kind.ACTION, own=ACTIONS) or 0) < 0

    def test_misses_no_notification_that_comes_while_it_asks(self, listener: Listener) -> None:
        with connection.cursor() as cursor:
            cursor.execute("NOTIFY scheduling, 'mutation'")
        _, is_woken = listener.ask(*functions.rest(Kind.MUTATION, queues=None, own=None, declared=[]))
        assert is_woken
        _, is_woken = listener.ask(*functions.rest(Kind.MUTATION, queues=None, own=None, declared=[]))
        assert not is_woken
