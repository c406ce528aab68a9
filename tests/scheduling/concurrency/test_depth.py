"""Many functions due at once, beside one that runs for long, and beside one that kills whoever runs it."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction

from postgres import clock
from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import clusters
from scheduling.operations.functions import insert, new
from scheduling.queries import functions
from tests.scheduling.concurrency.conftest import marks
from tests.scheduling.concurrency.support import Supervisor, all_ended, states, supervisor, until
from tests.scheduling.integration import sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tables")]

COUNT_WRITES = """
CREATE TABLE test_write (function_id bigint, how text);
CREATE FUNCTION test_count_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO test_write VALUES (coalesce(NEW.function_id, OLD.function_id), TG_OP);
    RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER test_count_write BEFORE INSERT OR UPDATE OR DELETE ON scheduling_due
FOR EACH ROW EXECUTE FUNCTION test_count_write();
"""
COUNT_NO_WRITES = (
    "DROP TRIGGER test_count_write ON scheduling_due; DROP FUNCTION test_count_write; DROP TABLE test_write"
)


@pytest.fixture
def writes() -> Iterator[None]:
    """Each write of the queue is noted."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT_WRITES)
    yield
    with connection.cursor() as cursor:
        cursor.execute(COUNT_NO_WRITES)


def counted() -> dict[int, list[str]]:
    """How each function's row of the queue was written."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT function_id, array_agg(how ORDER BY how) FROM test_write GROUP BY function_id")
        return dict(cursor.fetchall())


def schedule_marks(count: int) -> None:
    with transaction.atomic():
        insert([new(sample.put, {"row": n}) for n in range(count)])


def state_of(row: ScheduledFunction) -> str:
    return ScheduledFunction.objects.values_list("status", flat=True).get(pk=row.pk)


def logs(one: Supervisor) -> str:
    return f"{states()}\n{one.log[-4000:]}"


@pytest.mark.usefixtures("writes")
class TestALongMutation:
    def test_delays_nobody_and_each_row_of_the_queue_is_written_twice(self, tmp_path: Path) -> None:
        """One of two workers is busy all the while; those that were due with it are done, and none counts as late."""
        end, count = tmp_path / "end", 300
        with supervisor("--mutations", "--workers", "2") as one:
            with transaction.atomic():
                insert([new(sample.dawdle_until, {"path": str(end)})])
                insert([new(sample.put, {"row": n}) for n in range(count)])
            until(lambda: states().get("success", 0) == count, what=lambda: logs(one))
            assert states() == {"success": count, "pending": 1}
            end.touch()
            until(all_ended, what=lambda: logs(one))
        assert marks() == list(range(count))
        assert set(map(tuple, counted().values())) == {("DELETE", "INSERT")}

    def test_on_every_worker_leaves_room_for_what_is_short(self, tmp_path: Path) -> None:
        end = tmp_path / "end"
        with supervisor("--mutations", "--workers", "2") as one:
            insert([new(sample.dawdle_until, {"path": str(end)})] * 2)
            short = scheduling.run_after(0, sample.put, row=1)
            until(lambda: state_of(short) == "success", what=lambda: logs(one))
            assert states() == {"success": 1, "pending": 2}
            end.touch()
            until(all_ended, what=lambda: logs(one))


@pytest.mark.usefixtures("writes")
class TestAnAction:
    def test_writes_its_row_of_the_queue_twice(self, tmp_path: Path) -> None:
        with supervisor("--actions", "--workers", "2") as one:
            insert([new(sample.append, {"path": str(tmp_path / "x"), "line": str(n)}) for n in range(20)])
            until(all_ended, what=lambda: logs(one))
        assert set(map(tuple, counted().values())) == {("DELETE", "INSERT")}


class TestFreshWork:
    def test_does_not_wait_for_a_backlog(self) -> None:
        with supervisor("--mutations") as one:
            schedule_marks(4000)
            until(lambda: states().get("success", 0) > 200, what=lambda: logs(one))
            fresh = scheduling.run_after(0, sample.nothing)
            until(lambda: state_of(fresh) == "success", pause_s=0.005, what=lambda: logs(one))
            waited = states()["pending"]
        assert waited > 1000  # they are left: that as many all end is asked in test_kills.py

    def test_leaves_most_of_the_only_free_worker_to_the_backlog(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Up to a quarter is for what is new. Of one place that was all of it: what was late stayed."""
        monkeypatch.setattr(functions, "FRESH_S", 60.0)
        late, fresh = (scheduling.run_after(0, sample.nothing) for _ in range(2))
        Due.objects.filter(pk=late.pk).update(next_at=clock.now() - timedelta(hours=1))
        looks = [clusters.dispatch(Kind.MUTATION, limit=1)[0].id for _ in range(100)]
        assert set(looks) == {late.pk, fresh.pk}
        assert looks.count(late.pk) > 40, "three quarters are 75"


class TestAMutationThatKillsItsProcess:
    def test_is_failed_after_three_deaths_and_its_neighbours_run_once(self, tmp_path: Path) -> None:
        ledger, runs, count = tmp_path / "ledger", tmp_path / "runs", 100
        with supervisor("--mutations") as one:
            with transaction.atomic():
                [poison] = insert([new(sample.kill_its_process, {"path": str(ledger), "line": "x"})])
                insert([new(sample.put, {"row": n, "path": str(runs)}) for n in range(count)])
            until(lambda: states().get("success") == count, what=lambda: logs(one))
            assert state_of(poison) == "pending"
            until(all_ended, what=lambda: logs(one))
        ended = ScheduledFunction.objects.get(pk=poison.pk)
        assert (ended.status, ended.error_class) == ("failed", "scheduling.errors.KillsItsProcess")
        assert len(ledger.read_text().split()) == 3
        assert set(Counter(runs.read_text().split()).values()) == {1}


class TestAnActionWhoseModuleKillsItsProcess:
    def test_has_not_started_and_is_failed_after_three_deaths(self, tmp_path: Path) -> None:
        """It is imported before the start is committed: a cluster of another version may have it."""
        with supervisor("--actions") as one:
            with transaction.atomic():
                poison = scheduling.run_after(0, sample.say, word="x")
                ScheduledFunction.objects.update(function="tests.scheduling.integration.kills_when_imported.say")
                others = [scheduling.run_after(0, sample.append, path=str(tmp_path / "x"), line="y") for _ in range(8)]
            until(all_ended, what=lambda: logs(one))
        ended = ScheduledFunction.objects.get(pk=poison.pk)
        assert (ended.status, ended.error_class) == ("failed", "scheduling.errors.KillsItsProcess")
        assert states() == {"failed": 1, "success": len(others)}
