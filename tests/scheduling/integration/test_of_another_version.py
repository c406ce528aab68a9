"""What new code has scheduled and a cluster of the version before is given, and the other way round."""

import re
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from postgres import clock, connections
from scheduling import operations as scheduling, registry
from scheduling.cluster.process_group import Listener
from scheduling.django_tasks import Task
from scheduling.domain.calls import Kind
from scheduling.domain.schedules import Source
from scheduling.models import Cron, Due, ScheduledFunction
from scheduling.operations import clusters, crons, runner
from scheduling.operations.functions import POLL_S
from scheduling.queries import functions
from scheduling.queries.functions import Holder
from tests.scheduling.integration import sample, tasks

pytestmark = pytest.mark.django_db(transaction=True)


def scheduled(function: Any) -> ScheduledFunction:
    if isinstance(function, Task):
        return ScheduledFunction.objects.get(pk=function.enqueue(1).id)
    return scheduling.run_after(0, function, **({"word": "x"} if function is sample.say else {"name": "x"}))


def stored(row: ScheduledFunction) -> ScheduledFunction:
    return ScheduledFunction.objects.get(pk=row.pk)


GONE = {"function": "shop.tasks.gone"}
OTHER_ARGS = {"args": {"name": "x", "word": "x", "by": 1}}


@pytest.mark.parametrize(
    ("function", "changes"),
    [
        *product((sample.say, sample.make_group), (GONE, OTHER_ARGS)),
        *product((tasks.add, tasks.write_as_a_mutation), (GONE, {"function": f"{tasks.__name__}.Group"})),
    ],
)
class TestAFunctionOfAnotherVersion:
    @pytest.fixture
    def row(self, function: Any, changes: dict[str, Any]) -> ScheduledFunction:
        made = scheduled(function)
        ScheduledFunction.objects.filter(pk=made.pk).update(**changes)
        return made

    def test_waits_untouched_for_a_cluster_that_has_it(self, row: ScheduledFunction) -> None:
        assert [scheduling.run_due(), scheduling.run_due(), stored(row).status] == [0, 0, "pending"]
        assert Due.objects.get().next_at > clock.now()
        ScheduledFunction.objects.update(function=row.function, args=row.args)
        Due.objects.update(next_at=clock.now())
        assert [scheduling.run_due(), stored(row).status] == [1, "success"]

    def test_is_named_by_the_doctor_when_no_such_cluster_has_come_for_minutes(
        self, row: ScheduledFunction, caplog: pytest.LogCaptureFixture
    ) -> None:
        for minutes in (1, 10):
            Due.objects.update(next_at=clock.now())
            ScheduledFunction.objects.update(run_at=clock.now() - timedelta(minutes=minutes))
            scheduling.run_due()
        assert [one.levelname for one in caplog.records] == ["WARNING", "ERROR"]
        assert f"{stored(row).function} #{row.pk} is not of this version" in caplog.text

    def test_says_on_its_page_what_it_waits_for(self, row: ScheduledFunction, client: Client) -> None:
        client.force_login(User.objects.create_superuser("root"))
        address, sentence = f"/functions/{row.pk}/", "It waits for a cluster of a version that has"
        assert sentence in client.get(address).content.decode()
        scheduling.run_due()  # of no such version; the site is
        ScheduledFunction.objects.update(function=row.function, args=row.args)
        assert sentence in client.get(address).content.decode()
        Due.objects.update(next_at=clock.now())
        scheduling.run_due()
        assert sentence not in client.get(address).content.decode()

    def test_is_looked_at_the_less_often_the_longer_it_has_waited(self, row: ScheduledFunction) -> None:
        for minutes, least_s in ((0, 9), (4, 115), (40, 295)):
            Due.objects.update(run_at=clock.now() - timedelta(minutes=minutes), next_at=clock.now())
            assert scheduling.run_due() == 0
            waits_s = (Due.objects.get().next_at - clock.now()).total_seconds()
            assert least_s < waits_s <= 300, minutes

    def test_is_not_failed_by_who_was_given_it_beside_another_that_put_it_aside(self, row: ScheduledFunction) -> None:
        [given], by = clusters.dispatch(Kind(row.kind), limit=1), Holder(cluster_id=uuid4(), ran_by="here")
        ran = runner.action if row.kind == Kind.ACTION else runner.mutation
        assert [ran(given, by=by), ran(given, by=by), stored(row).status] == [False, False, "pending"]

    def test_is_not_failed_while_another_looks_at_it(self, row: ScheduledFunction) -> None:
        [given], by = clusters.dispatch(Kind(row.kind), limit=1), Holder(cluster_id=uuid4(), ran_by="here")
        with psycopg.connect(connections.conninfo()) as other:
            other.execute("SELECT FROM scheduling_due FOR UPDATE")
            assert not (runner.action if row.kind == Kind.ACTION else runner.mutation)(given, by=by)
        assert stored(row).status == "pending"

    def test_fails_when_none_has_come_within_an_hour(self, row: ScheduledFunction, changes: dict[str, Any]) -> None:
        Due.objects.update(run_at=clock.now() - timedelta(hours=2))
        scheduling.run_due()
        error = "TypeError" if "args" in changes else "UnknownFunction|ModuleNotFoundError|InvalidTask(Error)?"
        assert stored(row).status == "failed"
        assert re.search(f"[.]({error})$", stored(row).error_class or "")


@pytest.mark.parametrize("function", [sample.say, sample.make_group])
@pytest.mark.parametrize("args", ["[1]", "7", "[" * 2000 + "]" * 2000])
def test_arguments_that_no_version_takes_fail_at_once(function: Any, args: str) -> None:
    row = scheduling.run_after(0, function, **({"word": "x"} if function is sample.say else {"name": "x"}))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_scheduledfunction SET args = %s::jsonb", [args])
    scheduling.run_due()
    assert ScheduledFunction.objects.defer("args").get(pk=row.pk).status == "failed"


@pytest.mark.parametrize("function", [sample.say, sample.make_group, tasks.add, tasks.write_as_a_mutation])
def test_a_module_that_exits_when_it_is_imported_fails_what_is_in_it_and_ends_no_process(function: Any) -> None:
    row = scheduled(function)
    ScheduledFunction.objects.update(function="tests.scheduling.integration.exits_when_imported.say")
    scheduling.run_due()
    error = "builtins.SystemExit" if isinstance(function, Task) else "scheduling.errors.BrokenFunction"
    assert (stored(row).status, stored(row).error_class) == ("failed", error)


def test_an_actions_module_is_imported_within_a_time_and_then_it_runs_within_its_own() -> None:
    """A module that waits for ever when it is imported would keep a worker for good."""
    scheduling.run_after(0, sample.append, path="/dev/null", line="x")
    [given], within = clusters.dispatch(Kind.ACTION, limit=1), list[float | None]()

    def deadline(seconds: float | None) -> AbstractContextManager[None]:
        within.append(seconds)
        return nullcontext()

    assert runner.action(given, by=Holder(cluster_id=uuid4(), ran_by="here"), deadline=deadline)
    assert within == [registry.ACTION_TIMEOUT_S, 120]


class TestAFunctionThatIsOfTheOtherKindNow:
    """Or whose cron was fired by a cluster that does not know it: as an action."""

    def test_is_a_transaction_of_an_action(self) -> None:
        row = scheduling.run_after(0, sample.say, word="x")
        ScheduledFunction.objects.update(function=f"{sample.__name__}.make_group", args={"name": "x"})
        assert (scheduling.run_due(), stored(row).status, stored(row).error) == (1, "success", None)
        assert Group.objects.get().name == "x"

    def test_is_scheduled_as_an_action_by_the_mutation_that_it_was(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="x")
        ScheduledFunction.objects.update(function=f"{sample.__name__}.say", args={"word": "x"})
        assert (scheduling.run_due(kinds=[Kind.MUTATION]), stored(row).status) == (1, "success")
        child = ScheduledFunction.objects.get(parent=row)
        assert (child.kind, child.status, scheduling.run_due(), stored(child).result) == ("action", "pending", 1, "x")


class TestACronOfAnotherVersion:
    """Which runs beside this one: its cluster lives."""

    @pytest.fixture(autouse=True)
    def cron(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(crons, "_declared", {})
        Cron.objects.all().delete()
        scheduling.declare("report", scheduling.interval(seconds=60), sample.say, word="x")
        scheduling.sync_crons()
        monkeypatch.setattr(crons, "_declared", {})
        self.cluster = uuid4()
        clusters.begin(self.cluster, role="actions")
        functions.report(self.cluster, functions.Report(workers=1, free=1, waits=False))

    def test_goes_on_when_a_cluster_that_does_not_declare_it_starts(self) -> None:
        scheduling.sync_crons()
        assert Cron.objects.get().retired_at is None

    def test_is_left_to_a_cluster_that_declares_it_and_wakes_no_other(self) -> None:
        Cron.objects.update(next_at=clock.now() - timedelta(minutes=1))
        assert scheduling.fire_due() == []
        assert clusters.next_wake_s(Kind.ACTION, []) == POLL_S
        with closing(Listener({"action"})) as listener:
            listener.listen()
            (seconds,), _ = listener.ask(*functions.rest(Kind.ACTION, queues=None, own=None, declared=[]))
        assert seconds is None
        assert scheduling.health().overdue == ()
        scheduling.declare("report", scheduling.interval(seconds=60), sample.say, word="x")
        assert len(scheduling.fire_due()) == 1

    @pytest.mark.parametrize("is_paused", [False, True])
    def test_is_retired_once_no_such_cluster_has_fired_it_within_an_hour(self, is_paused: bool) -> None:
        Cron.objects.update(next_at=clock.now() - timedelta(minutes=59), paused_at=clock.now() if is_paused else None)
        crons.reconcile()
        assert Cron.objects.get().retired_at is None
        Cron.objects.update(next_at=clock.now() - timedelta(hours=2))
        assert scheduling.fire_due() == []
        crons.reconcile()
        assert Cron.objects.get().retired_at is not None

    def test_is_retired_at_once_when_no_other_cluster_lives(self) -> None:
        clusters.end(self.cluster, ending="stopped")
        scheduling.sync_crons()
        assert Cron.objects.get().retired_at is not None

    def test_goes_on_soon_though_another_cluster_retired_it_and_misses_no_fire_time(self) -> None:
        daily, late = scheduling.daily(hour=3), clock.now() - timedelta(seconds=40)
        Cron.objects.update(retired_at=clock.now(), next_at=late, schedule=daily.text())
        crons.reconcile()
        assert Cron.objects.get().retired_at is not None, "here it is not declared"
        scheduling.declare("report", daily, sample.say, word="x")
        crons.reconcile()
        assert Cron.objects.get().retired_at is None
        assert len(scheduling.fire_due()) == 1

    def test_that_is_paused_is_not_retired_and_taken_back_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Cron.objects.update(paused_at=clock.now(), next_at=clock.now() - timedelta(hours=2))
        crons.reconcile()
        scheduling.declare("report", scheduling.interval(seconds=60), sample.say, word="x")
        crons.reconcile()
        monkeypatch.setattr(crons, "_declared", {})
        crons.reconcile()
        assert (Cron.objects.get().retired_at, Cron.objects.get().paused_at is None) == (None, False)

    def test_that_a_person_removed_is_not_taken_back(self) -> None:
        Cron.objects.update(source=Source.PERSON, retired_at=clock.now())
        scheduling.declare("report", scheduling.interval(seconds=60), sample.say, word="x")
        crons.reconcile()
        assert Cron.objects.get().retired_at is not None

    def test_that_a_person_made_is_fired_by_any(self) -> None:
        Cron.objects.update(source=Source.PERSON, next_at=clock.now() - timedelta(hours=2))
        assert len(scheduling.fire_due()) == 1
