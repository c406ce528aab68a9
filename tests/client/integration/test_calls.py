"""The client against a real farm: what it submits, lists, cancels and downloads, and how it is refused."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobfarm_client import (
    JobFailed,
    NewJob,
    NotEnded,
    NotFound,
    NotUnique,
    Refused,
    Skipped,
    Unauthorized,
    UnknownKind,
    WaitTimeout,
)
from jobfarm_client.client import MOST_IN_A_BULK, PAGE
from jobs.models import FlowTemplate, Job
from scheduling import operations as scheduling
from tests.api.edges.callers import Crew
from tests.client.integration.conftest import Make
from tests.farm import status, submit, until
from tests.metering import budgets


def begun(crew: Crew) -> dict[str, Any]:
    """A job that the worker has, its lease confirmed."""
    job = crew.claim_one(wait=20)
    crew.post(f"jobs/{job['id']}/heartbeat", lease=job["lease"]).raise_for_status()
    return job


def finish(crew: Crew, job: dict[str, Any], **body: Any) -> None:
    crew.post(f"jobs/{job['id']}/finish", lease=job["lease"], **body).raise_for_status()


def refused(client: Any) -> str:
    """The code that a submit is refused with; none of one that is not."""
    try:
        client.submit("work")
    except Refused as refusal:
        return refusal.code
    return ""


class TestBulk:
    def test_is_counted_begun_followed_and_undone(self, farm: Any) -> None:
        jobs = [farm.submit("work", tags=["nightly"]).id for _ in range(2)]
        farm.submit("work")
        counted = farm.bulk("change_priority", value=-7, tag="nightly", since=datetime.now(UTC) - timedelta(hours=1))
        assert (counted.phase, counted.matched, counted.is_over, counted.changed) == ("ready", 2, False, 0)
        assert farm.begin_bulk(counted.id).phase == "running"
        scheduling.run_due()
        done = farm.bulk_action(counted.id)
        assert (done.phase, done.is_over, done.changed, done.results) == ("done", True, 2, {"changed": 2})
        assert [job.priority for job in map(farm.job, jobs)] == [-7, -7]
        undoing = farm.undo_bulk(counted.id)
        scheduling.run_due()
        assert [job.priority for job in map(farm.job, jobs)] == [0, 0]
        assert farm.bulk_action(counted.id).undone_by == undoing.id

    def test_is_stopped(self, farm: Any) -> None:
        farm.submit("work")
        stopped = farm.stop_bulk(farm.bulk("cancel", begin_up_to=5).id)
        assert (stopped.phase, stopped.why) == ("stopped", "stopped by ada")


class TestConflicts:
    def test_a_submit_replaces_waits_or_is_debounced(self, farm: Any) -> None:
        first = farm.submit("work", 1, unique_key="one", on_conflict="replace")
        second = farm.submit("work", 2, unique_key="one", on_conflict="replace")
        assert (second.id, second.payload, second.replaced_at is not None) == (first.id, 2, True)
        again = farm.submit("work", 3, unique_key="one", debounce={"quiet": 60, "at_most": 120})
        assert again.id == first.id
        assert again.run_at > first.run_at
        [other] = farm.submit_many([NewJob(kind="work", payload=4, unique_key="one", on_conflict="after")])
        assert (other.id, other.payload, other.waits_for) == (first.id, 4, None)


class TestSubmit:
    def test_answers_with_the_job(self, farm: Any) -> None:
        later = datetime.now(UTC) + timedelta(hours=1)
        job = farm.submit("work", {"n": 1}, run_at=later, unique_key="one", priority=-5)
        assert (job.kind, job.queue, job.status, job.payload) == ("work", "work", "pending", {"n": 1})
        assert (job.run_at, job.unique_key, job.priority, job.owner) == (later, "one", -5, "ada")
        assert farm.job(job.id) == job

    def test_is_found_by_its_tags(self, farm: Any) -> None:
        tagged = farm.submit("work", tags=["nightly", "tenant:7", "nightly"])
        farm.submit("work", tags=["nightly"])
        assert tagged.tags == farm.job(tagged.id).tags == ("nightly", "tenant:7")
        assert [job.id for job in farm.jobs(tag="tenant:7,nightly")] == [tagged.id]
        assert len(list(farm.jobs(tag="nightly"))) == 2
        with pytest.raises(Refused, match="tags"):
            farm.submit("work", tags=["a b"])

    def test_of_a_twin_names_the_living_one(self, farm: Any) -> None:
        first = farm.submit("work", unique_key="one")
        with pytest.raises(NotUnique) as refused:
            farm.submit("work", unique_key="one")
        assert (refused.value.job, refused.value.code, refused.value.status) == (first.id, "not_unique", 409)

    def test_with_a_key_of_ones_own_is_done_once(self, farm: Any) -> None:
        jobs = {farm.submit("work", {"n": 1}, idempotency_key="mine").id for _ in range(3)}
        assert (len(jobs), Job.objects.count()) == (1, 1)

    def test_over_a_budget_is_refused_or_waits_for_its_next_window(self, make: Make, ada: User) -> None:
        budgets.budget("seconds", 90, person=ada)  # a job of a kind that has not run is expected to take 60
        farm = make(retry_for_s=0)
        until(lambda: refused(farm) == "budget_exhausted", what="the budget to be known to the server: 5 s")
        assert farm.submit("work", wait=True).run_at == budgets.tomorrow()
        [waits] = farm.submit_many([NewJob(kind="work", wait=True)])
        assert waits.run_at > budgets.tomorrow()

    def test_without_one_is_done_each_time(self, farm: Any) -> None:
        assert farm.submit("work").id != farm.submit("work").id

    def test_of_what_is_no_json_sends_nothing(self, farm: Any) -> None:
        for payload in (object(), float("nan")):
            with pytest.raises((TypeError, ValueError)):
                farm.submit("work", payload)
        assert not Job.objects.exists()

    def test_of_many_goes_by_thousands_and_keeps_their_order(self, farm: Any) -> None:
        twin = farm.submit("work", unique_key="twin")
        new = [NewJob(kind="work", payload=n) for n in range(MOST_IN_A_BULK + 1)]
        answers = farm.submit_many([*new, NewJob(kind="work", unique_key="twin")])
        assert [job.payload for job in answers[:-1]] == list(range(MOST_IN_A_BULK + 1))
        assert answers[-1] == Skipped(code="not_unique", message=answers[-1].message, job=twin.id)

    def test_of_an_unknown_kind_is_refused_by_its_class(self, farm: Any) -> None:
        with pytest.raises(UnknownKind) as refused:
            farm.submit("nonsense")
        assert "nonsense" in str(refused.value)


class TestLists:
    def test_go_through_all_pages(self, farm: Any) -> None:
        ids = [job.id for job in farm.submit_many(NewJob(kind="work") for _ in range(PAGE + 5))]
        assert [job.id for job in farm.jobs(kind="work")] == sorted(ids, reverse=True)
        assert list(farm.jobs(status="failed")) == []

    def test_have_what_is_ones_own(self, farm: Any) -> None:
        submit(1)  # nobody's
        mine = farm.submit("work")
        assert [job.id for job in farm.jobs()] == [mine.id]


class TestWait:
    def test_ends_with_the_job(self, farm: Any, crew: Crew) -> None:
        job = farm.submit("work", {"n": 2})

        def work() -> None:
            held = begun(crew)
            finish(crew, held, outcome="success", result=held["payload"]["n"] * 2)

        worker = threading.Thread(target=work)
        worker.start()
        ended = farm.wait(job.id, timeout_s=30)
        worker.join()
        assert (ended.status, ended.result, ended.has_ended, ended.attempt) == ("success", 4, True, 1)
        assert [(attempt.outcome, attempt.worker) for attempt in ended.attempts] == [("success", "w")]
        assert farm.wait(job.id) == ended

    def test_is_over_in_time_and_the_job_goes_on(self, farm: Any) -> None:
        job = farm.submit("work")
        with pytest.raises(WaitTimeout):
            farm.wait(job.id, timeout_s=0.3)
        assert status(job.id) == "pending"

    def test_of_a_job_of_somebody_else_is_refused(self, farm: Any) -> None:
        [job] = submit(1)
        with pytest.raises(NotFound):
            farm.wait(job.id)


class TestAFlow:
    def test_is_started_from_a_template_with_values(self, farm: Any) -> None:
        jobs = [{"name": "a", "kind": "work", "payload": "{{ x }}"}, {"name": "b", "kind": "work", "after": ["a"]}]
        FlowTemplate.objects.create(name="report", placeholders={"x": None}, jobs=jobs)
        flow = farm.submit_flow("report", idempotency_key="today", x=[1])
        assert [one.name for one in flow.jobs] == ["a", "b"]
        assert farm.job(flow.jobs[0].id).payload == [1]
        assert farm.submit_flow("report", idempotency_key="today", x=[1]).id == flow.id
        with pytest.raises(Refused, match="There is no x"):
            farm.submit_flow("report")


class TestAllThatMatch:
    def test_are_followed_those_too_that_come_later(self, farm: Any, crew: Crew) -> None:
        first = farm.submit("work", tags=["nightly"])
        farm.submit("work", tags=["daily"], run_at=datetime.now(UTC) + timedelta(hours=1))
        events = farm.events_that_match(tag="nightly", owner="me")
        seen = next(events)
        assert (seen.name, seen.job.id, seen.job.tags, seen.text) == ("job", first.id, ("nightly",), "")
        second = farm.submit("work", tags=["nightly", "b"])
        assert next(events).job.id == second.id
        finish(crew, begun(crew), outcome="success")
        assert next(event for event in events if event.job.has_ended).job.status == "success"

    def test_of_a_flow_by_a_stream_that_goes_on_where_it_was(self, farm: Any, crew: Crew) -> None:
        first = farm.submit("work", name="a")
        second = farm.submit("work", after=[first.id])
        farm.submit("work", name="of another", run_at=datetime.now(UTC) + timedelta(hours=1))
        events = farm.events_that_match(flow=first.flow)
        assert {next(events).job.id for _ in range(2)} == {first.id, second.id}, "and no other"
        finish(crew, begun(crew), outcome="success")
        last = next(event for event in events if event.job.has_ended and event.id)
        finish(crew, begun(crew), outcome="success")
        missed = farm.events_that_match(flow=first.flow, last_event_id=last.id)
        seen = {event.job.id: event.job.status for event in (next(missed), next(missed))}
        assert seen == {first.id: "success", second.id: "success"}
        assert farm.flow(first.flow).usage["attempts"] == 2
        again = farm.retry_flow(first.flow, from_job=first.id)
        assert [farm.job(one).retry_of for one in again] == [first.id, second.id]

    def test_until_the_time_is_over(self, farm: Any) -> None:
        with pytest.raises(WaitTimeout, match="is over"):
            next(farm.events_that_match(tag="nightly", timeout_s=0.3))

    def test_by_a_filter_that_makes_no_sense_is_refused(self, farm: Any) -> None:
        with pytest.raises(Refused, match="tag"):
            next(farm.events_that_match(tag="a b"))


class TestRun:
    def run(self, farm: Any, crew: Crew, **outcome: Any) -> Any:
        worker = threading.Thread(target=lambda: finish(crew, begun(crew), **outcome))
        worker.start()
        try:
            return farm.run("work", {"n": 1}, wait_s=30)
        finally:
            worker.join()

    def test_returns_the_result(self, farm: Any, crew: Crew) -> None:
        assert self.run(farm, crew, outcome="success", result=[1, None]) == [1, None]

    def test_raises_how_it_failed(self, farm: Any, crew: Crew) -> None:
        with pytest.raises(JobFailed, match=r"ended as failed: No such picture\.") as failed:
            self.run(farm, crew, outcome="failed", error="No such picture.", retryable=False)
        assert failed.value.job.status == "failed"


class TestOtherCalls:
    def test_cancel_says_what_it_came_to(self, farm: Any, crew: Crew) -> None:
        waiting = farm.submit("work")
        first, again = farm.cancel(waiting.id), farm.cancel(waiting.id)
        assert (first.verdict, first.is_canceled) == ("canceled_before_start", True)
        assert (again.verdict, again.status, again.is_canceled) == ("too_late", "canceled", True)

    def test_a_signal_is_sent_once_by_its_key(self, farm: Any) -> None:
        job = farm.submit("work")
        assert [farm.signal(job.id, "approved", {"n": n}, key="mail-7") for n in range(2)] == [True, False]
        assert farm.signal(job.id, "approved")
        farm.cancel(job.id)
        with pytest.raises(Refused, match="The job has ended"):
            farm.signal(job.id, "approved")

    def test_retry_makes_a_new_job_of_an_ended_one(self, farm: Any) -> None:
        job = farm.submit("work", {"n": 3})
        with pytest.raises(NotEnded):
            farm.retry(job.id)
        farm.cancel(job.id)
        again = farm.retry(job.id)
        assert (again.retry_of, again.payload, again.status) == (job.id, {"n": 3}, "pending")

    def test_run_now_and_why(self, farm: Any) -> None:
        job = farm.submit("work", run_at=datetime.now(UTC) + timedelta(hours=1))
        [reason, *_] = farm.why(job.id)
        assert (reason.code, "remedies" in reason.details) == ("not_due", True)
        assert farm.run_now(job.id).run_at < job.run_at

    def test_download_brings_the_bytes(self, farm: Any, crew: Crew) -> None:
        job = farm.submit("work")
        held = begun(crew)
        path = f"/api/v1/worker/jobs/{job.id}/files/data.bin"
        crew.http.put(path, params={"lease": held["lease"]}, content=b"\x00\xff" * 9).raise_for_status()
        finish(crew, held, outcome="success")
        [file] = farm.job(job.id).files
        assert (file.name, file.size) == ("data.bin", 18)
        assert farm.download(job.id, "data.bin") == farm.download(job.id, "data.bin", fence=1) == b"\x00\xff" * 9
        with pytest.raises(NotFound):
            farm.download(job.id, "other/../data.bin")

    def test_upload_stores_a_file_that_a_worker_reads(self, farm: Any, crew: Crew) -> None:
        kept = farm.upload("sound.ogg", b"\x00\xff" * 9)
        assert (kept.name, kept.size, kept.expires_at is None) == ("sound.ogg", 18, False)
        job = farm.submit("work", files={"audio": kept.id})
        held = begun(crew)
        path = f"/api/v1/worker/jobs/{job.id}/inputs/audio"
        answer = crew.http.get(path, params={"lease": held["lease"]}).raise_for_status()
        assert answer.content == b"\x00\xff" * 9

    def test_with_a_wrong_token_are_refused(self, make: Make) -> None:
        with pytest.raises(Unauthorized):
            make(token="jft_wrong").submit("work")
