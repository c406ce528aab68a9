"""`prepare`: what a worker is handed is decided when it claims (docs/adr/0026)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from core.backoff import Backoff
from jobs import kinds, operations
from jobs.models import Attempt, Job
from jobs.operations import Discard, Kind, Move, Prepared
from tests import farm
from tests.unprintable import Unprintable

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "DECLARED", dict(kinds.DECLARED))
    monkeypatch.setattr(kinds, "HOOKS", dict(kinds.HOOKS))


class App:
    """An app whose answers are said by the test, by the number in the payload."""

    def __init__(self) -> None:
        self.says: dict[int, Any] = {}
        self.prepared: list[list[Prepared]] = []
        self.moves: list[tuple[int, str]] = []

    def prepare(self, jobs: Sequence[Prepared]) -> Mapping[int, Any]:
        self.prepared.append(list(jobs))
        return {job.job_id: self._answer(job) for job in jobs if job.payload["n"] in self.says}

    def _answer(self, job: Prepared) -> Any:
        answer = self.says[job.payload["n"]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def moved(self, moves: Sequence[Move]) -> None:
        self.moves += [(move.job_id, move.to.value) for move in moves]


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def kind(app: App) -> Callable[..., None]:
    def declare(**fields: Any) -> None:
        operations.declare(Kind(name="work", **fields), prepare=app.prepare, on_transition=app.moved)
        operations.sync()

    return declare


class TestPrepare:
    def test_leaves_out_what_makes_no_sense_and_a_finish_goes_on_to_the_next(
        self, app: App, kind: Callable[..., None]
    ) -> None:
        kind()
        [first, discarded, last], me = farm.submit(3), farm.worker()
        held = farm.claim_one(me)
        app.says = {1: Discard(why="nobody waits for it")}
        done = operations.Finished(job_id=held.id, lease=held.lease, outcome="success")
        [status], claimed = operations.finish_and_claim(me, [done], limit=1)
        assert (held.id, status, [got.id for got in claimed]) == (first.pk, "success", [last.pk])
        assert Job.objects.get(pk=discarded.pk).status == "canceled"

    def test_says_what_the_worker_gets_and_nothing_of_it_is_stored(self, app: App, kind: Callable[..., None]) -> None:
        kind()
        [job, plain], me = farm.submit(2), farm.worker()
        app.says = {0: {"prompt": "now"}}
        claimed = operations.claim(me, limit=5)
        assert [(got.id, got.payload) for got in claimed] == [(job.pk, {"prompt": "now"}), (plain.pk, {"n": 1})]
        assert job.payload == {"n": 0}
        assert app.prepared == [
            [
                Prepared(job_id=which.pk, kind="work", attempt=1, payload={"n": n}, worker_id=me.pk, worker_name="w1")
                for n, which in enumerate([job, plain])
            ]
        ]

    def test_is_asked_anew_at_every_attempt(self, app: App, kind: Callable[..., None]) -> None:
        kind(backoff=Backoff(first_s=0))
        farm.submit(1)
        me = farm.worker()
        app.says = {0: "first"}
        farm.fail(me, farm.claim_one(me))
        app.says = {0: "second"}
        assert farm.claim_one(me).payload == "second"

    def test_ends_a_job_that_makes_no_sense_any_more_and_the_next_is_claimed_instead(
        self, app: App, kind: Callable[..., None]
    ) -> None:
        kind()
        jobs, me = farm.submit(30), farm.worker()
        app.says = {n: Discard(why="the message was deleted") for n in range(29)}
        assert farm.claim_one(me).id == jobs[-1].pk
        gone = Job.objects.ended("canceled")
        assert sorted(gone.values_list("pk", flat=True)) == [job.pk for job in jobs[:-1]]
        assert set(Attempt.objects.values_list("outcome", "error")) == {("canceled", "the message was deleted")}
        assert app.moves[:2] == [(jobs[0].pk, "in_progress"), (jobs[0].pk, "canceled")]

    def test_leaves_out_of_a_batch_what_makes_no_sense(self, app: App, kind: Callable[..., None]) -> None:
        kind()
        jobs = farm.submit(10)
        app.says = {n: Discard(why="gone") for n in (0, 2, 3)}
        me = farm.worker()
        assert [got.id for got in operations.claim(me, limit=4)] == [jobs[1].pk]
        assert [farm.status(jobs[n]) for n in (0, 2, 3, 4)] == ["canceled"] * 3 + ["pending"]
        assert [got.id for got in operations.claim(me, limit=4)] == [job.pk for job in jobs[4:8]]

    @pytest.mark.parametrize(
        "bad", [ValueError("no\x00 \ud800 such"), Unprintable(), {"a": object()}, {"x": float("nan")}, "x" * 1_000_001]
    )
    def test_that_fails_costs_that_job_an_attempt_and_nobody_else_anything(
        self, app: App, kind: Callable[..., None], bad: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        kind(max_attempts=2)
        [first, broken, third] = farm.submit(3)
        me, _ = farm.worker(), farm.worker("another")
        app.says = {1: bad}
        claimed = operations.claim(me, limit=3)
        assert [got.id for got in claimed] == [first.pk, third.pk]
        broken.refresh_from_db()
        # It is nobody's fault but the app's: the worker is not kept from trying it again.
        assert (broken.status, broken.failures, farm.avoided_by(broken)) == ("pending", 1, [])
        assert broken.run_at > farm.now()
        farm.pass_time(broken, 60)
        assert operations.claim(me, limit=3) == []
        assert farm.status(broken) == "failed"
        errors = Attempt.objects.filter(job=broken).values_list("error", flat=True)
        assert [error.startswith("the farm could not prepare it: ") for error in errors] == [True, True]
        assert "preparing jobs of the kind work failed" in caplog.text

    def test_that_fails_with_a_long_sentence_shows_its_beginning_and_its_end(
        self, app: App, kind: Callable[..., None]
    ) -> None:
        kind(max_attempts=1)
        [job] = farm.submit(1)
        app.says = {0: ValueError(f"the first word {'x' * 1000} the last word")}
        assert operations.claim(farm.worker(), limit=1) == []
        error = Attempt.objects.get(job=job).error
        assert ("the first word" in error, error.endswith("the last word")) == (True, True)
        assert len(error) < 350

    def test_gives_a_slot_back_that_its_job_did_not_need(self, app: App, kind: Callable[..., None]) -> None:
        kind()
        operations.set_ceiling("work", 1)
        jobs = farm.submit(3)
        app.says = {0: Discard(why="gone"), 1: Discard(why="gone")}
        assert farm.claim_one(farm.worker()).id == jobs[2].pk

    def test_of_what_is_stolen_leaves_the_thief_idle_for_the_next(self, app: App, kind: Callable[..., None]) -> None:
        kind()
        jobs = farm.submit(3)
        app.says = {0: Discard(why="gone")}
        assert farm.claim_one(farm.worker("thief", "home", steals=["work"])).id == jobs[1].pk
