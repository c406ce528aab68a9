"""A submit by a token, a person and a kind that the process remembers is answered as one that looks all of them up."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.test import Client

from accounts import operations as accounts
from accounts.models import ApiToken
from accounts.operations import tokens
from jobs import operations
from jobs.models import Job, Kind
from jobs.operations import queues
from jobs.operations.queues import create_kind
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
Change = Callable[[ApiToken], object]


def _revoked(token: ApiToken) -> None:
    accounts.revoke_token(token.pk, by=None)


def _ran_out(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(expires_at=Now())


def _switched_off(token: ApiToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


def _no_operator_any_more(token: ApiToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_superuser=False)


def _kind_changed(_: ApiToken) -> None:
    create_kind(operations.Kind(name="work", priority=-7, max_attempts=9))


def _kind_deleted(_: ApiToken) -> None:
    Kind.objects.filter(name="work").delete()


def _kind_deleted_and_made_anew(_: ApiToken) -> None:
    Kind.objects.filter(name="work").delete()
    create_kind(operations.Kind(name="work", queue="other"))


def _nothing(_: ApiToken) -> None:
    pass


CHANGES: list[Change] = [
    _revoked, _ran_out, _switched_off, _no_operator_any_more, _kind_changed, _kind_deleted, _kind_deleted_and_made_anew,
    _nothing,
]  # fmt: skip


def _call(key: str, body: dict[str, Any], *, remembers: bool) -> tuple[int, Any]:
    if not remembers:
        tokens._RECENT.clear()
        queues._RECENT.clear()
    response = Client(headers={"Authorization": f"Bearer {key}"}).post(
        "/api/v1/jobs", json.dumps(body), content_type="application/json"
    )
    answer = response.json()
    return response.status_code, {name: value for name, value in answer.items() if name not in VARYING}


VARYING = {"id", "created_at", "run_at", "job", "owner"}


def _answers(change: Change, *, remembers: bool) -> list[Any]:
    """What somebody who submits is answered before and after a change; and which jobs of theirs there are then."""
    farm.kind()
    person = farm.user(f"ada{remembers}", is_superuser=True)
    token, key = accounts.create_token(person, name="tests")
    plain: dict[str, Any] = {"kind": "work", "payload": {"n": 1}}
    bodies: list[dict[str, Any]] = [
        plain,
        plain | {"priority": 50},
        plain | {"unique_key": "once"},
        {"kind": "none", "payload": 1},
    ]
    before = [_call(key, body, remembers=remembers) for body in [*bodies, *bodies]]
    change(token)
    after = [_call(key, body, remembers=remembers) for body in bodies]
    stored = Job.objects.filter(owner=person).order_by("pk")
    return [before, after, list(stored.values_list("kind", "queue", "priority", "max_attempts", "unique_key"))]


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_a_submit_is_answered_as_one_of_which_nothing_is_remembered(change: Change) -> None:
    create_kind(operations.Kind(name="other"))
    assert _answers(change, remembers=True) == _answers(change, remembers=False)


def test_a_token_that_runs_out_while_it_is_remembered_submits_nothing_more() -> None:
    """Nobody writes its row for that."""
    farm.kind()
    token, key = accounts.create_token(farm.user(), name="tests")
    body = {"kind": "work", "payload": 1}
    ApiToken.objects.filter(pk=token.pk).update(expires_at=Now() + timedelta(seconds=3))
    assert [_call(key, body, remembers=True)[0] for _ in range(2)] == [201, 201]  # the first notes its use
    farm.until(lambda: ApiToken.objects.filter(pk=token.pk, expires_at__lt=Now()).exists(), what="its end")
    assert _call(key, body, remembers=True)[0] == 401
    assert Job.objects.count() == 2


def test_a_submit_with_an_idempotency_key_looks_its_token_up() -> None:
    farm.kind()
    token, key = accounts.create_token(farm.user(), name="tests")
    for _ in range(2):
        assert _call(key, {"kind": "work", "payload": 1}, remembers=True)[0] == 201
    accounts.revoke_token(token.pk, by=None)
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "one"}
    answer = Client(headers=headers).post(
        "/api/v1/jobs", json.dumps({"kind": "work", "payload": 1}), content_type="application/json"
    )
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
