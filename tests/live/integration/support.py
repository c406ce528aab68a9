"""Live queries on tables that are there anyway (groups), and small words for tests about them."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from django.contrib.auth.models import Group
from django.db import connection, transaction

from live import operations, registry
from live.feeds import Watch
from live.registry import Item, Viewer
from live.rendering import Page, Rendering
from postgres import connections

TEMPLATES = {"tests/group.html": '<b class="{{ audience }}">{{ group.name }}</b>'}


class Reads:
    """How often each read ran, and a brake to hold one in the middle of its work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.failures_left = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def note(self) -> None:
        """Called by each read."""
        with self._lock:
            self.count += 1
            fails = self.failures_left > 0
            self.failures_left -= fails
        if fails:
            raise ArithmeticError("this read was asked to fail")
        self.may_go_on.wait(10)


reads = Reads()
verdicts = Reads()  # the same of the question who may see `test-judged`


@registry.live_query(
    "test-group",
    topics=lambda group_id: [f"group:{group_id}"],
    rights_topics=lambda group_id: [f"share:{group_id}"],
    audiences=("public", "member"),
    template="tests/group.html",
    anonymous="always",
)
def group(*, group_id: int) -> Mapping[str, Any] | None:
    """One group."""
    reads.note()
    found = Group.objects.filter(pk=group_id).first()
    return None if found is None else {"group": found}


@group.may_see
def _(viewer: Viewer, *, group_id: int) -> str | None:
    """Members of the group; everybody if its name begins with "open"; whoever has a ticket for it."""
    if viewer.user.pk is not None and Group.objects.filter(pk=group_id, user=viewer.user.pk).exists():
        return "member"
    shared = Group.objects.filter(name=f"ticket:{group_id}:{viewer.ticket}").exists()
    return "public" if shared or Group.objects.filter(pk=group_id, name__startswith="open").exists() else None


@registry.live_query(
    "test-count",
    topics=lambda prefix: ["groups"],
    audiences=("public",),
    render="json",
    at_most_every_s=0.1,
    anonymous="always",
)
def count(*, prefix: str = "") -> Mapping[str, Any]:
    """How many groups there are."""
    reads.note()
    return {"count": Group.objects.filter(name__startswith=prefix).count()}


@count.may_see
def _(viewer: Viewer, *, prefix: str) -> str | None:
    reads.may_go_on.wait(10)
    return "public"


@registry.live_query(
    "test-stated",
    topics=lambda prefix: [f"count:{prefix}"],
    audiences=("public",),
    render="json",
    is_appended=True,
    anonymous="always",
)
def stated(*, prefix: str) -> Mapping[str, Any] | None:
    """How many groups there are, as `test-count`."""
    return count.read(prefix=prefix)


@registry.live_query(
    "test-judged",
    topics=lambda group_id: [f"group:{group_id}"],
    rights_topics=lambda group_id: [f"share:{group_id}"],
    audiences=("public", "member"),
    template="tests/group.html",
    anonymous="always",
)
def judged(*, group_id: int) -> Mapping[str, Any] | None:
    """One group, as `test-group`."""
    return group.read(group_id=group_id)


@judged.may_see
def _(viewer: Viewer, *, group_id: int) -> str | None:
    """As of `test-group`; held back behind the read, so that it may be untrue by the time it is said."""
    audience = group.audience(viewer, {"group_id": group_id})
    verdicts.note()
    return audience


@registry.live_stream("test-log", topics=lambda log_id: [f"log:{log_id}"], page=7, anonymous="always")
def log(after: str | None, limit: int, *, log_id: int) -> list[Item]:
    """The lines of a log: groups named log:<log_id>:<number>:<text>."""
    reads.note()
    start = int(after) if after and after.isdigit() else 0
    rows = Group.objects.filter(name__startswith=f"log:{log_id}:", pk__gt=start).order_by("pk")[:limit]
    return [Item(cursor=str(row.pk), data=row.name.split(":", 3)[3] + "\n") for row in rows]


@log.may_see
def _(viewer: Viewer, *, log_id: int) -> str | None:
    return "public"


@registry.live_stream(
    "test-appended", topics=lambda log_id: [f"log:{log_id}"], page=7, is_appended=True, anonymous="always"
)
def appended(after: str | None, limit: int, *, log_id: int) -> list[Item]:
    """The lines of a log, as `test-log`."""
    return log.read(after, limit, log_id=log_id)  # type: ignore[return-value]


@appended.may_see
def _(viewer: Viewer, *, log_id: int) -> str | None:
    return "public"


_numbers = itertools.count()  # names of groups are unique


def write(log_id: int, *texts: str) -> None:
    """Write lines: one writer at a time, so that they become visible in the order of their ids."""
    with transaction.atomic():
        Group.objects.select_for_update().get(name=f"log:{log_id}")
        for text in texts:
            Group.objects.create(name=f"log:{log_id}:{next(_numbers)}:{text}")
        operations.touch(f"log:{log_id}")


def append(log_id: int, *texts: str) -> None:
    """Write lines as `write` does, and hand each over."""
    with transaction.atomic():
        Group.objects.select_for_update().get(name=f"log:{log_id}")
        lines = Group.objects.filter(name__startswith=f"log:{log_id}:").order_by("-pk")
        last = lines.values_list("pk", flat=True).first()
        before = None if last is None else str(last)
        for text in texts:
            line = Group.objects.create(name=f"log:{log_id}:{next(_numbers)}:{text}")
            operations.append({f"log:{log_id}": Item(cursor=str(line.pk), data=text + "\n", follows={before})})
            before = str(line.pk)


def rename(group_id: int, name: str) -> None:
    """Change what `test-group` shows, and say so."""
    with transaction.atomic():
        Group.objects.filter(pk=group_id).update(name=name)
        operations.touch(f"group:{group_id}")


@registry.live_query("test-broken", topics=list, audiences=("public",), render="json", anonymous="always")
def broken() -> Mapping[str, Any]:
    """A read that always fails."""
    raise ArithmeticError


@broken.may_see
def _(viewer: Viewer) -> str | None:
    return "public"


@registry.live_query("test-lost", topics=lambda: [str(1 / 0)], audiences=("public",), render="json", anonymous="always")
def lost() -> Mapping[str, Any]:
    """A query whose topics cannot be named."""
    return {}


@lost.may_see
def _(viewer: Viewer) -> str | None:
    return "public"


class Notebook:
    """A sink that keeps all it is told."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.texts: list[str] = []
        self.ended = False
        self.takes_more = True

    def state(self, watch: Watch, latest: Rendering) -> None:
        """Note the body."""
        self.bodies.append(latest.body)

    def append(self, watch: Watch, page: Page) -> bool:
        """Note each item's text."""
        self.texts.extend(item.data for item in page.items)
        return self.takes_more

    def gone(self, watch: Watch) -> None:
        """Note the end."""
        self.ended = True


async def eventually(holds: Callable[[], Any], *, within_s: float = 15.0) -> None:
    """Wait until it holds; an AssertionError, with what it said last, when it does not in time."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not (last := holds()):
        assert asyncio.get_running_loop().time() < deadline, f"it never held: {last!r}"
        await asyncio.sleep(0.01)


async def settled(function: Callable[[], int], *, quiet_s: float = 0.3) -> int:
    """Wait until a number stays as it is, and return it."""
    last, now = -1, function()
    while last != now:
        await asyncio.sleep(quiet_s)
        last, now = now, function()
    return now


def settle() -> None:
    """Wait until what this thread has posted has been sent (postgres.backend.trips)."""
    if connection.connection is not None:
        connection.connection.settle()


@contextmanager
def listening(channel: str = "live") -> Iterator[Callable[[], list[str]]]:
    """Hear a NOTIFY channel on a connection of one's own; the result, called, gives the payloads so far."""
    conninfo = connections.direct_conninfo()
    with psycopg.connect(conninfo, autocommit=True) as listener, psycopg.connect(conninfo, autocommit=True) as says:
        listener.execute(f'LISTEN "{channel}"')

        def until_end() -> list[str]:
            settle()
            says.execute("SELECT pg_notify(%s, 'end')", [channel])
            payloads: list[str] = []
            for notification in listener.notifies(timeout=10):
                if notification.payload == "end":
                    return payloads
                payloads.append(notification.payload)
            raise AssertionError("a notification was lost")

        yield until_end
