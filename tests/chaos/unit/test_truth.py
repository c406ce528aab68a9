"""The chaos tells what may be from what must not be: attempts that were lost, and claims that nobody confirmed."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from jobs import operations as jobs
from jobs.domain.states import ENDED
from jobs.models import Attempt, Edge, Job, Live, Outcome
from tests import farm
from tests.chaos.silences import Silences
from tests.chaos.truth import Findings, _judge_claims, _judge_flows, _judge_silence

Runs = dict[int, list[str]]


def attempt(number: int, outcome: str = "lost", *, counted: int | None = 1, worker: str = "worker-1") -> Attempt:
    """One that went on for ten seconds, until now."""
    now = datetime.now(UTC)
    return Attempt(
        number=number, attempt=counted, outcome=outcome, worker_name=worker,
        claimed_at=now - timedelta(seconds=10), ended_at=now,
    )  # fmt: skip


def job(kind: str = "once", status: str = "success", *, claims: int = 1, confirmed: int | None = None) -> Job:
    judged = Job(id=7, kind=kind)
    Job._meta.get_field("live").set_cached_value(judged, None)
    confirmed = claims if confirmed is None else confirmed
    if status in ENDED:
        judged.outcome = Outcome(job_id=7, status=status, fence=claims, confirmed_fence=confirmed)
    else:
        judged.live = Live(job_id=7, fence=claims, confirmed_fence=confirmed)
    return judged


def claims(judged: Job, *, runs: Runs, past: list[Attempt] | None = None, spoken: set[int] | None = None) -> Findings:
    """What is found of a job's claims."""
    findings = Findings()
    _judge_claims(findings, judged, runs=runs, past=past or [], spoken=spoken or set())
    return findings


class TestClaims:
    @pytest.mark.parametrize("kind", ["once", "again"])
    def test_that_nobody_confirmed_leave_no_history(self, kind: str) -> None:
        found = claims(job(kind, claims=3), runs={3: ["a"]}, spoken={3})
        assert (found.lost, found.doubled) == ([], [])

    def test_under_which_a_worker_spoke_must_be_told(self) -> None:
        assert claims(job("again", claims=2), runs={1: ["a"], 2: ["b"]}, spoken={1, 2}).lost

    def test_the_last_that_was_confirmed_must_be_told(self) -> None:
        assert claims(job("again", "canceled", claims=2), runs={2: ["a"]}, past=[attempt(1)]).lost
        assert not claims(job("again", "canceled", claims=2, confirmed=1), runs={}, past=[attempt(1)]).lost

    def test_that_were_lost_may_be_followed_by_another_where_that_is_allowed(self) -> None:
        runs: Runs = {1: ["a"], 2: ["b"]}
        assert not claims(job("again", claims=2), runs=runs, past=[attempt(1)]).doubled
        assert claims(job("once", claims=2), runs=runs, past=[attempt(1)]).doubled

    def test_that_were_given_back_do_not_count(self) -> None:
        past = [attempt(1, "released", counted=None)]
        assert not claims(job("once", claims=2), runs={1: ["a"], 2: ["b"]}, past=past).doubled
        assert claims(
            job("again", claims=2), runs={}, past=[attempt(1, "released", counted=1), attempt(2, counted=2)]
        ).doubled

    def test_what_must_not_run_twice_does_not_begin_unconfirmed(self) -> None:
        assert claims(job("once", claims=2), runs={1: ["a"], 2: ["b"]}).doubled
        assert not claims(job("again", claims=2), runs={1: ["a"], 2: ["b"]}).doubled


class TestSilence:
    @pytest.fixture
    def silences(self) -> Silences:
        """The worker with the number 1 could not be heard a moment ago."""
        silences = Silences()
        silences.begin(["worker-1"])
        silences.end()
        return silences

    def found(self, judged: Job, past: list[Attempt], silences: Silences) -> Findings:
        findings = Findings()
        _judge_silence(findings, judged, past, silences=silences)
        return findings

    def test_of_its_worker_excuses_an_attempt_that_was_lost(self, silences: Silences) -> None:
        found = self.found(job(status="timed_out"), [attempt(1)], silences)
        assert (found.timed_out, found.timeouts) == ([], 1)

    def test_of_another_does_not(self, silences: Silences) -> None:
        assert self.found(job(status="timed_out"), [attempt(1, worker="worker-2")], silences).timed_out

    def test_that_was_over_does_not(self, silences: Silences) -> None:
        late = attempt(1)
        late.claimed_at, late.ended_at = (
            datetime.now(UTC) + timedelta(seconds=1),
            datetime.now(UTC) + timedelta(seconds=9),
        )
        assert self.found(job(status="timed_out"), [late], silences).timed_out

    def test_that_goes_on_does(self) -> None:
        silences = Silences()
        silences.begin(["worker-1"])
        late = attempt(1)
        late.claimed_at = late.ended_at = datetime.now(UTC) + timedelta(seconds=9)
        assert not self.found(job(status="timed_out"), [late], silences).timed_out

    def test_does_not_excuse_the_end_of_what_another_could_have_tried(self, silences: Silences) -> None:
        assert self.found(job("again", "timed_out"), [attempt(1)], silences).timed_out

    def test_does_not_excuse_the_end_of_what_nobody_had(self, silences: Silences) -> None:
        assert self.found(job(status="timed_out"), [], silences).timed_out

    def test_is_needed_also_where_another_tried_again(self, silences: Silences) -> None:
        assert self.found(job("again"), [attempt(1, worker="worker-2")], silences).timed_out
        assert not self.found(job("again"), [attempt(1)], silences).timed_out


def test_the_clock_of_tests_stays_as_it_is() -> None:
    """The handlers of the chaos set that of a worker wrong, and are imported by what judges them."""
    assert "lambda" not in repr(time.time)


@pytest.mark.django_db
class TestFlows:
    """A step that began too early, and one that was forgotten, are found."""

    def test_that_went_as_they_should_are_no_finding(self) -> None:
        _flow()
        assert _judged() == ([], [])

    def test_a_step_that_began_before_another_had_ended_is(self) -> None:
        before, after = _flow()
        ended = Outcome.objects.get(pk=before).ended_at
        early = attempt(1, "released", counted=None)
        early.job_id, early.claimed_at = after, ended - timedelta(seconds=1)
        early.save()
        assert _judged() == ([], [f"job {after} began before job {before} had ended"])

    def test_a_step_that_was_not_let_go_is(self) -> None:
        before, after = _flow()
        Edge.objects.update(open_of=after)
        assert _judged() == ([f"job {after} is not let go after job {before}"], [])


def _flow() -> tuple[int, int]:
    farm.kind()
    worker = farm.worker()
    before = jobs.submit("work", {}).pk
    after = jobs.submit("work", {}, after=[before]).pk
    farm.succeed(worker, farm.claim_one(worker))
    jobs.tend_lanes()
    farm.succeed(worker, farm.claim_one(worker))
    return before, after


def _judged() -> tuple[list[str], list[str]]:
    findings = Findings()
    _judge_flows(findings)
    return findings.lost, findings.untrue
