"""Scheduled functions under any sequence of calls: the database against a model of a few lines.

Two clusters run them. Either may be given up while it only froze; then it comes back, and goes on with whatever it
was handed, late, twice or out of order. An action's start and its end are calls of their own here, as they are two
transactions, so that anything may happen in between.
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

from scheduling import context, registry
from scheduling import operations as scheduling
from scheduling.domain.states import ENDED, Kind, State
from scheduling.errors import NotEnded
from scheduling.models import Cluster, Due, ScheduledFunction
from scheduling.operations import clusters, endings, running
from scheduling.queries import clusters as cluster_queries
from scheduling.queries import functions
from scheduling.queries.functions import Ending, Handed, Holder
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
        self.handed: list[tuple[uuid.UUID, Handed]] = []
        self.calls: list[tuple[Holder, Call]] = []
        self.numbers = 0
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

    @rule(data=st.data(), kind=st.sampled_from(list(Kind)), limit=st.integers(1, 4), is_late=st.booleans())
    def hand_out(self, data: st.DataObject, kind: Kind, limit: int, is_late: bool) -> None:
        """A cluster asks; one that was given up and does not know it may ask too. Or what one cluster was handed, and
        did not begin in time, another one has now."""
        if not is_late:
            self._hand_out(self._one(data, self.boots), kind, limit)
            return
        slow, quick = self.boots[-2:]
        self._hand_out(slow, kind, 100)
        self._leases(data)
        self._hand_out(quick, kind, 100)

    @rule(data=st.data(), verb=st.sampled_from(["deliver", "deliver", "end"]))
    def work(self, data: st.DataObject, verb: str) -> None:
        """A process of a cluster does something."""
        getattr(self, f"_{verb}")(data)

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "cancel", "cancel", "run_again"]))
    def command(self, data: st.DataObject, verb: str) -> None:
        """A person does something."""
        getattr(self, f"_{verb}")(data)

    @rule(data=st.data(), what=st.sampled_from(["die", "die", "leases", "hours"]))
    def time(self, data: st.DataObject, what: str) -> None:
        """Something is given up, or time passes."""
        getattr(self, f"_{what}")(data)

    def _deliver(self, data: st.DataObject) -> None:
        """Something that was handed out arrives at a process: at last, or once more."""
        if not self._undone():
            self._hand_out(self.boots[-1], data.draw(st.sampled_from(list(Kind))), 100)
        if not self.handed:
            return
        boot, one = self._one(data, self._undone() or self.handed)
        by = Holder(boot=boot, ran_by=data.draw(st.sampled_from(PROCESSES)))
        if self.models[one.id].kind is Kind.ACTION:
            self._start(one, by)
        elif data.draw(st.booleans()):
            self._run_batch(data, one, by)
        else:
            self._ran(one, running.mutation(one, by=by))

    def _end(self, data: st.DataObject) -> None:
        """An action comes to its end, or says so again, or after it was given up; or first one is begun."""
        if not self.calls:
            self._deliver(data)
            return
        by, call = self._one(data, self.calls)
        model, good = self.models[call.id], data.draw(st.booleans())
        if data.draw(st.booleans()):
            self._schedule_from(call, model)
        ending = Ending(state=State.SUCCESS, result="7") if good else endings.failed(sample.Broken())
        is_ours = model.by == by
        assert running.settle(call, ending, by=by) is is_ours
        if is_ours:
            model.move(ending.state)
            self._expect_retry(call.id)

    def _cancel(self, data: st.DataObject) -> None:
        """Of a try that failed, the one that follows is canceled."""
        followed = [model.retry_of for model in self.models.values() if model.retry_of]
        wants_followed = data.draw(st.booleans())
        asked = pk = self._one(data, followed if followed and wants_followed else list(self.models))
        while self.models[pk].state in ENDED and (following := self._retry_of(pk)):
            pk = following
        model = self.models[pk]
        expected = {State.PENDING: "canceled_before_start", State.IN_PROGRESS: "canceled_while_running"}
        if model.attempt > 1:
            expected[State.PENDING] = "canceled_before_retry"
        verdict = expected.get(model.state, "too_late")
        if verdict != "too_late":
            model.move(State.CANCELED)
        assert scheduling.cancel(asked) == scheduling.Cancellation(
            verdict=scheduling.Verdict(verdict), state=model.state
        )

    def _run_again(self, data: st.DataObject) -> None:
        pk = self._one(data, list(self.models))
        model = self.models[pk]
        try:
            row = scheduling.run_again(pk)
        except NotEnded:
            assert model.state not in ENDED
        else:
            assert model.state in ENDED
            self._know(row.pk, Model(model.function, model.kind, model.number))

    def _die(self, data: st.DataObject) -> None:
        """A process or a cluster is given up; perhaps it only froze, and its calls are still to come."""
        how = data.draw(st.sampled_from(["process", "process", "cluster", "cut short", "silent"]))
        if not self._busy():
            self._begin_actions()
        boot = self._one(data, self._busy() or self.boots)
        if how == "process":
            by = Holder(boot=boot, ran_by=data.draw(st.sampled_from(PROCESSES)))
            assert clusters.process_died(by) == self._lose(boot, ran_by=by.ran_by)
            return
        if how == "cluster":
            clusters.end(boot, ending="died", why="the model said so")
            self._inherit(boot)
        else:
            self._leave_to_others(boot, is_silent=how == "silent")
        self._begin_cluster()

    def _leases(self, _: st.DataObject | None = None) -> None:
        """All hand-outs were not begun in time."""
        self._pass_time("WHERE handed_by IS NOT NULL")

    def _hours(self, _: st.DataObject | None = None) -> None:
        """Delays and backoffs are over too."""
        self._pass_time("")
        for model in self.models.values():
            model.waits = False

    def _pass_time(self, of: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE scheduling_due SET due_at = due_at - make_interval(secs => %(s)s),"
                f" next_at = next_at - make_interval(secs => %(s)s) {of}",
                {"s": LONG_S},
            )
        for model in self.models.values():
            model.handed = None

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        columns = ("pk", "state", "attempt", "parent_id", "retry_of_id")
        stored = {pk: tuple(rest) for pk, *rest in ScheduledFunction.objects.values_list(*columns)}
        assert stored == {pk: (m.state, m.attempt, m.parent, m.retry_of) for pk, m in self.models.items()}
        queued = {pk: m.boot for pk, m in self.models.items() if m.state is State.PENDING}
        assert dict(Due.objects.values_list("function_id", "handed_by")) == queued
        done = [
            m.number for m in self.models.values() if m.kind is Kind.MUTATION and m.state is State.SUCCESS
        ]
        assert marks() == Counter(done)

    def teardown(self) -> None:
        """However it went: with one cluster that works, and some time, every function ends."""
        if not hasattr(self, "boots"):
            return
        for boot in list(self.boots):
            clusters.end(boot, ending="died")
            self._inherit(boot)
        boot = self._begin_cluster()
        for _ in range(ATTEMPTS + 1):
            self._hours()
            while self._work_off(boot):
                self.rows_are_as_the_model_says()
        assert {model.state for model in self.models.values()} <= ENDED

    def _work_off(self, boot: uuid.UUID) -> int:
        """Hand everything out that is due, and run it well."""
        by = Holder(boot=boot, ran_by="the last")
        handed = [one for kind in Kind for one in clusters.hand_out(boot, kind, limit=1000)]
        for one in handed:
            model = self.models[one.id]
            model.boot, model.handed = boot, one
            if model.kind is Kind.MUTATION:
                self._ran(one, running.mutation(one, by=by))
            else:
                assert running.action(one, by=by)
                model.move(State.IN_PROGRESS)
                model.move(State.SUCCESS)
        return len(handed)

    def _begin_cluster(self) -> uuid.UUID:
        boot = uuid.UUID(int=len(self.boots) + 1)
        clusters.begin(boot, role="model")
        cluster_queries.vouch(boot, for_s=LONG_S)
        self.boots.append(boot)
        return boot

    def _hand_out(self, boot: uuid.UUID, kind: Kind, limit: int) -> None:
        ready = [
            pk
            for pk, model in self.models.items()
            if model.kind is kind
            and model.state is State.PENDING
            and not model.waits
            and model.handed is None
        ]
        handed = clusters.hand_out(boot, kind, limit=limit)
        assert len(handed) == min(limit, len(ready))
        assert not {one.id for one in handed} - set(ready)
        for one in handed:
            self.models[one.id].boot, self.models[one.id].handed = boot, one
            self.handed.append((boot, one))

    def _begin_actions(self) -> None:
        """The newest cluster begins all that it has or gets."""
        self._hand_out(self.boots[-1], Kind.ACTION, 100)
        for boot, one in self._undone():
            if self.models[one.id].kind is Kind.ACTION:
                self._start(one, Holder(boot=boot, ran_by=PROCESSES[one.id % 2]))

    def _one(self, data: st.DataObject, of: list[T]) -> T:
        """Drawn whatever there is to choose from: which of two of one moment is handed out first is PostgreSQL's to
        say, and the same dice must be thrown the next time."""
        return of[data.draw(st.integers(0, 999)) % len(of)]

    def _busy(self) -> list[uuid.UUID]:
        """The clusters in which an action runs."""
        return sorted({model.by.boot for model in self.models.values() if model.by})

    def _undone(self) -> list[tuple[uuid.UUID, Handed]]:
        """What was handed out, to whomever and whenever, and has not been done."""
        return [pair for pair in self.handed if self.models[pair[1].id].state is State.PENDING]

    def _start(self, one: Handed, by: Holder) -> None:
        """The start of an action. It is its cluster's as long as no other was handed it."""
        model = self.models[one.id]
        row = functions.start(one.id, by=by)
        assert (row is not None) is (model.state is State.PENDING and model.boot == by.boot)
        if row is not None:
            model.move(State.IN_PROGRESS)
            model.by = by
            self.calls.append((by, running._call_of(row)))

    def _run_batch(self, data: st.DataObject, one: Handed, by: Holder) -> None:
        """The first of a batch runs, and then there is no time for the second: it is given back."""
        others = [h for boot, h in self.handed if boot == by.boot and self.models[h.id].kind is Kind.MUTATION]
        other = self._one(data, others)
        before = self.models[one.id].state
        running.batch([one, other], by=by, should_stop=lambda: True)
        self._ran(one, self._state(one) != before and self._state(one) == State.SUCCESS)
        model = self.models[other.id]
        if model.state is State.PENDING and self._was_given_back(other, model, by):
            model.boot = model.handed = None

    def _was_given_back(self, one: Handed, model: Model, by: Holder) -> bool:
        """What this cluster holds; of what it held before (see `_ran`) nothing that is somebody else's now."""
        if model.handed is one:
            return True
        was_given_back = not Due.objects.filter(pk=one.id, handed_by=model.boot).exists()
        assert model.boot in {None, by.boot} or not was_given_back
        return was_given_back

    def _ran(self, one: Handed, ran: bool) -> None:
        """A mutation was run, if it was ours. The place of a row that moved may come round again: then it may be run
        although it was handed to somebody else since, which finds it done."""
        model = self.models[one.id]
        if model.state is not State.PENDING:
            assert not ran
        elif one.deliveries > running.MOST_DELIVERIES:  # whoever runs it dies of it, one must think
            assert not ran
            model.move(State.FAILED)
        elif model.handed is one:
            self._end_mutation(one, model)
            assert ran is (model.function is not sample.mark_and_break)
        elif self._state(one) != State.PENDING:
            self._end_mutation(one, model)

    def _end_mutation(self, one: Handed, model: Model) -> None:
        model.move(State.FAILED if model.function is sample.mark_and_break else State.SUCCESS)
        if model.function is sample.mark_and_schedule:
            [child] = ScheduledFunction.objects.filter(parent_id=one.id).values_list("pk", flat=True)
            self._know(child, Model(sample.mark, Kind.MUTATION, model.number, parent=one.id))

    def _schedule_from(self, call: Call, model: Model) -> None:
        """An action that runs (or believes so) schedules something: canceled from birth if the action was."""
        here = context.Running(id=call.id, function=call.function, kind=call.kind, attempt=call.attempt)
        with context.running(here):
            row = scheduling.run_after(0, sample.once, number=model.number)
        state = State.CANCELED if model.state is State.CANCELED else State.PENDING
        self._know(row.pk, Model(sample.once, Kind.ACTION, model.number, state=state, parent=call.id))

    def _leave_to_others(self, boot: uuid.UUID, *, is_silent: bool) -> None:
        """Its end is written by somebody who then dies too, or by nobody: others take over at their next look."""
        living = Cluster.objects.filter(boot_id=boot, ended_at=None)
        was_living = living.exists()
        if is_silent:
            living.update(heard_at=Now() - timedelta(hours=1))
        else:
            cluster_queries.end(boot, ending="died", why=None)
        over = {model.by.boot for model in self.models.values() if model.by} - self._living()
        if is_silent and was_living:
            over.add(boot)
        assert clusters.sweep() == len(over)
        for each in over:
            self._inherit(each)

    def _living(self) -> set[uuid.UUID]:
        return set(Cluster.objects.filter(ended_at=None).values_list("boot_id", flat=True))

    def _inherit(self, boot: uuid.UUID) -> None:
        self._lose(boot, ran_by=None)
        for model in self.models.values():
            if model.state is State.PENDING and model.boot == boot:
                model.boot, model.handed = None, None

    def _lose(self, boot: uuid.UUID, *, ran_by: str | None) -> int:
        lost = [
            pk
            for pk, model in self.models.items()
            if model.by and model.by.boot == boot and ran_by in {None, model.by.ran_by}
        ]
        for pk in lost:
            self.models[pk].move(State.UNKNOWN)
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

    def _state(self, one: Handed) -> str:
        return ScheduledFunction.objects.values_list("state", flat=True).get(pk=one.id)

    def _know(self, pk: int, model: Model) -> None:
        assert registry.find(model.function).kind is model.kind
        self.models[pk] = model


class TestFunctions:
    def test_are_what_the_model_says_after_any_calls(self) -> None:
        farm.until(is_old_enough, what="a database that is up for a while")
        run_state_machine_as_test(FunctionsMachine, settings=effort(examples=20, steps=50))
