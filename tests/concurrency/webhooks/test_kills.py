"""What was answered is processed, and once, though the processes of the farm are killed all the while."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.concurrency.scheduling.support import Supervisor, kill_one, supervisor, until
from tests.servers import Server, serve
from tests.webhook_samples import changed
from webhooks.domain.names import Source
from webhooks.models import Activity, Delivery, DeliveryAttempt, GithubIssue
from webhooks.operations import secrets
from webhooks.sources import github

pytestmark = pytest.mark.django_db(transaction=True)

DELIVERIES = 2000
ADAPTERS = 12
KILLS = 6
OPENED = "github/issues.opened.1.json"


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
                answer = client.post(github.PATH, content=body, headers=headers)
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
    signed = github.sign(body, secret=secret, event_type="issues", delivery_id=name, now=datetime.now(UTC))
    return name, {"Content-Type": "application/json", **signed}, body


def kill_at(moments: Sequence[int], sender: Adapter, server: Server, cluster: Supervisor) -> None:
    """When so many were answered, and a random moment later, kill the server and a process of the cluster; once all of
    the cluster. Both come again."""
    dice = random.Random(11)
    for turn, moment in enumerate(moments):
        until(lambda moment=moment: len(sender.answered) >= moment, pause_s=0.001)  # type: ignore[misc]
        time.sleep(dice.uniform(0, 0.05))  # the random moment, not a wait for something
        server.kill()
        if turn == KILLS // 2:
            cluster.kill_all()
            cluster.start()
        else:
            kill_one([cluster], dice)
        server.start()


def statuses() -> dict[str, int]:
    return dict(Counter(Delivery.objects.values_list("status", flat=True)))


def test_every_answered_delivery_is_processed_and_none_twice() -> None:
    """2,000 deliveries to a server that is killed six times, processed by a cluster that is killed as often."""
    _, secret = secrets.add(Source.GITHUB)
    requests = [issue(number, secret) for number in range(1, DELIVERIES + 1)]
    moments = [DELIVERIES * (turn + 1) // (KILLS + 1) for turn in range(KILLS)]
    with serve(WEBHOOKS_PER_MINUTE="1000000") as server, supervisor("--mutations") as cluster:
        sender = Adapter(server.url, requests)
        with ThreadPoolExecutor(ADAPTERS) as pool:
            adapters = [pool.submit(sender.run) for _ in range(ADAPTERS)]
            kill_at(moments, sender, server, cluster)
            for one in adapters:
                one.result(timeout=60)
        until(
            lambda: not Delivery.objects.filter(status="received").exists(),
            what=lambda: said(server, cluster),
        )
    assert sender.cut_off >= KILLS
    assert sender.refused == []
    assert_all_once(sender)


def said(server: Server, cluster: Supervisor) -> str:
    return f"{statuses()}\n{server.log[-3000:]}\n{cluster.log[-3000:]}"


def assert_all_once(sender: Adapter) -> None:
    ids = {f"delivery-{number}" for number in range(1, DELIVERIES + 1)}
    assert set(sender.answered) == ids
    assert set(Delivery.objects.values_list("delivery_id", flat=True)) == ids
    assert statuses() == {"processed": DELIVERIES}
    attempts: Any = DeliveryAttempt.objects.order_by("delivery_id").values_list(
        "delivery_id", "number", "outcome"
    )
    assert list(attempts) == [
        (pk, 1, "processed") for pk in sorted(Delivery.objects.values_list("pk", flat=True))
    ]
    assert GithubIssue.objects.count() == Activity.objects.count() == DELIVERIES
    # What was stored and not told was sent again, and known again; a second time, if that was not told either.
    repeated = sum(Delivery.objects.values_list("duplicates", flat=True))
    assert repeated >= list(sender.answered.values()).count("duplicate")
