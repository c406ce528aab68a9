"""Scheduled functions under any sequence of calls: the database against a model of a few lines.

Two clusters run them. Either may be given up while it only froze; then it comes back, and goes on with whatever was
dispatched to it, late, twice or out of order. An action's start and its end are calls of their own here, as they are
two transactions, so that anything may happen in between.
"""

import uuid
from collections import Counter
from datetime import timedelta
from typing import TypeVar

import pytest
from django.db import connection
from django.db.models.functions import Now
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scheduling import context, operations as scheduling, registry
from scheduling.domain.calls import ENDED, Kind, Status
from scheduling.errors import NotEnded
from scheduling.models import Cluster, Due, ScheduledFunction
from scheduling.operations import clusters, endings, runner
from scheduling.queries import functions
from scheduling.queries.functions import Dispatch, Ending, Holder
from scheduling.registry import Call
from tests import farm
from tests.models import sample
from tests.models.effort import begin, effort
from tests.models.scheduled import ATTEMPTS, Model, is_old_enough, marks

pytestmark = pytest.mark.django_db(transaction=True)

MUTATIONS = (sample.mark, sample.mark_and_break, sample.mark_and_schedule)
ACTIONS = (sample.once, sample.tried_again, sample.tried_again_anyhow)
LONG_S = 7200.0  # longer than any lease and any backoff
PROCESSES = ("one", "other")
MOST_DEATHS = 3
T = TypeVar("T")


class FunctionsMachine(RuleBasedStateMachine):
    """Every rule is a call that somebody may make at any moment; the invariant compares all rows with the model."""

    @initialize()
    def start(self) -> None:
        begin("scheduling_scheduledfunction", "scheduling_due", "scheduling_cluster")
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS model_mark; CREATE TABLE model_mark (id bigint NOT NULL)")
        self.models: dict[int, Model] = {}
        self.boots: list[uuid.UUID] = []
        self.dispatched: list[tuple[uuid.UUID, Dispatch]] = []
        self.calls: list[tuple[Holder, Call]] = []
        self.current: dict[int, tuple[Dispatch, int, int]] = {}  # with the moves and deaths before it
        self.numbers = self.moved = 0
        for _ in range(2):
            self._begin_cluster()
        self.schedule(which=[0, 1, 2, 3, 4, 5], delay_s=0)

    @rule(which=st.lists(st.integers(0, 5), min_size=1, max_size=3), delay_s=st.sampled_from([0, 0, 0, 3600]))
    def schedule(self, which: list[int], delay_s: int) -> None:
        for n in which:
            function = (*MUTATIONS, *ACTIONS)[n]
            row = scheduling.run_after(delay_s, function, number=self.numbers)
            self._know(row.pk, Model(function, Kind(row.kind), self.numbers, waits=delay_s > 0))
            self.numbers += 1

    @rule(data=st.data(), kind=st.sampled_from(list(Kind)), limit=st.integers(1, 4))
    def dispatch(self, data: st.DataObject, kind: Kind, limit: int) -> None:
        """A cluster asks; one that was given up and does not know it may ask too, and several may get the same."""
        self._dispatch(self._one(data, self.boots), kind, limit)

    @rule(data=st.data(), verb=st.sampled_from(["deliver", "deliver", "end"]))
    def work(self, data: st.DataObject, verb: str) -> None:
        """A process of a cluster does something."""
        getattr(self, f"_{verb}")(data)

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "cancel", "cancel", "run_again"]))
    def command(self, data: st.DataObject, verb: str) -> None:
        """A person does something."""
        getattr(self, f"_{verb}")(data)

    @rule(data=st.data(), what=st.sampled_from(["die", "die", "kill", "hours"]))
    def time(self, data: st.DataObject, what: str) -> None:
        """Something is given up, or time passes."""
        getattr(self, f"_{what}")(data)

    def _deliver(self, data: st.DataObject) -> None:
        """Something that was dispatched arrives at a process: at last, or once more."""
        if not self._undone():
            self._dispatch(self.boots[-1], data.draw(st.sampled_from(list(Kind))), 100)
        if not self.dispatched:
            return
        cluster_id, one = self._one(data, self._undone() or self.dispatched)
        by = Holder(cluster_id=cluster_id, ran_by=data.draw(st.sampled_from(PROCESSES)))
        if self.models[one.id].kind is Kind.ACTION:
            self._start(one, by)
        elif data.draw(st.booleans()):
            self._run_batch(data, one, by)
        else:
            self._ran(one, runner.mutation(one, by=by))

    def _end(self, data: st.DataObject) -> None:
        """An action comes to its end, or says so again, or after it was given up; or first one is begun."""
        if not self.calls:
            self._deliver(data)
            return
        by, call = self._one(data, self.calls)
        model, good = self.models[call.id], data.draw(st.booleans())
        if data.draw(st.booleans()):
            self._schedule_from(call, model)
        ending = Ending(status=Status.SUCCESS, result="7") if good else endings.failed(sample.Broken())
        is_ours = model.by == by
        assert runner.settle(call, ending) is is_ours
        if is_ours:
            model.move(ending.status)
            self._expect_retry(call.id)

    def _cancel(self, data: st.DataObject) -> None:
        """Of a try that failed, the one that follows is canceled."""
        followed = [model.retry_of for model in self.models.values() if model.retry_of]
        wants_followed = data.draw(st.booleans())
        target = pk = self._one(data, followed if followed and wants_followed else list(self.models))
        while self.models[pk].status in ENDED and (following := self._retry_of(pk)):
            pk = following
        model = self.models[pk]
        expected = {Status.PENDING: "canceled_before_start", Status.IN_PROGRESS: "canceled_while_running"}
        if model.attempt > 1:
            expected[Status.PENDING] = "canceled_before_retry"
        verdict = expected.get(model.status, "too_late")
        if verdict != "too_late":
            model.move(Status.CANCELED)
        assert scheduling.cancel(target) == scheduling.Cancellation(
            verdict=scheduling.CancelVerdict(verdict), status=model.status
        )

    def _run_again(self, data: st.DataObject) -> None:
        pk = self._one(data, list(self.models))
        model = self.models[pk]
        try:
            row = scheduling.run_again(pk)
        except NotEnded:
            assert model.status not in ENDED
        else:
            assert model.status in ENDED
            self._know(row.pk, Model(model.function, model.kind, model.number))

    def _die(self, data: st.DataObject) -> None:
        """A process or a cluster is given up; perhaps it only froze, and its calls are still to come."""
        how = data.draw(st.sampled_from(["process", "process", "cluster", "cut short", "silent"]))
        if not self._busy():
            self._begin_actions()
        cluster_id = self._one(data, self._busy() or self.boots)
        if how == "process":
            by = Holder(cluster_id=cluster_id, ran_by=data.draw(st.sampled_from(PROCESSES)))
            assert clusters.process_died(by) == self._lose(cluster_id, ran_by=by.ran_by)
            return
        if how == "cluster":
            clusters.end(cluster_id, ending="died", why="the model said so")
            self._inherit(cluster_id)
        else:
            self._leave_to_others(cluster_id, is_silent=how == "silent")
        self._begin_cluster()

    def _kill(self, data: st.DataObject) -> None:
        """The process that runs a mutation dies of it, and its cluster says so; now and then after it was done."""
        mutations = [pk for pk, m in self.models.items() if m.kind is Kind.MUTATION and not m.waits]
        if not mutations:
            return
        pk = self._one(data, mutations)
        model = self.models[pk]
        assert runner.process_died(pk, by=Holder(cluster_id=self.boots[-1], ran_by="dead"))
        if model.status is not Status.PENDING:
            return
        model.deaths, model.waits = model.deaths + 1, True
        if model.deaths == MOST_DEATHS:
            model.move(Status.FAILED)

    def _hours(self, _: st.DataObject | None = None) -> None:
        """Delays and backoffs are over."""
        self._pass_time()
        for model in self.models.values():
            model.waits = False

    def _pass_time(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE scheduling_due SET run_at = run_at - make_interval(secs => %(s)s),"
                " next_at = next_at - make_interval(secs => %(s)s)",
                {"s": LONG_S},
            )
        self.moved += 1

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        columns = ("pk", "status", "attempt", "parent_id", "retry_of_id")
        stored = {pk: tuple(rest) for pk, *rest in ScheduledFunction.objects.values_list(*columns)}
        assert stored == {pk: (m.status, m.attempt, m.parent, m.retry_of) for pk, m in self.models.items()}
        queued = {pk: 4 * m.deaths for pk, m in self.models.items() if m.status is Status.PENDING}
        assert dict(Due.objects.values_list("function_id", "deaths")) == queued
        done = [m.number for m in self.models.values() if m.kind is Kind.MUTATION and m.status is Status.SUCCESS]
        assert marks() == Counter(done)

    def teardown(self) -> None:
        """However it went: with one cluster that works, and some time, every function ends."""
        if not hasattr(self, "boots"):
            return
        for cluster_id in list(self.boots):
            clusters.end(cluster_id, ending="died")
            self._inherit(cluster_id)
        cluster_id = self._begin_cluster()
        for _ in range(ATTEMPTS + 1):
            self._hours()
            while self._work_off(cluster_id):
                self.rows_are_as_the_model_says()
        assert {model.status for model in self.models.values()} <= ENDED

    def _work_off(self, cluster_id: uuid.UUID) -> int:
        """Dispatch everything that is due, and run it well."""
        by = Holder(cluster_id=cluster_id, ran_by="the last")
        found = [one for kind in Kind for one in clusters.dispatch(kind, limit=1000)]
        for one in found:
            model = self.models[one.id]
            if model.kind is Kind.MUTATION:
                self._ran(one, runner.mutation(one, by=by), is_current=True)
            else:
                assert runner.action(one, by=by)
                model.move(Status.IN_PROGRESS)
                model.move(Status.SUCCESS)
        return len(found)

    def _begin_cluster(self) -> uuid.UUID:
        cluster_id = uuid.UUID(int=len(self.boots) + 1)
        clusters.begin(cluster_id, role="model")
        Cluster.objects.filter(cluster_id=cluster_id).update(last_seen_at=Now() + timedelta(seconds=LONG_S))
        self.boots.append(cluster_id)
        return cluster_id

    def _dispatch(self, cluster_id: uuid.UUID, kind: Kind, limit: int) -> None:
        ready = [
            pk
            for pk, model in self.models.items()
            if model.kind is kind and model.status is Status.PENDING and not model.waits
        ]
        found = clusters.dispatch(kind, limit=limit)
        assert len(found) == min(limit, len(ready))
        assert not {one.id for one in found} - set(ready)
        for one in found:
            self.dispatched.append((cluster_id, one))
            self.current[one.id] = (one, self.moved, one.deaths)

    def _begin_actions(self) -> None:
        """The newest cluster begins all that it has or gets."""
        self._dispatch(self.boots[-1], Kind.ACTION, 100)
        for cluster_id, one in self._undone():
            if self.models[one.id].kind is Kind.ACTION:
                self._start(one, Holder(cluster_id=cluster_id, ran_by=PROCESSES[one.id % 2]))

    def _one(self, data: st.DataObject, of: list[T]) -> T:
        """Drawn whatever there is to choose from: which of two of one moment is handed out first is PostgreSQL's to
        say, and the same dice must be thrown the next time."""
        return of[data.draw(st.integers(0, 999)) % len(of)]

    def _busy(self) -> list[uuid.UUID]:
        """The clusters in which an action runs."""
        return sorted({model.by.cluster_id for model in self.models.values() if model.by})

    def _undone(self) -> list[tuple[uuid.UUID, Dispatch]]:
        """What was dispatched, to whomever and whenever, and has not been done."""
        return [pair for pair in self.dispatched if self.models[pair[1].id].status is Status.PENDING]

    def _start(self, one: Dispatch, by: Holder) -> None:
        """The start of an action: whoever comes first, unless its cluster was given up."""
        model = self.models[one.id]
        may_start = model.status is Status.PENDING and by.cluster_id in self._living()
        row = functions.start(one.id, by=by)
        assert (row is not None) is may_start
        if row is not None:
            model.move(Status.IN_PROGRESS)
            model.by = by
            self.calls.append((by, runner._call_of(row, kind=Kind.ACTION, ran_by=by.ran_by)))

    def _run_batch(self, data: st.DataObject, one: Dispatch, by: Holder) -> None:
        """One after the other, the second perhaps the same again."""
        others = [h for _, h in self.dispatched if self.models[h.id].kind is Kind.MUTATION]
        for each in (one, self._one(data, others)):
            before = self._state(each)
            runner.mutations([each], by=by)
            self._ran(each, self._state(each) != before and self._state(each) == Status.SUCCESS)

    def _ran(self, one: Dispatch, ran: bool, *, is_current: bool | None = None) -> None:
        """A mutation was run, if it lay where it was dispatched from. The place of a row that moved may come round
        again: then it may be run all the same."""
        model = self.models[one.id]
        if is_current is None:
            is_current = self.current[one.id] == (one, self.moved, model.deaths)
        if model.status is not Status.PENDING:
            assert not ran
        elif is_current:
            self._end_mutation(one, model)
            assert ran is (model.function is not sample.mark_and_break)
        elif self._state(one) != Status.PENDING:
            self._end_mutation(one, model)

    def _end_mutation(self, one: Dispatch, model: Model) -> None:
        model.move(Status.FAILED if model.function is sample.mark_and_break else Status.SUCCESS)
        if model.function is sample.mark_and_schedule:
            [child] = ScheduledFunction.objects.filter(parent_id=one.id).values_list("pk", flat=True)
            self._know(child, Model(sample.mark, Kind.MUTATION, model.number, parent=one.id))

    def _schedule_from(self, call: Call, model: Model) -> None:
        """An action that runs (or believes so) schedules something: canceled from birth if the action was."""
        here = context.Running(id=call.id, function=call.function, kind=call.kind, attempt=call.attempt)
        with context.running(here):
            row = scheduling.run_after(0, sample.once, number=model.number)
        status = Status.CANCELED if model.status is Status.CANCELED else Status.PENDING
        self._know(row.pk, Model(sample.once, Kind.ACTION, model.number, status=status, parent=call.id))

    def _leave_to_others(self, cluster_id: uuid.UUID, *, is_silent: bool) -> None:
        """Its end is written by somebody who then dies too, or by nobody: others take over at their next look."""
        living = Cluster.objects.filter(cluster_id=cluster_id, ended_at=None)
        was_living = living.exists()
        if is_silent:
            living.update(last_seen_at=Now() - timedelta(hours=1))
        else:
            living.update(ended_at=Now(), ending="died")
        over = {model.by.cluster_id for model in self.models.values() if model.by} - self._living()
        if is_silent and was_living:
            over.add(cluster_id)
        assert clusters.sweep() == len(over)
        for each in over:
            self._inherit(each)

    def _living(self) -> set[uuid.UUID]:
        return set(Cluster.objects.filter(ended_at=None).values_list("cluster_id", flat=True))

    def _inherit(self, cluster_id: uuid.UUID) -> None:
        self._lose(cluster_id, ran_by=None)

    def _lose(self, cluster_id: uuid.UUID, *, ran_by: str | None) -> int:
        lost = [
            pk
            for pk, model in self.models.items()
            if model.by and model.by.cluster_id == cluster_id and ran_by in {None, model.by.ran_by}
        ]
        for pk in lost:
            self.models[pk].move(Status.UNKNOWN)
            self._expect_retry(pk)
        return len(lost)

    def _expect_retry(self, pk: int) -> None:
        model, retry = self.models[pk], self._retry_of(pk)
        assert (retry is not None) is model.is_tried_again
        if retry is not None:
            again = Model(model.function, model.kind, model.number, waits=True)
            again.attempt, again.parent, again.retry_of = model.attempt + 1, model.parent, pk
            self._know(retry, again)

    def _retry_of(self, pk: int) -> int | None:
        return functions.retry_of(pk)

    def _state(self, one: Dispatch) -> str:
        return ScheduledFunction.objects.values_list("status", flat=True).get(pk=one.id)

    def _know(self, pk: int, model: Model) -> None:
        assert registry.find(model.function).kind is model.kind
        self.models[pk] = model


class TestFunctions:
    def test_are_what_the_model_says_after_any_calls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "DIED_S", 3600.0)  # longer than the test
        farm.until(is_old_enough, what="a database that is up for a while")
        run_state_machine_as_test(FunctionsMachine, settings=effort(examples=20, steps=50))
