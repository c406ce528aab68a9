"""Conflicts over HTTP: which answer is new, which replaced, which is refused, and what a repeat gets."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from tests import farm

pytestmark = pytest.mark.django_db
PUSH = {"kind": "work", "unique_key": "deploy"}


@pytest.fixture
def ada() -> User:
    farm.kind()
    return farm.user("ada")


def _post(person: User, path: str, body: Any, *, scopes: tuple[str, ...] = (), key: str | None = None) -> Any:
    _, token = accounts.create_token(person, name="t", scopes=list(scopes or ("submit", "read", "operate")))
    headers = {"Authorization": f"Bearer {token}", **({"Idempotency-Key": key} if key else {})}
    return Client().post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


def _push(person: User, number: int, how: str = "replace", **more: Any) -> Any:
    options = {name: more.pop(name) for name in ("scopes", "key") if name in more}
    return _post(person, "jobs", {**PUSH, "payload": {"n": number}, "on_conflict": how, **more}, **options)


def test_a_new_job_is_201_and_one_that_is_replaced_200_with_its_id(ada: User) -> None:
    first, second = _push(ada, 1), _push(ada, 2, priority=-3)
    assert (first.status_code, second.status_code) == (201, 200)
    job = second.json()
    assert (job["id"], job["payload"], job["priority"]) == (first.json()["id"], {"n": 2}, -3)
    assert job["created_at"] == first.json()["created_at"]
    assert (first.json()["replaced_at"], job["waits_for"]) == (None, None)
    assert job["replaced_at"] is not None


def test_one_that_was_begun_is_409_with_the_reason(ada: User) -> None:
    first = _push(ada, 1)
    farm.claim_one(farm.worker())
    refused = _push(ada, 2)
    assert refused.status_code == 409
    body = refused.json()
    assert (body["error"], body["job"], body["reason"]) == ("not_unique", first.json()["id"], "in_progress")
    assert "reason" not in _push(ada, 3, "refuse").json()


def test_one_that_waits_behind_another_says_so_also_when_it_is_read(ada: User) -> None:
    first = _push(ada, 1, "after")
    farm.claim_one(farm.worker())
    second, third = _push(ada, 2, "after"), _push(ada, 3, "after")
    assert (second.status_code, third.status_code, second.json()["waits_for"]) == (201, 200, first.json()["id"])
    _, token = accounts.create_token(ada, name="reads", scopes=["read"])
    headers, path = {"Authorization": f"Bearer {token}"}, f"/api/v1/jobs/{third.json()['id']}"
    shown = Client().get(path, headers=headers).json()
    assert (shown["waits_for"], shown["payload"], shown["run_at"][:4]) == (first.json()["id"], {"n": 3}, "9000")
    assert Client().get(f"{path}/why", headers=headers).json()["reasons"][0]["job"] == first.json()["id"]


def test_a_debounced_one_is_due_once_it_was_quiet(ada: User) -> None:
    body = {**PUSH, "payload": {}, "debounce": {"quiet": 50, "at_most": 100}}
    job = Job.objects.get(pk=_post(ada, "jobs", body).json()["id"])
    assert round((job.run_at - job.created_at).total_seconds()) == 50


@pytest.mark.parametrize(
    "more",
    [
        {"on_conflict": "last"},
        {"debounce": {"quiet": 5}},
        {"debounce": {"quiet": 50, "at_most": 5}},
        {"debounce": {"quiet": 5, "at_most": 50}, "on_conflict": "refuse"},
        {"on_conflict": "after", "unique_key": None},
    ],
)
def test_what_says_nothing_is_422(ada: User, more: dict[str, Any]) -> None:
    assert _post(ada, "jobs", {**PUSH, "payload": {}, **more}).status_code == 422
    assert not Job.objects.exists()


def test_a_repeat_with_an_idempotency_key_is_answered_as_the_first_and_replaces_nothing(ada: User) -> None:
    new, replaced = _push(ada, 1, key="a"), _push(ada, 2, key="b")
    _push(ada, 3)
    again = [_push(ada, 1, key="a"), _push(ada, 2, key="b")]
    assert [one.status_code for one in (new, replaced, *again)] == [201, 200, 201, 200]
    assert {one.json()["id"] for one in (new, replaced, *again)} == {new.json()["id"]}
    assert Job.objects.whole().get().payload == {"n": 3}


def test_a_bulk_names_what_was_replaced_and_what_was_refused(ada: User) -> None:
    first = _push(ada, 1).json()["id"]
    jobs = [
        {**PUSH, "payload": {"n": 2}, "on_conflict": "replace"},
        {"kind": "work", "payload": {}, "unique_key": "other", "on_conflict": "after"},
    ]
    answer = _post(ada, "jobs/bulk", {"jobs": jobs}).json()["jobs"]
    assert answer[0]["id"] == first
    assert (answer[0]["payload"], answer[1]["replaced_at"]) == ({"n": 2}, None)


def test_a_token_that_may_not_cancel_replaces_what_came_with_it_alone(ada: User) -> None:
    first = _push(ada, 1)
    refused = _push(ada, 2, scopes=("submit",))
    assert (refused.status_code, refused.json()["reason"]) == (409, "of_another_token")
    assert Job.objects.whole().get(pk=first.json()["id"]).payload == {"n": 1}


def test_a_submit_without_a_key_asks_no_more_than_before(
    ada: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:

    operations.submit("work", {}, owner=ada)
    with django_assert_num_queries(2):  # its kind, and the insert
        operations.submit("work", {}, owner=ada)
