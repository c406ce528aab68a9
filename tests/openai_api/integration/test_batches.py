"""Batches from their file to their files: what is checked, what becomes jobs, how they end."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.db.models.functions import Now

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.models import Job
from openai_api import queries
from openai_api.domain import batches as domain
from openai_api.errors import BatchEnded
from openai_api.models import Batch, Slice
from openai_api.operations import batches, steps
from outbox import operations as outbox
from outbox.models import Event, Message
from tests import farm
from tests.looped import looped
from tests.metering import budgets
from tests.openai_api import batching
from tests.openai_api.batching import content, line, made, offering, step, text, to_the_end

pytestmark = pytest.mark.django_db


def errors(batch: Batch) -> list[tuple[int | None, str]]:
    """The line and the code of each error."""
    return [(each["line"], each["code"]) for each in batch.errors]


class TestABatchAndABudget:
    def test_whose_lines_have_no_room_wait_for_its_next_windows(self, ada: User) -> None:
        offering("tiny")
        budgets.budget("tokens", 5, person=ada)
        batch = step(made(text(*map(line, range(3))), user=ada))
        assert batch.submitted == 3
        waits = [job.run_at for job in Job.objects.order_by("pk")]
        assert waits[0] < waits[1] == budgets.tomorrow() < waits[2]

    def test_of_the_api_token_that_it_came_with_is_bounded_by_it(self, ada: User) -> None:
        offering("tiny")
        token, _ = accounts.create_token(ada, name="nightly", scopes=["submit"])
        budgets.budget("tokens", 5, token=token)
        batch = step(made(text(*map(line, range(2))), user=ada, token_id=token.pk))
        made_of_it = Job.objects.order_by("pk")
        assert [job.token_id for job in made_of_it] == [token.pk] * 2
        assert [job.run_at >= budgets.tomorrow() for job in made_of_it] == [False, True]
        step(made(text(line(0)), user=ada))
        assert batch.submitted == 2
        assert Job.objects.latest("pk").token_id is None

    def test_with_a_line_that_is_larger_than_it_says_so_and_ends_by_its_time(self, ada: User) -> None:
        offering("tiny")
        budgets.budget("tokens", 1, person=ada)
        batch = step(made(text(line(0)), user=ada))
        assert (batch.submitted, batch.status) == (0, "in_progress")
        assert "never has room" in batch.note


class TestABatch:
    def test_ends_with_an_answer_to_each_line_under_its_own_name(self, ada: User) -> None:
        worker = offering("tiny")
        batch = to_the_end(made(text(*map(line, range(7))), user=ada, metadata={"run": "7"}), by=worker)
        assert (batch.status, batch.total, batch.completed, batch.failed) == ("completed", 7, 7, 0)
        lines = content(batch.output_file)
        assert [each["custom_id"] for each in lines] == [f"line-{n}" for n in range(7)]
        assert [each["response"]["body"] for each in lines] == [{"echo": f"word {n}"} for n in range(7)]
        assert {each["response"]["status_code"] for each in lines} == {200}
        assert {each["error"] for each in lines} == {None}
        assert batch.error_file is None
        assert batch.output_file is not None
        assert (batch.output_file.owner, batch.output_file.purpose) == (ada, "batch_output")

    def test_is_jobs_of_its_owner_below_the_priority_of_calls(self, ada: User) -> None:
        offering("tiny")
        batch = step(made(text(line(1), line(2)), user=ada))
        assert batch.status == "in_progress"
        for job in Job.objects.order_by("pk"):
            assert (job.kind, job.queue, job.owner, job.priority) == ("openai", "openai.tiny", ada, -10)
            assert job.expires_at == batch.expires_at
            assert queries.of_job(job.pk) == batch
        assert queries.of_job(10**6) is None

    def test_of_many_slices_repeats_and_loses_no_line(self, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(domain, "LINES_OF_SLICE", 3)
        monkeypatch.setattr(domain, "MOST_AHEAD", 6)
        worker = offering("tiny")
        blank = [b"\n", *(part for n in range(20) for part in (line(n), b"  \n"))]
        batch = to_the_end(made(text(*blank), user=ada), by=worker)
        assert [each["custom_id"] for each in content(batch.output_file)] == [f"line-{n}" for n in range(20)]
        assert [len(part.job_ids) for part in Slice.objects.all()] == [3] * 6 + [2]
        assert Job.objects.count() == 20

    def test_submits_no_more_than_may_lie_ahead_until_half_of_it_has_ended(
        self, ada: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(domain, "LINES_OF_SLICE", 2)
        monkeypatch.setattr(domain, "MOST_AHEAD", 8)
        worker = offering("tiny")
        batch = step(made(text(*map(line, range(30))), user=ada))
        assert (batch.submitted, Job.objects.count()) == (8, 8)
        batching.answer(worker, 3)
        assert step(batch).submitted == 8
        batching.answer(worker, 1)
        step(batch)
        assert step(batch).submitted == 12
        assert to_the_end(batch, by=worker).completed == 30

    def test_takes_a_slice_of_fewer_lines_where_these_are_long(
        self, ada: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(domain, "BYTES_OF_SLICE", 1000)
        offering("tiny")
        long = [line(n, body={"model": "tiny", "input": "x" * 600}) for n in range(3)]
        step(made(text(*long), user=ada))
        assert [len(part.job_ids) for part in Slice.objects.all()] == [2, 1]

    def test_has_failed_calls_in_its_error_file_as_the_model_server_answered_them(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(*map(line, range(3))), user=ada))
        answer = 'The model server answered 400: too long\n{"error": {"message": "too long", "code": "long"}}'
        farm.fail(worker, farm.claim_one(worker), answer, retryable=False)
        farm.fail(worker, farm.claim_one(worker), "Traceback\nValueError: it broke", retryable=False)
        to_the_end(batch, by=worker)
        assert (batch.status, batch.completed, batch.failed) == ("completed", 1, 2)
        refused, broken = content(batch.error_file)
        assert (refused["custom_id"], refused["response"]["status_code"]) == ("line-0", 400)
        assert refused["response"]["body"] == {"error": {"message": "too long", "code": "long"}}
        assert (broken["custom_id"], broken["response"]) == ("line-1", None)
        assert broken["error"]["code"] == "job_failed"
        assert "it broke" in broken["error"]["message"]

    def test_reads_answers_that_lie_in_a_file(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        claimed = farm.claim_one(worker)
        from django.core.files.base import ContentFile

        jobs.put_file(worker, claimed.id, claimed.lease, name="answer.json", content=ContentFile(b'{"a":\n [1]}'))
        result = {"answer_file": "answer.json", "usage": {"prompt_tokens": 3, "total_tokens": 3}}
        farm.succeed(worker, claimed, result)
        [only] = content(to_the_end(batch).output_file)
        assert only["response"]["body"] == {"a": [1]}

    def test_says_which_jobs_were_deleted_before_its_end(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0), line(1)), user=ada))
        batching.answer(worker, 1)
        Job.objects.ended("success").delete()
        to_the_end(batch, by=worker)
        assert [each["custom_id"] for each in content(batch.output_file)] == ["line-1"]
        [lost] = content(batch.error_file)
        assert (lost["custom_id"], lost["error"]["code"]) == ("line-0", "job_deleted")
        assert (batch.completed, batch.failed) == (1, 1)

    def test_announces_its_end(self, ada: User, boss: User) -> None:
        worker = offering("tiny")
        wanted = outbox.Wanted(name="x", url="https://example.org/hook", events=["batch.*"])
        outbox.create(wanted, by=boss, for_farm=True)
        batch = to_the_end(made(text(line(0)), user=ada), by=worker)
        event = Event.objects.get()
        data = json.loads(event.body)["data"]
        assert (event.type, event.subject) == ("batch.completed", f"batch/{batch.pk}")
        assert (data["id"], data["status"]) == (batch.public_id, "completed")
        assert data["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
        assert batch.output_file is not None
        assert data["output_file_id"] == batch.output_file.public_id

    def test_of_somebody_else_is_announced_to_nobody_but_its_owner(self, ada: User, bob: User) -> None:
        offering("tiny")
        for person in (ada, bob):
            outbox.create(outbox.Wanted(name="x", url="https://example.org/hook", events=["batch.*"]), by=person)
        step(made(text(b"{"), user=bob))
        [message] = Message.objects.all()
        assert (message.endpoint.owner, message.event.type) == (bob, "batch.failed")


REFUSED: dict[str, tuple[list[Any], list[tuple[int | None, str]]]] = {
    "no JSON": ([line(0), b"{no\n"], [(2, "invalid_json_line")]),
    "no object": ([[1]], [(1, "invalid_json_line")]),
    "no custom_id": (
        [line(0, custom_id=None), line(1, custom_id="")],
        [(1, "missing_required_parameter"), (2, "missing_required_parameter")],
    ),
    "a custom_id twice": ([line(0), line(1), line(0)], [(3, "duplicate_custom_id")]),
    "another method": ([line(0, method="GET")], [(1, "invalid_method")]),
    "another endpoint": ([line(0, url="/v1/chat/completions")], [(1, "invalid_url")]),
    "an unknown model": ([line(0, body={"model": "huge"})], [(1, "model_not_found")]),
    "no model": ([line(0, body={})], [(1, "invalid_request")]),
    "no body": ([line(0, body=None)], [(1, "invalid_request")]),
    "a stream": ([line(0, body={"model": "tiny", "stream": True})], [(1, "invalid_request")]),
    "what no database holds": ([line(0, body={"model": "tiny", "input": "\x00"})], [(1, "invalid_json")]),
    "a body that is too large": ([line(0, body={"model": "tiny", "input": "x" * 1_000_001})], [(1, "too_large")]),
    "a line that is too long": (
        [b"x" * 3_000_000 + b"\n", line(1), b"y"], [(1, "line_too_long"), (3, "invalid_json_line")]
    ),
    "nothing": ([b"\n  \n"], [(None, "empty_file")]),
}  # fmt: skip


class TestResponses:
    def test_are_made_by_a_batch_but_for_those_that_follow_another(self, ada: User) -> None:
        worker = offering("tiny")
        body = {"model": "tiny", "input": "Why?"}
        lines = [line(n, url="/v1/responses", body=body) for n in range(2)]
        batch = to_the_end(made(text(*lines), user=ada, endpoint="/v1/responses"), by=worker)
        assert (batch.status, batch.completed) == ("completed", 2)
        assert {job.payload["path"] for job in Job.objects.all()} == {"responses"}
        following = line(0, url="/v1/responses", body={**body, "previous_response_id": "resp_1"})
        refused = step(made(text(following), user=ada, endpoint="/v1/responses"))
        assert (refused.status, errors(refused)) == ("failed", [(1, "invalid_request")])


class TestABadFile:
    @looped("name", list(REFUSED), rolled_back=True)
    def test_fails_its_batch_with_the_lines_and_leaves_no_job(self, ada: User, name: str) -> None:
        offering("tiny")
        lines, expected = REFUSED[name]
        batch = step(made(text(*lines), user=ada))
        assert (batch.status, errors(batch)) == ("failed", expected)
        assert not batch.is_live
        assert not Job.objects.exists()
        assert not Slice.objects.exists()

    def test_lists_no_more_than_so_many_errors(self, ada: User) -> None:
        offering("tiny")
        batch = step(made(b"{\n" * 500, user=ada))
        assert len(batch.errors) == domain.MOST_ERRORS

    def test_has_too_many_lines(self, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(domain, "MOST_LINES", 3)
        offering("tiny")
        assert errors(step(made(text(*map(line, range(4))), user=ada))) == [(None, "too_many_lines")]
        assert step(made(text(*map(line, range(3))), user=ada)).status == "in_progress"

    def test_is_gone_from_the_storage(self, ada: User) -> None:
        offering("tiny")
        batch = made(text(line(0)), user=ada)
        assert batch.input_file is not None
        default_storage.delete(batch.input_file.stored_as)
        assert errors(step(batch)) == [(None, "file_not_found")]


class TestCancelling:
    def test_keeps_what_is_done_lets_run_what_runs_and_submits_nothing_more(
        self, ada: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(domain, "LINES_OF_SLICE", 2)
        monkeypatch.setattr(domain, "MOST_AHEAD", 4)
        worker = offering("tiny")
        batch = step(made(text(*map(line, range(6))), user=ada))
        batching.answer(worker, 1)
        running = farm.claim_one(worker)
        batches.cancel(batch.pk)
        assert step(batch).status == "cancelling"
        assert batch.cancelling_at is not None
        assert farm.status(running) == "in_progress"
        farm.succeed(worker, running, {"echo": "late"})
        assert step(batch).status == "cancelled"
        assert [each["custom_id"] for each in content(batch.output_file)] == ["line-0", "line-1"]
        rest = content(batch.error_file)
        assert [each["custom_id"] for each in rest] == [f"line-{n}" for n in range(2, 6)]
        assert {each["error"]["code"] for each in rest} == {"batch_cancelled"}
        assert (batch.total, batch.completed, batch.failed) == (6, 2, 4)

    def test_does_not_wait_for_ever_for_what_runs(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        running = farm.claim_one(worker)
        batches.cancel(batch.pk)
        Batch.objects.update(cancelling_at=Now() - steps.LET_RUN)
        assert step(batch).status == "cancelled"
        assert farm.status(running) == "canceled"

    def test_before_its_file_was_checked_answers_every_line_with_an_error(self, ada: User) -> None:
        offering("tiny")
        batch = made(text(line(0), line(1)), user=ada)
        batches.cancel(batch.pk)
        assert step(batch).status == "cancelled"
        assert not Job.objects.exists()

    def test_twice_is_once_and_of_an_ended_one_refused(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        farm.claim_one(worker)
        first = batches.cancel(batch.pk)
        assert batches.cancel(batch.pk).chain == first.chain
        Batch.objects.update(cancelling_at=Now() - steps.LET_RUN)
        step(batch)
        with pytest.raises(BatchEnded):
            batches.cancel(batch.pk)

    def test_is_what_becomes_of_the_batches_of_somebody_who_may_do_nothing_any_more(self, ada: User) -> None:
        offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        ada.is_active = False
        ada.save()
        assert step(batch).status == "cancelled"
        assert Job.objects.get().status == "canceled"


class TestExpiry:
    def test_cancels_what_is_left_and_says_so_of_each_line(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(*map(line, range(3))), user=ada))
        batching.answer(worker, 1)
        running = farm.claim_one(worker)
        Batch.objects.update(expires_at=Now() - timedelta(seconds=1))
        assert step(batch).status == "expired"
        assert farm.status(running) == "canceled"
        assert [each["custom_id"] for each in content(batch.output_file)] == ["line-0"]
        assert {each["error"]["code"] for each in content(batch.error_file)} == {"batch_expired"}
        assert (batch.completed, batch.failed) == (1, 2)
