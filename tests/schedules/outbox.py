"""Events to one endpoint: two senders, answers of all sorts, and people who pause it and send once more."""

from collections import defaultdict
from typing import Final

from django.contrib.auth.models import User
from django.db import connection, transaction

from outbox import operations
from outbox.domain.addresses import Answer
from outbox.models import Attempt, Endpoint, Message
from outbox.operations import attempts
from postgres import transactions
from scheduling import operations as scheduling
from tests import farm
from tests.outbox.support import due_now, endpoint
from tests.schedules.actors import Stage, Task
from tests.schedules.scene import Kept

_ENDED: Final = ("delivered", "dead")
_OVER: Final = "UPDATE outbox_message SET next_attempt_at = now() - interval '1 s' WHERE lease IS NOT NULL"


class Outbox(Kept):
    """`old` was delivered; two messages of one subject and one of another wait."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.boss = User.objects.create_superuser("boss")
        self.endpoint = endpoint()
        self.sent: list[tuple[str, int]] = []
        self._record("old")
        self._send(200)
        self.old = Message.objects.get().pk
        for subject in ("queue/a", "queue/a", "queue/b"):
            self._record(subject)
        self.keep()

    def begin(self) -> None:
        """Nobody has claimed anything yet."""
        self.sent = []

    def actions(self) -> dict[str, Task]:
        """What senders, receivers and people do."""
        return {
            "record": lambda: self._record("queue/a"),
            "send": lambda: self._send(200),
            "send one": lambda: self._send(200, limit=1),
            "send in vain": lambda: self._send(500),
            "send to who is gone": lambda: self._send(410),
            "claim and give back": self._give_back,
            "leases run out": self._run_out,
            "retries are due": transactions.retried(due_now),
            "pause": lambda: operations.pause(self.endpoint.pk, by=self.boss),
            "resume": lambda: operations.resume(self.endpoint.pk, by=self.boss),
            "disable": lambda: operations.disable(self.endpoint.pk, by=self.boss),
            "replay": lambda: operations.replay(self.old, by=self.boss),
            "replay all": lambda: operations.replay_matching(operations.Filter(), by=self.boss),
            **self.breaks(),
        }

    def faults(self) -> list[str]:
        """Messages that two senders had, that are left, out of order, or whose attempts are not as many as they say."""
        faults = self._had_by_two()
        self._deliver_the_rest()
        faults += [f"message {row.pk} is left {row.status}" for row in Message.objects.exclude(status__in=_ENDED)]
        tries = defaultdict[int, list[str]](list)
        for message_id, outcome in Attempt.objects.order_by("pk").values_list("message_id", "outcome"):
            tries[message_id].append(outcome)
        first = defaultdict[str, list[int]](list)
        for attempt in Attempt.objects.filter(outcome="delivered").order_by("pk").select_related("message"):
            if attempt.message_id not in first[attempt.message.subject]:
                first[attempt.message.subject].append(attempt.message_id)
        for row in Message.objects.all():
            if len(tries[row.pk]) != row.tries:
                faults.append(f"message {row.pk} counts {row.tries} tries, and has {tries[row.pk]}")
            if row.status == "delivered" and "delivered" not in tries[row.pk]:
                faults.append(f"message {row.pk} is delivered, and no attempt says so")
        return faults + [f"{name} was delivered as {ids}" for name, ids in first.items() if not self._in_order(ids)]

    def _in_order(self, ids: list[int]) -> bool:
        """What was given up and is sent once more comes after what it would have come before."""
        given_up = self._dead | {self.old}
        kept = [pk for pk in ids if pk not in given_up]
        return kept == sorted(kept)

    def _had_by_two(self) -> list[str]:
        held, faults = set[int](), list[str]()
        for what, message_id in self.sent:
            if what == "over":
                held.discard(message_id)
            elif message_id in held:
                faults.append(f"message {message_id} was claimed while another sender had it")
            else:
                held.add(message_id)
        return faults

    def _deliver_the_rest(self) -> None:
        self._dead = set(Message.objects.filter(status="dead").values_list("pk", flat=True))
        while scheduling.run_due():
            pass
        Endpoint.objects.filter(status="disabled").update(status="paused")
        operations.resume(self.endpoint.pk, by=self.boss)
        self._run_out()
        due_now()
        while self._send(200):
            pass

    def _record(self, subject: str) -> None:
        with transaction.atomic():
            operations.record("queue.paused", subject, {})

    def _send(self, status: int, *, limit: int = 9) -> int:
        claimed = attempts.claim(limit)
        self.sent += [("claimed", one.id) for one in claimed]
        now = farm.now()
        ended = [
            attempts.Ended(claimed=one, started_at=now, answer=Answer(status=status, duration_ms=1)) for one in claimed
        ]
        self.sent += [("over", one.id) for one in claimed]
        attempts.settle(ended)
        return len(claimed)

    def _give_back(self) -> None:
        claimed = attempts.claim(9)
        self.sent += [("claimed", one.id) for one in claimed]
        self.sent += [("over", one.id) for one in claimed]
        attempts.release(claimed)

    def _run_out(self) -> None:
        self.sent += [("over", pk) for pk in Message.objects.filter(lease__isnull=False).values_list("pk", flat=True)]
        with connection.cursor() as cursor:
            cursor.execute(_OVER)
