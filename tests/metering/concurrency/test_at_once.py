"""Budgets while many submit and end jobs at the same moment."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import QuerySet, Sum

from jobs import operations
from jobs.errors import JobsError, LeaseLost
from jobs.models import Job, Live, Worker
from metering import operations as metering, queries
from metering.errors import BadBudget, BudgetExhausted
from metering.models import Budget, Reading, Reservation, Window
from postgres import connections, transactions
from tests import farm
from tests.histories import checking, recording
from tests.histories.history import Bound, History
from tests.histories.recording import Recorder
from tests.metering import budgets
from tests.metering.budgets import answer, call, numbers

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 6


def _call_or_refusal(owner: User) -> str:
    try:
        call(owner)
    except BudgetExhausted:
        return "refused"
    return "submitted"


class TestManySubmits:
    def test_never_pass_a_budget(self, ada: User) -> None:
        budget = budgets.budget("tokens", 1050, person=ada)

        def five() -> list[str]:
            return [_call_or_refusal(ada) for _ in range(5)]

        outcomes = Counter(outcome for each in farm.at_once(*[five] * THREADS) for outcome in each)
        assert outcomes == {"submitted": 10, "refused": 20}
        assert numbers(budget) == (0, 1000)
        assert budgets.is_balanced()

    def test_of_bulks_are_admitted_whole_or_not_at_all(self, ada: User, work_kind: None) -> None:
        budget = budgets.budget("seconds", 1000, person=ada)  # 16 jobs of a minute

        def bulk() -> int:
            try:
                return len(farm.submit(7, owner=ada))
            except BudgetExhausted:
                return 0

        assert sorted(farm.at_once(*[bulk] * THREADS)) == [0] * (THREADS - 2) + [7, 7]
        assert numbers(budget) == (0, 14 * 60)

    def test_that_may_wait_fill_one_window_after_another(self, ada: User) -> None:
        budgets.budget("tokens", 250, person=ada)
        farm.at_once(*[lambda: call(ada, may_wait=True)] * THREADS)
        assert [*Window.objects.order_by("starts_at").values_list("reserved", flat=True)] == [200] * 3
        assert Job.objects.waiting().count() == THREADS

    def test_and_ends_have_a_history_in_which_it_is_never_passed(self, ada: User, tmp_path: Path) -> None:
        budgets.budget("tokens", 550, person=ada)
        workers = [budgets.worker(f"gpu{n}") for n in range(THREADS)]
        farm.at_once(*[partial(_recorded_steps, ada, worker, tmp_path) for worker in workers])
        history = _history(tmp_path, most=550)
        assert Counter(call.call for call in history.calls)["finish"] > THREADS
        assert checking.faults(history) == []

    def test_of_whom_nobody_waits_for_another_have_one_in_which_it_is_passed(
        self, ada: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        budgets.budget("tokens", 150, person=ada)
        read, both = queries.ledgers, threading.Barrier(2)

        def read_at_once(*given: Any, **options: Any) -> Any:
            ledgers = read(*given, **options)
            both.wait(timeout=30)
            return ledgers

        monkeypatch.setattr(queries, "ledgers", read_at_once)
        monkeypatch.setattr(QuerySet, "select_for_update", lambda rows, **_: rows)
        farm.at_once(*[partial(_recorded_once, ada, tmp_path, f"{n}") for n in range(2)])
        with _recorder(tmp_path, "ends") as recorder:
            for pk in Job.objects.living().values_list("pk", flat=True):
                with recorder.call("cancel") as noted:
                    noted.answer(pk, None, operations.cancel(pk, by=ada).verdict)
        [fault] = checking.faults(_history(tmp_path, most=150))
        assert "tokens is 150, and 200 of it were granted" in fault


class TestABudgetThatIsDeleted:
    def test_while_a_submit_has_a_reservation_of_it_and_wants_it_is_deleted_at_the_second_try(self, ada: User) -> None:
        """As one that replaces a job does: it gives back what that had reserved, then looks for room."""
        budget, waits = budgets.budget("tokens", 1000, person=ada), threading.Event()
        root = User.objects.get(username="root")
        call(ada)

        @transactions.retried
        def replace() -> None:
            list(Reservation.objects.select_for_update())
            waits.set()
            farm.until(lambda: farm.waiting_for_locks() == 1, what="the deletion")
            list(Budget.objects.select_for_update())

        def delete() -> None:
            assert waits.wait(timeout=30)
            metering.remove(budget.pk, by=root)

        farm.at_once(replace, delete)
        assert not Budget.objects.exists()


@contextmanager
def _recorder(folder: Path, name: str) -> Iterator[Recorder]:
    with (folder / name).open("w") as file:
        yield Recorder(file, process=name, refuses=lambda error: isinstance(error, BudgetExhausted))


def _history(folder: Path, *, most: float) -> History:
    return History(calls=[*recording.calls(folder.iterdir())], bounds=[Bound(name="tokens", most=most)])


def _recorded_once(owner: User, folder: Path, name: str) -> None:
    with _recorder(folder, name) as recorder:
        _recorded_submit(recorder, owner)


def _recorded_submit(recorder: Recorder, owner: User) -> None:
    with suppress(BudgetExhausted), recorder.call("submit") as noted:
        noted.answer(call(owner).pk, budgets={"tokens": 100})


def _recorded_steps(owner: User, worker: Worker, folder: Path) -> None:
    with _recorder(folder, worker.name) as recorder:
        for _ in range(8):
            _recorded_submit(recorder, owner)
            with recorder.call("claim", worker=worker.pk) as noted:
                claimed = operations.claim(worker, limit=2)
                noted.note_claimed((one.id, one.lease.fence) for one in claimed)
            for one in claimed:
                with recorder.call("finish", worker=worker.pk) as noted:
                    ended = farm.succeed(worker, one, answer(20, 30))
                    noted.answer(one.id, one.lease.fence, ended, used={"tokens": 50})


class TestAnEnd:
    def test_does_not_wait_for_a_submit_that_holds_the_budget(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        claimed = farm.claim_one(gpu)
        holds, goes_on = threading.Event(), threading.Event()

        def submit_slowly() -> None:
            with transaction.atomic():
                call(ada)
                holds.set()
                assert goes_on.wait(timeout=30)

        def finish() -> None:
            assert holds.wait(timeout=30)
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
            try:
                assert farm.succeed(gpu, claimed, answer(1, 2)) == "success"
            finally:
                goes_on.set()
                with connection.cursor() as cursor:
                    cursor.execute("RESET lock_timeout")

        farm.at_once(submit_slowly, finish)
        assert numbers(budget) == (3, 100)


class TestAStorm:
    """Submits, claims, and ends of every sort, with roll-ups between them, by several at once, at random."""

    @pytest.mark.parametrize("seed", range(2))
    def test_leaves_nothing_reserved_and_counts_what_was_used(self, ada: User, seed: int) -> None:
        of_tokens = budgets.budget("tokens", 3000, person=ada)
        budgets.budget("seconds", 2000, person=ada)
        workers = [budgets.worker(f"gpu{n}") for n in range(THREADS)]
        farm.at_once(*[lambda n=n: _storm(ada, workers[n], random.Random(f"{seed} {n}")) for n in range(THREADS)])
        assert budgets.is_balanced()
        _end_everything(ada, workers[0])

        assert not Job.objects.living().exists()
        assert not Reservation.objects.exists()
        metering.roll_up()
        assert budgets.is_balanced()
        assert not Window.objects.exclude(reserved=0).exists()
        metered = Job.objects.filter(is_metered=True).values("pk")
        readings = Reading.objects.filter(job_id__in=metered)
        used = readings.aggregate(of=Sum("tokens_in") + Sum("tokens_out"))["of"]
        windows = Window.objects.filter(budget=of_tokens).aggregate(of=Sum("used", default=Decimal(0)))
        assert windows["of"] == used > 0


def _storm(owner: User, worker: Worker, rng: random.Random) -> None:
    with connections.released():
        for _ in range(25):
            with suppress(BudgetExhausted, JobsError, LeaseLost):
                _step(owner, worker, rng)


def _step(owner: User, worker: Worker, rng: random.Random) -> None:
    match rng.choice(["submit", "submit", "cancel", "succeed", "succeed", "fail", "release", "lose", "roll up"]):
        case "submit":
            call(owner, may_wait=rng.random() < 0.3, unique_key=rng.choice([None, None, "a", "b"]))
        case "cancel":
            ids = [*Job.objects.living().order_by("?").values_list("pk", flat=True)[:1]]
            for pk in ids:
                operations.cancel(pk, by=owner)
        case "roll up":
            metering.roll_up()
        case how:
            for claimed in operations.claim(worker, limit=rng.randint(1, 3)):
                _end(worker, claimed, how)


def _end(worker: Worker, claimed: operations.ClaimedJob, how: str) -> None:
    match how:
        case "succeed":
            farm.succeed(worker, claimed, answer(20, 30))
        case "fail":
            farm.fail(worker, claimed, retryable=False)
        case "release":
            operations.release(worker, claimed.id, claimed.lease)
        case "lose":
            with transaction.atomic():  # another one may cancel it: an ended job is never changed
                if Live.objects.select_for_update().filter(pk=claimed.id).exists():
                    Job.objects.filter(pk=claimed.id).update(retry_when_lost=False)
            farm.expire_lease(claimed)
            operations.sweep()


def _end_everything(owner: User, worker: Worker) -> None:
    """Some of what is left is run, the rest canceled."""
    for claimed in operations.claim(worker, limit=10):
        farm.succeed(worker, claimed, answer(20, 30))
    for pk in Job.objects.living().values_list("pk", flat=True):
        operations.cancel(pk, by=owner)


def test_a_budget_that_two_make_at_once_is_one_and_the_other_is_refused() -> None:
    """As by a button that was pressed twice: it was an error of the server."""
    ada = farm.user("ada")
    make = partial(budgets.budget, "tokens", 100, by=farm.user("root", is_staff=True, is_superuser=True), person=ada)
    with pytest.raises(BadBudget):
        farm.meanwhile(make, make)
    assert Budget.objects.count() == 1
