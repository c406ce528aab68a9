"""Actors: threads with a connection of their own that stop before each statement and each commit until they may go on.

Nothing in the product knows of it: Django's `execute_wrappers` see every statement. An actor that waits for a lock is
told from one that works by `pg_locks`."""

import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from django.db import OperationalError, connection
from psycopg.conninfo import make_conninfo

from postgres import connections
from postgres.embedded import places
from tests.schedules.orders import Orders

Task = Callable[[], object]
Choose = Callable[[Sequence[str], str | None], str]  # of those who may go on; who went last
LOOK_S: Final = 0.001
STUCK_S: Final = 60.0
_NAME: Final = re.compile(r"/\* (\S+) \*/")
_LEFT: Final = "DROP SCHEMA IF EXISTS kept CASCADE; DROP TABLE IF EXISTS chaos_ledger, chaos_list, chaos_read"
_KILL: Final = "SELECT pg_terminate_backend(%s, 1000)"
_WAITING: Final = "SELECT pid FROM pg_locks WHERE NOT granted AND pid = ANY (%s)"


@dataclass(frozen=True, slots=True)
class Step:
    """Who could go on at a point, who did, and what it was about to do."""

    could: tuple[str, ...]
    went: str
    did: str


@dataclass(slots=True)
class Play:
    """What a schedule came to: its steps, what actors raised, and how often one waited for a lock."""

    steps: list[Step] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)
    waits: int = 0
    circles: list[str] = field(default_factory=list)  # of actors that wait for one another

    @property
    def schedule(self) -> tuple[str, ...]:
        """Who went at each point."""
        return tuple(step.went for step in self.steps)

    def __str__(self) -> str:
        return "\n".join(f"  {step.went}: {step.did}" for step in self.steps)


class Actor(threading.Thread):
    """One of them. `state`: idle, running, stopped or done; `at`: the statement that it stopped before."""

    def __init__(self, changed: threading.Condition) -> None:
        super().__init__(daemon=True)
        self.state, self.at, self.pid = "idle", "", 0
        self.error: Exception | None = None
        self.loses = False  # what its next statement or commit is answered
        self.left: list[int] = []  # sessions that it broke off
        self._changed, self._may_go = changed, threading.Semaphore(0)
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()

    def begin(self, task: Task) -> None:
        """Have it do this, and stop before its first statement."""
        self.state, self.error, self.loses = "running", None, False
        self._tasks.put(task)

    def go(self) -> None:
        """Let it do the one thing that it has stopped before."""
        self.state = "running"
        self._may_go.release()

    def end(self) -> None:
        """It is needed no longer."""
        self._tasks.put(None)
        self.join(timeout=10)

    def run(self) -> None:
        with connections.released():
            connection.ensure_connection()
            ours: Any = connection  # what Django commits by is not in its stubs
            commit = ours._commit

            def pause_and_commit() -> None:
                self.pause("COMMIT")
                commit()
                self._lose()

            ours._commit = pause_and_commit
            connection.execute_wrappers.append(self._stopping)
            while (task := self._tasks.get()) is not None:
                try:
                    task()
                except Exception as error:
                    self.error = error
                connection.close_if_unusable_or_obsolete()
                self._become("done")

    def _stopping(self, execute: Callable[..., Any], text: Any, *given: Any) -> Any:
        self.pause(str(text))
        answer = execute(text, *given)
        self._lose()
        return answer

    def _lose(self) -> None:
        """The connection breaks off between what was done and its answer, if that was asked for."""
        if self.loses:
            self.loses = False
            self.left.append(self.pid)
            connection.connection.close()
            raise OperationalError("the answer was lost")

    def pause(self, text: str) -> None:
        """Stop before this until it may go on. Called by itself."""
        if connection.connection is None:  # it was closed on the way
            connection.ensure_connection()
        self.pid, self.at = connection.connection.info.backend_pid, _short(text)
        self._become("stopped")
        self._may_go.acquire()

    def _become(self, state: str) -> None:
        with self._changed:
            self.state = state
            self._changed.notify_all()


class Stage:
    """The actors, and who watches them; to be used as a context manager."""

    def __init__(self, actors: int = 4) -> None:
        self._changed = threading.Condition()
        self._actors = [Actor(self._changed) for _ in range(actors)]
        self._cast: Mapping[str, Actor] = {}
        self.has_broken = False  # whether this schedule has broken off something
        self.watcher = _as_superuser()
        self.orders = Orders(self.watcher)

    def __enter__(self) -> "Stage":
        for actor in self._actors:
            actor.start()
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            actor.end()
        self.watcher.execute(_LEFT)
        self.watcher.close()

    def play(self, tasks: Mapping[str, Task], choose: Choose) -> Play:
        """Have actors do these, one step after another as `choose` says; an AssertionError if nobody gets on."""
        self.orders.begin()
        self.has_broken = False
        self._cast = cast = dict(zip(tasks, self._actors, strict=False))
        for name, actor in cast.items():
            actor.begin(tasks[name])
        play, last = Play(), None
        while could := self._settled(cast, play):
            last = choose(could, last)
            play.steps.append(Step(tuple(could), last, cast[last].at))
            cast[last].go()
        self._await_ends()
        play.errors = {name: actor.error for name, actor in cast.items() if actor.error}
        return play

    def _await_ends(self) -> None:
        """Sessions that were broken off end a moment later, and have what they had locked until then."""
        for actor in self._actors:
            while actor.left:
                self.watcher.execute("SELECT pg_terminate_backend(%s, 30000)", [actor.left.pop()])

    def kill(self) -> None:
        """What an actor does that ends the session of another: the first that has not ended."""
        for other in self._others("kill")[:1]:
            self.watcher.execute(_KILL, [other.pid])

    def fail_over(self) -> None:
        """What an actor does that ends the sessions of all others, as when another server takes over."""
        for other in self._others("fail over"):
            self.watcher.execute(_KILL, [other.pid])

    def lose(self) -> None:
        """What an actor does that takes from another the answer to what it does next, which is done."""
        for other in self._others("lose an answer")[:1]:
            other.loses = True

    def _others(self, does: str) -> list[Actor]:
        """Those that have not ended, once this may be done."""
        me = threading.current_thread()
        assert isinstance(me, Actor)
        me.pause(does)
        self.has_broken = True
        return [actor for actor in self._cast.values() if actor is not me and actor.state != "done"]

    def _settled(self, cast: Mapping[str, Actor], play: Play) -> list[str]:
        """Who can go on, once everybody has stopped, ended or waits for a lock. Nobody: all have ended."""
        until = time.monotonic() + STUCK_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not _running(cast), timeout=LOOK_S)
                running, could = _running(cast), [name for name, actor in cast.items() if actor.state == "stopped"]
            if not running:
                return could
            if self._all_wait(running):
                self.orders.look([actor.pid for actor in running])
                play.waits += len(running)
                if could:
                    return could
                self._note_circle(cast, play)
            assert time.monotonic() < until, f"nobody gets on: {[(actor.at, actor.state) for actor in running]}"

    def _note_circle(self, cast: Mapping[str, Actor], play: Play) -> None:
        """Nobody can go on: those who wait do so for one another, until PostgreSQL breaks one off."""
        circle = " and ".join(f"{name} in {actor.at}" for name, actor in cast.items() if actor.state == "running")
        if circle not in play.circles:
            play.circles.append(circle)

    def _all_wait(self, running: Sequence[Actor]) -> bool:
        waiting = self.watcher.execute(_WAITING, [[actor.pid for actor in running]]).fetchall()
        return {pid for (pid,) in waiting} >= {actor.pid for actor in running}


def _as_superuser() -> psycopg.Connection[tuple[Any, ...]]:
    """The embedded server lets its superuser in; of another server the tests' own role has to be one."""
    name = {"user": places.SUPERUSER} if connection.settings_dict.get("EMBEDDED") else {}
    return psycopg.connect(make_conninfo(connections.conninfo(), **name), autocommit=True)


def _running(cast: Mapping[str, Actor]) -> list[Actor]:
    return [actor for actor in cast.values() if actor.state == "running"]


def _short(text: str) -> str:
    named = _NAME.match(text)
    return named[1] if named else " ".join(text.split())[:80]
