"""What a worker is told when it is drained: by the answers, by its socket, and by a claim that waits."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobs import operations
from jobs.models import WorkerFacts
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew, ask, messages_of, push
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 15  # longer than any of these tests may take: who comes back earlier was woken


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


class TestOverHttp:
    def test_answers_say_whether_it_is_drained(self, crew: Crew) -> None:
        operations.submit("chat", {})
        job = crew.claim_one()
        assert crew.post("claim").json() == {"jobs": [], "drained": False}
        operations.drain(crew.worker)
        assert crew.post("claim").json() == {"jobs": [], "drained": True}
        ended = crew.post(f"jobs/{job['id']}/finish", lease=job["lease"], outcome="success", claim_next=1)
        assert ended.json() == {"status": "success", "jobs": [], "drained": True}

    def test_a_claim_that_waits_ends_when_its_worker_is_drained_and_the_next_one_waits(
        self, crew: Crew, pool: ThreadPoolExecutor
    ) -> None:
        waiting = pool.submit(lambda: crew.post("claim", wait=WAIT_S).json())
        farm.until(lambda: farm.stored_worker(crew.worker).last_seen_at is not None, what="the first asking")
        operations.drain(crew.worker)
        assert waiting.result(WAIT_S / 2) == {"jobs": [], "drained": True}
        since = time.monotonic()
        assert crew.post("claim", wait=0.4).json() == {"jobs": [], "drained": True}
        assert time.monotonic() - since >= 0.4

    def test_a_claim_that_waits_brings_a_job_once_the_drain_ends(self, crew: Crew, pool: ThreadPoolExecutor) -> None:
        operations.drain(crew.worker)
        job = operations.submit("chat", {})
        waiting = pool.submit(lambda: crew.post("claim", wait=WAIT_S).json())
        farm.until(lambda: farm.stored_worker(crew.worker).last_seen_at is not None, what="the first asking")
        operations.undrain(crew.worker)
        answer = waiting.result(WAIT_S / 2)
        assert ([each["id"] for each in answer["jobs"]], answer["drained"]) == ([job.pk], False)

    def test_work_for_others_wakes_them_and_not_the_drained(
        self, server: Server, crew: Crew, pool: ThreadPoolExecutor
    ) -> None:
        other = callers.crew(server)
        operations.drain(crew.worker)
        idle = pool.submit(lambda: crew.post("claim", wait=1.0).json())
        busy = pool.submit(lambda: other.post("claim", wait=WAIT_S).json())
        farm.until(lambda: farm.stored_worker(other.worker).last_seen_at is not None, what="the first asking")
        job = operations.submit("chat", {})
        assert [each["id"] for each in busy.result(WAIT_S / 2)["jobs"]] == [job.pk]
        assert idle.result(WAIT_S) == {"jobs": [], "drained": True}


class TestOverTheSocket:
    def test_it_is_pushed_that_the_worker_is_drained_and_that_it_is_not(self, crew: Crew) -> None:
        with crew.socket() as socket:
            assert ask(socket, type="claim", ref=1) == {"type": "claim", "ref": 1, "jobs": [], "drained": False}
            operations.drain(crew.worker)
            assert push(socket, "drained") == {"type": "drained", "drained": True}
            operations.submit("chat", {})
            assert ask(socket, type="claim", ref=2)["jobs"] == []
            operations.undrain(crew.worker)
            kinds = [next(messages_of(socket))["type"] for _ in range(2)]
            assert sorted(kinds) == ["drained", "work"]

    def test_one_that_comes_drained_is_told_so(self, crew: Crew) -> None:
        operations.drain(crew.worker)
        with crew.socket() as socket:
            assert push(socket, "drained")["drained"] is True

    def test_a_parked_claim_is_answered_with_a_job_once_the_drain_ends(self, crew: Crew) -> None:
        operations.drain(crew.worker)
        job = operations.submit("chat", {})
        with crew.socket() as socket:
            push(socket, "drained")
            socket.send('{"type": "claim", "ref": 1, "wait": 15}')
            operations.undrain(crew.worker)
            answer = push(socket, "claim")
            assert [each["id"] for each in answer["jobs"]] == [job.pk]


class TestHello:
    def test_is_kept_and_answered_the_same_over_both(self, crew: Crew) -> None:
        facts = {
            "version": "mine/1", "host": "gpu-3", "platform": "Linux", "handlers": ["chat"], "concurrency": 2,
            "cpus": 8, "memory_bytes": 64 * 10**9, "gpus": [{"name": "RTX", "memory_bytes": 24 * 10**9}],
        }  # fmt: skip
        welcome = {"worker": "w", "queues": ["chat"], "drained": False}
        assert crew.post("hello", **facts).json() == welcome
        kept = WorkerFacts.objects.get()
        assert (kept.host, kept.handlers, kept.gpus) == ("gpu-3", ["chat"], facts["gpus"])
        with crew.socket() as socket:
            assert ask(socket, type="hello", ref=1, **facts) == {"type": "hello", "ref": 1, **welcome}
            ask(socket, type="hello", ref=2, **{**facts, "host": "gpu-4"})
        again = WorkerFacts.objects.get()
        assert (again.host, again.reported_at > kept.reported_at) == ("gpu-4", True)

    def test_the_same_again_writes_nothing(self, crew: Crew) -> None:
        crew.post("hello", host="gpu-3")
        kept = WorkerFacts.objects.get()
        assert crew.post("hello", host="gpu-3").status_code == 200
        assert WorkerFacts.objects.get().reported_at == kept.reported_at

    @pytest.mark.parametrize(
        "facts",
        [
            {"host": "x" * 256},
            {"handlers": ["k"] * 201},
            {"gpus": [{"name": "g"}] * 65},
            {"concurrency": 0},
            {"memory_bytes": 2**63},
            {"version": "nul \x00"},
            {"colour": "red"},
        ],
    )
    def test_what_is_too_large_or_unknown_is_refused(self, crew: Crew, facts: dict[str, object]) -> None:
        assert crew.post("hello", **facts).status_code == 422
        assert not WorkerFacts.objects.exists()
