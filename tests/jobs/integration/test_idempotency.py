"""Idempotency-Key: one key is one request, however often it is sent (docs/adr/0049)."""

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models import F
from django.test import Client

from accounts import operations as accounts
from jobs import limits, operations
from jobs.errors import IdempotencyKeyInUse
from jobs.models import IdempotencyKey, Job
from jobs.operations import janitor
from ratelimits import operations as ratelimits
from ratelimits.models import Bucket
from tests import farm

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("work_kind")]
ONE = {"kind": "work", "payload": {"b": 1, "a": [1, 2]}}
Post = Callable[..., Any]


def _poster(person: User) -> Post:
    """Posts with an API token of this person, under a key if one is given."""
    _, token = accounts.create_token(person, name="tests")
    client = Client(headers={"Authorization": f"Bearer {token}"})

    def post(path: str, body: Any = None, key: str | None = None) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        content = body if isinstance(body, str) else json.dumps(body)
        return client.post(f"/api/v1/{path}", content, content_type="application/json", headers=headers)

    return post


@pytest.fixture
def post(ada: User) -> Post:
    return _poster(ada)


def _status_and_document(response: Any) -> tuple[int, Any]:
    return response.status_code, response.json()


def _age(seconds: float) -> None:
    """Let time pass for all keys."""
    IdempotencyKey.objects.update(created_at=F("created_at") - timedelta(seconds=seconds))


def _taken() -> dict[str, float]:
    """What was taken of the submit limits, by their names."""
    return {name: used for name, used in Bucket.objects.values_list("name", "used") if name.startswith("submit/")}


def _drain(person: User) -> None:
    """Leave this person less than a thousand submits."""
    while ratelimits.limit(limits.SUBMIT_USER, key=f"user:{person.pk}", count=1000):
        pass


class TestARepeat:
    def test_of_a_submit_is_answered_as_the_first_was(self, post: Post) -> None:
        first, second = post("jobs", ONE, "k1"), post("jobs", ONE, "k1")
        assert first.status_code == 201
        assert _status_and_document(first) == _status_and_document(second)
        assert Job.objects.count() == 1
        assert post("jobs", ONE, "k2").json()["id"] != first.json()["id"]
        assert post("jobs", ONE).json()["id"] != post("jobs", ONE).json()["id"]

    def test_tells_the_job_as_it_stands_now_also_once_it_has_ended(self, post: Post) -> None:
        job = post("jobs", ONE, "k").json()["id"]
        me = farm.worker()
        farm.succeed(me, farm.claim_one(me), "done")
        status, document = _status_and_document(post("jobs", ONE, "k"))
        assert (status, document["id"], document["status"], document["result"]) == (201, job, "success", "done")
        assert Job.objects.count() == 1

    def test_of_a_bulk_has_the_same_jobs_and_the_same_twins_in_the_same_places(self, post: Post) -> None:
        keyed = ONE | {"unique_key": "u"}
        body = {"jobs": [keyed, ONE, keyed, ONE]}
        first = post("jobs/bulk", body, "k")
        [job, _, twin, _] = first.json()["jobs"]
        assert (twin["error"], twin["job"]) == ("not_unique", job["id"])
        operations.cancel(job["id"], by=None)
        again = post("jobs/bulk", body, "k")
        assert again.status_code == first.status_code == 201
        assert [entry.get("id") for entry in again.json()["jobs"]] == [e.get("id") for e in first.json()["jobs"]]
        assert again.json()["jobs"][2] == twin
        assert Job.objects.count() == 3

    def test_of_a_retry_makes_no_second_job(self, post: Post, ada: User) -> None:
        old = farm.ended("failed", owner=ada)
        first, second = (post(f"jobs/{old.pk}/retry", key="k") for _ in range(2))
        assert (first.status_code, first.json()["retry_of"]) == (201, old.pk)
        assert _status_and_document(first) == _status_and_document(second)
        assert Job.objects.count() == 2

    def test_of_a_retry_is_answered_also_once_what_it_retried_was_deleted(
        self, post: Post, ada: User, settings: Any
    ) -> None:
        old = farm.ended("failed", owner=ada)
        first = post(f"jobs/{old.pk}/retry", key="k")
        settings.JOBFARM = settings.JOBFARM | {"RETENTION_DAYS": 0}
        assert janitor.forget(10, 0) == 1
        again = post(f"jobs/{old.pk}/retry", key="k")
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
        assert post(f"jobs/{old.pk}/retry", key="other").status_code == 404

    def test_takes_nothing_of_the_submit_limits(self, post: Post) -> None:
        body = {"jobs": [ONE] * 7}
        post("jobs/bulk", body, "k")
        before = _taken()
        assert {round(used) for used in before.values()} == {7}
        post("jobs/bulk", body, "k")
        assert _taken() == before

    def test_is_answered_although_the_limits_would_grant_nothing_more(self, post: Post, ada: User) -> None:
        body = {"jobs": [ONE] * 1000}
        first = post("jobs/bulk", body, "k")
        _drain(ada)
        assert post("jobs/bulk", body, "other").status_code == 429
        assert _status_and_document(post("jobs/bulk", body, "k")) == _status_and_document(first)

    def test_is_answered_although_what_was_asked_for_would_be_refused_by_now(self, post: Post, ada: User) -> None:
        club = Group.objects.create(name="club")
        ada.groups.add(club)
        body = ONE | {"group": "club"}
        first = post("jobs", body, "k")
        ada.groups.clear()
        assert post("jobs", body, "other").status_code == 422
        assert post("jobs", body, "k").json()["id"] == first.json()["id"]

    def test_may_write_the_same_json_otherwise(self, post: Post) -> None:
        first = post("jobs", '{"kind": "work", "payload": {"a": 1, "b": "\\u00e9"}, "priority": null}', "k")
        again = post("jobs", '{"payload":{"b":"é","a":1},"kind":"work"}', "k")
        assert again.json()["id"] == first.json()["id"]

    @pytest.mark.parametrize("key", ["a", "x" * 255, '"8e03978e-40d5-43dd-bc93-6894a57f9324"', "a b/c;d=~"])
    def test_has_a_key_of_one_to_255_printable_characters(self, post: Post, key: str) -> None:
        assert len({post("jobs", ONE, key).json()["id"] for _ in range(2)}) == 1

    @pytest.mark.parametrize("key", ["", "x" * 256, "tab\tbed", "é", "\x7f"])
    def test_with_any_other_key_is_refused(self, post: Post, key: str) -> None:
        status, document = _status_and_document(post("jobs", ONE, key))
        assert (status, document["error"], document["faults"][0]["field"]) == (422, "invalid", "Idempotency-Key")
        assert not Job.objects.exists()

    def test_of_a_job_that_was_deleted_since_says_so_and_submits_none(self, post: Post) -> None:
        job = post("jobs", ONE, "k").json()["id"]
        bulk = {"jobs": [ONE, ONE]}
        many = [entry["id"] for entry in post("jobs/bulk", bulk, "bulk").json()["jobs"]]
        for pk in (job, many[0]):
            operations.cancel(pk, by=None)
            Job.objects.get(pk=pk).delete()
        status, document = _status_and_document(post("jobs", ONE, "k"))
        assert (status, document["error"], document["job"]) == (410, "job_deleted", job)
        gone, there = post("jobs/bulk", bulk, "bulk").json()["jobs"]
        assert (gone["error"], gone["job"], there["id"]) == ("job_deleted", many[0], many[1])
        assert Job.objects.count() == 1


class TestAKey:
    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("jobs", ONE | {"payload": {"b": 1, "a": [2, 1]}}),
            ("jobs", ONE | {"priority": 1}),
            ("jobs", ONE | {"payload": {"b": 1.0, "a": [1, 2]}}),
            ("jobs/bulk", {"jobs": [ONE]}),
        ],
        ids=str,
    )
    def test_is_refused_for_another_request(self, post: Post, path: str, body: Any) -> None:
        post("jobs", ONE, "k")
        before = _taken()
        status, document = _status_and_document(post(path, body, "k"))
        assert (status, document["error"]) == (422, "idempotency_key_reused")
        assert (Job.objects.count(), _taken()) == (1, before)

    def test_of_one_retry_is_refused_for_that_of_another_job(self, post: Post, ada: User) -> None:
        one, other = (farm.ended("failed", owner=ada).pk for _ in range(2))
        post(f"jobs/{one}/retry", key="k")
        assert post(f"jobs/{other}/retry", key="k").json()["error"] == "idempotency_key_reused"
        assert Job.objects.count() == 3

    def test_is_its_owners_and_tells_nobody_of_others(self, post: Post, ada: User) -> None:
        hers = post("jobs", ONE, "k").json()
        his = _poster(farm.user("bob"))("jobs", ONE | {"priority": -3}, "k").json()
        assert (hers["owner"], his["owner"]) == ("ada", "bob")
        assert _poster(ada)("jobs", ONE, "k").json()["id"] == hers["id"]  # whichever token of hers

    def test_is_kept_for_24_hours_and_free_then_whether_or_not_it_was_deleted(self, post: Post) -> None:
        first = post("jobs", ONE, "k").json()["id"]
        _age(24 * 3600 - 60)
        assert post("jobs", ONE, "k").json()["id"] == first
        _age(61)
        other = ONE | {"priority": -5}
        second = post("jobs", other, "k").json()["id"]
        assert second != first
        assert post("jobs", other, "k").json()["id"] == second
        assert IdempotencyKey.objects.count() == 1

    def test_goes_with_its_owner(self, post: Post, ada: User) -> None:
        post("jobs", ONE, "k")
        ada.delete()
        assert not IdempotencyKey.objects.exists()

    def test_is_deleted_once_it_is_older_than_a_day_and_none_younger(self, post: Post) -> None:
        for n in range(7):
            post("jobs", ONE, f"old {n}")
        _age(25 * 3600 + 1)
        post("jobs", ONE, "young")
        assert farm.retain("idempotency keys") == 7
        assert [row.key for row in IdempotencyKey.objects.all()] == ["young"]


class TestARefusal:
    """Nothing was stored, so nothing is kept: a repeat is tried anew, and so is another request under the same key."""

    def test_of_what_cannot_be_is_not_kept(self, post: Post) -> None:
        assert post("jobs", ONE | {"kind": "later"}, "k").status_code == 422
        assert not IdempotencyKey.objects.exists()
        farm.kind("later")
        assert post("jobs", ONE | {"kind": "later"}, "k").status_code == 201

    def test_by_the_submit_limit_is_not_kept(self, post: Post, ada: User) -> None:
        _drain(ada)
        bulk = {"jobs": [ONE] * 1000}
        refused = post("jobs/bulk", bulk, "k")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, str(refused.json()["retry_after"]))
        ratelimits.reset(limits.SUBMIT_USER, key=f"user:{ada.pk}")
        assert post("jobs/bulk", bulk, "k").status_code == 201

    def test_for_a_twin_is_not_kept(self, post: Post) -> None:
        keyed = ONE | {"unique_key": "u"}
        twin = post("jobs", keyed, "first").json()["id"]
        assert post("jobs", keyed, "k").json()["job"] == twin
        operations.cancel(twin, by=None)
        assert post("jobs", keyed, "k").status_code == 201

    def test_is_counted_by_the_submit_limits_as_it_is_without_a_key(self, post: Post) -> None:
        for key in (None, "k"):
            before = _taken()
            assert post("jobs", ONE | {"queue": "nowhere"}, key).status_code == 422
            assert [_taken()[name] - before.get(name, 0) for name in _taken()] == [pytest.approx(1, abs=0.1)] * 2


@pytest.mark.django_db(transaction=True)
class TestTheFirstStillBeingCarriedOut:
    def _held(self, ada: User, release: threading.Event, begun: threading.Event) -> list[Any]:
        """A submit that has stored its job and does not commit before it is released."""

        def submit() -> list[Any]:
            made = operations.submit_many([operations.NewJob(kind="work", payload=1, owner=ada)])
            begun.set()
            assert release.wait(30)
            return made

        return operations.once(_request(ada), count=lambda: None, submit=submit)

    def test_is_waited_for_and_answered_alike(self, ada: User) -> None:
        release, begun = threading.Event(), threading.Event()

        def second() -> list[Any]:
            assert begun.wait(30)
            return operations.once(_request(ada), count=_never, submit=_never, wait_s=60)

        def once_it_waits() -> list[Any]:
            farm.until(farm.waiting_for_locks)
            release.set()
            return []

        first, again, _ = farm.at_once(lambda: self._held(ada, release, begun), second, once_it_waits)
        assert first == again == [Job.objects.get().pk]

    def test_and_never_ending_is_refused_with_when_to_come_again(self, ada: User) -> None:
        release, begun = threading.Event(), threading.Event()

        def second() -> list[Any]:
            assert begun.wait(30)
            try:
                with pytest.raises(IdempotencyKeyInUse) as refused:
                    operations.once(_request(ada), count=_never, submit=_never, wait_s=0.05)
            finally:
                release.set()
            return [refused.value.retry_after]

        first, again = farm.at_once(lambda: self._held(ada, release, begun), second)
        assert (first, again) == ([Job.objects.get().pk], [1])

    def test_is_all_that_waits_so_shortly(self, ada: User) -> None:
        """What the submit itself waits for, a twin being stored say, it waits for as without a key."""
        seen = []

        def submit() -> list[Any]:
            with connection.cursor() as cursor:
                cursor.execute("SHOW lock_timeout")
                seen.append(cursor.fetchone()[0])
            return operations.submit_many([operations.NewJob(kind="work", payload=1, owner=ada)])

        for _ in range(2):
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '77s'")
                operations.once(_request(ada), count=lambda: None, submit=submit)
                cursor.execute("SHOW lock_timeout")
                seen.append(cursor.fetchone()[0])
        assert seen == ["77s"] * 3
        operations.once(operations.repeatable(ada, "other", []), count=lambda: None, submit=submit)
        with connection.cursor() as cursor:  # nor has what this connection does next
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)


def _request(owner: User) -> operations.Repeatable:
    return operations.repeatable(owner, "k", ["the same"])


def _never() -> Any:
    raise AssertionError("a repeat is carried out")
