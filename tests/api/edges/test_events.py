"""A job's event stream: the job, its output and its end, without loss or repeat, for whoever may see it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now

from accounts import operations as accounts
from accounts.models import ApiToken
from jobs import operations
from jobs.errors import TooManyOpen
from jobs.models import Job, OutputChunk
from jobs.waiting.requests import Places
from live import operations as live
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew, Event
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(ada: User) -> Job:
    return operations.submit("chat", {"prompt": "secret"}, owner=ada)


@contextmanager
def following(client: httpx.Client, job: Job, *, behind: str = "") -> Iterator[Iterator[Event]]:
    """The events of a job."""
    headers = {"Last-Event-ID": behind} if behind else {}
    with client.stream("GET", f"/api/v1/jobs/{job.pk}/events", headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield callers.events(response.iter_lines())


class Run:
    """A worker's run of a job."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._claimed = crew.claim_one()
        self._seq = 0

    def say(self, verb: str, **fields: Any) -> Any:
        """One verb about the job."""
        response = self._crew.post(f"jobs/{self._claimed['id']}/{verb}", lease=self._claimed["lease"], **fields)
        assert response.status_code == 200, response.text
        return response.json()

    def write(self, *texts: str) -> None:
        """Append output."""
        for text in texts:
            self._seq = self.say("output", seq=self._seq, text=text)["next_seq"]


def texts(events: list[Event]) -> list[tuple[int, int, str]]:
    """Attempt, number and text of the output events."""
    return [(e.data["fence"], e.data["seq"], e.data["text"]) for e in events if e.name == "output"]


class TestStream:
    def test_tells_the_whole_story_of_a_job_as_it_happens(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        with following(client, job) as events:
            first = next(events)
            assert (first.name, first.data["status"], first.data["owner"]) == ("job", "pending", "ada")
            assert "payload" not in first.data
            run = Run(crew)
            assert next(e for e in events if e.data["status"] == "in_progress").data["worker"] == "w"
            run.say("heartbeat", progress=0.5, detail="Halfway")
            assert next(e for e in events if e.data["progress"]).data["detail"] == "Halfway"
            run.write("Hello, ", "world")
            assert texts([next(events), next(events)]) == [(1, 0, "Hello, "), (1, 1, "world")]
            run.say("finish", outcome="success", result={"a": 1})
            *_, last_job, end = list(events)
        assert (last_job.data["status"], last_job.data["result"]) == ("success", {"a": 1})
        assert (end.name, end.data) == ("end", {"status": "success"})

    def test_of_an_ended_job_tells_all_and_ends(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        run = Run(crew)
        pieces = [
            OutputChunk(job=job, attempt=1, seq=number, text=f"{number} ") for number in range(1200)
        ]  # more than a page of the hub
        OutputChunk.objects.bulk_create(pieces)
        farm.alter(Job.objects.all(), next_seq=len(pieces))
        run.say("finish", outcome="success")
        with following(client, job) as events:
            received = list(events)
        assert texts(received) == [(1, number, f"{number} ") for number in range(1200)]
        assert [e.name for e in received if e.name != "output"] == ["job", "end"]
        assert received[-1].name == "end"

    def test_of_a_job_that_never_ran_ends_too(self, client: httpx.Client, job: Job) -> None:
        operations.cancel(job.pk, by=None)
        with following(client, job) as events:
            received = [(e.name, e.data["status"]) for e in events]
        assert received == [("job", "canceled"), ("end", "canceled")]

    def test_of_a_job_that_is_deleted_ends(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        Run(crew).write("a")
        farm.alter(Job.objects.all(), next_seq=2)  # so that the stream waits for a piece that never comes
        operations.cancel(job.pk, by=None)
        with following(client, job) as events:
            assert [next(events).name, next(events).name] == ["job", "output"]
            Job.objects.filter(pk=job.pk).delete()
            live.touch(f"job:{job.pk}")
            assert list(events) == []


class TestResuming:
    def test_behind_any_event_brings_exactly_what_followed(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        run = Run(crew)
        run.write(*"abcde")
        run.say("finish", outcome="success")
        with following(client, job) as events:
            received = list(events)
        everything = [(e.name, e.data) for e in received]
        for position, event in enumerate(received):
            with following(client, job, behind=event.id) as events:
                rest = [(e.name, e.data) for e in events]
            before = everything[: position + 1]
            assert [e for e in before if e[0] == "output"] + [e for e in rest if e[0] == "output"] == [
                e for e in everything if e[0] == "output"
            ]
            assert ("job" in [name for name, _ in rest]) == ("job" not in [name for name, _ in before])
            assert rest[-1] == ("end", {"status": "success"})

    def test_goes_on_into_the_next_attempt(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        first = Run(crew)
        first.write("lost ", "cause")
        with following(client, job) as events:
            behind = next(e for e in events if e.name == "output").id
        first.say("release")
        second = Run(crew)
        second.write("better")
        second.say("finish", outcome="success")
        with following(client, job, behind=behind) as events:
            received = list(events)
        assert texts(received) == [(1, 1, "cause"), (2, 0, "better")]
        with following(client, job) as events:
            assert texts(list(events)) == [(2, 0, "better")]

    def test_behind_garbage_begins_at_the_start(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        run = Run(crew)
        run.write("a")
        run.say("finish", outcome="success")
        for garbage in ("x", "1.1", "1.1.zz", "-1.0.", "9" * 40 + ".0.", "1.0.abc; DROP"):
            with following(client, job, behind=garbage) as events:
                received = list(events)
            assert [e.name for e in received].count("job") == 1, garbage
            assert texts(received) == [(1, 0, "a")], garbage

    def test_over_a_restart_of_the_server_loses_and_repeats_nothing(
        self, server: Server, client: httpx.Client, crew: Crew, job: Job
    ) -> None:
        run = Run(crew)
        run.write("a", "b")
        received: list[Event] = []
        with following(client, job) as events:
            while len(texts(received)) < 2:
                received.append(next(events))
            server.restart()
            received += list(events)
        run.write("c")
        run.say("finish", outcome="success")
        with following(client, job, behind=received[-1].id) as events:
            received += list(events)
        assert texts(received) == [(1, 0, "a"), (1, 1, "b"), (1, 2, "c")]
        assert received[-1].name == "end"


class TestRights:
    def test_are_asked_for_first(self, server: Server, job: Job) -> None:
        for headers in ({}, callers.bearer("jft_wrong")):
            refused = httpx.get(f"{server.url}/api/v1/jobs/{job.pk}/events", headers=headers)
            assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")

    def test_end_with_the_token(self, client: httpx.Client, ada: User, job: Job) -> None:
        with following(client, job) as events:
            next(events)
            accounts.revoke_token(ApiToken.objects.get(user=ada).pk, by=ada)
            assert list(events) == []

    def test_end_with_a_token_that_ran_out(self, client: httpx.Client, ada: User, job: Job) -> None:
        with following(client, job) as events:
            next(events)
            ApiToken.objects.filter(user=ada).update(expires_at=Now())
            accounts.end_tokens()
            assert list(events) == []

    def test_end_with_the_membership(self, client: httpx.Client, ada: User) -> None:
        team = Group.objects.create(name="team")
        ada.groups.add(team)
        bob = User.objects.create_user("bob")
        bob.groups.add(team)
        job = operations.submit("chat", {}, owner=bob, group=team)
        with following(client, job) as events:
            next(events)
            ada.groups.remove(team)
            assert list(events) == []

    def test_outlive_a_change_that_leaves_them(self, client: httpx.Client, crew: Crew, ada: User, job: Job) -> None:
        with following(client, job) as events:
            next(events)
            ada.groups.add(Group.objects.create(name="team"))
            Run(crew).say("finish", outcome="success")
            assert list(events)[-1].name == "end"


class TestMany:
    @contextmanager
    def following(self, client: httpx.Client, *jobs: Job, behind: str = "") -> Iterator[Iterator[Event]]:
        """The events of these jobs, by one stream."""
        headers = {"Last-Event-ID": behind} if behind else {}
        ids = ",".join(str(job.pk) for job in jobs)
        with client.stream("GET", f"/api/v1/jobs/events?ids={ids}", headers=headers) as response:
            assert response.status_code == 200, response.read()
            yield callers.events(response.iter_lines())

    def test_are_told_by_one_stream_and_resumed_where_it_broke_off(
        self, client: httpx.Client, crew: Crew, ada: User
    ) -> None:
        one, two = (operations.submit("chat", {}, owner=ada) for _ in range(2))
        with self.following(client, one, two) as events:
            assert {next(events).data["job"], next(events).data["job"]} == {one.pk, two.pk}
            run = Run(crew)
            run.write("a", "b")
            seen = next(event for event in events if event.name == "output")
            assert (seen.data["job"], seen.data["text"]) == (one.pk, "a")
        run.say("finish", outcome="success", result={})
        with self.following(client, one, two, behind=seen.id) as events:
            came = [next(events)]
            while came[-1].name != "end":
                came.append(next(events))
            assert {event.data["job"] for event in came if event.name == "job"} <= {one.pk}
            assert texts(came) == [(1, 1, "b")]
            other = Run(crew)
            other.write("c")
            other.say("finish", outcome="success", result={})
            came = list(events)
        assert [(e.data["job"], e.data["text"]) for e in came if e.name == "output"] == [(two.pk, "c")]
        assert (came[-1].name, came[-1].data) == ("end", {"job": two.pk, "status": "success"})

    def test_are_refused_where_one_may_not_be_seen(self, client: httpx.Client, ada: User, job: Job) -> None:
        theirs = operations.submit("chat", {}, owner=User.objects.create_user("eve"))
        assert client.get(f"/api/v1/jobs/events?ids={job.pk},{theirs.pk}").status_code == 404

    @pytest.mark.parametrize("ids", ["", "x", "1,,2", ",".join(map(str, range(1, 52)))])
    def test_are_asked_for_by_one_to_fifty_ids(self, client: httpx.Client, ids: str) -> None:
        assert client.get(f"/api/v1/jobs/events?ids={ids}").status_code == 422


class TestBounds:
    @pytest.fixture
    def narrow(self, transactional_db: None) -> Iterator[Server]:
        """A server at which a person has two event streams open."""
        with serve(JOBFARM_EVENT_STREAMS_PER_PERSON="2") as made:
            yield made

    def test_of_one_person_keep_nobody_else_out_and_a_place_comes_back(
        self, narrow: Server, ada: User, bob: User
    ) -> None:
        hers, his = (operations.submit("chat", {}, owner=owner) for owner in (ada, bob))
        with callers.client(narrow, ada) as of_ada, callers.client(narrow, bob) as of_bob, ExitStack() as opened:
            path = f"/api/v1/jobs/{hers.pk}/events"
            first = of_ada.stream("GET", path)
            second = opened.enter_context(of_ada.stream("GET", path))
            assert (first.__enter__().status_code, second.status_code) == (200, 200)
            refused = of_ada.get(path)
            assert (refused.status_code, refused.json()["error"], refused.json()["quota"]) == (429, "quota_reached", 2)
            assert int(refused.headers["Retry-After"]) > 0
            of_another = opened.enter_context(of_bob.stream("GET", f"/api/v1/jobs/{his.pk}/events"))
            assert of_another.status_code == 200
            first.__exit__(None, None, None)

            def is_let_in() -> bool:
                with of_ada.stream("GET", path) as answer:
                    return answer.status_code == 200

            farm.until(is_let_in, what="the place of a stream that ended")

    def test_of_one_key_so_many_claims_wait(self) -> None:
        places = Places()
        with (
            places.one("key", most=1, of="worker"),
            pytest.raises(TooManyOpen) as refused,
            places.one("key", most=1, of="worker"),
        ):
            pytest.fail("there was a second place")
        assert (refused.value.http_status, refused.value.body["of"]) == (429, "worker")
        with places.one("key", most=1, of="worker"):
            pass
