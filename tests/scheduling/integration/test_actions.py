"""Actions: at most once, with a truthful end; retries; cancels."""

import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, connections, transaction

from core.refusal import CancelVerdict
from postgres import clock
from postgres.connections import conninfo
from postgres.errors import NestedTransaction
from scheduling import operations as scheduling
from scheduling.domain.calls import Kind, Retry, Status
from scheduling.errors import NotEnded, NotFound
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import clusters, endings, runner
from scheduling.operations.functions import insert, like
from scheduling.queries import functions
from scheduling.queries.functions import Holder, Report, report
from tests.farm import until, waiting_for_locks
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
_LOCK = 4711


def stored(row: ScheduledFunction) -> ScheduledFunction:
    return ScheduledFunction.objects.get(pk=row.pk)


def lost_answer(statement: str) -> Callable[..., Any]:
    """The connection breaks off between what this statement does, once, and its answer."""
    losses = [statement]

    def lose(execute: Callable[..., Any], sql: str, *given: Any) -> Any:
        answer = execute(sql, *given)
        if losses and f"/* {losses[0]} */" in sql:
            losses.pop()
            connection.connection.close()
            raise OperationalError("the answer was lost")
        return answer

    return lose


class TestAnAction:
    def test_ends_with_its_result(self) -> None:
        row = scheduling.run_after(0, sample.say, word="hello")
        assert scheduling.run_due() == 1
        ended = stored(row)
        assert (ended.status, ended.result, ended.attempt) == ("success", "hello", 1)
        assert ended.cluster_id is not None
        assert ended.ran_by

    def test_whose_start_was_committed_while_its_answer_was_lost_runs_once(self) -> None:
        row = scheduling.run_after(0, sample.say, word="hello")
        by = Holder(cluster_id=uuid.uuid4(), ran_by="test:1")
        clusters.begin(by.cluster_id, role="actions")
        [one] = clusters.dispatch(Kind.ACTION, limit=1)
        with connection.execute_wrapper(lost_answer("scheduling.start")):
            assert runner.action(one, by=by)
        assert (stored(row).status, stored(row).result) == ("success", "hello")
        assert not runner.action(one, by=by)

    def test_that_raises_has_failed_and_is_not_tried_again(self) -> None:
        row = scheduling.run_after(0, sample.break_down)
        scheduling.run_due()
        ended = stored(row)
        assert (ended.status, ended.error) == ("failed", "Broken: no luck")
        assert ScheduledFunction.objects.count() == 1

    def test_is_a_success_though_its_result_cannot_be_stored(self) -> None:
        row = scheduling.run_after(0, sample.say_what_is_not_json)
        scheduling.run_due()
        ended = stored(row)
        assert (ended.status, ended.result) == ("success", None)
        assert ended.error is not None
        assert "cannot be stored as JSON" in ended.error

    @pytest.mark.parametrize("sqlstate", ["53100", "57014"], ids=["a full disk", "an operator cancels the statement"])
    def test_is_over_when_the_server_takes_its_end(self, sqlstate: str) -> None:
        """Twice it does not: a sequence counts on although its transaction is rolled back."""
        row = scheduling.run_after(0, sample.say, word="hello")
        with connection.cursor() as cursor:
            cursor.execute(f"""
                CREATE SEQUENCE test_tries;
                CREATE FUNCTION test_is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF NEW.status = 'success' AND nextval('test_tries') < 3 THEN
                        RAISE 'not now' USING ERRCODE = '{sqlstate}';
                    END IF;
                    RETURN NEW;
                END $$;
                CREATE TRIGGER test_is_full BEFORE UPDATE ON scheduling_scheduledfunction
                FOR EACH ROW EXECUTE FUNCTION test_is_full()""")
        try:
            assert scheduling.run_due() == 1
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP FUNCTION test_is_full CASCADE; DROP SEQUENCE test_tries")
        assert (stored(row).status, stored(row).result) == ("success", "hello")

    def test_fails_at_its_timeout(self) -> None:
        row = scheduling.run_after(0, sample.never_end)
        scheduling.run_due()
        ended = stored(row)
        assert (ended.status, ended.error_class) == ("failed", "scheduling.errors.ActionTimedOut")

    def test_keeps_what_it_scheduled_though_it_breaks(self) -> None:
        row = scheduling.run_after(0, sample.schedule_from_an_action, word="survives")
        scheduling.run_due()
        child = ScheduledFunction.objects.get(parent=row)
        assert (stored(row).status, child.status) == ("failed", "pending")

    def test_delivered_twice_starts_once(self) -> None:
        scheduling.run_after(0, sample.say, word="once")
        cluster_id = uuid.uuid4()
        by = Holder(cluster_id=cluster_id, ran_by="test:1")
        [handed] = clusters.dispatch(Kind.ACTION, limit=5)
        assert runner.action(handed, by=by) is True
        assert runner.action(handed, by=by) is False

    def test_is_not_started_by_a_cluster_that_was_given_up(self) -> None:
        """What it ran was ended as unknown, and it will find out at its next report."""
        scheduling.run_after(0, sample.say, word="mine")
        over, living = uuid.uuid4(), uuid.uuid4()
        clusters.begin(over, role="actions")
        clusters.begin(living, role="actions")
        clusters.end(over, ending="lost")
        [found] = clusters.dispatch(Kind.ACTION, limit=5)
        assert runner.action(found, by=Holder(cluster_id=over, ran_by="a")) is False
        assert runner.action(found, by=Holder(cluster_id=living, ran_by="b")) is True


class TestWhatIsLate:
    def test_is_what_nobody_has_begun_and_not_a_mutation_that_runs(self) -> None:
        running_now, waiting = (scheduling.run_after(0, sample.make_group, name=n) for n in ("long", "late"))
        Due.objects.update(run_at=clock.now() - timedelta(minutes=1), next_at=clock.now() - timedelta(minutes=1))
        with psycopg.connect(conninfo()) as session:
            session.execute("DELETE FROM scheduling_due WHERE function_id = %s", [running_now.pk])
            health = scheduling.health()
            session.rollback()
        assert (health.late, round(health.oldest_late_s)) == (1, 60)
        assert scheduling.health().late == 2
        assert scheduling.cancel(waiting).verdict == "canceled_before_start"


class TestRunningWhatIsDue:
    def test_is_refused_inside_a_transaction(self) -> None:
        with transaction.atomic(), pytest.raises(NestedTransaction):
            scheduling.run_due()

    def test_once_keeps_to_its_queues(self) -> None:
        mail, other = (scheduling.run_after(0, sample.say, word="x", queue=queue) for queue in ("mail", "other"))
        assert scheduling.run_due(queues=["mail"]) == 1
        assert (stored(mail).status, stored(other).status) == ("success", "pending")


class TestARetry:
    def test_follows_each_failure_until_the_attempts_are_used_up(self) -> None:
        first = scheduling.run_after(0, sample.break_down_and_be_tried_again, word="again")
        assert [scheduling.run_due() for _ in range(4)] == [1, 1, 1, 0]
        rows = list(ScheduledFunction.objects.order_by("pk"))
        assert [(row.attempt, row.status, row.args) for row in rows] == [
            (n, "failed", {"word": "again"}) for n in (1, 2, 3)
        ]
        assert [row.retry_of_id for row in rows] == [None, first.pk, rows[1].pk]

    def test_waits_its_backoff(self) -> None:
        row = scheduling.run_after(0, sample.die_once, path="/nowhere")
        ScheduledFunction.objects.filter(pk=row.pk).update(
            function="tests.scheduling.integration.sample.break_down_and_be_tried_again", args={"word": "x"}
        )
        scheduling.run_due()
        following = ScheduledFunction.objects.get(retry_of=row)
        assert following.run_at >= following.created_at

    def test_of_an_unknown_outcome_needs_an_idempotent_action(self, tmp_path: Path) -> None:
        rows = [
            scheduling.run_after(0, sample.die_once, path=str(tmp_path / "x")),
            scheduling.run_after(0, sample.break_down_and_be_tried_again, word="x"),
        ]
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        for handed in clusters.dispatch(Kind.ACTION, limit=5):
            assert functions.start(handed.id, by=Holder(cluster_id=cluster_id, ran_by="dead:1"))
        clusters.end(cluster_id, ending="died", why="a test")
        assert [stored(row).status for row in rows] == ["unknown", "unknown"]
        assert ScheduledFunction.objects.filter(retry_of=rows[0]).count() == 1
        assert ScheduledFunction.objects.filter(retry_of=rows[1]).count() == 0

    def test_is_refused_at_its_declaration_where_no_row_counts_so_many_attempts(self) -> None:
        Retry(max_attempts=32_767)
        with pytest.raises(ValueError, match="32767"):
            Retry(max_attempts=32_768)

    def test_that_waits_behind_a_thousand_others_is_canceled_with_its_first_try(self) -> None:
        scheduling.run_after(0, sample.break_down)
        scheduling.run_due()
        [values] = ScheduledFunction.objects.values()
        first = values["id"]
        numbers = range(first + 1, first + 1201)
        tries = [{"id": n, "retry_of_id": n - 1, "attempt": n - first + 1} for n in numbers]
        ScheduledFunction.objects.bulk_create(ScheduledFunction(**values | each) for each in tries)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence('scheduling_scheduledfunction', 'id'), %s)", [numbers[-1]]
            )
        last = ScheduledFunction.objects.get(pk=numbers[-1])
        [waiting] = insert([like(last, delay_s=60, retry_of=last.pk, attempt=last.attempt + 1)])
        assert scheduling.cancel(first).verdict is CancelVerdict.BEFORE_RETRY
        assert stored(waiting).status == "canceled"

    def test_that_waits_is_canceled_with_its_first_try(self) -> None:
        first = scheduling.run_after(0, sample.break_down_and_be_tried_again, word="again")
        scheduling.run_due()
        assert scheduling.cancel(first) == scheduling.Cancellation(
            verdict=CancelVerdict.BEFORE_RETRY, status=Status.CANCELED
        )
        assert scheduling.run_due() == 0


class TestACancel:
    def test_before_the_start_means_that_it_never_runs(self) -> None:
        row = scheduling.run_after(0, sample.say, word="never")
        assert scheduling.cancel(row).verdict == "canceled_before_start"
        assert scheduling.run_due() == 0
        assert (stored(row).status, stored(row).started_at) == ("canceled", None)
        assert not Due.objects.exists()

    def test_of_what_has_ended_is_too_late_and_changes_nothing(self) -> None:
        row = scheduling.run_after(0, sample.say, word="done")
        scheduling.run_due()
        before = ScheduledFunction.objects.values().get()
        assert scheduling.cancel(row.pk) == scheduling.Cancellation(
            verdict=CancelVerdict.TOO_LATE, status=Status.SUCCESS
        )
        assert ScheduledFunction.objects.values().get() == before

    def test_of_what_there_is_not_is_refused(self) -> None:
        with pytest.raises(NotFound):
            scheduling.cancel(12345)

    def test_in_a_transaction_that_is_rolled_back_did_not_happen(self) -> None:
        row = scheduling.run_after(0, sample.say, word="after all")

        def cancel_and_break() -> None:
            with transaction.atomic():
                scheduling.cancel(row)
                raise sample.Broken

        with pytest.raises(sample.Broken):
            cancel_and_break()
        assert scheduling.run_due() == 1

    def test_while_it_runs_ignores_its_outcome_and_cancels_what_it_schedules(self, tmp_path: Path) -> None:
        signal = tmp_path / "running"
        row = scheduling.run_after(0, sample.cancel_itself_and_schedule, path=str(signal))

        def run() -> None:
            scheduling.run_due()
            connections.close_all()

        thread = threading.Thread(target=run)
        thread.start()
        while not signal.exists():
            time.sleep(0.005)
        assert scheduling.cancel(row).verdict == "canceled_while_running"
        signal.unlink()
        thread.join(30)
        assert stored(row).status == "canceled"
        children = ScheduledFunction.objects.filter(parent=row).order_by("pk")
        assert [(child.args, child.status) for child in children] == [
            ({"word": "too late"}, "canceled"),
            ({"name": "never"}, "canceled"),
        ]
        assert not Due.objects.exists()
        assert scheduling.run_due() == 0

    def test_of_a_mutation_that_runs_is_too_late(self, tables_of_marks: None) -> None:
        row = scheduling.run_after(0, sample.wait_for_lock, row=1, lock=_LOCK)

        def run() -> None:
            scheduling.run_due()
            connections.close_all()

        thread = threading.Thread(target=run)
        with psycopg.connect(conninfo()) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            thread.start()
            until(waiting_for_locks)
            assert scheduling.cancel(row) == scheduling.Cancellation(
                verdict=CancelVerdict.TOO_LATE, status=Status.PENDING
            )
        thread.join(30)
        assert stored(row).status == "success"


@pytest.fixture
def tables_of_marks(transactional_db: None) -> object:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS test_mark")
        cursor.execute("CREATE TABLE test_mark (id bigint PRIMARY KEY)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_mark")


class TestRunningAgain:
    def test_makes_a_new_row_and_leaves_the_old_one(self) -> None:
        old = scheduling.run_after(0, sample.say, word="twice")
        scheduling.run_due()
        new = scheduling.run_again(old.pk)
        assert (new.run_again_of_id, new.args, new.status, new.attempt) == (old.pk, {"word": "twice"}, "pending", 1)
        assert scheduling.run_due() == 1

    def test_is_refused_for_what_has_not_ended(self) -> None:
        row = scheduling.run_after(timedelta(hours=1), sample.say, word="later")
        with pytest.raises(NotEnded):
            scheduling.run_again(row.pk)
        with pytest.raises(NotFound):
            scheduling.run_again(row.pk + 1000)


class TestTheDatabase:
    def test_refuses_to_change_what_ended_or_to_delete_what_lives(self) -> None:
        from django.db import DatabaseError

        row = scheduling.run_after(0, sample.say, word="x")
        with pytest.raises(DatabaseError, match="never deleted"):
            ScheduledFunction.objects.filter(pk=row.pk).delete()
        scheduling.run_due()
        with pytest.raises(DatabaseError, match="never changed"):
            ScheduledFunction.objects.filter(pk=row.pk).update(status="pending", ended_at=None, result=None)


class TestASilentCluster:
    def test_is_given_up_and_its_actions_are_unknown(self) -> None:
        from django.db.models import F

        from scheduling.models import Cluster

        row = scheduling.run_after(0, sample.say, word="lost")
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        [handed] = clusters.dispatch(Kind.ACTION, limit=5)
        functions.start(handed.id, by=Holder(cluster_id=cluster_id, ran_by="dead:1"))
        assert clusters.sweep() == 0
        Cluster.objects.update(started_at=F("started_at") - timedelta(seconds=11))
        # A PostgreSQL that was started a moment ago says nothing about clusters yet.
        until(lambda: clusters.sweep() == 1, what="the sweep")
        assert (stored(row).status, stored(row).error_class) == ("unknown", "scheduling.errors.OutcomeUnknown")
        assert Cluster.objects.get().ending == "lost"
        assert report(cluster_id, _report()) is None


def _report() -> Report:
    return Report(workers=2, free=2, waits=False)


class TestGivingUp:
    def test_is_of_what_the_dead_cluster_or_its_dead_process_ran_alone(self) -> None:
        dead, living = uuid.uuid4(), uuid.uuid4()
        runs = [(dead, "one"), (dead, "two"), (living, "one")]
        rows = [scheduling.run_after(0, sample.say, word=str(n)) for n in range(3)]
        for row, (cluster_id, ran_by) in zip(rows, runs, strict=True):
            ran = {"cluster_id": cluster_id, "ran_by": ran_by, "started_at": clock.now()}
            ScheduledFunction.objects.filter(pk=row.pk).update(status="in_progress", **ran)
        first = functions.give_up(dead, ran_by="one", ending=endings.UNKNOWN)
        then = functions.give_up(dead, ran_by=None, ending=endings.UNKNOWN)
        assert ([row.pk for row in first], [row.pk for row in then]) == ([rows[0].pk], [rows[1].pk])


class TestWritesByAMutation:
    def test_that_an_action_calls_are_its_own_transaction(self) -> None:
        row = scheduling.run_after(0, sample.write_by_a_mutation, name="by an action")
        scheduling.run_due()
        assert stored(row).status == "success", stored(row).traceback
        assert Group.objects.get().name == "by an action"
