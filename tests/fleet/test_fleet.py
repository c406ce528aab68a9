"""Several of each process on one database: what is said to one node is known to all, and one may die."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from pytest_django import DjangoDbBlocker
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job, Worker
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import emptying, farm
from tests.api.edges.callers import bearer, events
from tests.fleet import machines
from tests.fleet.machines import Fleet, Program
from tests.jobs.presence.running import doctor
from tests.scheduling.integration import sample

PATIENCE_S = 30


@pytest.fixture(scope="module")
def running(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """The fleet of this file. The database is emptied behind it alone: clusters find their own rows in it."""
    with django_db_blocker.unblock():
        assert str(connection.settings_dict["NAME"]).startswith("test_")
        emptying.empty()
        with machines.fleet(tmp_path_factory.mktemp("fleet")) as made:
            yield made
        emptying.empty()
        connection.close()


@pytest.fixture
def fleet(running: Fleet) -> Fleet:
    """The fleet, whole again whatever the test before did to it."""
    running.mend()
    return running


def client(node: Program, key: str) -> httpx.Client:
    """A caller of this node."""
    return httpx.Client(base_url=node.url, headers=bearer(key), timeout=PATIENCE_S)


@pytest.fixture
def casting() -> Iterator[Callable[..., "Cast"]]:
    """Makes the cast of a test; who was called leaves at its end."""
    with ExitStack() as stack:

        def cast(*, at: Program, works_at: Program) -> Cast:
            made = Cast(at=at, works_at=works_at)
            stack.callback(made.close)
            return made

        yield cast


class Cast:
    """A client and a worker, each at a node of their own."""

    def __init__(self, *, at: Program, works_at: Program) -> None:
        _, token = accounts.create_token(User.objects.create_user(uuid.uuid4().hex), name="tests")
        self.worker, key = operations.create_worker("box", queues=["chat"])
        self.client, self.crew = client(at, token), client(works_at, key)

    def close(self) -> None:
        """Leave."""
        self.client.close()
        self.crew.close()

    def submit(self) -> int:
        """A job's id."""
        answer = self.client.post("/api/v1/jobs", json={"kind": "chat", "payload": {"prompt": "Why?"}})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def verb(self, path: str, **body: object) -> Any:
        """What a call of the worker is answered."""
        answer = self.crew.post(f"/api/v1/worker/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def perform(self, job: Any) -> None:
        """Do a job that was claimed."""
        path, lease = f"jobs/{job['id']}", job["lease"]
        self.verb(f"{path}/output", lease=lease, seq=0, text="Because.")
        self.verb(f"{path}/finish", lease=lease, outcome="success", result={"n": 1})


Casting = Callable[..., Cast]


@pytest.mark.django_db
def test_this_file_asks_for_a_database_of_the_tests() -> None:
    """The others must not: each would find its clusters' rows emptied away by the one before."""
    assert str(connection.settings_dict["NAME"]).startswith("test_")


@pytest.mark.landing
class TestFleet:
    def test_work_said_to_one_node_is_done_by_a_worker_of_the_other_and_watched_at_the_first(
        self, fleet: Fleet, casting: Casting
    ) -> None:
        here, there = fleet.nodes
        cast = casting(at=here, works_at=there)
        with ThreadPoolExecutor(1) as pool:
            claim = pool.submit(cast.verb, "claim", wait=60)
            farm.until(lambda: Worker.objects.get(pk=cast.worker.pk).last_seen_at, what="the long poll's asking")
            job_id = cast.submit()
            [job] = claim.result(PATIENCE_S)["jobs"]
        assert job["id"] == job_id
        with cast.client.stream("GET", f"/api/v1/jobs/{job_id}/events") as stream:
            stream_events = events(stream.iter_lines())
            assert next(stream_events).data["status"] == "in_progress"
            cast.perform(job)
            rest = list(stream_events)
        assert [event.data["text"] for event in rest if event.name == "output"] == ["Because."]
        assert rest[-1].data == {"status": "success"}

    def test_functions_run_once_whichever_cluster_takes_them(self, fleet: Fleet) -> None:
        """A group of the same name cannot be made twice, so a second run would have failed."""
        for n in range(60):
            scheduling.run_after(0, sample.make_group, name=f"g{n}")
        ours = ScheduledFunction.objects.filter(function__endswith="make_group")
        farm.until(lambda: not ours.filter(ended_at=None).exists(), what="the functions' end")
        assert set(ours.values_list("status", flat=True)) == {"success"}
        assert Group.objects.filter(name__startswith="g").count() == 60

    def test_listens_past_the_pooler_and_finds_nothing_wrong_with_itself(self, fleet: Fleet) -> None:
        """The cluster for actions is left out of this fleet, and no worker has come yet."""

        def is_reported() -> bool:
            """Whether the fleet is no longer told as starting. Asked here: each process that asks is two seconds of a
            processor."""
            time.sleep(0.3)
            return "No cluster for actions runs" in doctor()

        farm.until(is_reported, within_s=60, what="the end of the start")
        output = fleet.manage("doctor").stdout
        assert "did not arrive within" not in output
        assert [line for line in output.splitlines() if "WRONG" in line] == [
            "WRONG  No cluster for actions runs: no action is run, however long it has been due."
        ]

    def test_each_node_tells_the_same_of_the_farm(self, fleet: Fleet) -> None:
        farm.submit(2, "image")
        for node in fleet.nodes:
            lines = machines.scrape(node).splitlines()
            assert 'jobfarm_queue_waiting{queue="image"} 2.0' in lines
            assert 'jobfarm_clusters_live{role="mutations"} 2.0' in lines

    def test_the_janitor_notices_a_silent_worker(self, fleet: Fleet, casting: Casting) -> None:
        cast = casting(at=fleet.nodes[0], works_at=fleet.nodes[1])
        cast.submit()
        [job] = cast.verb("claim", wait=30)["jobs"]
        farm.expire_lease(Job.objects.get(pk=job["id"]))
        farm.until(lambda: farm.status(job["id"]) == "timed_out", what="the janitor")

    def test_goes_on_without_a_node_and_a_cluster_that_were_killed(self, fleet: Fleet, casting: Casting) -> None:
        lost, left = fleet.nodes
        cast = casting(at=lost, works_at=left)
        job_id = cast.submit()
        [job] = cast.verb("claim", wait=30)["jobs"]
        with cast.client.stream("GET", f"/api/v1/jobs/{job_id}/events") as stream:
            received = events(stream.iter_lines())
            last = next(received).id
            lost.kill()
            fleet.clusters[0].kill()
            with pytest.raises(httpx.HTTPError):
                list(received)
        cast.perform(job)
        cast.client.base_url = left.url
        with cast.client.stream("GET", f"/api/v1/jobs/{job_id}/events", headers={"Last-Event-ID": last}) as stream:
            arrived = list(events(stream.iter_lines()))
        assert arrived[-1].data == {"status": "success"}
        scheduling.run_after(0, sample.make_group, name="afterwards")
        farm.until(lambda: Group.objects.filter(name="afterwards").exists(), what="the other cluster")

    def test_drains_on_sigterm_and_leaves_nothing(self, running: Fleet, casting: Casting) -> None:
        """Whoever waits is sent home at once, with a word on which they come again; every process ends well. Those that
        an earlier test killed are left as they are."""
        left = [program for program in running.programs if program.is_running]
        node = next(program for program in left if program in running.nodes)
        cast = casting(at=node, works_at=node)
        job_id = cast.submit()
        with (
            connect(f"{node.url.replace('http', 'ws', 1)}/ws/live/", origin=Origin(node.url)) as browser,
            cast.client.stream("GET", f"/api/v1/jobs/{job_id}/events") as stream,
        ):
            browser.send(json.dumps({"ping": True}))
            browser.recv(PATIENCE_S)
            stream_events = events(stream.iter_lines())
            next(stream_events)
            for program in left:
                program.terminate()
            assert list(stream_events) == []
            with pytest.raises(ConnectionClosed) as closed:
                browser.recv(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert {program.name: program.ends() for program in left} == {program.name: 0 for program in left}
        assert [line for line in running.log_lines() if line["level"] == "ERROR"] == []
