"""What was answered is processed, once, and starts the jobs of its rules, once, though the processes of the farm are
killed all the while. A crash before each statement, in one process: tests/webhooks/inbox/test_crashes.py."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from jobs.models import Job
from tests import farm
from tests.scheduling.concurrency.support import Supervisor, all_ended, kill_one, supervisor, until
from tests.servers import Server, serve
from tests.webhook_samples import changed
from tests.webhooks.concurrency import team
from tests.webhooks.inbox import starts
from webhooks.domain.deliveries import Filter, Source
from webhooks.models import Activity, Delivery, DeliveryAttempt, JobStart
from webhooks.models.resources import GithubIssue
from webhooks.operations import replay_matching, secrets
from webhooks.sources import configs

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]

DELIVERIES = 300
ADAPTERS = 12
KILLS = 4  # of the cluster while deliveries come in; at every second one the server is killed, too
KILLS_OF_A_REPLAY = 2
RULES = ("kept", team.RULE)
OPENED = "github/issues.opened.1.json"
RNG = random.Random(11)


class Adapter:
    """Posts each request until it is answered 2xx, over connections that stay open, from several threads."""

    def __init__(self, url: str, requests: Sequence[tuple[str, dict[str, str], bytes]]) -> None:
        self._url = url
        self._left: Iterator[tuple[str, dict[str, str], bytes]] = iter(requests)
        self._lock = threading.Lock()
        self.answered: dict[str, str] = {}  # by delivery id: what the answer said
        self.cut_off = 0  # requests whose end nobody was told
        self.refused: list[tuple[int, str]] = []

    def run(self) -> None:
        """Send what is left; one thread's share."""
        with httpx.Client(base_url=self._url, timeout=30) as client:
            while request := self._next():
                self._send(client, *request)

    def _next(self) -> tuple[str, dict[str, str], bytes] | None:
        with self._lock:
            return next(self._left, None)

    def _send(self, client: httpx.Client, name: str, headers: dict[str, str], body: bytes) -> None:
        while name not in self.answered:
            try:
                answer = client.post(configs.CONFIGS[Source.GITHUB].path, content=body, headers=headers)
            except httpx.TransportError:
                with self._lock:
                    self.cut_off += 1
                continue
            if answer.is_success:
                self.answered[name] = answer.json()["status"]
            else:
                self.refused.append((answer.status_code, answer.text))
                time.sleep(0.1)  # the pace of a sender that was told to come again


def issue(number: int, secret: str) -> tuple[str, dict[str, str], bytes]:
    """A signed request that opens an issue of its own in one of ten repositories."""
    numbers = {"issue__id": number, "issue__number": number, "repository__id": 1 + number % 10}
    body = json.dumps(changed(OPENED, **numbers)).encode()
    name = f"delivery-{number}"
    signed = configs.CONFIGS[Source.GITHUB].sign(
        body, secret=secret, event_type="issues", delivery_id=name, now=datetime.now(UTC)
    )
    return name, {"Content-Type": "application/json", **signed}, body


def kill_at(moments: Sequence[int], progress: Callable[[], int], kill: Callable[[int], None]) -> None:
    """Kill what `kill` kills at its nth turn, when so much is done, and a random moment later."""
    for turn, moment in enumerate(moments):
        until(lambda moment=moment: progress() >= moment, pause_s=0.01)  # type: ignore[misc]
        time.sleep(RNG.uniform(0, 0.05))  # the random moment, not a wait for something
        kill(turn)


def moments(count: int, *, after: int = 0) -> list[int]:
    """So many points of progress between `after` and all deliveries more."""
    return [after + DELIVERIES * (turn + 1) // (count + 1) for turn in range(count)]


def kill_both(turn: int, *, server: Server, cluster: Supervisor) -> None:
    """A process of the cluster, the last time all of them, and every second time the server. All come again."""
    if turn % 2:
        server.kill()
    if turn == KILLS - 1:
        cluster.kill_all()
        cluster.start()
    else:
        kill_a_process(cluster)
    if turn % 2:
        server.start()


def kill_a_process(cluster: Supervisor) -> None:
    until(lambda: kill_one([cluster], RNG))  # none runs for a moment after all were killed


def receive_all(server: Server, cluster: Supervisor, secret: str) -> Adapter:
    """Send all deliveries while server and cluster are killed."""
    sender = Adapter(server.url, [issue(number, secret) for number in range(1, DELIVERIES + 1)])
    with ThreadPoolExecutor(ADAPTERS) as pool:
        adapters = [pool.submit(sender.run) for _ in range(ADAPTERS)]
        kill_at(moments(KILLS), lambda: len(sender.answered), partial(kill_both, server=server, cluster=cluster))
        for one in adapters:
            one.result(timeout=60)
    return sender


def replay_all(cluster: Supervisor, *, with_jobs: bool) -> None:
    """Replay all deliveries while the cluster is killed."""
    before = DeliveryAttempt.objects.count()
    begun = replay_matching(Filter(), with_jobs=with_jobs)
    assert begun is not None
    assert begun.matched == DELIVERIES
    kill_at(moments(KILLS_OF_A_REPLAY, after=before), DeliveryAttempt.objects.count, lambda _: kill_a_process(cluster))


def wait_until_done(server: Server, cluster: Supervisor) -> None:
    until(all_ended, what=lambda: f"{statuses()}\n{server.log[-3000:]}\n{cluster.log[-3000:]}")


def statuses() -> dict[str, int]:
    return dict(Counter(Delivery.objects.values_list("status", flat=True)))


def test_every_answered_delivery_is_processed_once_and_starts_one_job_of_each_rule() -> None:
    """300 deliveries to a server that is killed twice, processed by a cluster that is killed four times; then all of
    them replayed, without their jobs and with them, while it is killed twice more each time."""
    _, secret = secrets.add(Source.GITHUB)
    farm.kind("triage")
    starts.rule(name=RULES[0], event="issues.*", kind="triage", payload={"number": "{{ body.issue.number }}"})
    with (
        serve(WEBHOOKS_PER_MINUTE="1000000") as server,
        supervisor("--mutations", JOBFARM_APPS=team.__name__) as cluster,
    ):
        sender = receive_all(server, cluster, secret)
        wait_until_done(server, cluster)
        assert_received(sender)
        assert_processed(times=1)
        assert_jobs(rounds=1)
        replay_all(cluster, with_jobs=False)
        wait_until_done(server, cluster)
        assert_processed(times=2)
        assert_jobs(rounds=1)
        replay_all(cluster, with_jobs=True)
        wait_until_done(server, cluster)
    assert_processed(times=3)
    assert_jobs(rounds=2)


def assert_received(sender: Adapter) -> None:
    ids = {f"delivery-{number}" for number in range(1, DELIVERIES + 1)}
    assert sender.cut_off >= KILLS // 2
    assert sender.refused == []
    assert set(sender.answered) == ids
    assert set(Delivery.objects.values_list("delivery_id", flat=True)) == ids
    # What was stored and not told was sent again, and known again; a second time, if that was not told either.
    # It is not counted while the cluster has it.
    assert "duplicate" not in sender.answered.values() or Delivery.objects.filter(duplicates__gt=0).exists()


def assert_processed(*, times: int) -> None:
    assert statuses() == {"processed": DELIVERIES}
    attempts: Any = DeliveryAttempt.objects.order_by("delivery_id", "number").values_list(
        "delivery_id", "number", "outcome"
    )
    assert list(attempts) == [
        (pk, number, "processed")
        for pk in sorted(Delivery.objects.values_list("pk", flat=True))
        for number in range(1, times + 1)
    ]
    assert GithubIssue.objects.count() == Activity.objects.count() == DELIVERIES


def assert_jobs(*, rounds: int) -> None:
    """Of each delivery, rule and round one row, that names a job of its own, about that delivery; and no other job."""
    rows = JobStart.objects.values_list("job_id", "rule_name", "round", "delivery__delivery_id")
    expected = {
        (rule, round_, f"delivery-{number}")
        for rule in RULES
        for round_ in range(1, rounds + 1)
        for number in range(1, DELIVERIES + 1)
    }
    assert Counter(row[1:] for row in rows) == Counter(expected)
    jobs = Job.objects.values_list("pk", "payload__number")
    assert Counter((pk, f"delivery-{number}") for pk, number in jobs) == Counter((row[0], row[3]) for row in rows)
