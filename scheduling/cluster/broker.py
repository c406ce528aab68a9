"""The broker: how functions that are due, and django-q2's own tasks, come to the workers."""

import logging
import time
from math import inf

import psycopg
from django.db import DatabaseError, InterfaceError, connections

from scheduling.cluster.channel import IDLE_S
from scheduling.cluster.dispatcher import Dispatcher, Post
from scheduling.cluster.django_q2 import OWN, OwnTasks, Package
from scheduling.cluster.listener import Listener
from scheduling.cluster.scoreboard import Scoreboard
from scheduling.domain.states import Kind
from scheduling.operations import clusters, crons
from scheduling.operations.functions import POLL_S
from scheduling.queries import functions

log = logging.getLogger(__name__)

# The pusher looks whether it shall stop between two calls of dequeue.
LONGEST_CALL_S = 1.0
AWAY_S = 0.5
AGAIN_S = 0.01  # what became due while we looked, or a cron that another cluster fires: no reason to turn in circles
CRONS_S = 0.1  # a pusher that always finds something to dispatch looks after crons this often


class Broker(OwnTasks):
    """Hands out batches of mutations, single actions, and tasks of `async_task`; sleeps until something is due.

    Made by django-q2 from its setting `broker_class`, in any process that enqueues. In a cluster's pusher `post` is
    set; without it (a plain `manage.py qcluster`) only django-q2's own tasks are served.
    """

    post: Post | None = None

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key=list_key)
        self._listener = Listener({OWN} if self.post is None else {self.post.kind.value, OWN})
        self._scan_at = 0.0
        self._is_blind = False  # nothing is known to be due at that time, and nobody said so
        self._busy_at = -inf
        self._crons_at = inf
        self._dispatcher: Dispatcher | None = None

    def serve(self, post: Post) -> None:
        self.post, self._dispatcher = post, Dispatcher(post)
        self._listener = Listener({post.kind.value, OWN})

    def dequeue(self) -> list[Package] | None:
        """The next tasks, or None after about a second at most. A database that is away is waited for."""
        if self.post is not None:
            self.post.board.pusher_works()
        try:
            return self._next()
        except (DatabaseError, InterfaceError, psycopg.Error) as error:
            log.warning("A cluster lost the database and tries again: %s", str(error).partition("\n")[0])
        except Exception:  # django-q2's pusher would end after ten seconds of silence
            log.exception("A cluster could not dispatch, and tries again")
        self._listener.close()
        connections.close_all()
        time.sleep(AWAY_S)
        return None

    def _next(self) -> list[Package] | None:
        if self._listener.listen():
            self._wake()
        if time.monotonic() < self._scan_at:
            self._sleep(self._scan_at - time.monotonic())
            return None
        if self._is_blind and self._finds_nothing():
            return None
        if time.monotonic() >= self._crons_at:
            self._fire_crons()
        room = self._dispatcher.room() if self._dispatcher else 1
        if not room:
            self._plan_crons()
            self._listener.wait(LONGEST_CALL_S, board=self._board(), for_workers=True)
            return None
        sent = self._dispatcher.dispatch(room) if self._dispatcher else 0
        packages = self.own_tasks(room - sent) if self._serves_own() and room > sent else []
        if sent or packages:
            self._plan_crons()
        if sent + len(packages) < room and (sent or packages or not self._fire_crons()):
            self._plan_scan()
        return packages or None

    def _board(self) -> Scoreboard | None:
        return self.post.board if self.post else None

    def _serves_own(self) -> bool:
        return self.post is None or self.post.kind is Kind.ACTION

    def _plan_crons(self) -> None:
        """Not now: a function that is due does not wait for the crons."""
        self._crons_at = min(self._crons_at, time.monotonic() + CRONS_S)

    def _sleep(self, seconds: float) -> None:
        if self._listener.wait(min(seconds, LONGEST_CALL_S), board=self._board()):
            self._wake()

    def _wake(self) -> None:
        self._scan_at, self._is_blind, self._busy_at = 0.0, False, time.monotonic()

    def _finds_nothing(self) -> bool:
        """Look by one statement whether anything is due, and plan the next look if not. It goes by the connection that
        listens, so that a pusher at rest needs no other."""
        if self.post is None or self._dispatcher is None or not self._dispatcher.is_idle():
            return False
        own = self.list_key if self._serves_own() else None
        (seconds,), is_woken = self._listener.ask(*functions.rest(self.post.kind, queues=self.post.queues, own=own))
        if is_woken or (isinstance(seconds, float) and seconds <= 0):
            self._wake()
            return False
        self._plan(min(seconds, POLL_S) if isinstance(seconds, float) else POLL_S)
        if time.monotonic() > self._busy_at + IDLE_S:
            connections.close_all()
        return True

    def _plan_scan(self) -> None:
        dispatcher = self._dispatcher
        seconds = dispatcher.next_wake_s() if dispatcher else clusters.next_wake_s(Kind.ACTION, ())
        self._plan(seconds)

    def _plan(self, seconds: float) -> None:
        self._is_blind = seconds >= POLL_S
        self._scan_at = time.monotonic() + (seconds if seconds > 0 else AGAIN_S)

    def _fire_crons(self) -> bool:
        """Whether a cron made something that may be due now."""
        self._crons_at = inf
        return self.post is not None and bool(crons.fire_due())
