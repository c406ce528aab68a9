"""Clusters as processes: what they run, how they share, how they stop, and that nothing is left of them."""

import random
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ, Schedule, Task
from django_q.status import Stat
from django_q.tasks import async_task

from postgres import connections
from scheduling import operations as scheduling, registry
from scheduling.models import Cluster, Cron, Due, ScheduledFunction
from scheduling.operations.functions import insert, new
from tests.effort import share
from tests.farm import waiting_for_locks
from tests.scheduling.concurrency.conftest import marks
from tests.scheduling.concurrency.support import (
    Supervisor,
    all_ended,
    are_gone,
    keepers,
    kill,
    states,
    supervisor,
    until,
)
from tests.scheduling.integration import sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tables")]

ENDLESS_GRACE = {"SCHEDULING_GRACE_S": "1000"}  # who waits for it is not back in time, on the slowest machine
STOPPED_WITHIN_S = 60.0  # a second on a machine that has nothing else to do
RNG = random.Random(7)
IDLE_BOUND = "idle_in_transaction_session_timeout"
BACK_WITHIN_S = 120.0  # 15 s on a machine that has nothing else to do


def schedule_marks(count: int, *, start: int = 0) -> None:
    with transaction.atomic():
        insert([new(sample.put, {"row": n}) for n in range(start, start + count)])


class TestClustersSideBySide:
    def test_run_both_kinds_share_the_load_collide_in_nothing_and_leave_nothing(self, tmp_path: Path) -> None:
        """Disjoint mutations, half of which schedule others. A serialization failure would run one again."""
        ledger, runs, count = tmp_path / "ledger", tmp_path / "runs", 400
        with keepers("--mutations", "--mutations", "--actions") as started:
            one, two, _ = started
            with transaction.atomic():
                insert(
                    [
                        new(sample.put_and_schedule, {"row": n, "child": n + count, "path": str(runs)})
                        for n in range(count)
                    ]
                )
                insert([new(sample.append, {"path": str(ledger), "line": str(n)}) for n in range(200)])
            until(all_ended, what=lambda: f"{states()} {[k.log for k in started]}")
            processes = [pid for k in started for pid in k.everything()]
            assert len(processes) == 3 * (1 + 1 + 2)  # a supervisor, a dispatcher, and workers
            dispatchers = {one.dispatcher(), two.dispatcher()}
        assert states() == {"success": 2 * count + 200}
        assert marks() == list(range(2 * count))
        assert sorted(map(int, ledger.read_text().split())) == list(range(200))
        until(lambda: are_gone(processes))
        ran = {row.cluster_id for row in ScheduledFunction.objects.filter(kind="mutation") if row.cluster_id}
        assert set(Cluster.objects.filter(cluster_id__in=ran).values_list("pid", flat=True)) == dispatchers
        assert set(Cluster.objects.values_list("ending", flat=True)) == {"stopped"}
        assert sorted(map(int, runs.read_text().split())) == list(range(2 * count))


class TestACancelAgainstTheStart:
    def test_is_truthful_however_close_they_come(self, tmp_path: Path) -> None:
        ledger, verdicts = tmp_path / "ledger", Counter[str]()
        rounds, before_start = share(500, of=4), list[str]()
        with supervisor("--actions") as one:
            for n in range(10 * rounds):
                if n >= rounds and before_start:  # where processors are busy, few cancels come before the start
                    break
                row = scheduling.run_after(0, sample.append, path=str(ledger), line=str(n))
                if n % 3 == 1:
                    until(lambda: not _is_queued(row), pause_s=0.0005)  # noqa: B023
                elif n % 3:
                    time.sleep(RNG.uniform(0, 0.01))  # on its way to a worker, or begun just now
                verdict = scheduling.cancel(row).verdict
                verdicts[verdict] += 1
                if verdict == "canceled_before_start":
                    before_start.append(str(n))
            until(all_ended, what=lambda: f"{states()} {one.log}")
        ran = ledger.read_text().split()
        assert set(ran) & set(before_start) == set(), "a function ran that was canceled before its start"
        assert set(Counter(ran).values()) == {1}
        assert len(ran) + len(before_start) >= verdicts.total() - verdicts["canceled_while_running"]
        assert verdicts["canceled_before_start"] > 0
        assert verdicts.total() >= rounds


def _is_queued(row: ScheduledFunction) -> bool:
    """Whether nobody has started it."""
    return Due.objects.filter(pk=row.pk).exists()


class TestAStop:
    def test_lets_what_runs_finish_within_its_grace_and_gives_back_the_rest(self, tmp_path: Path) -> None:
        ledger, end = tmp_path / "ledger", tmp_path / "end"
        with keepers("--mutations", "--actions", SCHEDULING_GRACE_S="8") as [mutations, actions]:
            dawdling = scheduling.run_after(0, sample.dawdle_until, path=str(end))
            short = scheduling.run_after(0, sample.append_and_wait, path=str(ledger), line="short", until=str(end))
            long = scheduling.run_after(0, sample.append, path=str(ledger), line="long", seconds=100)
            until(lambda: ledger.exists() and len(ledger.read_text().split()) == 2, what=lambda: actions.log)
            until(lambda: states().get("in_progress") == 2)
            until(lambda: _is_in_hands(dawdling))
            waiting = scheduling.run_after(0, sample.append, path=str(ledger), line="waiting")
            mutations.terminate()
            actions.terminate()
            until(lambda: [len(k.processes()) for k in (mutations, actions)] == [2, 3])  # who is free ends first
            end.touch()
            assert (mutations.wait(60), actions.wait(60)) == (0, 0)
        found = dict(ScheduledFunction.objects.values_list("pk", "status"))
        assert found == {dawdling.pk: "success", short.pk: "success", long.pk: "unknown", waiting.pk: "pending"}
        assert scheduling.run_due() == 1

    def test_of_an_idle_cluster_waits_for_nothing_and_leaves_nothing(self) -> None:
        with keepers("--mutations", "--actions", **ENDLESS_GRACE) as [one, two]:
            until(lambda: list(Cluster.objects.values_list("free", flat=True)) == [2, 2], what=lambda: one.log)
            processes = one.everything() + two.everything()
            for idle in (one, two):
                idle.terminate()
                assert idle.wait(STOPPED_WITHIN_S) == 0
            assert are_gone(processes)
        assert set(Cluster.objects.values_list("ending", "why")) == {("stopped", None)}

    def test_in_a_hurry_leaves_what_runs_unknown(self, tmp_path: Path) -> None:
        """SIGQUIT, or a second SIGTERM or Ctrl-C. The action would take 100 s, and could have all of them."""
        with supervisor("--actions", **ENDLESS_GRACE) as one:
            scheduling.run_after(0, sample.append, path=str(tmp_path / "x"), line="x", seconds=100)
            until(lambda: states() == {"in_progress": 1}, what=lambda: one.log)
            processes = one.everything()
            kill(one.pid, signal.SIGQUIT)
            assert one.wait(STOPPED_WITHIN_S) == 0
            until(lambda: are_gone(processes))  # they were killed, which each is told when its turn to run comes
        assert states() == {"unknown": 1}


def _is_in_hands(function: ScheduledFunction) -> bool:
    """Whether a worker has this mutation: its row of the queue is locked until that commits."""
    with transaction.atomic():
        rows = Due.objects.select_for_update(skip_locked=True).filter(function_id=function.pk)
        return not list(rows.values_list("pk", flat=True))


def _victims(one: Supervisor, which: str) -> list[int]:
    dispatcher, *workers = one.processes()
    return {
        "the dispatcher": [dispatcher],
        "all workers": workers,
        "the dispatcher and a worker": [dispatcher, workers[0]],
    }[which]


class TestAKilledProcess:
    @pytest.mark.parametrize("which", ["the dispatcher", "all workers", "the dispatcher and a worker"])
    def test_is_replaced_and_nothing_is_left_of_the_others(self, which: str, tmp_path: Path) -> None:
        with supervisor("--actions") as one:
            cut_off = scheduling.run_after(0, sample.append, path=str(tmp_path / "x"), line="x", seconds=100)
            until(lambda: states().get("in_progress") == 1)
            old = one.everything()[1:]
            victims = _victims(one, which)
            for pid in victims:
                kill(pid)
            # Before that one of them may still begin what comes now, and an action that was begun is unknown then.
            until(lambda: are_gone(old if "dispatcher" in which else victims))
            after = scheduling.run_after(0, sample.say, word="after")
            until(lambda: state_of(after) == "success", within_s=BACK_WITHIN_S, what=lambda: one.log)
            until(lambda: state_of(cut_off) == "unknown", within_s=BACK_WITHIN_S, what=lambda: one.log)
            assert Cluster.objects.filter(ending="died").count() == ("dispatcher" in which)

    def test_that_keeps_the_cluster_takes_it_along(self) -> None:
        with supervisor("--mutations") as one:
            others = one.everything()[1:]
            kill(one.pid)
            one.wait(STOPPED_WITHIN_S)
            until(lambda: are_gone(others), within_s=BACK_WITHIN_S)
        assert Cluster.objects.get().ending == "stopped"


class TestAnActionThatIsDeafToItsTimeout:
    def test_is_killed_and_unknown(self, tmp_path: Path) -> None:
        with supervisor("--actions", SCHEDULING_HOPELESS_S="0.5") as one:
            row = scheduling.run_after(0, sample.hold_everything_up, path=str(tmp_path / "x"))
            until(all_ended, within_s=BACK_WITHIN_S, what=lambda: one.log)
        assert state_of(row) == "unknown"


def state_of(row: ScheduledFunction) -> str:
    return ScheduledFunction.objects.values_list("status", flat=True).get(pk=row.pk)


class TestAFrozenCluster:
    def test_is_replaced_by_another_one_and_one_with_something_long_to_do_is_not(self, tmp_path: Path) -> None:
        """Of the first the dispatcher is frozen, of the second its free worker, which is replaced alone. The third only
        has no worker free, for longer than it takes to be called frozen."""
        with keepers("--mutations --queue one", "--mutations --queue two", "--actions") as [one, two, three]:
            long = [new(sample.append, {"path": str(tmp_path / "x"), "line": "x", "seconds": 11})] * 2
            insert([*long, new(sample.say, {"word": "after them"})])
            until(lambda: states().get("in_progress") == 2, what=lambda: three.log)
            until(lambda: len(two.processes()) == 2)
            old, (dispatcher, worker) = one.processes(), two.processes()
            kill(old[0], signal.SIGSTOP)
            kill(worker, signal.SIGSTOP)
            insert([replace(new(sample.put, {"row": n}), queue=("one", "two")[n % 2]) for n in range(20)])
            until(lambda: scheduling.health().frozen == 1, within_s=BACK_WITHIN_S, what=lambda: one.log)
            until(lambda: are_gone([*old, worker]), within_s=BACK_WITHIN_S)
            until(all_ended, within_s=BACK_WITHIN_S, what=lambda: f"{states()} {one.log} {two.log} {three.log}")
            # All may be done before the second of the new ones has said that it is there.
            until(lambda: Cluster.objects.filter(role="mutations").count() == 3, within_s=BACK_WITHIN_S)
            assert two.dispatcher() == dispatcher
        assert marks() == list(range(20))
        assert states() == {"success": 23}
        endings = Counter(Cluster.objects.values_list("role", "ending"))
        assert endings == {("mutations", "frozen"): 1, ("mutations", "stopped"): 2, ("actions", "stopped"): 1}


@pytest.mark.landing
class TestAClusterThatIsStoppedWhole:
    def test_while_it_fires_a_cron_lets_go_of_that_and_fires_on_when_it_continues(self) -> None:
        with supervisor("--mutations") as one:
            with psycopg.connect(connections.conninfo()) as session:
                session.execute("LOCK TABLE scheduling_scheduledfunction IN EXCLUSIVE MODE")
                Cron.objects.create(
                    name="c", function=registry.dotted_name(sample.read_setting), args={"name": IDLE_BOUND},
                    schedule="every 3600 s", missed="once", overlap="allow", source="person", next_at=Now(),
                )  # fmt: skip
                until(waiting_for_locks)
                stopped = one.everything()
                for pid in stopped:
                    kill(pid, signal.SIGSTOP)
            try:
                until(lambda: [row.cron_id for row in scheduling.fire_due()] == ["c"])
            finally:
                for pid in stopped:
                    kill(pid, signal.SIGCONT)
            Cron.objects.update(next_at=Now())
            until(lambda: states() == {"success": 2}, what=lambda: one.log)
        results = set(ScheduledFunction.objects.values_list("result", flat=True))
        assert results == {"10min"}, "a mutation may idle for its own reasons, and one that is stopped lets go"


@pytest.mark.landing
class TestALockedTable:
    def test_is_no_reason_to_kill_a_cluster_and_what_it_runs(self, tmp_path: Path) -> None:
        end = tmp_path / "end"
        with supervisor("--actions") as one:
            long = scheduling.run_after(0, sample.append_and_wait, path=str(tmp_path / "x"), line="x", until=str(end))
            until(lambda: state_of(long) == "in_progress")
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("LOCK TABLE scheduling_cluster IN EXCLUSIVE MODE")
                # For longer than it takes to be called frozen.
                until(Cluster.objects.filter(last_seen_at__lt=Now() - timedelta(seconds=13)).exists)
            end.touch()
            until(all_ended, what=lambda: one.log)
        assert state_of(long) == "success"
        assert list(Cluster.objects.values_list("ending", flat=True)) == ["stopped"]


@pytest.mark.landing
class TestAClusterThatComesAfterAnOutage:
    def test_works_off_what_is_long_overdue_and_is_not_called_frozen_for_it(self) -> None:
        late = timezone.now() - timedelta(hours=1)
        insert([replace(new(sample.put, {"row": n}), run_at=late) for n in range(20)])
        with supervisor("--mutations") as cluster:
            until(all_ended, what=lambda: cluster.log)
            # For longer than it takes to be called frozen.
            lived = Q(last_seen_at__gt=F("started_at") + timedelta(seconds=9)) | Q(ending="frozen")
            until(Cluster.objects.filter(lived).exists, what=lambda: cluster.log)
        assert list(Cluster.objects.values_list("ending", flat=True)) == ["stopped"]


class TestALostDatabase:
    def test_is_found_again(self, tmp_path: Path) -> None:
        """Every session of the clusters is ended again and again, as a restart of PostgreSQL would."""
        ledger = tmp_path / "ledger"
        with keepers("--mutations", "--actions") as [one, two]:
            for n in range(5):
                with transaction.atomic():
                    insert([new(sample.put, {"row": n * 100 + m}) for m in range(100)])
                    insert([new(sample.append, {"path": str(ledger), "line": str(n * 20 + m)}) for m in range(20)])
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                        " AND backend_type = 'client backend'"  # who cleans up is nobody's to end
                    )
            until(all_ended, what=lambda: f"{states()} {one.log} {two.log}")
        assert states() == {"success": 600}
        assert marks() == list(range(500))
        assert Counter(ledger.read_text().split()) == Counter(map(str, range(100)))


class TestDjangoQsOwn:
    def test_tasks_and_schedules_go_on_working(self) -> None:
        Schedule.objects.create(func="operator.mul", args="6, 7", schedule_type=Schedule.ONCE, name="product")
        with supervisor("--actions") as one:
            good = async_task("operator.add", 1, 2)
            bad = async_task("operator.truediv", 1, 0)
            until(lambda: Task.objects.count() == 3, what=lambda: one.log)
            until(lambda: not OrmQ.objects.exists(), what=lambda: one.log)
            [seen] = Stat.get_all()
            assert len(seen.workers) in {1, 2}, "the second comes when the first is busy"
            assert seen.sentinel == one.dispatcher()
        assert Task.objects.get(id=good).result == 3
        assert Task.objects.get(id=bad).success is False
        assert Task.objects.get(group="product").result == 42

    def test_tasks_of_a_transaction_that_is_rolled_back_do_not_exist(self) -> None:
        def queue_and_break() -> None:
            with transaction.atomic():
                async_task("operator.add", 1, 2)
                raise sample.Broken

        with pytest.raises(sample.Broken):
            queue_and_break()
        assert not OrmQ.objects.exists()
