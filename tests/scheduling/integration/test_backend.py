"""Django's tasks interface on this scheduler: what that package publishes as its behaviour, and what we add."""

import json
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import connection, transaction

from postgres import clock
from scheduling import operations as scheduling
from scheduling.backend import SchedulingBackend
from scheduling.django_tasks import (
    AnyResult,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
    task,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from scheduling.domain.calls import Kind
from scheduling.errors import Canceled, OutcomeUnknown
from scheduling.models import ScheduledFunction
from scheduling.operations import clusters
from scheduling.queries import functions
from scheduling.queries.functions import Holder
from tests.scheduling.integration import tasks

pytestmark = pytest.mark.django_db(transaction=True)


SIGNALS = (task_enqueued, task_started, task_finished)


class Undone(Exception):
    """What undoes a transaction in these tests."""


@pytest.fixture
def signals() -> Iterator[list[tuple[str, str, str]]]:
    """What the interface's signals said: which, about whom, and its status then."""
    signals: list[tuple[str, str, str]] = []
    receivers = []
    for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

        def receive(*, sender: type, task_result: AnyResult, name: str = name, **_: Any) -> None:
            assert sender is SchedulingBackend
            signals.append((name, task_result.id, task_result.status))

        signal.connect(receive, weak=False)
        receivers.append((signal, receive))
    yield signals
    for signal, receiver in receivers:
        signal.disconnect(receiver)


@pytest.fixture
def broken_receivers() -> Iterator[list[str]]:
    """Receivers of all signals that raise, in the first case after a write of their own that they have to lose."""
    called: list[str] = []

    def refused_by_the_database(**_: Any) -> None:
        called.append("refused")
        Group.objects.create(name="written by a receiver")
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    def broken(**_: Any) -> None:
        called.append("broken")
        raise ValueError("the receiver's own fault")

    pairs = [(each, one) for each in SIGNALS for one in (refused_by_the_database, broken)]
    for signal, receiver in pairs:
        signal.connect(receiver)
    yield called
    for signal, receiver in pairs:
        signal.disconnect(receiver)


class TestTheBackend:
    def test_can_all_that_the_interface_knows(self) -> None:
        backend = default_task_backend
        assert isinstance(task_backends["default"], SchedulingBackend)
        assert backend.supports_defer
        assert backend.supports_async_task
        assert backend.supports_get_result
        assert backend.supports_priority


class TestEnqueueing:
    def test_gives_a_result_that_is_ready(self) -> None:
        result = tasks.add.enqueue(2, b=3)
        assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [2], {"b": 3})
        assert (result.task, result.backend, result.errors, result.attempts) == (tasks.add, "default", [], 0)
        assert result.enqueued_at is not None
        assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
        assert not result.is_finished
        assert len(result.id) <= 64
        with pytest.raises(ValueError, match="not finished"):
            _ = result.return_value

    def test_gives_no_run_after_to_what_was_enqueued_for_now(self) -> None:
        """Once its row said that it was due a microsecond after it was made, and so seemed to have been put off."""
        assert [tasks.add.enqueue(n).task.run_after for n in range(200)] == [None] * 200

    def test_happens_in_the_callers_transaction(self) -> None:
        def enqueue_and_break() -> None:
            with transaction.atomic():
                tasks.add.enqueue(1)
                raise Undone

        with pytest.raises(Undone):
            enqueue_and_break()
        assert not ScheduledFunction.objects.exists()

    def test_waits_for_run_after(self) -> None:
        result = tasks.add.using(run_after=clock.now() + timedelta(hours=1)).enqueue(1)
        assert scheduling.run_due() == 0
        assert result.task.run_after is not None
        moment = clock.now() - timedelta(hours=1)
        past = tasks.add.using(run_after=moment).enqueue(1)
        assert past.task.run_after == moment
        assert scheduling.run_due() == 1
        past.refresh()
        assert past.task.run_after == moment
        assert past.status == TaskResultStatus.SUCCESSFUL

    def test_goes_by_priority(self) -> None:
        low, high = tasks.add.using(priority=-50).enqueue(1), tasks.add.using(priority=50).enqueue(2)
        order = [h.id for h in clusters.dispatch(Kind.ACTION, limit=5)]
        assert order == [int(high.id), int(low.id)]

    def test_keeps_queues_apart(self) -> None:
        tasks.special.enqueue()
        tasks.add.enqueue(1)
        assert len(clusters.dispatch(Kind.ACTION, limit=5, queues=["special"])) == 1
        row = ScheduledFunction.objects.get(queue="special")
        assert (row.priority, row.function) == (10, "tests.scheduling.integration.tasks.special")

    @pytest.mark.parametrize("value", [object(), {1, 2}, datetime.max, float("nan"), "nul\x00"])
    def test_refuses_arguments_that_are_not_json(self, value: Any) -> None:
        with pytest.raises((TypeError, ValueError)):
            tasks.add.enqueue(value)
        assert not ScheduledFunction.objects.exists()

    def test_from_async_code_works(self) -> None:
        result = async_to_sync(tasks.add.aenqueue)(4, 5)
        scheduling.run_due()
        assert async_to_sync(tasks.add.aget_result)(result.id).return_value == 9
        async_to_sync(result.arefresh)()
        assert result.return_value == 9


class TestReceiversThatRaise:
    @pytest.mark.parametrize("task_of", [tasks.write, tasks.write_as_a_mutation])
    def test_are_never_the_tasks_fate(self, task_of: Any, broken_receivers: list[str]) -> None:
        result = task_of.enqueue("once")
        assert scheduling.run_due() == 1
        result.refresh()
        assert (result.status, result.errors) == (TaskResultStatus.SUCCESSFUL, [])
        assert broken_receivers == ["refused", "broken"] * 3
        assert Group.objects.filter(name="once").count() == 1

    def test_leave_the_transaction_that_enqueues_as_it_was(self, broken_receivers: list[str]) -> None:
        with transaction.atomic():
            Group.objects.create(name="of the caller")
            tasks.add.enqueue(1)
            Group.objects.create(name="of the caller, later")
        assert broken_receivers == ["refused", "broken"]
        assert ScheduledFunction.objects.count() == 1
        assert not Group.objects.filter(name="written by a receiver").exists()


def _inner() -> Any:
    def local() -> None:
        """Not at the top of a module."""

    return local


class TestATaskThatCannotBe:
    @pytest.mark.parametrize("change", [{"priority": 101}, {"priority": -101}, {"priority": 1.5}])
    def test_is_refused_for_its_priority(self, change: dict[str, Any]) -> None:
        with pytest.raises(InvalidTask):
            tasks.add.using(**change)

    def test_is_refused_for_a_moment_without_zone_or_too_far_away(self) -> None:
        with pytest.raises(InvalidTask):
            tasks.add.using(run_after=datetime(2030, 1, 1))
        with pytest.raises(InvalidTask):
            tasks.add.using(run_after=clock.now() + timedelta(days=9999)).enqueue(1)

    def test_is_refused_unless_it_is_at_the_top_of_a_module(self) -> None:
        with pytest.raises(InvalidTask):
            task()(_inner())

    def test_is_refused_for_a_context_that_it_does_not_take(self) -> None:
        with pytest.raises(InvalidTask):
            task(takes_context=True)(tasks.add.func)  # type: ignore[arg-type]

    def test_is_refused_as_an_async_mutation(self) -> None:
        with pytest.raises(InvalidTask):
            task(mutation=True)(tasks.aadd.func)

    def test_is_refused_for_a_queue_that_the_settings_do_not_name(self, settings: Any) -> None:
        settings.TASKS = {"default": {"BACKEND": "scheduling.backend.SchedulingBackend", "QUEUES": ["default"]}}
        with pytest.raises(InvalidTask):
            tasks.add.using(queue_name="nowhere")


class TestAResult:
    def test_of_a_success_has_its_value(self) -> None:
        result = tasks.add.enqueue(2, 3)
        scheduling.run_due()
        result.refresh()
        assert (result.status, result.return_value, result.is_finished) == (TaskResultStatus.SUCCESSFUL, 5, True)
        assert (result.attempts, len(result.worker_ids)) == (1, 1)
        assert result.enqueued_at <= result.started_at <= result.finished_at  # type: ignore[operator]
        assert result.last_attempted_at == result.started_at

    def test_of_an_async_task_has_its_value(self) -> None:
        result = tasks.aadd.enqueue(2, 3)
        scheduling.run_due()
        value: Any = tasks.aadd.get_result(result.id).return_value
        assert value == 5

    @pytest.mark.parametrize(
        ("failing", "args", "error"),
        [
            (tasks.fail, ["so"], ValueError),
            (tasks.leave, [], SystemExit),
            (tasks.return_anything, [], TypeError),
            (tasks.add, ["x", "y", "z"], TypeError),
        ],
    )
    def test_of_a_failure_has_its_error(self, failing: Any, args: list[Any], error: type[BaseException]) -> None:
        result = failing.enqueue(*args)
        scheduling.run_due()
        result.refresh()
        assert (result.status, result.is_finished) == (TaskResultStatus.FAILED, True)
        [stored_error] = result.errors
        assert stored_error.exception_class is error
        assert error.__name__ in stored_error.traceback
        with pytest.raises(ValueError, match="failed"):
            _ = result.return_value

    def test_says_in_its_context_that_it_runs(self) -> None:
        result = tasks.report.enqueue("hello")
        scheduling.run_due()
        assert tasks.report.get_result(result.id).return_value == ["hello", result.id, "RUNNING", 1]

    def test_is_found_by_the_backend_and_by_its_own_task_alone(self) -> None:
        result = tasks.add.enqueue(1)
        assert default_task_backend.get_result(result.id) == result
        with pytest.raises(TaskResultMismatch):
            tasks.special.get_result(result.id)

    @pytest.mark.parametrize("unknown", ["", "x", "0", "123456789", "9" * 40, "-1", "²", "None"])
    def test_that_there_is_not_is_refused(self, unknown: str) -> None:
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(unknown)

    def test_is_not_that_of_a_function_of_another_interface(self) -> None:
        from tests.scheduling.integration import sample

        row = scheduling.run_after(0, sample.say, word="x")
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(str(row.pk))

    def test_of_a_canceled_task_is_a_failure_that_says_so(self, signals: list[tuple[str, str, str]]) -> None:
        result = tasks.add.enqueue(1)
        scheduling.cancel(int(result.id))
        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert [error.exception_class for error in result.errors] == [Canceled]
        assert result.attempts == 0
        assert signals[-1] == ("finished", result.id, "FAILED")

    def test_of_an_unknown_outcome_is_a_failure_that_says_so(self, signals: list[tuple[str, str, str]]) -> None:
        result = tasks.add.enqueue(1)
        cluster_id = uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        [handed] = clusters.dispatch(Kind.ACTION, limit=5)
        functions.start(handed.id, by=Holder(cluster_id=cluster_id, ran_by="dead:1"))
        running = default_task_backend.get_result(result.id)
        assert running.status == TaskResultStatus.RUNNING
        clusters.end(cluster_id, ending="died")
        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert [error.exception_class for error in result.errors] == [OutcomeUnknown]
        assert signals[-1] == ("finished", result.id, "FAILED")


class TestSignals:
    def test_tell_of_a_success(self, signals: list[tuple[str, str, str]]) -> None:
        result = tasks.add.enqueue(1)
        scheduling.run_due()
        assert signals == [
            ("enqueued", result.id, "READY"),
            ("started", result.id, "RUNNING"),
            ("finished", result.id, "SUCCESSFUL"),
        ]

    @pytest.mark.parametrize(("failing", "argument"), [(tasks.fail, "x"), (tasks.write_and_break, "x")])
    def test_tell_of_a_failure(self, failing: Any, argument: str, signals: list[tuple[str, str, str]]) -> None:
        result = failing.enqueue(argument)
        scheduling.run_due()
        assert signals == [
            ("enqueued", result.id, "READY"),
            ("started", result.id, "RUNNING"),
            ("finished", result.id, "FAILED"),
        ]

    def test_that_break_their_receiver_leave_the_outcome_alone(self) -> None:
        def broken(**_: Any) -> None:
            raise Undone

        task_finished.connect(broken)
        try:
            result = tasks.add.enqueue(1)
            scheduling.run_due()
        finally:
            task_finished.disconnect(broken)
        result.refresh()
        assert result.status == TaskResultStatus.SUCCESSFUL


class TestAMutationTask:
    def test_that_breaks_leaves_nothing_behind(self) -> None:
        result = tasks.write_and_break.enqueue("gone")
        scheduling.run_due()
        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert not Group.objects.exists()

    def test_commits_its_effect_with_its_success(self) -> None:
        result = tasks.write_as_a_mutation.enqueue("here")
        assert ScheduledFunction.objects.get().kind == "mutation"
        scheduling.run_due()
        result.refresh()
        assert result.return_value == "here"
        assert result.attempts == 1

    def test_is_not_what_a_task_is_by_itself(self) -> None:
        tasks.write.enqueue("directly")
        scheduling.run_due()
        row = ScheduledFunction.objects.get()
        assert (row.kind, row.status) == ("action", "success")
        assert Group.objects.get().name == "directly"
        assert json.loads(json.dumps(row.args)) == {"args": ["directly"], "kwargs": {}}
