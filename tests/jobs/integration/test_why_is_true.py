"""`why` is never false: in random situations, what it says is compared with what happens when every live worker claims.

Says it "next", some live worker's claim takes exactly this job first; says it anything else, none does, until what it
names as a remedy is done: then it says something else.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now

from jobs import operations
from jobs.domain.reasons import Reason
from jobs.models import Job, Worker
from jobs.operations.claim import note_polled
from jobs.queries import reads
from tests import farm
from tests.effort import turn

pytestmark = pytest.mark.django_db
QUEUES = ("a", "b", "c")
SITUATIONS = (*turn(range(60), of=4), 1000)  # in the last one jobs of two ranges of a claim are due at the same moment


@dataclass(kw_only=True)
class Client:
    """A worker as its process uses it: which queues it asks for (None: all that its key may take)."""

    worker: Worker
    asks: list[str] | None
    is_live: bool

    def claim(self, limit: int = 1) -> list[operations.ClaimedJob]:
        return operations.claim(self.worker, queues=self.asks, limit=limit)


@dataclass(kw_only=True)
class Situation:
    """People, queues, workers and jobs, all of them by the dice."""

    rng: random.Random
    people: dict[str, User] = field(default_factory=dict)
    clients: list[Client] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def build(self) -> None:
        self.club = Group.objects.create(name="club")
        for name in ("ada", "bob", "eve", "gone"):
            groups = [self.club] if name in {"ada", "bob"} else []
            self.people[name] = farm.user(name, groups=groups)
        for queue in QUEUES:
            farm.kind(queue)
        for n in range(self.rng.randint(0, 4)):
            self.clients.append(self._client(f"w{n}"))
        for client in self.clients:
            if client.is_live and self.rng.random() < 0.3:
                self._hold(client.worker)
        for queue in QUEUES:
            self._bound(queue)
        for _ in range(self.rng.randint(1, 7)):
            self.jobs.append(self._job())
        self._pause()
        User.objects.filter(username="gone").update(is_active=False)

    def _some(self, queues: Sequence[str]) -> list[str]:
        return self.rng.sample(queues, self.rng.randint(1, len(queues)))

    def _client(self, name: str) -> Client:
        home = self._some(QUEUES)
        steals: list[str] = self.rng.choice([[], ["*"], self._some(QUEUES)])
        owner = self.people[self.rng.choice(["ada", "bob", "eve", "gone"])] if self.rng.random() < 0.4 else None
        worker = farm.worker(name, *home, steals=steals, owner=owner)
        allowed = list(QUEUES) if "*" in steals else list(dict.fromkeys([*home, *steals]))
        asks = self._some(allowed) if self.rng.random() < 0.4 else None
        client = Client(worker=worker, asks=asks, is_live=self.rng.random() < 0.85)
        assert client.claim() == []  # the farm is empty: it notes what this worker asks for
        if not client.is_live:
            gone: dict[str, Any] = self.rng.choice(
                [{"last_seen_at": Now() - timedelta(seconds=91)}, {"revoked_at": Now()}]
            )
            Worker.objects.filter(pk=worker.pk).update(**gone)
        client.is_live = client.is_live and (owner is None or owner.username != "gone")
        return client

    def _hold(self, worker: Worker) -> None:
        [job] = farm.submit(1, self.rng.choice(QUEUES))
        farm.hold(job, worker)

    def _bound(self, queue: str) -> None:
        if self.rng.random() < 0.3:
            operations.set_ceiling(queue, self.rng.randint(0, 3))
        if self.rng.random() < 0.2:
            operations.pause(queue)

    def _pause(self) -> None:
        if self.rng.random() < 0.25:
            operations.pause_owner(self.people[self.rng.choice(["ada", "bob", "eve"])])

    def _job(self) -> Job:
        rng, workers = self.rng, [client.worker.pk for client in self.clients]
        owner = self.people[rng.choice(["ada", "bob", "eve"])] if rng.random() < 0.6 else None
        [job] = farm.submit(1, rng.choice(QUEUES), owner=owner, priority=rng.choice([-1, 0, 0, 1]))
        now = farm.now().replace(microsecond=0, second=0)  # so that some are due at the same moment
        columns: dict[str, Any] = {"run_at": now - timedelta(minutes=rng.randint(2, 4))}
        if owner is not None and owner.username != "eve" and rng.random() < 0.5:
            columns["group"] = self.club
        if rng.random() < 0.15:
            columns["run_at"] = now + timedelta(hours=1)
            if rng.random() < 0.3:
                columns |= {"limit_name": "llm", "limit_count": 1, "limit_until": columns["run_at"]}
        if rng.random() < 0.3:
            columns["expires_at"] = now + timedelta(hours=rng.choice([-1, 1]))
        farm.alter(job, **columns)
        if workers and rng.random() < 0.3:
            failed = Worker.objects.filter(pk__in=rng.sample(workers, rng.randint(1, len(workers))))
            run_at = columns.get("run_at")
            farm.avoid([job], *failed, ago_s=(now - run_at).total_seconds() if run_at else 0.0)
        job.refresh_from_db()
        return job

    def first_of_each(self) -> dict[int, list[str]]:
        """The jobs that live workers get when each of them asks for one, all as things stand; by whom."""
        got: dict[int, list[str]] = {}
        for client in self.clients:
            with farm.rolled_back():
                for job in client.claim() if client.is_live else []:
                    got.setdefault(job.id, []).append(client.worker.name)
        return got

    def blocked(self) -> list[tuple[Job, list[Reason]]]:
        """The waiting jobs that are nobody's next."""
        answers = [(job, reads.why_not_running(job.pk)) for job in self.jobs]
        return [(job, reasons) for job, reasons in answers if reasons[0].code not in {"next", "not_waiting"}]

    def open_queue(self, job: Job, reasons: Sequence[Reason]) -> None:
        """What goes by while workers work, goes by only where they may: in a queue that is open and has room."""
        for reason in reasons:
            if reason.code in {"owner_paused", "queue_paused", "queue_full"}:
                self.remedies(job, reason)[reason.remedies[0].code]()

    def remedies(self, job: Job, reason: Reason) -> dict[str, Callable[[], Any]]:
        """How each remedy is applied, in this situation."""
        queue = job.queue
        taken = Job.objects.counted_in(queue).count()
        return {
            "resume_owner": lambda: operations.resume_owner(job.owner),
            "resume_queue": lambda: operations.resume(queue),
            "raise_ceiling": lambda: operations.set_ceiling(queue, taken + 1),
            "add_worker": lambda: self._add(queue, reason.code),
            "ask_for_queue": lambda: self._have_one_ask(job),
            "run_now": lambda: operations.run_now(job.pk, by=None),
            "cancel": lambda: operations.cancel(job.pk, by=None),
            "wait": lambda: self._wait(job, reason.code),
            "raise_limit": lambda: farm.alter(job, run_at=Now(), limit_until=Now()),
        }

    def _add(self, queue: str, code: str) -> None:
        made = Client(worker=farm.worker("more", queue), asks=None, is_live=True)
        if code == "ahead":
            self._work([made])

    def _have_one_ask(self, job: Job) -> None:
        for client in self.clients:
            worker = client.worker
            owner = worker.owner
            is_in_scope = owner is None or owner.pk == job.owner_id or owner.groups.filter(pk=job.group_id)
            if client.is_live and is_in_scope and {job.queue, "*"} & {*worker.queues, *worker.steals}:
                note_polled(worker, [*(client.asks or ()), job.queue])

    def _wait(self, job: Job, code: str) -> None:
        if code == "all_failed_it":
            farm.alter(job, run_at=Now() - timedelta(seconds=31))
        if code == "waiting_for_limit":
            farm.alter(job, run_at=Now(), limit_until=Now())
        if code in {"ahead", "stealers_busy"}:
            for held in Job.objects.running():
                operations.cancel(held.pk, by=None)
            self._work([client for client in self.clients if client.is_live])
        operations.sweep()

    def _work(self, clients: Sequence[Client]) -> None:
        """Have them work until there is nothing for them any more."""
        while [job for client in clients for job in self._work_one(client)]:
            pass

    def _work_one(self, client: Client) -> list[operations.ClaimedJob]:
        claimed = client.claim()
        for job in claimed:
            farm.succeed(client.worker, job)
        return claimed


@pytest.mark.parametrize("seed", SITUATIONS)
def test_it_is_next_of_exactly_those_that_a_live_worker_takes_and_something_else_once_a_remedy_is_applied(
    seed: int,
) -> None:
    situation = Situation(rng=random.Random(seed))
    situation.build()
    _says_next_of_exactly_those_that_a_live_worker_takes_first(situation)
    _says_something_else_once_a_remedy_that_it_names_is_applied(situation)


def _says_next_of_exactly_those_that_a_live_worker_takes_first(situation: Situation) -> None:
    reason_codes = {job.pk: [reason.code for reason in reads.why_not_running(job.pk)] for job in situation.jobs}
    got = situation.first_of_each()
    also = ["expires"]  # what will become of it otherwise is said of any that waits
    wrong = {
        pk: codes
        for pk, codes in reason_codes.items()
        if ([code for code in codes if code not in also] == ["next"]) != (pk in got)
    }
    assert wrong == {}, got


def _says_something_else_once_a_remedy_that_it_names_is_applied(situation: Situation) -> None:
    for job, reasons in situation.blocked():
        for place, reason in enumerate(reasons):
            assert reason.remedies, reason.code
            for remedy in reason.remedies:
                with farm.rolled_back():
                    situation.open_queue(job, reasons[:place])
                    situation.remedies(job, reason)[remedy.code]()
                    after = {again.code for again in reads.why_not_running(job.pk)}
                    assert reason.code not in after, (remedy.code, after)
