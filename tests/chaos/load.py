"""The load: jobs, scheduled functions, deliveries and decisions, and a book of what was asked and what was answered.

What was not answered may have happened or not; it must not have happened twice.
"""

import itertools
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from django.db import transaction

from jobs import operations as jobs
from jobs.models import Live
from postgres import clock, connections
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from tests.chaos import functions
from tests.chaos.farm import KINDS, LEASE_S, SHARED, WAITS, WEBS, Farm
from tests.histories.recording import Recorder
from webhooks.domain.deliveries import Source
from webhooks.operations import secrets

LIMIT = "chaos"
BUCKET = ratelimits.TokenBucket(8, timedelta(seconds=1), capacity=8)
SAMPLE = Path(__file__).parents[1] / "data" / "webhooks" / "payloads" / "github" / "issues.opened.1.json"
PATIENCE_S = 5.0
MOST_LIVING = 100  # jobs: a machine that others use as well is slower than the load, and would never be well again
SHORT_S, LONG_S = 0.5, 2 * LEASE_S  # of jobs


@dataclass(slots=True)
class Book:
    """What the farm acknowledged, and how often it did not answer."""

    jobs: dict[int, int] = field(default_factory=dict)  # id: its number
    verdicts: dict[int, str] = field(default_factory=dict)  # id: what its cancel came to
    functions: dict[int, int] = field(default_factory=dict)  # number: id
    rolled_back: set[int] = field(default_factory=set)
    deliveries: set[str] = field(default_factory=set)
    resent: int = 0
    grants: int = 0
    denials: int = 0
    unanswered: dict[str, int] = field(default_factory=dict)


class Load:
    """Threads that ask, each at its pace, until told to stop. `ask_*` are the single steps."""

    def __init__(self, farm: Farm, *, seed: int) -> None:
        self.book = Book()
        self.began_at = clock.now()
        self.recorder = Recorder((farm.calls / "load.calls").open("w"), process="load")
        self._farm = farm
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._is_over = threading.Event()
        self._unsure: list[str] = []  # deliveries that nobody said yes to: a sender sends them again
        self._signals: list[tuple[int, int, str]] = []  # of which job, its number, and whether by its key
        self._sample = json.loads(SAMPLE.read_text())
        steps = {self.submit: 0.2, self.schedule: 0.1, self.deliver: 0.3, self.decide: 0.05,
                 self.suspend: 1.0, self.signal: 0.3, self.share: 0.8}  # fmt: skip
        self._threads = [
            threading.Thread(target=self._run, args=(step, pace), name=step.__name__, daemon=True)
            for step, pace in steps.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, after the steps under way; then have every delivery taken that was sent at all."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def submit(self, client: httpx.Client, web: str, *, at_most_s: float = LONG_S) -> int:
        """A job: now and then one is canceled, takes longer than a lease, or comes after two others. Its id."""
        n = next(self._numbers)
        seconds = min(self._rng.uniform(1, LONG_S) if n % 4 == 1 else self._rng.uniform(0.02, SHORT_S), at_most_s)
        payload = {"n": n, "name": named(n), "seconds": seconds, "file": n % 5 == 0}
        after = {"after": [*self.book.jobs][-2:], "when": "ended"} if n % 4 == 2 and self.book.jobs else {}
        with self.recorder.call("submit") as call:
            answer = client.post(
                f"{self._farm.url(web)}/api/v1/jobs", json={"kind": KINDS[n % 3 == 0], "payload": payload, **after}
            )
            pk: int = answer.raise_for_status().json()["id"]
            call.answer(pk)
        self.book.jobs[pk] = n
        if n % 10 == 7:
            self._cancel(client, web, pk)
        return pk

    def suspend(self, client: httpx.Client, web: str) -> int:
        """A job that waits: of four one whose signals come before it does, one for which they come too late. Its id."""
        n = next(self._numbers)
        payload = {"n": n, "name": named(n), "seconds": 0.1, "file": False, "timeout": 1.5 if n % 4 == 0 else 60.0}
        with self.recorder.call("submit") as call:
            answer = client.post(f"{self._farm.url(web)}/api/v1/jobs", json={"kind": WAITS, "payload": payload})
            pk: int = answer.raise_for_status().json()["id"]
            call.answer(pk)
        self.book.jobs[pk] = n
        self._signals += [(pk, n, "signal"), (pk, n, "signal by key")]
        return pk

    def share(self, client: httpx.Client, web: str) -> int:
        """A job of who has many, or one of somebody who comes for the first time. Its id."""
        n = next(self._numbers)
        whose = "many" if n % 4 else f"new-{n}"
        payload = {"n": n, "name": named(n), "seconds": 0.3, "file": False}
        body = {"kind": SHARED, "payload": payload, "concurrency_key": whose}
        with self.recorder.call("submit", fair=SHARED, share=whose) as call:
            answer = client.post(f"{self._farm.url(web)}/api/v1/jobs", json=body)
            pk: int = answer.raise_for_status().json()["id"]
            call.answer(pk)
        self.book.jobs[pk] = n
        return pk

    def signal(self, client: httpx.Client, web: str) -> None:
        """Send one of the signals that are waited for, now and then twice, or cancel; until it is answered."""
        if not self._signals:
            return
        pk, n, how = one = self._rng.choice(self._signals)
        if how == "signal" and n % 9 == 0:
            self._cancel(client, web, pk)
        elif how == "signal":
            for _ in range(1 + n % 2):
                self._send(client, web, pk, n)
        else:
            self._send_by_key(n)
        self._signals.remove(one)

    def _send(self, client: httpx.Client, web: str, pk: int, n: int) -> None:
        facts: dict[str, Any] = {"name": "go", "data": {"id": f"go-{n}"}}
        with self.recorder.call("signal", parts=[(pk, None)], **facts) as call:
            answer = client.post(f"{self._farm.url(web)}/api/v1/jobs/{pk}/signals", json={**facts, "id": f"go-{n}"})
            is_over = answer.status_code == 409 and answer.json()["error"] == "job_has_ended"
            is_new = False if is_over else answer.raise_for_status().json()["is_new"]
            call.answer(pk, None, "job_has_ended" if is_over else "", is_refusal=is_over, is_new=is_new)

    def _send_by_key(self, n: int) -> None:
        facts: dict[str, Any] = {"name": "event", "data": {"id": f"event-{n}"}}
        with connections.released(), self.recorder.call("signal by key", signal_key=f"chaos-{n}", **facts):
            jobs.signal_by_key(f"chaos-{n}", by=None, key=f"event-{n}", **facts)

    def _cancel(self, client: httpx.Client, web: str, pk: int) -> None:
        with self.recorder.call("cancel", parts=[(pk, None)]) as call:
            cancel = client.post(f"{self._farm.url(web)}/api/v1/jobs/{pk}/cancel").raise_for_status().json()
            call.answer(pk, None, cancel["verdict"], status=cancel["status"])
        self.book.verdicts[pk] = cancel["verdict"]

    def schedule(self, *_: Any) -> int:
        """A mutation or an action; now and then in a transaction that is rolled back. Its number."""
        n = next(self._numbers)
        with connections.released():
            try:
                with transaction.atomic():
                    row = self._scheduled(n)
                    if n % 10 == 3:
                        raise _RolledBack
            except _RolledBack:
                self.book.rolled_back.add(n)
            else:
                self.book.functions[n] = row.pk
        return n

    def deliver(self, client: httpx.Client, web: str) -> str:
        """A delivery: one that nobody took yet, or a new one; now and then twice. Its id."""
        name = self._unsure.pop() if self._unsure else f"chaos-{next(self._numbers)}"
        try:
            url = f"{self._farm.url(web)}/api/webhooks/github"
            for _ in range(1 + (self._rng.random() < 0.2)):
                with self.recorder.call("deliver", delivery=name) as call:
                    client.post(url, content=self._body(name), headers=self._signed(name)).raise_for_status()
                    call.answer(None)
                self.book.resent += name in self.book.deliveries
                self.book.deliveries.add(name)
        except Exception:
            if name not in self.book.deliveries:
                self._unsure.append(name)
            raise
        return name

    def decide(self, *_: Any) -> None:
        """Ask a limit; the bucket is asked more than it grants."""
        with connections.released():
            with self.recorder.call("take", limit=LIMIT) as call:
                is_granted = bool(ratelimits.limit(LIMIT, config=BUCKET, count=1))
                call.answer(None, None, "granted" if is_granted else "denied", is_refusal=not is_granted)
            self.book.grants += is_granted
            self.book.denials += not is_granted

    def client(self) -> httpx.Client:
        """Somebody who may use the API and the pages."""
        return httpx.Client(
            headers={"Authorization": f"Bearer {self._farm.keys.token}"},
            cookies={"sessionid": self._farm.keys.session},
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def _run(self, step: Callable[..., object], pace_s: float) -> None:
        book = self.book.unanswered
        with self.client() as client:
            while not self._is_over.wait(pace_s):
                try:
                    if step not in (self.submit, self.suspend, self.share) or not self._is_behind():
                        step(client, self._rng.choice(WEBS))
                except Exception as error:
                    key = f"{step.__name__}: {_named(error)}"
                    book[key] = book.get(key, 0) + 1

    def _is_behind(self) -> bool:
        with connections.released():
            return Live.objects.count() > MOST_LIVING

    def _scheduled(self, n: int) -> Any:
        delay_s = self._rng.choice([0, 0, 0.5])
        if n % 2:
            return scheduling.run_after(delay_s, functions.write_row, n=n)
        seconds = self._rng.uniform(0, 0.1)
        return scheduling.run_after(delay_s, functions.write_line, n=n, path=str(self._farm.lines), seconds=seconds)

    def _body(self, name: str) -> bytes:
        number = int(name.partition("-")[2])
        issue = self._sample["issue"] | {"id": number, "number": number, "title": name}
        return json.dumps(self._sample | {"issue": issue}).encode()

    def _signed(self, name: str) -> dict[str, str]:
        return secrets.signed_headers(
            Source.GITHUB,
            self._body(name),
            secret=self._farm.keys.secret,
            event_type="issues.opened",
            delivery_id=name,
            now=self.began_at,
        )


def named(n: int) -> str:
    """A word that a list of jobs can be searched for."""
    return f"job-{n}-of-the-chaos"


class _RolledBack(Exception):
    pass


def _named(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return str(error.response.status_code)
    return type(error).__name__
