"""django-q2's own interface, as its users use it: `async_task`, schedules, groups, chains, results, its monitor.

Its worker's loop, and its pusher's, run here one after the other in this process, with the farm's broker between them;
in processes of their own they run in tests/scheduling/concurrency/test_clusters.py.
"""

import queue
import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule, Task
from django_q.pusher import pusher
from django_q.status import Stat
from django_q.tasks import async_chain, async_iter, async_task, fetch, queue_size, result, result_group, schedule

from observing.numbers import FunctionCounts
from scheduling.cluster import django_q2
from scheduling.cluster.django_q2 import Broker
from scheduling.cluster.pool import Pool
from scheduling.domain.calls import Kind
from scheduling.models import Cluster
from scheduling.operations import clusters, endings
from scheduling.queries.functions import Report, report
from tests.doctor import named_errors

pytestmark = pytest.mark.django_db(transaction=True)


class Leaves:
    """A class of an argument, until the code forgets it."""


class Stop:
    """The event that ends the pusher: nothing is due any more."""

    def is_set(self) -> bool:
        return bool(queue_size() == 0)


@pytest.fixture
def broker() -> Broker:
    """The one that django-q2 makes from its settings."""
    made = get_broker()
    assert isinstance(made, Broker)
    return made


def push(broker: Broker) -> "queue.Queue[Any]":
    """What the pusher of django-q2's own cluster gives to the workers."""
    tasks: queue.Queue[Any] = queue.Queue()
    pusher(tasks, Stop(), broker)
    return tasks


def run(broker: Broker) -> None:
    """Run what is due, to its stored result."""
    tasks = queue.Queue[Any]()
    for task in [*broker.tasks(100), "STOP"]:
        tasks.put(task)
    django_q2.worker(tasks, SimpleNamespace(put=django_q2.store), django_q2.Timer(), 30)


class TestATask:
    def test_has_its_result(self, broker: Broker) -> None:
        good, bad = async_task("operator.add", 1, 2), async_task("operator.truediv", 1, 0)
        assert (queue_size(), result(good)) == (2, None)
        run(broker)
        assert result(good) == 3
        failed = fetch(bad)
        assert (failed.success, "division by zero" in failed.result) == (False, True)
        assert not OrmQ.objects.exists()

    def test_exists_if_and_only_if_the_transaction_commits(self) -> None:
        def undo() -> None:
            with transaction.atomic():
                async_task("operator.add", 1, 2)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            undo()
        assert queue_size() == 0

    def test_is_given_to_one_cluster_and_to_another_when_its_retry_has_come(self, broker: Broker) -> None:
        async_task("operator.add", 1, 2)
        assert push(broker).qsize() == 1
        assert (broker.queue_size(), broker.lock_size(), broker.tasks(5)) == (0, 1, [])
        OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1))
        assert (broker.queue_size(), broker.lock_size(), len(broker.tasks(5))) == (1, 0, 1)

    def test_of_another_key_is_forgotten_and_stops_no_other(self, broker: Broker) -> None:
        OrmQ.objects.create(key="jobfarm", payload="signed:by:somebody", lock=timezone.now())
        good = async_task("operator.add", 1, 2)
        run(broker)
        assert result(good) == 3
        assert not OrmQ.objects.exists()

    def test_whose_classes_left_the_code_is_put_aside_and_stops_no_other(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async_task("operator.add", Leaves(), 2)
        good = async_task("operator.add", 1, 2)
        monkeypatch.delattr(f"{__name__}.Leaves")
        run(broker)
        assert result(good) == 3
        assert not OrmQ.objects.exists()
        [failed] = Task.objects.filter(success=False)
        assert "cannot be read: AttributeError" in failed.name

    def test_of_a_group_and_of_a_chain_are_found_together(self, broker: Broker) -> None:
        for n in (2, 3):
            async_task("operator.mul", n, n, group="squares")
        async_chain([("operator.neg", (1,)), ("operator.neg", (2,))], group="chain")
        run(broker)
        run(broker)  # the second of the chain comes of the first one's end
        assert sorted(result_group("squares")) == [4, 9]
        assert sorted(result_group("chain")) == [-2, -1]

    def test_may_leave_its_result_in_a_cache(self, broker: Broker) -> None:
        """Of this process here; processes of a farm need one that they share."""
        cached = async_task("operator.add", 1, 2, cached=True)
        both = async_iter("operator.neg", [1, 2], cached=True)
        run(broker)
        assert result(cached, cached=True) == 3
        assert sorted(result(both, cached=True)) == [-2, -1]
        assert not Task.objects.exists()


class TestASchedule:
    def test_makes_a_task_and_moves_on(self, broker: Broker) -> None:
        daily = schedule("operator.mul", 6, 7, schedule_type=Schedule.DAILY, name="product")
        Schedule.objects.update(next_run=timezone.now() - timedelta(seconds=1))
        django_q2.scheduler(broker=broker)
        run(broker)
        assert Task.objects.get(group="product").result == 42
        daily.refresh_from_db()
        assert daily.next_run > timezone.now()
        assert daily.success()

    @pytest.mark.parametrize(
        "poison",
        [
            {"args": "(1, x)"},
            {"kwargs": "5"},
            {"kwargs": "{'q_options': 5}"},
            {"schedule_type": Schedule.CRON, "cron": "x"},
        ],
    )
    def test_that_cannot_be_read_is_put_aside_and_the_others_make_their_tasks(
        self, broker: Broker, poison: dict[str, str]
    ) -> None:
        broken, _ = schedule("operator.add", name="broken"), schedule("operator.mul", 6, 7, name="whole")
        Schedule.objects.filter(pk=broken.pk).update(**{"schedule_type": Schedule.DAILY, **poison})
        Schedule.objects.update(next_run=timezone.now() - timedelta(seconds=1))
        django_q2.scheduler(broker=broker)
        run(broker)
        assert Task.objects.get(group="whole").result == 42
        assert "schedule broken cannot be read" in Task.objects.get(success=False).name
        assert "schedule broken cannot be read" in named_errors()
        broken.refresh_from_db()
        assert broken.repeats == 0

    def test_of_minutes_that_was_due_decades_ago_holds_up_nobody(self, broker: Broker) -> None:
        """Walked minute by minute it would freeze the cluster, which ends with its actions."""
        late = schedule("operator.mul", 6, 7, schedule_type=Schedule.MINUTES, minutes=1)
        Schedule.objects.filter(pk=late.pk).update(next_run=datetime(1970, 1, 1, 0, 0, 30, tzinfo=UTC))
        with endings.time_limit(5.0, TimeoutError):
            django_q2.scheduler(broker=broker)
        run(broker)
        assert [task.result for task in Task.objects.all()] == [42]
        late.refresh_from_db()
        assert timedelta(0) < late.next_run - timezone.now() <= timedelta(minutes=1)
        assert late.next_run.second == 30

    def test_that_is_once_is_gone_afterwards(self, broker: Broker) -> None:
        schedule("operator.mul", 6, 7, schedule_type=Schedule.ONCE)
        django_q2.scheduler(broker=broker)
        run(broker)
        assert [task.result for task in Task.objects.all()] == [42]
        assert not Schedule.objects.exists()


class TestItsMonitor:
    def test_sees_the_clusters(self, broker: Broker) -> None:
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        assert Stat.get_all() == []
        pool = Pool(cluster_id=cluster_id, kind=Kind.ACTION, size=2, counts=FunctionCounts(2))
        stat = django_q2.stat(cluster_id, broker, pool)
        report(cluster_id, Report(workers=2, free=2, waits=False, dispatched=0, stat=stat))
        [seen] = Stat.get_all()
        assert (seen.cluster_id, seen.workers, seen.status) == (cluster_id, [], django_q2.Conf.IDLE)
        assert Stat.get(pid=1, cluster_id=cluster_id).cluster_id == cluster_id
        assert broker.info() == "jobfarm on PostgreSQL"
        Cluster.objects.update(last_seen_at=timezone.now() - timedelta(minutes=1))
        assert Stat.get_all() == []


class TestWhetherItIsUsed:
    def test_is_what_the_administration_shows_it_for(self, broker: Broker) -> None:
        assert not django_q2.is_used()
        async_task("operator.add", 1, 2)
        assert django_q2.is_used()
        run(broker)
        assert django_q2.is_used()
        Task.objects.all().delete()
        assert not django_q2.is_used()
        schedule("operator.add", 1, 2)
        assert django_q2.is_used()
