"""Mutations: in the caller's transaction, exactly once, together with their success."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from postgres import clock, connections
from scheduling import operations as scheduling
from scheduling.errors import BadArguments, BadMoment, BadQueue, NotAFunction, NotJson, UnknownFunction
from scheduling.models import Cron, Due, ScheduledFunction
from scheduling.operations import Kind, clusters, runner
from scheduling.operations.functions import insert, new
from scheduling.queries import functions
from scheduling.queries.functions import Holder, Share
from tests.scheduling.integration import sample

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
        assert (row.status, row.kind, row.args) == ("pending", "mutation", {"name": "one"})
        assert scheduling.run_due() == 1
        ended = stored(row)
        assert (ended.status, ended.result, ended.error) == ("success", {"name": "one"}, None)
        assert ended.started_at is not None
        assert ended.ended_at is not None
        assert ended.created_at <= ended.run_at <= ended.started_at <= ended.ended_at
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
        assert row.run_at == later
        assert scheduling.run_due() == 0
        assert stored(row).status == "pending"

    def test_keeps_a_moment_that_has_passed_and_goes_by_it(self) -> None:
        then = datetime(2024, 3, 10, 1, 59, tzinfo=UTC)
        later, first = (
            scheduling.run_at(moment, sample.make_group, name=str(moment))
            for moment in (then + timedelta(days=1), then)
        )
        assert (later.run_at, first.run_at) == (then + timedelta(days=1), then)
        assert [found.id for found in clusters.dispatch(Kind.MUTATION, limit=5)] == [first.pk, later.pk]
        assert scheduling.run_due() == 2

    def test_takes_a_function_by_its_name(self) -> None:
        row = scheduling.run_after(0, "tests.scheduling.integration.sample.make_group", name="by name")
        assert row.function == "tests.scheduling.integration.sample.make_group"
        assert scheduling.run_due() == 1

    @pytest.mark.parametrize(
        "delay", [-1, -0.001, float("nan"), float("inf"), timedelta(seconds=-1), 6 * 365 * 86400, True, "3"]
    )
    def test_refuses_a_delay_that_is_none(self, delay: object) -> None:
        for sized in (delay, 10**400):
            with pytest.raises(BadMoment):
                scheduling.run_after(sized, sample.make_group, name="x")  # type: ignore[call-overload]

    @pytest.mark.parametrize(
        "moment", [datetime(2024, 1, 1), datetime(2050, 1, 1, tzinfo=UTC), datetime(1990, 1, 1, tzinfo=UTC)]
    )
    def test_refuses_a_moment_without_zone_or_too_far_away(self, moment: datetime) -> None:
        with pytest.raises(BadMoment):
            scheduling.run_at(moment, sample.make_group, name="x")

    @pytest.mark.parametrize("function", [sample.unregistered, "os.system", "no.such.function", "", "x"])
    def test_refuses_an_unknown_function(self, function: object) -> None:
        with pytest.raises(UnknownFunction):
            scheduling.run_after(0, function, word="x")  # type: ignore[call-overload]

    @pytest.mark.parametrize("args", [{}, {"name": "a", "more": 1}, {"nam": "a"}])
    def test_refuses_arguments_that_do_not_fit(self, args: dict[str, Any]) -> None:
        with pytest.raises(BadArguments):
            scheduling.run_after(0, sample.make_group, **args)

    def test_a_type_checker_refuses_them_too(self) -> None:
        """mypy fails where one of these comments is not needed: it compares the arguments with the function's own."""
        later = datetime.now(UTC) + timedelta(hours=1)
        with pytest.raises(BadArguments):
            scheduling.run_after(0, sample.make_group, nam="a")  # type: ignore[call-overload]
        with pytest.raises(BadArguments):
            scheduling.run_at(later, sample.make_group)  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            scheduling.run_after(0, sample.make_group, "a")  # type: ignore[call-overload]
        with pytest.raises(NotJson):
            scheduling.run_after(0, sample.make_group, name={1}, queue="mail")  # type: ignore[call-overload]
        assert not ScheduledFunction.objects.exists()

    @pytest.mark.parametrize(
        "value", [object(), {1}, b"bytes", float("nan"), {1: 2}, "nul\x00", "\ud800", datetime.min, [object()]]
    )
    def test_refuses_values_that_are_not_json(self, value: object) -> None:
        with pytest.raises(NotJson):
            scheduling.run_after(0, sample.make_group, name=value)  # type: ignore[call-overload]
        assert not ScheduledFunction.objects.exists()


class TestAMutation:
    def test_that_raises_leaves_no_effect_and_says_why(self) -> None:
        row = scheduling.run_after(0, sample.make_group_and_break, name="gone")
        scheduling.run_due()
        ended = stored(row)
        assert (ended.status, ended.result) == ("failed", None)
        assert ended.error == "Broken: after the write"
        assert ended.error_class == "tests.scheduling.integration.sample.Broken"
        assert ended.traceback is not None
        assert 'raise Broken("after the write")' in ended.traceback
        assert not Group.objects.exists()
        assert not Due.objects.exists()

    def test_schedules_others_as_their_parent(self) -> None:
        row = scheduling.run_after(0, sample.make_group_and_schedule, name="a", child="b")
        assert scheduling.run_due() == 1
        child = ScheduledFunction.objects.get(parent=row)
        assert (child.status, child.args) == ("pending", {"name": "b"})
        assert scheduling.run_due() == 1
        assert sorted(Group.objects.values_list("name", flat=True)) == ["a", "b"]

    def test_that_is_done_is_a_success_though_a_hook_after_it_fails(self) -> None:
        row = scheduling.run_after(0, sample.make_group_and_a_bad_hook, name="kept")
        scheduling.run_due()
        assert stored(row).status == "success"
        assert Group.objects.get().name == "kept"

    @pytest.mark.parametrize(
        ("function", "args"), [(sample.return_what_is_not_json, {"name": "x"}), (sample.leave, {})]
    )
    def test_fails_without_effect(self, function: object, args: dict[str, str]) -> None:
        row = scheduling.run_after(0, function, **args)  # type: ignore[call-overload]
        scheduling.run_due()
        assert stored(row).status == "failed"
        assert not Group.objects.exists()

    def test_dispatched_twice_runs_once(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="once")
        by = Holder(cluster_id=uuid.uuid4(), ran_by="test:1")
        [found] = clusters.dispatch(Kind.MUTATION, limit=5)
        assert clusters.dispatch(Kind.MUTATION, limit=5) == [found]
        assert runner.mutation(found, by=by) is True
        assert runner.mutation(found, by=by) is False
        assert clusters.dispatch(Kind.MUTATION, limit=5) == []
        assert stored(row).status == "success"
        assert Group.objects.count() == 1

    def test_called_directly_is_a_transaction_of_its_own(self) -> None:
        with pytest.raises(sample.Broken):
            sample.make_group_and_break(name="gone")
        assert not Group.objects.exists()
        assert sample.make_group(name="here") == {"name": "here"}

    def test_called_inside_a_transaction_is_part_of_it(self) -> None:
        undo(lambda: sample.make_group(name="gone"))
        assert not Group.objects.exists()

    @pytest.mark.parametrize("sqlstate", ["53100", "53200", "58030"])  # no disk, no memory, a disk that fails
    def test_that_meets_a_server_without_room_is_not_failed_by_that(self, sqlstate: str) -> None:
        short = Group.objects.create(name="short")
        row = scheduling.run_after(0, sample.run_short, name="made", sqlstate=sqlstate)
        assert scheduling.run_due() == 0
        assert stored(row).status == "pending"
        assert list(Due.objects.values_list("collisions", "deaths")) == [(0, 0)]
        short.delete()
        Due.objects.update(next_at=clock.now())
        assert scheduling.run_due() == 1
        assert stored(row).status == "success"
        assert Group.objects.get().name == "made"


class TestARowThatIsGone:
    @pytest.mark.parametrize("function", [sample.make_group, sample.say])
    def test_leaves_the_queue(self, function: Any) -> None:
        args: dict[str, Any] = {"word": "x"} if function is sample.say else {"name": "x"}
        row = scheduling.run_after(0, function, **args)
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE scheduling_scheduledfunction")
        assert scheduling.run_due() == 0
        assert not Due.objects.filter(pk=row.pk).exists()


class TestADispatch:
    def test_writes_nothing(self) -> None:
        scheduling.run_after(0, sample.make_group, name="x")
        before = Due.objects.values("pk", "next_at").get()
        clusters.dispatch(Kind.MUTATION, limit=5)
        assert Due.objects.values("pk", "next_at").get() == before

    def test_goes_by_priority_then_by_time(self) -> None:
        made = [scheduling.run_after(0, sample.make_group, name=str(n)) for n in range(4)]
        Due.objects.filter(pk=made[2].pk).update(priority=5)
        order = [found.id for found in clusters.dispatch(Kind.MUTATION, limit=5)]
        assert order == [made[2].pk, made[0].pk, made[1].pk, made[3].pk]
        share = Share(rank=made[0].pk % 2, clusters=2)  # of which the first and the third are
        [first], _ = functions.dispatch(Kind.MUTATION, functions.lanes(Kind.MUTATION), limit=1, share=share)
        assert first.id == made[2].pk

    def test_leaves_out_what_somebody_has_in_hands_and_begins_where_the_lane_begins(self) -> None:
        made = [scheduling.run_after(0, sample.make_group, name=str(n)).pk for n in range(4)]
        lanes = functions.lanes(Kind.MUTATION)
        found, heads = functions.dispatch(Kind.MUTATION, lanes, limit=2, excluded=made[:1])
        assert [one.id for one in found] == made[1:3]
        further, _ = functions.dispatch(Kind.MUTATION, heads, limit=4)
        assert [one.id for one in further] == made[1:]

    def test_brings_new_work_before_a_backlog_of_the_same_priority(self) -> None:
        with transaction.atomic():
            old = insert([new(sample.nothing, {}, run_at=clock.now() - timedelta(minutes=1)) for _ in range(20)])
        fresh = [scheduling.run_after(0, sample.nothing).pk for _ in range(3)]
        lower = scheduling.run_after(0, sample.nothing, priority=-1).pk
        order = [found.id for found in clusters.dispatch(Kind.MUTATION, limit=8)]
        assert order == [*fresh[1:], *(row.pk for row in old[:6])]
        assert lower not in order

    def test_of_several_clusters_is_another_for_each_while_there_is_enough(self) -> None:
        with transaction.atomic():
            made = {row.pk for row in insert([new(sample.nothing, {}) for _ in range(40)])}
        lanes, found = functions.lanes(Kind.MUTATION), []
        for rank in range(4):
            share = Share(rank=rank, clusters=4)
            found += [one.id for one in functions.dispatch(Kind.MUTATION, lanes, limit=10, share=share)[0]]
        assert sorted(found) == sorted(made)
        alone = functions.dispatch(Kind.MUTATION, lanes, limit=40, share=Share(rank=2, clusters=4))[0]
        assert {one.id for one in alone} == made


class TestATake:
    def test_is_of_its_own_rows_whatever_lies_at_their_places_by_now(self) -> None:
        for name in ("mine", "theirs"):
            scheduling.run_after(0, sample.make_group, name=name)
        mine, theirs = clusters.dispatch(Kind.MUTATION, limit=5)
        with transaction.atomic():
            assert functions.take(replace(mine, due_pointer=theirs.due_pointer)) is None
            moved = functions.take(replace(mine, row_pointer=theirs.row_pointer))
            assert (moved and moved.id, moved and moved.function) == (mine.id, None)
            transaction.set_rollback(True)
        assert Due.objects.count() == 2

    def test_leaves_what_another_transaction_holds_to_that(self) -> None:
        scheduling.run_after(0, sample.make_group, name="x")
        [mine] = clusters.dispatch(Kind.MUTATION, limit=5)
        with psycopg.connect(connections.conninfo()) as other:
            other.execute("SELECT FROM scheduling_due FOR UPDATE")
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1s'")
                assert functions.take(mine) is None


class TestAQueueAndAPriority:
    def test_are_named_where_a_function_is_scheduled(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="x", queue="mail", priority=7)
        later = scheduling.run_at(clock.now(), sample.make_group, name="y", queue="mail")
        assert (row.queue, row.priority, row.args) == ("mail", 7, {"name": "x"})
        assert (later.queue, later.priority) == ("mail", 0)
        assert clusters.dispatch(Kind.MUTATION, limit=5, queues=["default"]) == []
        assert [one.id for one in clusters.dispatch(Kind.MUTATION, limit=5, queues=["mail"])] == [row.pk, later.pk]
        assert len(clusters.dispatch(Kind.MUTATION, limit=5)) == 2

    @pytest.mark.parametrize("function", [sample.send_first, sample.count_first])
    def test_are_those_of_the_declaration_unless_others_are_named(self, function: Any) -> None:
        row, other = (scheduling.run_after(0, function), scheduling.run_after(0, function, queue="x", priority=-3))
        assert (row.queue, row.priority) == ("first", 50)
        assert (other.queue, other.priority) == ("x", -3)

    def test_of_a_firing_are_those_of_its_function(self) -> None:
        Cron.objects.create(
            name="c", function=f"{sample.__name__}.send_first", schedule=scheduling.interval(seconds=60).text(),
            missed="once", overlap="skip", next_at=clock.now(), source="person",
        )  # fmt: skip
        [row] = scheduling.fire_due()
        assert (row.queue, row.priority) == ("first", 50)

    @pytest.mark.parametrize(
        "wrong",
        [{"queue": ""}, {"queue": "x" * 101}, {"queue": 3}, {"priority": 101}, {"priority": 1.5}, {"priority": True}],
    )
    def test_are_refused_when_they_are_none(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(BadQueue):
            scheduling.run_after(0, sample.nothing, **wrong)
        with pytest.raises(BadQueue):
            scheduling.action(**wrong)

    def test_may_not_be_parameters_of_a_function(self) -> None:
        with pytest.raises(NotAFunction, match="'queue'"):
            scheduling.mutation(sample.wants_a_queue)
