"""How much the jobs of one owner, and all jobs together, may have: waiting jobs, output, files (docs/adr/0057)."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import operations
from jobs.errors import NotUnique, QuotaReached
from jobs.models import Job, OutputChunk, ResultFile, Worker
from postgres import transactions
from tests import farm

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("work_kind")]
SetQuotas = Callable[..., None]


@pytest.fixture(autouse=True)
def quota(settings: Settings, tmp_path: Path) -> SetQuotas:
    """Sets quotas, by the names of their settings."""
    settings.MEDIA_ROOT = tmp_path

    def change(**quotas: int) -> None:
        settings.JOBFARM = {**settings.JOBFARM, **quotas}

    return change


def _refused(call: Any, *arguments: Any, **options: Any) -> tuple[str, dict[str, Any]]:
    with pytest.raises(QuotaReached) as refused:
        call(*arguments, **options)
    return refused.value.message, refused.value.numbers


def _hold(owner: User | None, me: Worker) -> operations.ClaimedJob:
    farm.submit(1, owner=owner)
    return farm.claim_one(me)


def _ended(owner: User | None, me: Worker, *, output: str) -> operations.ClaimedJob:
    claimed = _hold(owner, me)
    _write(me, claimed, 0, output)
    farm.succeed(me, claimed)
    return claimed


def _sends(owner: User) -> Callable[[], Any]:
    """Submits a job under a key, as often as it is called."""
    request = operations.repeatable(owner, "key", ["/jobs", {"kind": "work"}])
    new = operations.NewJob(kind="work", payload={}, owner=owner)
    return lambda: operations.once(request, count=lambda: None, submit=lambda: operations.submit_many([new]))


def _put(me: Worker, claimed: operations.ClaimedJob, name: str, size: int) -> ResultFile:
    content = File(BytesIO(b"x" * size))
    return operations.put_file(me, claimed.id, claimed.lease, name=name, content=content)


def _write(me: Worker, claimed: operations.ClaimedJob, seq: int, text: str) -> int:
    return operations.write_output(me, claimed.id, claimed.lease, seq=seq, text=text)


class TestWaitingJobs:
    def test_of_one_owner_are_refused_beyond_the_quota_with_the_number(
        self, ada: User, bob: User, quota: SetQuotas
    ) -> None:
        quota(WAITING_JOBS_PER_OWNER=3)
        farm.submit(3, owner=ada)
        sentence, numbers = _refused(farm.submit, 1, owner=ada)
        assert sentence == ("Quota of one owner, jobs waiting: 3 allowed, 3 used, 1 more requested.")
        assert numbers == {"what": "waiting jobs", "of": "owner", "quota": 3, "used": 3, "more": 1, "retry_after": 10}
        assert len(farm.submit(3, owner=bob)) == 3

    def test_due_later_count_as_those_due_now_do(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        [job] = farm.submit(1, owner=ada)
        farm.alter(job, run_at="2100-01-01T00:00Z")
        _refused(farm.submit, 1, owner=ada)

    def test_of_a_bulk_are_stored_all_or_none(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=5)
        farm.submit(3, owner=ada)
        _, numbers = _refused(farm.submit, 3, owner=ada)
        assert (numbers["used"], numbers["more"]) == (3, 3)
        assert Job.objects.filter(owner=ada).count() == 3
        assert len(farm.submit(2, owner=ada)) == 2

    def test_that_were_claimed_make_room(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        claimed = _hold(ada, farm.worker())
        farm.submit(1, owner=ada)
        _refused(farm.submit, 1, owner=ada)
        assert farm.status(claimed) == "in_progress"

    def test_that_were_canceled_make_room(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        [job] = farm.submit(1, owner=ada)
        operations.cancel(job.pk, by=ada)
        assert len(farm.submit(1, owner=ada)) == 1

    def test_come_back_over_the_quota_when_they_are_given_back_or_tried_again(
        self, ada: User, quota: SetQuotas
    ) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        me = farm.worker()
        given_back, failed = _hold(ada, me), _hold(ada, me)
        farm.submit(1, owner=ada)
        operations.release(me, given_back.id, given_back.lease)
        assert farm.fail(me, failed) == "pending"
        assert Job.objects.waiting().filter(owner=ada).count() == 3

    def test_that_a_person_tries_again_are_new_ones(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        [job] = farm.submit(1, owner=ada)
        operations.cancel(job.pk, by=ada)
        farm.submit(1, owner=ada)
        _, numbers = _refused(operations.retry, job.pk, by=ada)
        assert numbers["of"] == "owner"

    def test_that_have_a_twin_take_no_room_and_are_answered_with_it(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        [twin] = farm.submit(1, owner=ada, unique_key="k")
        new = operations.NewJob(kind="work", payload={}, owner=ada, unique_key="k")
        [answer] = operations.submit_many([new])
        assert isinstance(answer, NotUnique)
        assert answer.job == twin.pk
        more = operations.NewJob(kind="work", payload={}, owner=ada)
        _, numbers = _refused(operations.submit_many, [new, more])
        assert numbers["more"] == 1

    def test_of_the_site_itself_are_under_the_quota_of_the_farm_alone(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1, WAITING_JOBS_IN_ALL=4)
        farm.submit(3)
        farm.submit(1, owner=ada)
        sentence, numbers = _refused(farm.submit, 1)
        assert sentence == ("Quota of the whole farm, jobs waiting: 4 allowed, 4 used, 1 more requested.")
        assert (numbers["of"], numbers["quota"], numbers["used"]) == ("farm", 4, 4)

    def test_have_no_quota_where_the_setting_is_zero(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=0, WAITING_JOBS_IN_ALL=0)
        assert len(farm.submit(20, owner=ada)) == 20

    def test_cost_no_statement_more_while_there_is_room(self, ada: User) -> None:
        farm.submit(1, owner=ada)
        with CaptureQueriesContext(connection) as queries:
            operations.submit("work", {}, owner=ada)
        assert not [query for query in queries if "jobs_usage" in query["sql"] or "count(" in query["sql"]]


class TestIdempotency:
    def test_answers_a_repeat_as_before_when_the_quota_is_full(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        send = _sends(ada)
        first = send()
        _refused(farm.submit, 1, owner=ada)
        assert send() == first

    def test_keeps_no_refusal(self, ada: User, quota: SetQuotas) -> None:
        quota(WAITING_JOBS_PER_OWNER=1)
        [job] = farm.submit(1, owner=ada)
        send = _sends(ada)
        _refused(send)
        operations.cancel(job.pk, by=ada)
        assert len(send()) == 1


class TestOutput:
    def test_of_one_owner_is_refused_beyond_the_quota_with_the_number(
        self, ada: User, bob: User, quota: SetQuotas
    ) -> None:
        quota(OUTPUT_BYTES_PER_OWNER=10)
        me = farm.worker()
        _ended(ada, me, output="123456")
        second = _hold(ada, me)
        _write(me, second, 0, "1")
        before = farm.everything(second)
        sentence, numbers = _refused(_write, me, second, 1, "12345")
        assert sentence == ("Quota of one owner, bytes of output: 10 allowed, 7 used, 5 more requested.")
        assert (numbers["what"], numbers["of"], numbers["quota"], numbers["more"]) == (
            "bytes of output", "owner", 10, 5,
        )  # fmt: skip
        assert farm.everything(second) == before
        assert _write(me, second, 1, "123") == 2
        assert _write(me, _hold(bob, me), 0, "x" * 10) == 1

    def test_of_all_jobs_has_a_quota_too(self, ada: User, quota: SetQuotas) -> None:
        quota(OUTPUT_BYTES_IN_ALL=10)
        me = farm.worker()
        _ended(None, me, output="123456")
        sentence, numbers = _refused(_write, me, _hold(ada, me), 0, "12345")
        assert sentence == ("Quota of the whole farm, bytes of output: 10 allowed, 6 used, 5 more requested.")
        assert numbers["of"] == "farm"

    def test_that_comes_twice_is_answered_at_the_quota_too(self, ada: User, quota: SetQuotas) -> None:
        quota(OUTPUT_BYTES_PER_OWNER=6, OUTPUT_BYTES_IN_ALL=6)
        me = farm.worker()
        claimed = _hold(ada, me)
        for _ in range(2):
            assert _write(me, claimed, 0, "123456") == 1

    def test_has_room_again_at_once_when_jobs_are_deleted(self, ada: User, quota: SetQuotas) -> None:
        quota(OUTPUT_BYTES_PER_OWNER=6)
        me = farm.worker()
        first = _ended(ada, me, output="123456")
        second = _hold(ada, me)
        _write(me, second, 0, "")
        _refused(_write, me, second, 1, "123456")
        Job.objects.filter(pk=first.id).delete()
        assert _write(me, second, 1, "123456") == 2
        assert OutputChunk.objects.count() == 2

    def test_costs_no_statement_more_than_a_piece_while_there_is_room(self, ada: User) -> None:
        me = farm.worker()
        claimed = _hold(ada, me)
        _write(me, claimed, 0, "x")
        with CaptureQueriesContext(connection) as queries:
            _write(me, claimed, 1, "x")
        assert len([query for query in queries if "jobs_" in query["sql"]]) == 1


class TestFiles:
    def test_of_one_owner_are_counted(self, ada: User, bob: User, quota: SetQuotas) -> None:
        quota(FILES_PER_OWNER=2)
        me = farm.worker()
        for name in "ab":
            _put(me, _hold(ada, me), name, 1)
        sentence, numbers = _refused(_put, me, _hold(ada, me), "c", 1)
        assert sentence == ("Quota of one owner, files: 2 allowed, 2 used, 1 more requested.")
        assert numbers == {"what": "files", "of": "owner", "quota": 2, "used": 2, "more": 1}
        assert _put(me, _hold(bob, me), "c", 1).size == 1
        assert _put(me, _hold(None, me), "c", 1).size == 1

    def test_of_one_owner_have_a_quota_of_bytes(self, ada: User, quota: SetQuotas) -> None:
        quota(FILE_BYTES_PER_OWNER=20)
        me = farm.worker()
        _put(me, _hold(ada, me), "a", 15)
        _, numbers = _refused(_put, me, _hold(ada, me), "b", 6)
        assert numbers == {"what": "bytes of files", "of": "owner", "quota": 20, "used": 15, "more": 6}
        assert _put(me, _hold(ada, me), "b", 5).size == 5

    @pytest.mark.parametrize(
        ("quotas", "numbers"),
        [
            ({"FILES_IN_ALL": 1}, {"what": "files", "of": "farm", "quota": 1, "used": 1, "more": 1}),
            ({"FILE_BYTES_IN_ALL": 9}, {"what": "bytes of files", "of": "farm", "quota": 9, "used": 5, "more": 6}),
        ],
        ids=["number", "bytes"],
    )
    def test_of_all_jobs_have_quotas_too(
        self, ada: User, quota: SetQuotas, quotas: dict[str, int], numbers: dict[str, Any]
    ) -> None:
        quota(**quotas)
        me = farm.worker()
        _put(me, _hold(None, me), "a", 5)
        assert _refused(_put, me, _hold(ada, me), "b", 6)[1] == numbers

    def test_that_replace_one_are_counted_in_its_place(self, ada: User, quota: SetQuotas) -> None:
        quota(FILES_PER_OWNER=1, FILE_BYTES_PER_OWNER=10, FILES_IN_ALL=1, FILE_BYTES_IN_ALL=10)
        me = farm.worker()
        claimed = _hold(ada, me)
        _put(me, claimed, "a", 8)
        assert _put(me, claimed, "a", 10).size == 10
        assert _refused(_put, me, claimed, "a", 11)[1]["of"] == "owner"

    def test_that_are_refused_leave_nothing_in_the_storage(self, ada: User, quota: SetQuotas, tmp_path: Path) -> None:
        quota(FILE_BYTES_PER_OWNER=1)
        me = farm.worker()
        _refused(_put, me, _hold(ada, me), "a", 2)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_have_room_again_at_once_when_their_job_is_deleted(self, ada: User, quota: SetQuotas) -> None:
        quota(FILES_PER_OWNER=1)
        me = farm.worker()
        first = _hold(ada, me)
        _put(me, first, "a", 1)
        farm.succeed(me, first)
        Job.objects.filter(pk=first.id).delete()
        assert _put(me, _hold(ada, me), "b", 1).size == 1


@pytest.mark.django_db(transaction=True)
def test_a_submit_in_a_serializable_transaction_is_under_the_quota_of_the_farm(quota: SetQuotas) -> None:
    farm.kind()
    quota(WAITING_JOBS_IN_ALL=2)
    transactions.serializable(lambda: farm.submit(2))
    _refused(transactions.serializable, lambda: farm.submit(1))
    assert Job.objects.count() == 2
