"""The broker: how functions that are due, and django-q2's own tasks, come to the workers."""

import logging
import time
from math import inf
from typing import Any

import psycopg
from django.db import DatabaseError, InterfaceError, connections, transaction
from django_q.brokers import Broker as DjangoQBroker
from django_q.conf import Conf
from django_q.models import OrmQ

from postgres import clock, statements
from scheduling.cluster.dispatcher import Dispatcher, Post
from scheduling.cluster.waiting import Ear
from scheduling.domain.states import Kind
from scheduling.operations import announcing, clusters, crons
from scheduling.queries import clusters as cluster_queries

log = logging.getLogger(__name__)

# The pusher looks whether it shall stop between two calls of dequeue.
LONGEST_CALL_S = 0.25
AWAY_S = 0.5
AGAIN_S = 0.01  # what became due while we looked, or a cron that another cluster fires: no reason to turn in circles
CRONS_S = 0.1  # a pusher that always finds something to dispatch looks after crons this often
_OWN = "own"  # wakes those who run django-q2's own tasks

Package = tuple[
    Any, str
]  # what django-q2 acknowledges it by (None: we do not need that), and the signed task


class Broker(DjangoQBroker):  # type: ignore[misc]  # django-q2 ships no types
    """Hands out batches of mutations, single actions, and tasks of `async_task`; sleeps until something is due.

    Made by django-q2 from its setting `broker_class`, in any process that enqueues. In a cluster's pusher `post` is
    set; without it (a plain `manage.py qcluster`) only django-q2's own tasks are served.
    """

    post: Post | None = None

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key=list_key)
        self._ear = Ear({_OWN} if self.post is None else {self.post.kind.value, _OWN})
        self._look_at = 0.0
        self._crons_at = inf
        self._dispatcher: Dispatcher | None = None

    def serve(self, post: Post) -> None:
        """Begin to dispatch for a cluster."""
        self.post, self._dispatcher = post, Dispatcher(post)
        self._ear = Ear({post.kind.value, _OWN})

    def dequeue(self) -> list[Package] | None:
        """The next tasks, or None after at most half a second. A database that is away is waited for."""
        try:
            return self._next()
        except (DatabaseError, InterfaceError, psycopg.Error) as error:
            log.warning("A cluster lost the database and tries again: %s", str(error).partition("\n")[0])
        except Exception:  # django-q2's pusher would end after ten seconds of silence
            log.exception("A cluster could not dispatch, and tries again")
        self._ear.close()
        connections.close_all()
        time.sleep(AWAY_S)
        return None

    def _next(self) -> list[Package] | None:
        if self._ear.listen():
            self._look_at = 0.0
        if time.monotonic() < self._look_at:
            self._sleep(self._look_at - time.monotonic())
            return None
        if time.monotonic() >= self._crons_at:
            self._fire_crons()
        room = self._dispatcher.room() if self._dispatcher else 1
        if not room:
            self._plan_crons()
            self._ear.wait(LONGEST_CALL_S, board=self.post.board if self.post else None)
            return None
        sent = self._dispatcher.dispatch(room) if self._dispatcher else 0
        found = self._own_tasks(room - sent)
        if sent or found:
            self._plan_crons()
        if sent + len(found) < room and (sent or found or not self._fire_crons()):
            self._plan_to_look()
        return found or None

    def _plan_crons(self) -> None:
        """Not now: a function that is due does not wait for the crons."""
        self._crons_at = min(self._crons_at, time.monotonic() + CRONS_S)

    def _sleep(self, seconds: float) -> None:
        if self._ear.wait(min(seconds, LONGEST_CALL_S)):
            self._look_at = 0.0

    def _plan_to_look(self) -> None:
        dispatcher = self._dispatcher
        seconds = dispatcher.next_wake_s() if dispatcher else clusters.next_wake_s(Kind.ACTION, ())
        self._look_at = time.monotonic() + (seconds if seconds > 0 else AGAIN_S)

    def _fire_crons(self) -> bool:
        """Whether a cron made something that may be due now."""
        self._crons_at = inf
        return self.post is not None and bool(crons.fire_due())

    # django-q2's own tasks, in its own table.

    def _own_tasks(self, room: int) -> list[Package]:
        if room <= 0 or (self.post is not None and self.post.kind is not Kind.ACTION):
            return []
        given = {"key": self.list_key, "limit": room, "retry_s": float(Conf.RETRY)}
        with transaction.atomic():
            rows = statements.load("scheduling", "own_tasks").run(given)
        return [(row.id, row.payload) for row in rows]

    def enqueue(self, task: str) -> int:
        """Queue one of django-q2's own tasks, in the caller's transaction; the id it is acknowledged by."""
        queued = OrmQ.objects.create(key=self.list_key or Conf.CLUSTER_NAME, payload=task, lock=clock.now())
        announcing.due([_OWN])
        pk: int = queued.pk
        return pk

    def acknowledge(self, task_id: Any) -> None:
        """Forget one of django-q2's own tasks, because it was done."""
        OrmQ.objects.filter(pk=task_id).delete()

    def give_back(self, task_id: Any) -> None:
        """Make one of django-q2's own tasks due again, because nobody began it."""
        OrmQ.objects.filter(pk=task_id).update(lock=clock.now())

    def delete(self, task_id: Any) -> None:
        """Forget one of django-q2's own tasks."""
        self.acknowledge(task_id)

    def fail(self, task_id: Any) -> None:
        """Forget one of django-q2's own tasks that cannot be read."""
        if task_id is not None:
            self.acknowledge(task_id)

    def queue_size(self) -> int:
        """How many of django-q2's own tasks wait."""
        return int(OrmQ.objects.filter(key=self.list_key, lock__lte=clock.now()).count())

    def lock_size(self) -> int:
        """How many of django-q2's own tasks are being worked on."""
        return int(OrmQ.objects.filter(key=self.list_key, lock__gt=clock.now()).count())

    def purge_queue(self) -> Any:
        """Forget all of django-q2's own tasks."""
        return OrmQ.objects.filter(key=self.list_key).delete()

    def delete_queue(self) -> Any:
        """Forget all of django-q2's own tasks."""
        return self.purge_queue()

    def ping(self) -> bool:
        """Always: a database that is away is waited for."""
        return True

    def info(self) -> str:
        """What django-q2's monitor calls us."""
        return "jobfarm on PostgreSQL"

    # django-q2's monitor (`manage.py qmonitor`): what clusters say of themselves lies in their rows.

    @staticmethod
    def get_cache() -> None:
        """None: a cache may belong to one process, a row is everybody's."""

    def get_stat(self, key: str) -> str | None:
        """What one cluster said of itself."""
        return next((stat for stat in self.get_stats(key) if stat), None)

    def get_stats(self, pattern: str) -> list[str]:  # noqa: ARG002 (there is one farm in a database)
        """What clusters said of themselves within the last ten seconds."""
        return [stat.decode() for stat in cluster_queries.stats()]
