"""One stream of all jobs of a tag, a kind or an owner: what is new and what changes, over lost connections, for whoever
may see it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

from accounts import operations as accounts
from accounts.models import ApiToken
from jobs import operations
from jobs.domain import changes
from jobs.queries import pages as queries
from postgres import clock
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew, Event
from tests.looped import looped
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def following(client: httpx.Client, *, behind: str = "", **filters: str) -> Iterator[Iterator[Event]]:
    """The events of the jobs that match."""
    headers = {"Last-Event-ID": behind} if behind else {}
    with client.stream("GET", "/api/v1/events", params=filters, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield without_repeats(callers.events(response.iter_lines()))


def without_repeats(events: Iterator[Event]) -> Iterator[Event]:
    """A stream may show a job once more as it stood: where the message of its submit comes behind the first look."""
    shown: dict[int, object] = {}
    for event in events:
        if event.name != "job" or shown.get(event.data["id"]) != event.data:
            shown[event.data.get("id", 0)] = event.data
            yield event


def submit(owner: User, *tags: str, kind: str = "chat", **options: Any) -> int:
    return operations.submit(kind, {"prompt": "secret"}, owner=owner, tags=tags, **options).pk


def seen(events: Iterator[Event], count: int) -> list[tuple[int, str]]:
    """Which job stands how, in the next so many events."""
    return [(event.data["id"], event.data["status"]) for event in islice(events, count)]


class TestWhatComes:
    def test_is_the_newest_jobs_and_then_each_that_comes_runs_and_ends(
        self, client: httpx.Client, crew: Crew, ada: User
    ) -> None:
        first, _ = submit(ada, "nightly"), submit(ada, "daily")
        with following(client, tag="nightly") as events:
            event = next(events)
            assert (event.name, event.data["id"], event.data["tags"]) == ("job", first, ["nightly"])
            assert "payload" not in event.data
            second = submit(ada, "nightly", "tenant:7", priority=5)
            submit(ada, "daily")
            assert seen(events, 1) == [(second, "pending")]
            claimed = crew.claim_one()
            assert seen(events, 1) == [(second, "in_progress")]
            crew.post(f"jobs/{claimed['id']}/finish", lease=claimed["lease"], outcome="success")
            assert seen(events, 1) == [(second, "success")]
            operations.cancel(first, by=None)
            assert seen(events, 1) == [(first, "canceled")]

    def test_of_a_bulk_is_every_job(self, client: httpx.Client, ada: User) -> None:
        submit(ada, "other")
        with following(client, tag="nightly") as events:
            made = farm.submit(60, "chat", owner=ada, tags=["nightly"])  # by COPY
            assert {job_id for job_id, _ in seen(events, 60)} == {job.pk for job in made}

    @looped(
        ("filters", "index"),
        [({"kind": "image"}, 0), ({"owner": "bob"}, 1), ({"owner": "me"}, 2), ({"tag": "a,b"}, 2), ({"tag": "b"}, 2)],
    )
    def test_is_what_all_filters_fit(self, server: Server, filters: dict[str, str], index: int) -> None:
        User.objects.all().delete()
        boss = farm.user("boss", is_staff=True, is_superuser=True)
        bob, cleo = farm.user("bob"), farm.user("cleo")
        with following(callers.client(server, boss), **filters) as events:
            ids = [submit(cleo, "a", kind="image"), submit(bob, "a"), submit(boss, "a", "b")]
            assert next(event.data["id"] for event in events if event.data["id"] >= ids[0]) == ids[index]

    def test_is_what_the_caller_may_see(self, client: httpx.Client, ada: User) -> None:
        club, bob = Group.objects.create(name="club"), farm.user("bob")
        ada.groups.add(club)
        bob.groups.add(club)
        submit(bob, "nightly")
        with following(client, tag="nightly") as events:
            submit(bob, "nightly")
            shared, mine = submit(bob, "nightly", group=club), submit(ada, "nightly")
            assert {job_id for job_id, _ in seen(events, 2)} == {shared, mine}


class TestALostConnection:
    def test_goes_on_with_what_was_submitted_and_what_ended_meanwhile(self, client: httpx.Client, ada: User) -> None:
        ended, kept = submit(ada, "nightly"), submit(ada, "nightly")
        with following(client, tag="nightly") as events:
            last = [next(events), next(events)][-1]
        assert last.id
        operations.cancel(ended, by=None)
        new, _ = submit(ada, "nightly"), submit(ada, "daily")
        with following(client, tag="nightly", behind=last.id) as events:
            assert seen(events, 3) == [(ended, "canceled"), (kept, "pending"), (new, "pending")]
            operations.cancel(new, by=None)
            assert seen(events, 1) == [(new, "canceled")]

    def test_says_so_where_it_is_too_long_ago(self, client: httpx.Client, ada: User) -> None:
        submit(ada, "nightly")
        old = changes.event_id(clock.now() - changes.BACK * 2)
        for position in (old, "nonsense", "9" * 15, "9" * 30):
            with following(client, tag="nightly", behind=position) as events:
                assert next(events).name == "reset"
                new = submit(ada, "nightly")
                assert seen(events, 1) == [(new, "pending")]

    def test_says_so_where_more_happened_than_is_sent_again(self, client: httpx.Client, ada: User) -> None:
        farm.submit(queries.MOST_MISSED + 1, "chat", owner=ada, tags=["nightly"])
        with following(client, tag="nightly", behind=changes.event_id(clock.now())) as events:
            assert next(events).name == "reset"

    def test_of_the_channel_ends_the_stream_which_goes_on_behind_its_last_event(
        self, client: httpx.Client, ada: User
    ) -> None:
        job = submit(ada, "nightly")
        with following(client, tag="nightly") as events:
            last = next(events)
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'jobfarm live' AND datname = current_database()"
                )
            assert list(events) == []
        operations.cancel(job, by=None)
        with following(client, tag="nightly", behind=last.id) as events:
            assert seen(events, 1) == [(job, "canceled")]


class TestRights:
    def test_end_with_the_token_and_with_a_group(self, client: httpx.Client, ada: User) -> None:
        club = Group.objects.create(name="club")
        ada.groups.add(club)
        submit(ada, "nightly")
        with following(client, tag="nightly") as events:
            next(events)
            ada.groups.remove(club)
            assert list(events) == []
        with following(client, tag="nightly") as events:
            next(events)
            accounts.revoke_token(ApiToken.objects.get(user=ada).pk, by=ada)
            assert list(events) == []
        assert client.get("/api/v1/events?tag=nightly").status_code == 401

    def test_are_asked_for(self, server: Server, client: httpx.Client) -> None:
        assert httpx.get(f"{server.url}/api/v1/events").status_code == 401
        assert client.get("/api/v1/events?tga=nightly").status_code == 422
        assert client.get("/api/v1/events?tag=a b").status_code == 422

    def test_are_to_so_many_streams(self, ada: User) -> None:
        with serve(JOBFARM_EVENT_STREAMS_PER_PERSON="1") as server:
            client = callers.client(server, ada)
            submit(ada, "nightly")
            with following(client, tag="nightly") as events:
                next(events)
                assert client.get("/api/v1/events?tag=nightly").json()["error"] == "quota_reached"
            callers.close_all()
