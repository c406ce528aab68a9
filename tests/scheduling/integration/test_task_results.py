"""What is told of a task afterwards: its exception to who listens, and its result as long as its row is kept."""

import importlib
import logging
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings

from postgres import clock
from scheduling import operations as scheduling
from scheduling.django_tasks import AnyResult, InvalidTask, TaskResultStatus, default_task_backend, task_finished
from scheduling.errors import Canceled, KillsItsProcess, OutcomeUnknown
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import clusters, runner
from scheduling.queries import functions
from scheduling.queries.functions import Holder
from tests.scheduling.integration import tasks

pytestmark = pytest.mark.django_db(transaction=True)

GONE = "tests.scheduling.integration.tasks.gone_since"


Ends = list[tuple[AnyResult, BaseException | None]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Every task_finished, with the exception that was being handled meanwhile."""
    ends: Ends = []

    def receive(*, task_result: AnyResult, **_: Any) -> None:
        ends.append((task_result, sys.exc_info()[1]))

    task_finished.connect(receive)
    yield ends
    task_finished.disconnect(receive)


class TestTheEndOfAFailedTask:
    @pytest.mark.parametrize("failing", [tasks.fail, tasks.write_and_break])
    def test_carries_its_exception(self, failing: Any, ends: Ends) -> None:
        """The one that was raised, with the lines where it was: that is what monitoring of errors reports."""
        failing.enqueue("so")
        scheduling.run_due()
        [(result, error)] = ends
        assert result.status == TaskResultStatus.FAILED
        assert isinstance(error, ValueError)
        assert _last_function(error) == failing.name
        assert [error.exception_class for error in result.errors] == [ValueError]

    def test_carries_what_would_have_ended_the_process(self, ends: Ends) -> None:
        tasks.leave.enqueue()
        scheduling.run_due()
        [(_, error)] = ends
        assert isinstance(error, SystemExit)

    def test_carries_the_import_error_of_one_that_is_gone(self, ends: Ends) -> None:
        result = tasks.add.enqueue(1)
        ScheduledFunction.objects.filter(pk=int(result.id)).update(function=GONE)
        _run_late()
        [(result, error)] = ends
        assert isinstance(error, ImportError)
        assert result.task.module_path == GONE

    def test_carries_its_exception_into_the_interfaces_own_log(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR):
            result = tasks.fail.enqueue("so")
            scheduling.run_due()
        [line] = [record for record in caplog.records if result.id in record.getMessage()]
        assert line.exc_info is not None
        assert line.exc_info[0] is ValueError

    def test_of_which_a_cancel_says_so(self, ends: Ends) -> None:
        scheduling.cancel(int(tasks.add.enqueue(1).id))
        [(_, error)] = ends
        assert isinstance(error, Canceled)

    def test_whose_outcome_is_unknown_says_so(self, ends: Ends) -> None:
        result, cluster_id = tasks.add.enqueue(1), uuid.uuid4()
        clusters.begin(cluster_id, role="actions")
        functions.start(int(result.id), by=Holder(cluster_id=cluster_id, ran_by="dead:1"))
        clusters.end(cluster_id, ending="died")
        [(_, error)] = ends
        assert isinstance(error, OutcomeUnknown)

    def test_that_kills_its_process_says_so(self, ends: Ends, settings: Any) -> None:
        settings.SCHEDULING = {**settings.SCHEDULING, "MOST_DEATHS": 1}
        result = tasks.write_as_a_mutation.enqueue("x")
        runner.process_died(int(result.id), by=Holder(cluster_id=uuid.uuid4(), ran_by="dead:1"))
        [(_, error)] = ends
        assert isinstance(error, KillsItsProcess)

    def test_that_succeeded_carries_none(self, ends: Ends) -> None:
        tasks.add.enqueue(1)
        tasks.write_as_a_mutation.enqueue("x")
        scheduling.run_due()
        assert [(result.status, error) for result, error in ends] == [("SUCCESSFUL", None)] * 2


class TestTheMomentOfATask:
    @pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(0), timedelta(hours=-1), timedelta(days=-900)])
    def test_is_the_one_that_was_given(self, ahead: timedelta) -> None:
        moment = clock.now() + ahead
        result = tasks.add.using(run_after=moment).enqueue(1)
        assert result.task.run_after == moment
        assert default_task_backend.get_result(result.id).task.run_after == moment
        scheduling.run_due()
        assert default_task_backend.get_result(result.id).task.run_after == moment

    def test_is_the_same_in_another_zone(self) -> None:
        moment = (clock.now() - timedelta(days=1)).astimezone(ZoneInfo("Asia/Kathmandu"))
        result = tasks.add.using(run_after=moment).enqueue(1)
        assert default_task_backend.get_result(result.id).task.run_after == moment

    def test_is_not_changed_by_none(self) -> None:
        """`using` takes None for "no change"."""
        moment = clock.now() - timedelta(minutes=5)
        put_off = tasks.add.using(run_after=moment)
        for task in (put_off.using(run_after=None), put_off.using(run_after=None, priority=5)):
            result = task.enqueue(1)
            assert default_task_backend.get_result(result.id).task.run_after == moment

    def test_of_one_that_runs_again_is_none_even_if_its_code_has_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        moment: datetime = clock.now() + timedelta(hours=1)
        first = tasks.add.using(run_after=moment - timedelta(hours=2)).enqueue(1)
        monkeypatch.setattr(tasks, "add", tasks.add.using(run_after=moment))
        scheduling.run_due()
        again = scheduling.run_again(int(first.id))
        assert default_task_backend.get_result(str(again.pk)).task.run_after is None


SHOP = """
from scheduling.django_tasks import task

@task(priority=7, queue_name="mail")
def add(a, b):
    return a + b
"""
# What becomes of that module, and what a call of the result's task raises then.
RELEASES = {
    "the task is renamed": (SHOP.replace("add", "plus"), ImportError),
    "the task is a plain function": ("def add(a, b):\n    return a + b\n", InvalidTask),
    "the module cannot be imported": ("raise RuntimeError('broken on purpose')\n", RuntimeError),
    "the module is gone": (None, ImportError),
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], Any]]:
    """Releases the module `closing_shop` with this text, or without it, as if the process had begun anew."""
    file = tmp_path / "closing_shop.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def release(text: str | None) -> Any:
        sys.modules.pop("closing_shop", None)
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module("closing_shop") if text == SHOP else None

    yield release
    sys.modules.pop("closing_shop", None)


class TestTheResultOfATaskThatIsGone:
    @pytest.mark.parametrize("release", RELEASES)
    def test_is_found(self, release: str, shop: Callable[[str | None], Any]) -> None:
        given = shop(SHOP).add.enqueue(1, b=2)
        scheduling.run_due()
        text, refusal = RELEASES[release]
        shop(text)
        result = default_task_backend.get_result(given.id)
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
        assert (result.args, result.kwargs) == ([1], {"b": 2})
        task = result.task
        assert (task.module_path, task.name, task.queue_name) == ("closing_shop.add", "add", "mail")
        assert (task.priority, task.run_after) == (7, None)
        with pytest.raises(refusal):
            task.call(1, b=2)
        given.refresh()
        assert given.return_value == 3

    @pytest.mark.parametrize("release", RELEASES)
    def test_says_that_it_failed(self, release: str, shop: Callable[[str | None], Any]) -> None:
        given = shop(SHOP).add.enqueue(1, b=2)
        text, refusal = RELEASES[release]
        shop(text)
        _run_late()
        result = default_task_backend.get_result(given.id)
        assert result.status == TaskResultStatus.FAILED
        [error] = result.errors
        assert issubclass(error.exception_class, refusal)

    def test_is_found_when_its_queue_is_gone_from_the_settings(self) -> None:
        given = tasks.add.using(queue_name="mail").enqueue(1)
        backend = {"BACKEND": "scheduling.backend.SchedulingBackend", "QUEUES": ["default", "special"]}
        with override_settings(TASKS={"default": backend}):
            assert default_task_backend.get_result(given.id).task.queue_name == "mail"
            scheduling.run_due()
            assert default_task_backend.get_result(given.id).status == TaskResultStatus.SUCCESSFUL


def _run_late() -> None:
    """An hour after its time: so long it waits for a cluster of a version that has it."""
    Due.objects.update(run_at=clock.now() - timedelta(hours=2))
    scheduling.run_due()


def _last_function(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_name if trace else ""
