"""The worker's WebSocket: the same verbs, and what the farm says unasked."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from operator import itemgetter
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from jobs import operations
from jobs.models import Job, Worker
from postgres import clock
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import PATIENCE_S, Crew, ask, push
from tests.servers import Server, database_away

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def socket(crew: Crew) -> Iterator[ClientConnection]:
    with crew.socket() as open_socket:
        yield open_socket


def claim_one(socket: ClientConnection) -> dict[str, Any]:
    """The one job that a claim gives."""
    [job] = ask(socket, type="claim", ref=0)["jobs"]
    return job  # type: ignore[no-any-return]


@contextmanager
def closed_with(code: int) -> Iterator[None]:
    """The block ends by the server closing the socket with this code."""
    with pytest.raises(ConnectionClosed) as closed:
        yield
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code


class TestVerbs:
    def test_do_what_they_do_over_http(self, socket: ClientConnection) -> None:
        first, second = operations.submit("chat", {"n": 1}), operations.submit("chat", {"n": 2})
        answer = ask(socket, type="claim", ref="a", limit=1)
        [job] = answer["jobs"]
        assert (answer["type"], answer["ref"]) == ("claim", "a")
        assert (job["id"], job["payload"], job["attempt"]) == (first.pk, {"n": 1}, 1)
        about = {"job": job["id"], "lease": job["lease"]}
        renewed = ask(socket, type="heartbeat", ref=1, progress=0.5, detail="Halfway", **about)
        assert renewed.keys() == {"type", "ref", "lease_expires_at"}
        kept = ask(socket, type="checkpoint", ref=4, value={"n": 40}, **about)
        assert kept.keys() == {"type", "ref", "lease_expires_at"}
        child = ask(
            socket, type="submit", ref=5, position=0, kind="chat", payload={}, run_at="2100-01-01T00:00:00Z", **about
        )
        assert child.keys() == {"type", "ref", "id"}
        assert ask(socket, type="output", ref=2, seq=0, text="Hello", **about)["next_seq"] == 1
        ended = ask(socket, type="finish", ref=3, outcome="success", result=[1], claim_next=1, **about)
        assert (ended["status"], [next_job["id"] for next_job in ended["jobs"]]) == ("success", [second.pk])
        lease = ended["jobs"][0]["lease"]
        released = ask(socket, type="release", ref=None, job=second.pk, lease=lease)
        assert released == {"type": "release", "ref": None, "status": "pending"}
        again = claim_one(socket)
        batch = [{"id": second.pk, "lease": text, "outcome": "success"} for text in (lease, again["lease"])]
        many = ask(socket, type="finish_many", ref={"any": "resource"}, finished=batch)
        assert many["ref"] == {"any": "resource"}
        assert [entry.get("status") or entry["error"] for entry in many["finished"]] == ["lease_lost", "success"]
        first = Job.objects.whole().get(pk=first.pk)
        assert (first.checkpoint, "checkpoint" in again) == ({"n": 40}, False)
        assert (first.status, first.result, farm.status(second)) == ("success", [1], "success")

    def test_may_be_said_again_on_another_socket(self, socket: ClientConnection, crew: Crew) -> None:
        for number in range(3):
            operations.submit("chat", number)
        claim = {"type": "claim", "ref": 1, "limit": 1, "request_id": "c-1"}
        [job] = ask(socket, **claim)["jobs"]
        done = {"job": job["id"], "lease": job["lease"], "outcome": "success", "claim_next": 1}
        with crew.socket() as other:
            [again] = ask(other, **claim)["jobs"]
            answer = ask(socket, type="finish", ref=2, **done)
            repeated = ask(other, type="finish", ref=3, **done)
        assert again["lease"] == job["lease"]
        assert repeated["status"] == answer["status"] == "success"
        assert [one["lease"] for one in repeated["jobs"]] == [one["lease"] for one in answer["jobs"]]

    def test_are_refused_with_the_status_and_numbers_of_http(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        lease = claim_one(socket)["lease"]
        gap = ask(socket, type="output", ref=7, job=job.pk, lease=lease, seq=3, text="x")
        assert (gap["type"], gap["ref"], gap["status"], gap["error"], gap["next_seq"]) == (
            "error",
            7,
            409,
            "output_gap",
            0,
        )
        operations.cancel(job.pk, by=None)
        lost = ask(socket, type="heartbeat", ref=8, job=job.pk, lease=lease)
        assert (lost["ref"], lost["status"], lost["error"]) == (8, 409, "lease_lost")
        forbidden = ask(socket, type="claim", ref=9, queues=["image"])
        assert (forbidden["ref"], forbidden["status"]) == (9, 403)

    def test_are_done_in_the_order_in_which_they_were_said(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        lease = claim_one(socket)["lease"]
        for seq in range(50):
            message = {"type": "output", "ref": seq, "job": job.pk, "lease": lease, "seq": seq, "text": "x"}
            socket.send(json.dumps(message))
        answers = [json.loads(socket.recv(PATIENCE_S)) for _ in range(50)]
        assert [(answer["ref"], answer["next_seq"]) for answer in answers] == [(n, n + 1) for n in range(50)]

    def test_said_just_before_leaving_still_count(self, crew: Crew) -> None:
        """The finish waits for the table until the socket is closed, as in TestLeaving."""
        job, waiting = operations.submit("chat", {}), operations.submit("chat", {})
        with transaction.atomic(), crew.socket() as socket:
            lease = claim_one(socket)["lease"]
            finish = {"type": "finish", "job": job.pk, "lease": lease, "outcome": "success", "claim_next": 1}
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE jobs_live IN EXCLUSIVE MODE")
            socket.send(json.dumps(finish))
            socket.send(json.dumps({"type": "claim"}))
            farm.until(farm.waiting_for_locks, what="the finish")
        farm.until(lambda: farm.status(job) == "success", what="the finish")
        farm.until(lambda: farm.status(waiting) == "pending", what="the job that nobody was there for")

    def test_of_each_job_that_runs_there_may_be_one_that_waits(self, socket: ClientConnection) -> None:
        """Eighty streams had a piece each refused when one statement took long: 64 calls may wait, whatever runs."""
        farm.submit(80, "chat")
        jobs = ask(socket, type="claim", ref=0, limit=80)["jobs"]
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE jobs_live IN EXCLUSIVE MODE")
            for job in jobs:
                piece = {
                    "type": "output",
                    "ref": job["id"],
                    "job": job["id"],
                    "lease": job["lease"],
                    "seq": 0,
                    "text": "x",
                }
                socket.send(json.dumps(piece))
            farm.until(farm.waiting_for_locks, what="the first pieces")
            with pytest.raises(TimeoutError):
                socket.recv(0.5)
        answers = [json.loads(socket.recv(PATIENCE_S)) for _ in jobs]
        assert {(answer["ref"], answer.get("next_seq")) for answer in answers} == {(job["id"], 1) for job in jobs}

    def test_more_than_can_be_answered_are_refused_not_kept(self, socket: ClientConnection) -> None:
        for ref in range(400):
            socket.send(json.dumps({"type": "claim", "ref": ref}))
        answers = [json.loads(socket.recv(PATIENCE_S)) for _ in range(400)]
        replies = [answer for answer in answers if "ref" in answer]
        refused = [answer for answer in replies if answer["type"] == "error"]
        assert refused
        assert {(answer["status"], answer["error"]) for answer in refused} == {(429, "too_many")}
        assert ask(socket, type="claim", ref="still here")["jobs"] == []


GARBAGE: list[tuple[str | bytes, int, str]] = [
    ("", 400, "not_json"),
    ("{", 400, "not_json"),
    ("NaN", 400, "not_json"),
    ('{"type": "heartbeat", "progress": 1e400}', 400, "not_json"),
    ("[" * 100_000, 400, "not_json"),
    ("[]", 422, "invalid"),
    ("null", 422, "invalid"),
    ("{}", 422, "invalid"),
    ('{"type": "steal"}', 422, "invalid"),
    ('{"type": ["claim"]}', 422, "invalid"),
    ('{"type": "claim", "limit": "many"}', 422, "invalid"),
    ('{"type": "claim", "job": 7}', 422, "invalid"),
    ('{"type": "heartbeat", "lease": "x"}', 422, "invalid"),
    ('{"type": "heartbeat", "job": 9223372036854775808, "lease": "x"}', 422, "invalid"),
    ('{"type": "heartbeat", "job": true, "lease": "x"}', 422, "invalid"),
    ('{"type": "heartbeat", "job": 7, "lease": "x", "detail": "\\u0000"}', 422, "invalid"),
    ('{"type": "heartbeat", "job": 7, "lease": "\\ud800"}', 409, "lease_lost"),
    ('{"type": "heartbeat", "job": 7, "lease": "x", "colour": "red"}', 422, "invalid"),
    (b"\x00\xff", 422, "invalid"),
    ('{"type": "claim", "queues": ["' + "x" * 10_000_001 + '"]}', 413, "too_large"),
]


class TestGarbage:
    def test_is_answered_and_the_socket_lives_on(self, socket: ClientConnection) -> None:
        for message, status, error in GARBAGE:
            socket.send(message)
            answer = next(each for each in callers.messages_of(socket) if each["type"] != "work")
            refusal = (answer["type"], answer["status"], answer["error"])
            assert refusal == ("error", status, error), (message[:100], answer)
            assert answer["message"]
        assert ask(socket, type="claim", ref=1)["jobs"] == []

    def test_is_refused_with_the_name_of_the_field_that_does_not_fit(self, socket: ClientConnection) -> None:
        """No part of a request stands before it, as in calls over HTTP."""
        answer = ask(socket, type="output", ref=1, job=7, lease="x", seq=-1, text="a", colour="red")
        named = [fault["field"] for fault in answer["faults"]]
        assert (answer["message"].partition(":")[0], named) == ("seq", ["seq", "colour"])

    def test_gets_its_ref_back_where_it_has_one(self, socket: ClientConnection) -> None:
        assert ask(socket, type="nonsense", ref=[1, "\ud800"])["ref"] == [1, "\ud800"]


class TestWork:
    def test_is_told_to_who_connects_while_there_is_some(self, crew: Crew) -> None:
        operations.submit("chat", {})
        with crew.socket() as socket:
            assert push(socket, "work") == {"type": "work", "available": True}

    def test_is_told_to_who_found_nothing(self, socket: ClientConnection) -> None:
        assert ask(socket, type="claim", ref=1)["jobs"] == []
        job = operations.submit("chat", {})
        push(socket, "work")
        assert claim_one(socket)["id"] == job.pk

    def test_is_told_again_after_each_claim_that_was_not_filled(self, socket: ClientConnection) -> None:
        for number in range(3):
            job = operations.submit("chat", number)
            push(socket, "work")
            [claimed] = ask(socket, type="claim", ref=1, limit=2)["jobs"]
            assert claimed["id"] == job.pk

    def test_is_told_after_a_finish_that_brought_no_next_job(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        lease = claim_one(socket)["lease"]
        done = ask(socket, type="finish", job=job.pk, lease=lease, outcome="success", claim_next=1)
        assert done["jobs"] == []
        operations.submit("chat", {})
        push(socket, "work")

    def test_is_told_to_as_many_as_there_are_jobs(self, server: Server) -> None:
        with ExitStack() as stack:
            sockets = [stack.enter_context(callers.crew(server).socket()) for _ in range(6)]
            for socket in sockets:
                assert ask(socket, type="claim", ref=1)["jobs"] == []
            operations.submit("chat", 1)
            operations.submit("chat", 2)
            for socket in sockets[:2]:  # they have waited longest
                push(socket, "work")
                claim_one(socket)
            assert not [socket for socket in sockets if _receives(socket, within_s=0.1)]

    def test_goes_to_the_next_when_the_one_who_was_told_leaves(self, server: Server) -> None:
        first, second = callers.crew(server), callers.crew(server)
        with second.socket() as staying:
            with first.socket() as leaving:
                assert ask(leaving, type="claim", ref=1)["jobs"] == []
                assert ask(staying, type="claim", ref=1)["jobs"] == []
                job = operations.submit("chat", {})
                push(leaving, "work")
            push(staying, "work")
            assert claim_one(staying)["id"] == job.pk

    def test_is_told_of_a_queue_that_became_the_workers_own(self, crew: Crew, socket: ClientConnection) -> None:
        assert ask(socket, type="claim", ref=1)["jobs"] == []
        operations.submit("image", {})
        Worker.objects.filter(pk=crew.worker.pk).update(queues=["chat", "image"])
        from live import operations as live

        live.touch(f"worker:{crew.worker.pk}")
        push(socket, "work")
        assert claim_one(socket)["queue"] == "image"


def _receives(socket: ClientConnection, *, within_s: float) -> bool:
    try:
        return bool(json.loads(socket.recv(within_s))["type"] == "work")
    except TimeoutError:
        return False


class TestStops:
    def test_are_told_at_once_when_a_job_is_canceled(self, socket: ClientConnection) -> None:
        job, other = operations.submit("chat", {}), operations.submit("chat", {})
        claimed = ask(socket, type="claim", ref=1, limit=2)["jobs"]
        operations.cancel(job.pk, by=None)
        assert push(socket, "stop") == {"type": "stop", "job": job.pk, "fence": 1, "reason": "canceled"}
        kept = next(claim for claim in claimed if claim["id"] == other.pk)
        done = ask(socket, type="finish", job=other.pk, lease=kept["lease"], outcome="success")
        assert done["status"] == "success"

    def test_are_told_when_the_lease_ran_out(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        claim_one(socket)
        farm.expire_lease(job)
        operations.sweep()
        assert push(socket, "stop") == {"type": "stop", "job": job.pk, "fence": 1, "reason": "timed_out"}

    def test_are_told_of_a_timeout_also_of_a_job_that_is_to_be_tried_again(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        farm.alter(job, timeout_s=30, retry_on_timeout=True, retry_when_lost=True)
        claimed = claim_one(socket)
        ask(socket, type="heartbeat", job=job.pk, lease=claimed["lease"])
        farm.pass_time(job, 31)
        farm.alter(job, lease_expires_at=clock.now() + timedelta(seconds=60))
        operations.sweep()
        assert push(socket, "stop") == {"type": "stop", "job": job.pk, "fence": 1, "reason": "timed_out"}
        assert farm.status(job) == "pending"

    def test_are_told_also_for_jobs_from_before_the_socket(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        crew.claim_one()
        with crew.socket() as socket:
            assert ask(socket, type="claim", ref=1)["jobs"] == []
            operations.cancel(job.pk, by=None)
            assert push(socket, "stop")["job"] == job.pk

    def test_name_the_claim_that_is_meant_where_the_worker_got_the_job_anew_by_http(self, crew: Crew) -> None:
        """The socket began while the first claim ran, and knows nothing of the second."""
        job, canceled = operations.submit("chat", {}), operations.submit("chat", {})
        first, _ = crew.claim(limit=2)
        with crew.socket() as socket:
            assert ask(socket, type="claim", ref=1)["jobs"] == []
            crew.post(f"jobs/{job.pk}/release", lease=first["lease"])
            assert crew.claim_one()["fence"] == 2
            operations.cancel(canceled.pk, by=None)  # the socket looks what became of its jobs
            pushed = sorted((push(socket, "stop") for _ in range(2)), key=itemgetter("job"))
        assert [(one["job"], one["fence"]) for one in pushed] == [(job.pk, 1), (canceled.pk, 1)]

    def test_are_not_told_of_jobs_that_were_handed_in(self, socket: ClientConnection) -> None:
        done, running = operations.submit("chat", {}), operations.submit("chat", {})
        claimed = {job["id"]: job["lease"] for job in ask(socket, type="claim", ref=1, limit=2)["jobs"]}
        ask(socket, type="finish", job=done.pk, lease=claimed[done.pk], outcome="success")
        operations.cancel(done.pk, by=None)
        operations.cancel(running.pk, by=None)
        assert push(socket, "stop")["job"] == running.pk


class TestKeys:
    def test_that_are_wrong_are_shown_out_with_4401(self, server: Server) -> None:
        for headers in ({}, callers.bearer("jfw_wrong"), {"Authorization": "Basic eDp5"}):
            with connect(f"{server.ws_url}/ws/worker/", additional_headers=headers) as socket, closed_with(4401):
                socket.recv(PATIENCE_S)

    def test_that_are_revoked_or_rotated_end_the_socket_at_once(self, crew: Crew, socket: ClientConnection) -> None:
        assert ask(socket, type="claim", ref=1)["jobs"] == []
        operations.revoke(crew.worker)
        with closed_with(4401):
            socket.recv(PATIENCE_S)
        crew.key = operations.rotate_key(crew.worker)
        with crew.socket() as again:
            assert ask(again, type="claim", ref=1)["jobs"] == []
            operations.rotate_key(crew.worker)
            with closed_with(4401):
                again.recv(PATIENCE_S)

    def test_of_a_member_who_is_switched_off_end_with_the_account(self, server: Server, ada: User) -> None:
        crew = callers.crew(server, owner=ada)
        with crew.socket() as socket:
            assert ask(socket, type="claim", ref=1)["jobs"] == []
            ada.is_active = False
            ada.save()
            with closed_with(4401):
                socket.recv(PATIENCE_S)

    def test_another_address_is_no_socket(self, server: Server) -> None:
        from websockets.exceptions import InvalidStatus

        with pytest.raises(InvalidStatus) as refused:
            connect(f"{server.ws_url}/ws/nothing/")
        assert refused.value.response.status_code == 403


class TestArriving:
    def test_while_the_database_is_away_is_told_to_come_again_in_one_line_of_log(self, crew: Crew) -> None:
        with database_away():
            before = len(crew.server.log)
            with crew.socket() as socket, closed_with(1013):
                socket.recv(PATIENCE_S)
            log = crew.server.log[before:]
        assert (log.count("A worker could not be let in: "), "ASGI application" in log) == (1, False)
        with crew.socket() as again:
            assert ask(again, type="claim", ref=1)["jobs"] == []


class TestLeaving:
    def test_in_the_middle_of_a_claim_gives_the_jobs_back(self, crew: Crew) -> None:
        """The claim waits for the table until the socket is closed: an answer that left before it lies in the kernel,
        and its jobs wait again when their lease, which nobody confirms, has run out."""
        jobs = [operations.submit("chat", number) for number in range(20)]
        for claims in range(1, 6):
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("LOCK TABLE jobs_live IN EXCLUSIVE MODE")
                with crew.socket() as socket:
                    socket.send(json.dumps({"type": "claim", "limit": 20}))
                    farm.until(farm.waiting_for_locks, what="the claim")
            released = [claims] * len(jobs)
            farm.until(lambda: [job.fence for job in Job.objects.waiting()] == released, what="the release of all")  # noqa: B023
        assert [job.failures for job in Job.objects.all()] == [0] * len(jobs)
