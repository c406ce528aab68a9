"""A claim that waits over the worker's WebSocket: it is answered with its jobs, claimed for it when they come."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest
from django.utils import timezone
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from jobs import operations
from jobs.models import Job, Worker
from live import operations as live
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import PATIENCE_S, Crew, ask, push
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
LONG_S = 60


@pytest.fixture
def socket(crew: Crew) -> Iterator[ClientConnection]:
    with crew.socket() as open_socket:
        yield open_socket


def wait(socket: ClientConnection, *, ref: int = 1, **fields: Any) -> None:
    """Have a claim wait. Calls are done in order: when the one behind it is answered, it does."""
    socket.send(json.dumps({"type": "claim", "ref": ref, "wait": LONG_S, **fields}))
    answer = ask(socket, type="unclaim", ref="behind", jobs=[{"id": 1, "lease": "1-0"}])
    assert (answer["ref"], answer["type"]) == ("behind", "unclaim")


def answer(socket: ClientConnection) -> dict[str, Any]:
    """What comes next, which nobody asked for since."""
    message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
    return message


def test_a_worker_is_told_that_another_waits_for_what_it_may_not_have_begun(server: Server) -> None:
    jobs = [operations.submit("chat", {}).pk for _ in range(3)]
    busy, idle = callers.crew(server, "chat"), callers.crew(server, "chat")
    with busy.socket() as holding, idle.socket() as waiting:
        leases = {one["id"]: one["lease"] for one in ask(holding, type="claim", ref=1, limit=3)["jobs"]}
        waiting.send(json.dumps({"type": "claim", "ref": 1, "wait": LONG_S}))
        assert push(holding, "share") == {"type": "share"}
        unbegun = [{"id": job, "lease": leases[job]} for job in jobs[1:]]
        assert ask(holding, type="unclaim", ref=2, jobs=unbegun)["unclaimed"] == jobs[1:]
        assert [one["id"] for one in push(waiting, "claim")["jobs"]] == [jobs[1]]


class TestAClaimThatWaits:
    def test_is_answered_with_its_job_and_no_word_before(self, socket: ClientConnection) -> None:
        wait(socket)
        job = operations.submit("chat", {"n": 1})
        got = answer(socket)
        assert (got["type"], got["ref"], [one["id"] for one in got["jobs"]]) == ("claim", 1, [job.pk])
        lease = got["jobs"][0]["lease"]
        done = ask(socket, type="finish", ref=2, job=job.pk, lease=lease, outcome="success")
        assert done["status"] == "success"

    def test_is_answered_at_once_where_there_is_a_job(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        assert [one["id"] for one in ask(socket, type="claim", wait=LONG_S)["jobs"]] == [job.pk]

    def test_is_answered_without_jobs_when_its_time_is_over(self, socket: ClientConnection) -> None:
        assert ask(socket, type="claim", ref=1, wait=0.2) == {"type": "claim", "ref": 1, "jobs": [], "drained": False}

    def test_is_answered_when_its_job_becomes_due(self, socket: ClientConnection) -> None:
        wait(socket)
        soon = operations.submit("chat", {}, run_at=timezone.now() + timedelta(seconds=0.5))
        assert [one["id"] for one in answer(socket)["jobs"]] == [soon.pk]

    def test_holds_up_no_other_call(self, socket: ClientConnection) -> None:
        job = operations.submit("chat", {})
        [held] = ask(socket, type="claim", ref=0)["jobs"]
        wait(socket)
        beat = ask(socket, type="heartbeat", ref=2, job=job.pk, lease=held["lease"])
        assert beat["type"] == "heartbeat"

    def test_is_left_alone_by_a_finish_that_brings_the_next_job(self, socket: ClientConnection) -> None:
        first, second = operations.submit("chat", 1), operations.submit("chat", 2)
        [held] = ask(socket, type="claim", ref=0)["jobs"]
        about = {"type": "finish", "outcome": "success", "claim_next": 1}
        [following] = ask(socket, job=first.pk, lease=held["lease"], **about)["jobs"]
        assert following["id"] == second.pk
        wait(socket)
        assert ask(socket, job=second.pk, lease=following["lease"], **about)["jobs"] == []
        third = operations.submit("chat", 3)
        got = answer(socket)
        assert (got["ref"], [one["id"] for one in got["jobs"]]) == (1, [third.pk])

    def test_is_answered_before_the_next_claim_that_waits_in_its_place(self, socket: ClientConnection) -> None:
        wait(socket, ref=1)
        socket.send(json.dumps({"type": "claim", "ref": 2, "wait": LONG_S}))
        assert answer(socket) == {"type": "claim", "ref": 1, "jobs": [], "drained": False}
        operations.submit("chat", {})
        assert (answer(socket))["ref"] == 2

    def test_gets_jobs_of_a_queue_that_became_the_workers_own(self, crew: Crew, socket: ClientConnection) -> None:
        wait(socket)
        operations.submit("image", {})
        Worker.objects.filter(pk=crew.worker.pk).update(queues=["chat", "image"])
        live.touch(f"worker:{crew.worker.pk}")
        assert [one["queue"] for one in answer(socket)["jobs"]] == ["image"]

    def test_ends_with_the_key(self, crew: Crew, socket: ClientConnection) -> None:
        wait(socket)
        operations.revoke(crew.worker)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401

    def test_takes_no_job_for_a_worker_that_left(self, server: Server) -> None:
        gone, there = callers.crew(server), callers.crew(server)
        with there.socket() as staying:
            with gone.socket() as leaving:
                wait(leaving)
                wait(staying)
            job = operations.submit("chat", {})
            assert [one["id"] for one in answer(staying)["jobs"]] == [job.pk]


def unheard() -> Job:
    """A job that can be claimed, of which no notification went out."""
    job = operations.submit("chat", {}, run_at=timezone.now() + timedelta(hours=1))
    farm.alter(job, run_at=timezone.now())
    return job


class TestTheClaimAfterOneThatTookAllThereWas:
    """A worker that got one job of five asks for more at once. It waits like any other, without another look."""

    @pytest.fixture
    def held(self, socket: ClientConnection) -> dict[str, Any]:
        """The one job that there was."""
        operations.submit("chat", {})
        [job] = ask(socket, type="claim", limit=5)["jobs"]
        return dict(job)

    def test_waits_without_looking_until_something_is_heard(self, socket: ClientConnection) -> None:
        """It may look where a second has gone by, or a scan was slow, as on a busy machine: so in one of thirty."""
        for _ in range(30):
            operations.submit("chat", {})
            assert len(ask(socket, type="claim", limit=5)["jobs"]) == 1
            job = unheard()
            socket.send(json.dumps({"type": "claim", "ref": "waits", "wait": LONG_S}))
            first = ask(socket, type="unclaim", ref="behind", jobs=[{"id": 1, "lease": "1-0"}])
            if first["ref"] == "behind":
                break
            assert answer(socket)["ref"] == "behind"
        live.touch("work:chat")
        assert [one["id"] for one in answer(socket)["jobs"]] == [job.pk]

    def test_gets_what_was_submitted_since_that_look(self, socket: ClientConnection, held: dict[str, Any]) -> None:
        job = operations.submit("chat", {})
        assert [one["id"] for one in ask(socket, type="claim", wait=LONG_S)["jobs"]] == [job.pk]

    @pytest.mark.parametrize("fields", [{}, {"wait": 0.001}, {"wait": LONG_S, "queues": ["chat"]}])
    def test_looks_where_it_hardly_waits_or_asks_for_other_queues(
        self, socket: ClientConnection, held: dict[str, Any], fields: dict[str, Any]
    ) -> None:
        job = unheard()
        assert [one["id"] for one in ask(socket, type="claim", **fields)["jobs"]] == [job.pk]

    def test_looks_where_the_worker_holds_nothing_any_more(
        self, socket: ClientConnection, held: dict[str, Any]
    ) -> None:
        ask(socket, type="finish", job=held["id"], lease=held["lease"], outcome="success")
        job = unheard()
        assert [one["id"] for one in ask(socket, type="claim", wait=LONG_S)["jobs"]] == [job.pk]

    def test_looks_once_it_was_woken(self, socket: ClientConnection, held: dict[str, Any]) -> None:
        wait(socket, limit=5)
        first = operations.submit("chat", {})
        assert [one["id"] for one in answer(socket)["jobs"]] == [first.pk]
        wait(socket)
        second = operations.submit("chat", {})
        assert [one["id"] for one in answer(socket)["jobs"]] == [second.pk]


class TestManyClaimsThatWait:
    def test_get_one_job_each_the_first_who_came_the_first_one(self, server: Server) -> None:
        with ExitStack() as stack:
            sockets = [stack.enter_context(callers.crew(server).socket()) for _ in range(6)]
            for socket in sockets:
                wait(socket)
            first = operations.submit("chat", 1)
            assert [one["id"] for one in answer(sockets[0])["jobs"]] == [first.pk]
            threads = stack.enter_context(ThreadPoolExecutor())
            answers = {threads.submit(answer, socket): socket for socket in sockets[1:]}
            farm.submit(4, "chat")
            got = [done.result()["jobs"] for done in islice(as_completed(answers), 4)]
            assert [len(jobs) for jobs in got] == [1] * 4
            [(left, socket)] = [(one, socket) for one, socket in answers.items() if not one.done()]
            socket.send(json.dumps({"type": "claim", "ref": 9}))
            assert left.result() == {"type": "claim", "ref": 1, "jobs": [], "drained": False}  # it waited until now


def test_an_answer_about_an_old_lease_leaves_the_new_one_watched(socket: ClientConnection) -> None:
    """A worker that got a job anew hears of its cancel, whatever it was answered about its lease before."""
    failed: dict[str, Any] = {"outcome": "failed"}
    calls: dict[str, dict[str, Any]] = {"heartbeat": {}, "output": {"seq": 0, "text": "x"}, "release": {}}
    for verb, more in {**calls, "finish": failed, "heartbeat_many": {}, "finish_many": failed}.items():
        job = operations.submit("chat", {})
        [old] = ask(socket, type="claim")["jobs"]
        entry = {"lease": old["lease"], **more}
        many = {"jobs" if verb == "heartbeat_many" else "finished": [{"id": job.pk, **entry}]}
        again = {"type": verb, **(many if verb.endswith("_many") else {"job": job.pk, **entry})}
        ask(socket, **(again if more is failed else {"type": "release", "job": job.pk, "lease": old["lease"]}))
        farm.pass_time(job, 3600)
        [new] = ask(socket, type="claim")["jobs"]
        assert (new["id"], new["fence"]) == (job.pk, 2)
        ask(socket, **again)
        operations.cancel(job.pk, by=None)
        assert push(socket, "stop") == {"type": "stop", "job": job.pk, "fence": 2, "reason": "canceled"}, verb
