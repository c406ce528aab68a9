"""Mutations: in the caller's transaction, exactly once, together with their success."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from postgres import clock
from scheduling import operations as scheduling
from scheduling.errors import BadArguments, BadMoment, NotJson, UnknownFunction
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import clusters, running
from scheduling.queries.functions import Holder
from tests.integration.scheduling import sample

pytestmark = pytest.mark.django_db(transaction=True)


class Undone(Exception):
    """What undoes a transaction in these tests."""


def undo(do: Callable[[], object]) -> None:
    """Do something in a transaction that is rolled back."""

    @transaction.atomic
    def done_and_undone() -> None:
        do()
        raise Undone

    with pytest.raises(Undone):
        done_and_undone()


def stored(row: ScheduledFunction) -> ScheduledFunction:
    return ScheduledFunction.objects.get(pk=row.pk)


class TestScheduling:
    def test_gives_a_row_that_runs_right_after(self) -> None:
        row = scheduling.run_after(timedelta(0), sample.make_group, name="one")
        assert (row.state, row.kind, row.args) == ("pending", "mutation", {"name": "one"})
        assert scheduling.run_due() == 1
        ended = stored(row)
        assert (ended.state, ended.result, ended.error) == ("success", {"name": "one"}, None)
        assert ended.started_at is not None
        assert ended.ended_at is not None
        assert ended.created_at <= ended.due_at <= ended.started_at <= ended.ended_at
        assert list(Group.objects.values_list("name", flat=True)) == ["one"]
        assert not Due.objects.exists()

    def test_leaves_nothing_when_the_transaction_is_rolled_back(self) -> None:
        undo(lambda: scheduling.run_after(0, sample.make_group, name="never"))
        assert not ScheduledFunction.objects.exists()
        assert not Due.objects.exists()
        assert scheduling.run_due() == 0

    def test_waits_for_its_moment(self) -> None:
        later = clock.now() + timedelta(hours=1)
        row = scheduling.run_at(later, sample.make_group, name="later")
        assert row.due_at == later
        assert scheduling.run_due() == 0
        assert stored(row).state == "pending"

    def test_takes_a_moment_that_has_passed_as_now(self) -> None:
        row = scheduling.run_at(datetime(2024, 3, 10, 1, 59, tzinfo=UTC), sample.make_group, name="now")
        assert row.due_at > clock.now() - timedelta(minutes=1)
        assert scheduling.run_due() == 1

    def test_takes_a_function_by_its_name(self) -> None:
        row = scheduling.run_after(0, "tests.integration.scheduling.sample.make_group", name="by name")
        assert row.function == "tests.integration.scheduling.sample.make_group"
        assert scheduling.run_due() == 1

    @pytest.mark.parametrize(
        "delay", [-1, -0.001, float("nan"), float("inf"), timedelta(seconds=-1), 6 * 365 * 86400, True, "3"]
    )
    def test_refuses_a_delay_that_is_none(self, delay: object) -> None:
        with pytest.raises(BadMoment):
            scheduling.run_after(delay, sample.make_group, name="x")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "moment", [datetime(2024, 1, 1), datetime(2050, 1, 1, tzinfo=UTC), datetime(1990, 1, 1, tzinfo=UTC)]
    )
    def test_refuses_a_moment_without_zone_or_too_far_away(self, moment: datetime) -> None:
        with pytest.raises(BadMoment):
            scheduling.run_at(moment, sample.make_group, name="x")

    @pytest.mark.parametrize("function", [sample.unregistered, "os.system", "no.such.function", "", "x"])
    def test_refuses_an_unknown_function(self, function: object) -> None:
        with pytest.raises(UnknownFunction):
            scheduling.run_after(0, function, word="x")  # type: ignore[arg-type]

    @pytest.mark.parametrize("args", [{}, {"name": "a", "more": 1}, {"nam": "a"}])
    def test_refuses_arguments_that_do_not_fit(self, args: dict[str, object]) -> None:
        with pytest.raises(BadArguments):
            scheduling.run_after(0, sample.make_group, **args)

    @pytest.mark.parametrize(
        "value",
        [object(), {1}, b"bytes", float("nan"), {1: 2}, "nul\x00", "\ud800", datetime.min, [object()]],
    )
    def test_refuses_values_that_are_not_json(self, value: object) -> None:
        with pytest.raises(NotJson):
            scheduling.run_after(0, sample.make_group, name=value)
        assert not ScheduledFunction.objects.exists()


class TestAMutation:
    def test_that_raises_leaves_no_effect_and_says_why(self) -> None:
        row = scheduling.run_after(0, sample.make_group_and_break, name="gone")
        scheduling.run_due()
        ended = stored(row)
        assert (ended.state, ended.result) == ("failed", None)
        assert ended.error == "Broken: after the write"
        assert ended.error_class == "tests.integration.scheduling.sample.Broken"
        assert ended.traceback is not None
        assert 'raise Broken("after the write")' in ended.traceback
        assert not Group.objects.exists()
        assert not Due.objects.exists()

    def test_schedules_others_as_their_parent(self) -> None:
        row = scheduling.run_after(0, sample.make_group_and_schedule, name="a", child="b")
        assert scheduling.run_due() == 1
        child = ScheduledFunction.objects.get(parent=row)
        assert (child.state, child.args) == ("pending", {"name": "b"})
        assert scheduling.run_due() == 1
        assert sorted(Group.objects.values_list("name", flat=True)) == ["a", "b"]

    def test_that_is_done_is_a_success_though_a_hook_after_it_fails(self) -> None:
        row = scheduling.run_after(0, sample.make_group_and_a_bad_hook, name="kept")
        scheduling.run_due()
        assert stored(row).state == "success"
        assert Group.objects.get().name == "kept"

    @pytest.mark.parametrize(
        ("function", "args"), [(sample.return_what_is_not_json, {"name": "x"}), (sample.leave, {})]
    )
    def test_fails_without_effect(self, function: object, args: dict[str, str]) -> None:
        row = scheduling.run_after(0, function, **args)  # type: ignore[arg-type]
        scheduling.run_due()
        assert stored(row).state == "failed"
        assert not Group.objects.exists()

    def test_delivered_twice_runs_once(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="once")
        boot = uuid.uuid4()
        by = Holder(boot=boot, ran_by="test:1")
        [handed] = clusters.hand_out(boot, scheduling.Kind.MUTATION, limit=5)
        assert clusters.hand_out(boot, scheduling.Kind.MUTATION, limit=5) == []
        assert running.mutation(handed, by=by) is True
        assert running.mutation(handed, by=by) is False
        assert stored(row).state == "success"
        assert Group.objects.count() == 1

    def test_called_directly_is_a_transaction_of_its_own(self) -> None:
        with pytest.raises(sample.Broken):
            sample.make_group_and_break(name="gone")
        assert not Group.objects.exists()
        assert sample.make_group(name="here") == {"name": "here"}

    def test_called_inside_a_transaction_is_part_of_it(self) -> None:
        undo(lambda: sample.make_group(name="gone"))
        assert not Group.objects.exists()

    def test_that_kills_its_process_again_and_again_is_given_up(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="poison")
        Due.objects.update(deliveries=running.MOST_DELIVERIES)
        scheduling.run_due()
        ended = stored(row)
        assert (ended.state, ended.error_class) == ("failed", "scheduling.errors.KillsItsProcess")
        assert not Group.objects.exists()

    @pytest.mark.parametrize("sqlstate", ["53100", "53200", "58030"])  # no disk, no memory, a disk that fails
    def test_that_meets_a_server_without_room_is_not_failed_by_that(self, sqlstate: str) -> None:
        short = Group.objects.create(name="short")
        row = scheduling.run_after(0, sample.run_short, name="made", sqlstate=sqlstate)
        assert scheduling.run_due() == 0
        assert stored(row).state == "pending"
        assert list(Due.objects.values_list("handed_by", "deliveries")) == [(None, 0)]
        short.delete()
        Due.objects.update(next_at=clock.now())
        assert scheduling.run_due() == 1
        assert stored(row).state == "success"
        assert Group.objects.get().name == "made"


class TestARowThatIsGone:
    @pytest.mark.parametrize("function", [sample.make_group, sample.say])
    def test_leaves_the_queue(self, function: Any) -> None:
        args = {"word": "x"} if function is sample.say else {"name": "x"}
        row = scheduling.run_after(0, function, **args)
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE scheduling_scheduledfunction")
        assert scheduling.run_due() == 0
        assert not Due.objects.filter(pk=row.pk).exists()


class TestABatch:
    def test_gives_back_what_there_is_no_time_for(self) -> None:
        rows = [scheduling.run_after(0, sample.make_group, name=str(n)) for n in range(3)]
        boot = uuid.uuid4()
        handed = clusters.hand_out(boot, scheduling.Kind.MUTATION, limit=5)
        done = running.batch(
            handed, by=Holder(boot=boot, ran_by="test:1"), should_stop=lambda: False, budget_s=0
        )
        assert done == 1
        assert [stored(row).state for row in rows] == ["success", "pending", "pending"]
        assert list(Due.objects.values_list("handed_by", "deliveries")) == [(None, 0), (None, 0)]
        assert scheduling.run_due() == 2

    def test_stops_when_told(self) -> None:
        for n in range(3):
            scheduling.run_after(0, sample.make_group, name=str(n))
        boot = uuid.uuid4()
        handed = clusters.hand_out(boot, scheduling.Kind.MUTATION, limit=5)
        assert (
            running.batch(handed, by=Holder(boot=boot, ran_by="t"), should_stop=lambda: True, budget_s=60)
            == 1
        )


class TestAHandOut:
    def test_of_a_dead_cluster_is_due_again_at_once(self) -> None:
        scheduling.run_after(0, sample.make_group, name="x")
        boot = uuid.uuid4()
        clusters.begin(boot, role="mutations")
        assert len(clusters.hand_out(boot, scheduling.Kind.MUTATION, limit=5)) == 1
        assert scheduling.run_due() == 0
        clusters.end(boot, ending="died", why="a test")
        assert scheduling.run_due() == 1

    def test_that_came_to_nothing_is_repeated_after_its_lease(self) -> None:
        scheduling.run_after(0, sample.make_group, name="x")
        [first] = clusters.hand_out(uuid.uuid4(), scheduling.Kind.MUTATION, limit=5)
        Due.objects.update(next_at=clock.now())
        [second] = clusters.hand_out(uuid.uuid4(), scheduling.Kind.MUTATION, limit=5)
        assert (first.id, first.deliveries, second.deliveries) == (second.id, 1, 2)
        assert first.due_place != second.due_place

    def test_goes_by_priority_then_by_time(self) -> None:
        made = [scheduling.run_after(0, sample.make_group, name=str(n)) for n in range(4)]
        Due.objects.filter(pk=made[2].pk).update(priority=5)
        order = [h.id for h in clusters.hand_out(uuid.uuid4(), scheduling.Kind.MUTATION, limit=5)]
        assert order == [made[2].pk, made[0].pk, made[1].pk, made[3].pk]
