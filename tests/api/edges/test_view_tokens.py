"""Tokens for one job or one tag: they show that and nothing else, for a while, to pages of any site."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now

from accounts import operations as accounts
from jobs import operations
from jobs.models import ViewToken
from postgres.clock import now
from tests import farm
from tests.api.edges import callers
from tests.api.edges.test_events_that_match import submit
from tests.looped import looped
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
HIDDEN = (
    "payload",
    "checkpoint",
    "owner",
    "worker",
    "group",
    "unique_key",
    "concurrency_key",
    "files",
    "inputs",
    "attempts",
    "requires",
    "prefers",
)
Make = Callable[..., str]


@pytest.fixture
def make(client: httpx.Client) -> Make:
    """A token of ada's."""

    def make(**body: Any) -> str:
        answer = client.post("/api/v1/view-tokens", json=body)
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    return make


@pytest.fixture
def stranger(server: Server) -> httpx.Client:
    """Somebody without any key."""
    made = httpx.Client(base_url=f"{server.url}/api/v1", timeout=callers.PATIENCE_S)
    callers.close_with_the_others(made)
    return made


def test_one_for_a_job_shows_that_job_its_output_and_its_events_alone(
    make: Make, stranger: httpx.Client, crew: callers.Crew, ada: User
) -> None:
    shown, other = submit(ada, "nightly", unique_key="secret", concurrency_key="secret"), submit(ada, "nightly")
    token = {"token": make(job=shown)}
    claimed = crew.claim_one()
    crew.post(f"jobs/{shown}/checkpoint", lease=claimed["lease"], value="secret")
    crew.post(f"jobs/{shown}/release", lease=claimed["lease"])
    document = stranger.get(f"/jobs/{shown}", params=token)
    assert document.headers["Access-Control-Allow-Origin"] == "*"
    assert document.json()["status"] == "pending"
    assert not any(document.json()[name] for name in HIDDEN)
    operations.cancel(shown, by=None)
    with stranger.stream("GET", f"/jobs/{shown}/events", params=token) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        job, end = callers.events(response.iter_lines())
    assert (job.data["status"], end.name) == ("canceled", "end")
    assert not any(job.data.get(name) for name in HIDDEN)
    assert stranger.get(f"/jobs/{shown}/output", params=token).json()["chunks"] == []
    assert [one["id"] for one in stranger.get("/jobs", params=token).json()["jobs"]] == [shown]
    for path in (f"/jobs/{other}", f"/jobs/{other}/output", f"/jobs/{other}/events", "/events"):
        assert stranger.get(path, params=token).status_code == 404
    assert stranger.get("/jobs/events", params=token | {"ids": f"{shown},{other}"}).status_code == 404


def test_one_for_a_tag_shows_jobs_with_that_tag_that_its_maker_may_see(
    make: Make, stranger: httpx.Client, ada: User
) -> None:
    mine, other = submit(ada, "a", "b"), submit(ada, "b")
    club = Group.objects.create(name="club")
    bob = farm.user("bob", groups=[club])
    ada.groups.add(club)
    shared = submit(bob, "a", group=club)  # which ada sees, and may not share
    token = {"token": make(tag="a")}
    assert stranger.get(f"/jobs/{shared}", params=token).status_code == 404
    assert stranger.get("/events", params=token | {"owner": "bob"}).status_code == 404
    assert [one["id"] for one in stranger.get("/jobs", params=token).json()["jobs"]] == [mine]
    assert stranger.get("/jobs", params=token | {"tag": "b"}).json()["jobs"][0]["id"] == mine
    assert stranger.get(f"/jobs/{other}", params=token).status_code == 404
    for filters in ({}, {"tag": "b"}):
        with stranger.stream("GET", "/events", params=token | filters) as response:
            events = callers.events(response.iter_lines())
            assert next(events).data["id"] == mine
            submit(ada, "b")
            later = submit(ada, "a", "b")
            event = next(event for event in events if event.data["id"] > mine)
            assert (event.data["id"], event.data["owner"]) == (later, None)
            operations.cancel(later, by=None)
            mine = later


@looped(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", {"kind": "chat", "payload": {}}),
        ("POST", "/jobs/bulk", {"jobs": [{"kind": "chat", "payload": {}}]}),
        ("POST", "/jobs/{job}/cancel", None),
        ("POST", "/jobs/{job}/retry", None),
        ("POST", "/jobs/{job}/run_now", None),
        ("GET", "/jobs/{job}/why", None),
        ("GET", "/jobs/{job}/files/a.png", None),
        ("GET", "/bulk-actions", None),
        ("POST", "/bulk-actions", {"action": "cancel", "filters": {}}),
        ("POST", "/view-tokens", {"tag": "b"}),
        ("DELETE", "/view-tokens/1", None),
        ("GET", "/workers", None),
        ("GET", "/usage", None),
    ],
)
def test_it_opens_nothing_else(
    make: Make, stranger: httpx.Client, ada: User, method: str, path: str, body: dict[str, Any] | None
) -> None:
    job = submit(ada, "a")
    for token in (make(tag="a"), make(job=job)):
        answer = stranger.request(method, path.format(job=job), params={"token": token}, json=body)
        assert answer.status_code == 401
        header = stranger.request(method, path.format(job=job), headers=callers.bearer(token), json=body)
        assert header.status_code == 401
    assert farm.status(job) == "pending"


@pytest.mark.parametrize("scopes", [["operate"], ["submit", "operate"]])
def test_a_token_that_may_not_read_makes_none(server: Server, ada: User, scopes: list[str]) -> None:
    _, token = accounts.create_token(ada, name="ci", scopes=scopes)
    made = httpx.post(f"{server.url}/api/v1/view-tokens", json={"tag": "a"}, headers=callers.bearer(token))
    assert (made.status_code, made.json()["error"], made.json()["scope"]) == (403, "insufficient_scope", "read")
    assert not ViewToken.objects.exists()


def test_its_streams_end_when_it_is_revoked(
    client: httpx.Client, make: Make, stranger: httpx.Client, ada: User
) -> None:
    job = submit(ada, "a")
    for path, body in ((f"/jobs/{job}/events", {"job": job}), ("/events", {"tag": "a"})):
        token = make(**body)
        with stranger.stream("GET", path, params={"token": token}) as response:
            events = callers.events(response.iter_lines())
            next(events)
            number = ViewToken.objects.latest("pk").pk
            assert client.delete(f"/api/v1/view-tokens/{number}").json() == {"id": number, "revoked": True}
            assert list(events) == []
        assert stranger.get(f"/jobs/{job}", params={"token": token}).status_code == 401
        again = client.delete(f"/api/v1/view-tokens/{number}")
        assert (again.status_code, again.json()["message"]) == (404, "There is no such view token.")


def test_its_streams_end_when_it_expires_or_its_maker_may_not_log_in(
    make: Make, stranger: httpx.Client, ada: User
) -> None:
    job = submit(ada, "a")
    for path, body in ((f"/jobs/{job}/events", {"job": job}), ("/events", {"tag": "a"})):
        token = make(**body, expires_in_s=2)
        with stranger.stream("GET", path, params={"token": token}) as response:
            events = callers.events(response.iter_lines())
            assert next(events).data["status"] == "pending"
            assert list(events) == []
        assert stranger.get(path, params={"token": token}).status_code == 401
    token = make(tag="a")
    with stranger.stream("GET", "/events", params={"token": token}) as response:
        events = callers.events(response.iter_lines())
        next(events)
        ada.is_active = False
        ada.save()
        assert list(events) == []


def test_what_makes_no_sense_is_refused(client: httpx.Client, stranger: httpx.Client, ada: User) -> None:
    foreign = submit(farm.user("bob"), "a")
    for body in ({}, {"job": 1, "tag": "a"}, {"tag": "a b"}, {"tag": "a", "expires_in_s": 86_401}):
        assert client.post("/api/v1/view-tokens", json=body).status_code == 422
    assert client.post("/api/v1/view-tokens", json={"job": foreign}).status_code == 404
    refused = stranger.get("/events", params={"token": "jfv_none"})
    assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (401, "*")
    assert "Access-Control-Allow-Origin" not in stranger.get("/events").headers


def test_one_too_many_is_refused_as_the_document_says(client: httpx.Client, ada: User) -> None:
    until = now() + timedelta(hours=1)
    ViewToken.objects.bulk_create(
        ViewToken(by=ada, key_hash=str(number), tag="a", expires_at=until) for number in range(1_000)
    )
    refused = client.post("/api/v1/view-tokens", json={"tag": "a"})
    assert (refused.status_code, refused.json()["error"]) == (413, "quota_reached")
    call = client.get("/api/v1/openapi.json").json()["paths"]["/api/v1/view-tokens"]["post"]
    assert f"{refused.status_code} `quota_reached`" in call["description"]


def test_one_that_expired_is_deleted(make: Make) -> None:
    make(tag="a")
    make(tag="b")
    ViewToken.objects.filter(tag="a").update(expires_at=Now())
    assert farm.retain("view tokens") == 1
    assert ViewToken.objects.get().tag == "b"
