"""Flows over HTTP: submitted by name and id, looked at, canceled and tried again together."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
MAP = [
    {"kind": "work", "payload": 1, "name": "split"},
    {"kind": "work", "payload": 2, "name": "left", "after": ["split"]},
    {"kind": "work", "payload": 3, "name": "right", "after": ["split"]},
    {"kind": "work", "payload": 4, "after": ["left", "right"], "when": "ended"},
]


@pytest.fixture
def ada() -> User:
    farm.kind()
    return farm.user("ada")


def call(
    person: User, path: str, body: Any = None, *, scopes: tuple[str, ...] = ("submit", "read", "operate"), key: str = ""
) -> Any:
    _, token = accounts.create_token(person, name="t", scopes=list(scopes))
    headers = {"Authorization": f"Bearer {token}", **({"Idempotency-Key": key} if key else {})}
    if body is None:
        return Client().get(f"/api/v1/{path}", headers=headers)
    return Client().post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


def submitted(person: User) -> list[dict[str, Any]]:
    answer = call(person, "jobs/bulk", {"jobs": MAP})
    assert answer.status_code == 201
    return list(answer.json()["jobs"])


def test_those_of_one_bulk_come_after_one_another_and_say_so(ada: User) -> None:
    split, left, right, join = submitted(ada)
    assert (join["after"], join["waits_for"], join["run_at"][:4]) == ([left["id"], right["id"]], left["id"], "9000")
    assert {one["flow"] for one in (split, left, right, join)} == {split["flow"]}
    shown = call(ada, f"jobs/{join['id']}").json()
    assert {**shown, "attempts": []} == {**join, "attempts": []}
    [reason] = [one for one in call(ada, f"jobs/{join['id']}/why").json()["reasons"] if one["code"] == "waits_after"]
    assert (reason["jobs"], reason["count"]) == ([left["id"], right["id"]], 2)
    listed = call(ada, f"jobs?flow={split['flow']}").json()["jobs"]
    assert [one["id"] for one in listed] == [one["id"] for one in (join, right, left, split)]


def test_one_more_joins_the_flow_by_the_id_of_a_job(ada: User) -> None:
    *_, join = submitted(ada)
    more = call(ada, "jobs", {"kind": "work", "payload": 0, "after": [join["id"]], "name": "send"}).json()
    assert (more["flow"], more["name"], more["after"]) == (join["flow"], "send", [join["id"]])


def test_a_flow_is_seen_with_its_places_and_who_has_them(ada: User) -> None:
    split, left, right, join = submitted(ada)
    worker = farm.worker()
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    seen = call(ada, f"flows/{split['flow']}").json()
    assert seen["counts"] == {"failed": 1, "canceled": 2, "pending": 1}
    again = call(ada, f"flows/{split['flow']}/retry", {}).json()["jobs"]
    assert len(again) == 1
    assert call(ada, f"flows/{split['flow']}/retry", {}).json()["jobs"] == []
    steps = {one["name"]: one for one in call(ada, f"flows/{split['flow']}").json()["jobs"]}
    assert (steps["split"]["id"], steps["split"]["retry_of"]) == (again[0], split["id"])
    assert steps["left"]["after"] == again
    assert [steps[name]["depth"] for name in ("split", "left", "right", "")] == [0, 1, 1, 2]
    assert steps[""]["id"] == join["id"]  # it waits for the end of whoever has their places, however that is
    assert right["id"] not in {one["id"] for one in steps.values()}
    assert left["id"] not in {one["id"] for one in steps.values()}


def test_a_flow_is_tried_again_from_one_job_on(ada: User) -> None:
    split, left, right, join = submitted(ada)
    flow, worker = f"flows/{split['flow']}", farm.worker()
    farm.succeed(worker, farm.claim_one(worker))
    refused = call(ada, f"{flow}/retry", {"from": split["id"]})
    assert (refused.status_code, refused.json()["error"], refused.json()["job"]) == (409, "not_ended", left["id"])
    for claimed in operations.claim(worker, limit=2):
        farm.succeed(worker, claimed)
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    again = call(ada, f"{flow}/retry", {"from": right["id"]}).json()["jobs"]
    steps = {one["name"]: one for one in call(ada, flow).json()["jobs"]}
    assert [steps[name]["retry_of"] for name in ("split", "left", "right", "")] == [None, None, right["id"], join["id"]]
    assert [steps["right"]["id"], steps[""]["id"]] == again
    assert call(ada, f"{flow}/retry", {"from": right["id"]}).json()["error"] == "already_retried"
    assert call(ada, f"{flow}/retry", {"from": 10**9}).status_code == 404
    assert call(ada, f"{flow}/retry", {"form": 7}).json()["error"] == "invalid"
    for wrong in ("flows/999999", "flows/999999/retry"):
        assert call(ada, wrong, {} if "retry" in wrong else None).json()["message"] == "There is no such flow."


def test_a_flow_is_canceled_whole_by_who_may(ada: User) -> None:
    split, *_ = submitted(ada)
    bo = farm.user("bo")
    assert call(bo, f"flows/{split['flow']}").status_code == 404
    assert call(bo, f"flows/{split['flow']}/cancel", {}).status_code == 404
    assert call(ada, f"flows/{split['flow']}/cancel", {}, scopes=("read",)).status_code == 403
    assert call(ada, f"flows/{split['flow']}/cancel", {}).json() == {"canceled": 4}
    assert call(ada, f"flows/{split['flow']}/cancel", {}).json() == {"canceled": 0}
    assert not Job.objects.living().exists()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"after": [10**9]}, "unknown_job"),
        ({"after": ["split"]}, "invalid"),
        ({"after": [True]}, "invalid"),
        ({"after": [1.5]}, "invalid"),
        ({"after": "7"}, "invalid"),
        ({"name": ""}, "invalid"),
        ({"when": "later"}, "invalid"),
    ],
)
def test_what_makes_no_sense_is_refused(ada: User, body: dict[str, Any], code: str) -> None:
    answer = call(ada, "jobs", {"kind": "work", "payload": 0, **body})
    assert (answer.status_code, answer.json()["error"]) == (422, code)
    assert not Job.objects.exists()


def test_a_worker_gets_what_its_job_comes_after(ada: User) -> None:
    split, left, *_ = submitted(ada)
    worker = farm.worker()
    farm.succeed(worker, farm.claim_one(worker), {"parts": [1, 2]})
    _, key = operations.create_worker("w2", queues=["work"])
    answer = Client().post(
        "/api/v1/worker/claim", {"limit": 1}, content_type="application/json",
        headers={"Authorization": f"Bearer {key}"},
    )  # fmt: skip
    [job] = answer.json()["jobs"]
    assert job["id"] == left["id"]
    expected = {"id": split["id"], "name": "split", "kind": "work", "status": "success", "result": {"parts": [1, 2]}}
    assert job["after"] == [expected]


def test_a_jobs_page_says_what_it_comes_after_and_for_whose_sake_it_was_canceled(ada: User) -> None:
    split, left, _, join = submitted(ada)
    page = Client()
    page.force_login(ada)
    shown = page.get(f"/jobs/{left['id']}/").content.decode()
    assert f'href="/flows/{split["flow"]}/"' in shown
    assert f'href="/jobs/{split["id"]}/">#{split["id"]}</a>' in shown
    operations.cancel(split["id"], by=None)
    text = page.get(f"/jobs/{left['id']}/").content.decode()
    assert f'for <a href="/jobs/{split["id"]}/">job {split["id"]}</a> did not succeed' in text
    assert "did not succeed" not in page.get(f"/jobs/{join['id']}/").content.decode()
    assert "Canceled 1 job." in page.post(f"/flows/{split['flow']}/cancel/", follow=True).content.decode()


def test_a_childs_page_names_the_job_that_it_was_canceled_with(ada: User) -> None:
    operations.submit("work", {}, owner=ada)
    worker = farm.worker()
    parent = farm.claim_one(worker)
    new = operations.NewJob(kind="work", payload={})
    child = operations.submit_child(worker, parent.id, parent.lease, new, position=0)
    operations.cancel(parent.id, by=ada)
    page = Client()
    page.force_login(ada)
    text = page.get(f"/jobs/{child}/").content.decode()
    assert f'with <a href="/jobs/{parent.id}/">job {parent.id}</a>, which submitted it' in text
    assert call(ada, f"jobs/{child}").json()["canceled_for"] == parent.id
