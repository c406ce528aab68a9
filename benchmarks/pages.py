"""How long every page of the site and every list of the administration takes on a farm with a million ended jobs.

    .venv/bin/python -m benchmarks.pages            # on a database of its own, dropped afterwards
    .venv/bin/python -m benchmarks.pages /admin/    # only addresses that begin so

Loads benchmarks/pages.sql, asks for each page by Django's test client (the whole stack but the socket), once to warm
up and seven times for the median, and prints a table, the slowest first: the median, how much of the processor it took
here (the rest is the database, and what else the machine is busy with), and the statements and how long they took.
What takes longer than the goal is marked; exit code 1 if anything is.
"""

import re
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchmarks.options import SHARE, scaled
from benchmarks.own import database
from core.administration import registered
from jobs import operations as jobs
from jobs.models import Attempt, Job, Worker
from jobs.operations import rollup
from ratelimits.models import Bucket
from scheduling.models import ScheduledFunction
from webhooks.models import Delivery

GOAL_MS = 300.0
ROUNDS = scaled(7)
LOAD = Path(__file__).with_suffix(".sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One page: its median, the processor time of that, and of one further request its statements and their time."""

    url: str
    status: int
    median_ms: float
    processor_ms: float
    statements: int
    database_ms: float

    @property
    def is_good(self) -> bool:
        """Whether it answers, and in time. Of a share of the rows time does not count, nor a page far behind."""
        if SHARE < 1:
            return self.status == 200 or "?p=" in self.url
        return self.status == 200 and self.median_ms <= GOAL_MS


def main() -> int:
    """Load, measure, and print the table; 1 if a page is too slow."""
    settings.ALLOWED_HOSTS.append("testserver")
    with database():
        _load()
        client = Client()
        client.force_login(get_user_model().objects.create_superuser("root"))
        measured = [_measure(client, url) for url in _addresses() if url.startswith(tuple(sys.argv[1:]) or "/")]
    for page in sorted(measured, key=lambda page: -page.median_ms):
        mark = "   " if page.is_good else ">>>"
        times = f"{page.median_ms:6.0f} ms, processor {page.processor_ms:4.0f} ms"
        numbers = f"{times}, database {page.database_ms:4.0f} ms in {page.statements:2} statements"
        print(f"{mark} {page.status} {numbers}  {page.url}")
    return 0 if all(page.is_good for page in measured) else 1


def _load() -> None:
    began = time.monotonic()
    jobs.sync()
    with connection.cursor() as cursor:
        cursor.execute(re.sub(r"(?<=generate_series\(1, )\d{5,}", _shared, LOAD.read_text()))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    rollup.roll_up()
    print(f"loaded in {time.monotonic() - began:.0f} s, {Job.objects.count():,} jobs")


def _shared(count: re.Match[str]) -> str:
    return str(scaled(int(count[0]), least=100))


def _addresses() -> Iterator[str]:
    yield from _pages()
    yield reverse("admin:index")
    for model, page in sorted(registered().items(), key=lambda entry: str(entry[0]._meta.label)):
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        changelist = reverse(f"admin:{name}_changelist")
        yield changelist
        if page.search_fields:
            yield f"{changelist}?q=person-7"
        if row := model._default_manager.order_by("-pk").first():
            yield reverse(f"admin:{name}_change", args=[row.pk])
    for model, choices in _NARROWED.items():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        for choice in choices:
            yield f"{reverse(f'admin:{name}_changelist')}?{urlencode(choice)}"


def _pages() -> Iterator[str]:
    job, worker = Job.objects.order_by("-pk")[5], Worker.objects.order_by("pk")[3]
    failed = Job.objects.ended("failed").order_by("-pk")[0]
    function, delivery = ScheduledFunction.objects.order_by("-pk")[0], Delivery.objects.order_by("-pk")[0]
    yield from (reverse(name) for name in _PLAIN)
    yield from (f"{reverse('overview')}?period={period}" for period in ("day", "week"))
    for narrowed in ({"status": "failed"}, {"status": "success"}, {"kind": "kind-3"}, {"queue": "queue-9"},
                     {"owner": "person-77"}, {"group": "group-9"}, {"worker": "worker-4"}, {"kind": "kind-idle"},
                     {"text": "number 7"}, {"age": "day", "kind": "kind-1"}):  # fmt: skip
        yield f"{reverse('jobs:list')}?{urlencode(narrowed)}"
    yield from (reverse("jobs:job", args=[each.pk]) for each in (job, failed))
    yield reverse("jobs:worker", args=[worker.pk])
    yield reverse("jobs:queue", args=["queue-1"])
    yield reverse("scheduling:function", args=[function.pk])
    yield f"{reverse('scheduling:functions')}?status=failed"
    yield reverse("webhooks:delivery", args=[delivery.pk])
    yield from (f"{reverse('webhooks:inbox')}?{urlencode(each)}" for each in ({"status": "dead"}, {"text": "word77"}))
    yield reverse("webhooks:source", args=["github"])


_PLAIN = (
    "overview", "jobs:list", "jobs:submit", "jobs:bulks", "jobs:queues", "jobs:workers", "scheduling:functions",
    "scheduling:crons", "webhooks:inbox", "webhooks:replays", "webhooks:sources", "webhooks:activity",
    "ratelimits:list", "accounts:account", "accounts:groups",
)  # fmt: skip
_NARROWED: dict[Any, list[dict[str, str]]] = {
    Job: [
        {"status": "success"}, {"status": "failed"}, {"status": "timed_out"}, {"status": "pending"},
        {"status": "in_progress"}, {"kind": "kind-3"}, {"kind": "kind-idle"}, {"queue": "queue-9", "status": "failed"},
        {"created_at_day": "yesterday"}, {"ended_at_day": "week"}, {"q": "nothing"}, {"p": "150"},
        {"worker": "7"}, {"owner": "77"}, {"created_at_day": "2020-01-01"},
    ],
    Attempt: [{"outcome__exact": "timed_out"}, {"ended_at_day": "yesterday"}, {"q": "1000"}, {"worker": "3"}],
    ScheduledFunction: [
        {"status": "failed"}, {"status": "success"}, {"function": "app.function_3"}, {"kind__exact": "action"},
        {"created_at_day": "yesterday"}, {"status": "pending"},
    ],
    Delivery: [
        {"source": "stripe"}, {"status": "dead"}, {"status": "processed"}, {"event_type": "event.3"},
        {"received_at_day": "yesterday"}, {"q": "word77"}, {"q": "some"}, {"q": "nothing"},
    ],
    Bucket: [{"name": "limit-3"}, {"q": "key-99"}, {"p": "100"}],
}  # fmt: skip


def _measure(client: Client, url: str) -> Measured:
    if SHARE == 1:
        client.get(url)  # what is asked once a process is asked by then
    with CaptureQueriesContext(connection) as seen:
        status = client.get(url).status_code
    took = [_took_ms(client, url) for _ in range(ROUNDS)]
    return Measured(
        url=url,
        status=status,
        median_ms=statistics.median(wall for wall, _ in took),
        processor_ms=statistics.median(processor for _, processor in took),
        statements=len(seen),
        database_ms=sum(float(query["time"]) for query in seen.captured_queries) * 1000,
    )


def _took_ms(client: Client, url: str) -> tuple[float, float]:
    began, began_here = time.perf_counter(), time.process_time()
    client.get(url)
    return (time.perf_counter() - began) * 1000, (time.process_time() - began_here) * 1000


if __name__ == "__main__":
    sys.exit(main())
