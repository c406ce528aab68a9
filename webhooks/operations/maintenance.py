"""What the crons do for the inbox: reconcile, and drain the queue of sandbox telemetry.

Nothing should have to be reconciled: a delivery and its run are one transaction. But rows are deleted by hand, backups
are restored in parts, and a run may kill its process each time.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models.functions import Now

from jobs import operations as jobs
from live import operations as live
from postgres import statements
from scheduling import operations as scheduling
from webhooks.domain import bodies
from webhooks.domain.deliveries import Source, Status
from webhooks.errors import CannotOpen
from webhooks.models import Delivery
from webhooks.models.resources import CatalogModel, ModelServer
from webhooks.operations import attempts
from webhooks.operations.secrets import live_secrets, unseal
from webhooks.queries import inbox, pages

log = logging.getLogger(__name__)
# Longer than any wait in a healthy cluster's queue, so that what is merely slow is left alone.
LATE_S: Final = 120.0
STUCK_BATCH: Final = 500
_MOST_DETAILS: Final = 100


@scheduling.action(timeout=600, idempotent=True, own_writes=True)
def reconcile() -> dict[str, Any]:
    """Find and mend: deliveries that nothing will process, jobs past their lease or time.

    How many of each, and the first hundred deliveries. What of it fails keeps the rest from nothing, and is in the
    error that it ends with.
    """
    failures = scheduling.Failures()
    deliveries: list[int] = []
    ended = 0
    with failures.aside("deliveries"):
        deliveries = reschedule_stuck()
    with failures.aside("jobs"):
        swept = jobs.sweep()
        ended = swept.taken_back + swept.expired
    failures.raise_any()
    numbers = {"deliveries_without_run": len(deliveries), "jobs_without_end": ended}
    return numbers | {"deliveries": deliveries[:_MOST_DETAILS]}


@scheduling.mutation
def reschedule_stuck() -> list[int]:
    """Schedule the processing of deliveries that wait and have no run, up to 500; their ids.

    One whose run died with its process counts that as a failed attempt, so it does not kill processes for ever. One
    for which not even that can be written stays as it is, and is counted as late.
    """
    rows = inbox.stuck(function=pages.PROCESS, late_s=LATE_S, limit=STUCK_BATCH)
    failures = scheduling.Failures()
    for row in rows:
        with failures.aside(f"delivery {row.id}"):
            if row.error is None:
                scheduling.run_after(0, attempts.process, delivery=row.id, row_pointer=row.row_pointer)
            else:
                attempts.record_failure(delivery=row.id, row_pointer=row.row_pointer, error=row.error)
    return [row.id for row in rows if f"delivery {row.id}" not in failures.reasons]


# One transaction each: large enough that its commit is shared by many, small enough to be run again when it collides.
DRAIN_BATCH: Final = 50
_READ_AT_ONCE: Final = 1000
# Less than the cron's half minute, so that a firing ends before the next; what is left is the next one's.
BUDGET_S: Final = 25.0


@scheduling.action(timeout=120, idempotent=True)
def drain_sandbox_queue() -> int:
    """Process telemetry that waits, oldest first, for 25 seconds at most; how many deliveries that were.

    An action, because many transactions follow one another; each batch is a mutation. Of one that fails each delivery
    is processed alone, and the one that it fails for has failed.
    """
    until = time.monotonic() + BUDGET_S
    done = 0
    received = Delivery.objects.filter(source=Source.SANDBOX_TELEMETRY, status=Status.RECEIVED).order_by("id")
    while waiting := list(received.values_list("pk", flat=True)[:_READ_AT_ONCE]):
        before = done
        for start in range(0, len(waiting), DRAIN_BATCH):
            if time.monotonic() >= until:
                return done
            done += _processed(waiting[start : start + DRAIN_BATCH])
        if done == before:  # somebody else has all of them
            break
    return done


def _processed(deliveries: list[int]) -> int:
    try:
        return attempts.process_batch(deliveries=deliveries)
    except Exception as error:
        if scheduling.is_away(error):
            raise
        if len(deliveries) > 1:
            return sum(_processed([one]) for one in deliveries)
        log.exception("The delivery %d cannot be processed", deliveries[0])
        attempts.record_failure(delivery=deliveries[0], error=scheduling.reason_of(error))
        return 1


REFUSALS_SINCE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The facts as they are now.

    `ready` has a live secret, `needs_secret` has none and refuses all, `unreadable` has one that SECRET_KEY does not
    open. `late` deliveries should have been processed a minute ago and were not. `rejected` were so by
    their handler, and `refused` is by source, both of a day. `unstarted` jobs of rules were not started
    within a day, counted up to ten thousand.
    """

    ready: tuple[Source, ...]
    needs_secret: tuple[Source, ...]
    unreadable: tuple[Source, ...]
    waiting: int
    late: int
    failed: int
    dead: int
    rejected: int
    refused: Mapping[str, int]
    unstarted: int


def health() -> Health:
    [numbers] = statements.load("webhooks", "health").run({"since_s": REFUSALS_SINCE.total_seconds()})
    live, unreadable = _secrets()
    refused: Counter[str] = Counter()
    for refusal in inbox.refusals(since=REFUSALS_SINCE):
        refused[refusal.source] += refusal.count
    return Health(
        ready=tuple(source for source in Source if source in live),
        needs_secret=tuple(source for source in Source if source not in live | unreadable),
        unreadable=tuple(source for source in Source if source in unreadable),
        refused=dict(refused),  # a template asks a Counter for its key "items", and has 0
        **numbers._asdict(),
    )


def _secrets() -> tuple[set[str], set[str]]:
    live: set[str] = set()
    unreadable: set[str] = set()
    for row in live_secrets():
        try:
            unseal(row.sealed, source=row.source)
        except CannotOpen:
            unreadable.add(row.source)
        else:
            live.add(row.source)
    return live, unreadable


MOST: Final = 5000
_LONGEST: Final = 255
_LATEST: Final = 253_402_300_799  # the end of the year 9999, in seconds since 1970


Offered = tuple[str, str, datetime | None]  # name, owner, made at


def read(document: Any) -> list[Offered]:
    """The models in an answer to GET /models, each name once, in the server's order. Raises ValueError for what is no
    such answer. An entry without a usable id is left out."""
    if not isinstance(document, Mapping) or not isinstance(document.get("data"), list):
        raise ValueError("the answer has no list named data")  # noqa: TRY004 (it is the value that came)
    by_name: dict[str, Offered] = {}
    for entry in document["data"][:MOST]:
        if isinstance(entry, Mapping) and (name := _text(entry.get("id"))):
            by_name.setdefault(name, (name, _text(entry.get("owned_by")), _moment(entry.get("created"))))
    return list(by_name.values())


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST else ""


def _moment(value: Any) -> datetime | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return datetime.fromtimestamp(value, UTC) if is_number and 0 < value <= _LATEST else None


if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 20.0
_LONGEST_ANSWER: Final = 5_000_000
_LONGEST_ERROR: Final = 500


@scheduling.action(timeout=600, idempotent=True)
def refresh_model_catalog() -> dict[str, Any]:
    """Ask every server of settings.LLM_SERVERS for its models and store the answer; for each how many, or its error.

    A server that does not answer keeps the models it had. One that is not configured any more is forgotten. All are
    asked at once, each for 20 s in all, and whatever one answers is no trouble of the others.
    """
    answers = asyncio.run(_ask_all(settings.LLM_SERVERS))
    results = {url: _noted(url, answer) for url, answer in zip(settings.LLM_SERVERS, answers, strict=True)}
    forget_servers(configured=settings.LLM_SERVERS)
    return results


def _noted(url: str, answer: Sequence[Offered] | BaseException) -> int | str:
    try:
        if isinstance(answer, BaseException):
            raise answer
        models = [[name, owner, made_at.isoformat() if made_at else None] for name, owner, made_at in answer]
        return note_answer(url=url, models=models)
    except Exception as error:
        if scheduling.is_away(error):
            raise
        why = str(error) or f"no whole answer within {_TIMEOUT_S:g} s"
        sentence = f"{type(error).__name__}: {why}"[:_LONGEST_ERROR]
        note_silence(url=url, error=sentence)
        return sentence


@scheduling.mutation
def note_answer(*, url: str, models: list[list[Any]]) -> int:
    """Keep what a server offers, as [name, owner, made at]; what it no longer lists is gone. How many models."""
    live.touch("model-catalog")
    answered = {"polled_at": Now(), "answered_at": Now(), "error": None}
    server, _ = ModelServer.objects.update_or_create(url=url, defaults=answered)
    listed = [
        CatalogModel(server=server, name=name, owned_by=owner or "", made_at=datetime.fromisoformat(at) if at else None)
        for name, owner, at in models
    ]
    CatalogModel.objects.bulk_create(
        listed, update_conflicts=True, unique_fields=["server", "name"], update_fields=["owned_by", "made_at"]
    )
    present = CatalogModel.objects.filter(server=server, name__in=[one.name for one in listed])
    present.update(last_seen_at=Now(), gone_at=None)
    CatalogModel.objects.filter(server=server, gone_at=None).exclude(pk__in=present).update(gone_at=Now())
    return len(listed)


@scheduling.mutation
def note_silence(*, url: str, error: str) -> None:
    """Keep why a server could not be asked."""
    live.touch("model-catalog")
    ModelServer.objects.update_or_create(url=url, defaults={"polled_at": Now(), "error": error.replace("\x00", " ")})


@scheduling.mutation
def forget_servers(*, configured: list[str]) -> int:
    """Forget servers that nobody names any more; how many rows."""
    return ModelServer.objects.exclude(url__in=configured).delete()[0]


async def _ask_all(urls: Sequence[str]) -> list[list[Offered] | BaseException]:
    import httpx  # noqa: PLC0415 (0.1 s, which no process need spend when it starts)

    headers = {"Authorization": f"Bearer {settings.LLM_API_KEY}"} if settings.LLM_API_KEY else {}
    async with httpx.AsyncClient(timeout=_TIMEOUT_S, headers=headers, follow_redirects=False) as client:
        return await asyncio.gather(*(_ask(client, url) for url in urls), return_exceptions=True)


async def _ask(client: "httpx.AsyncClient", url: str) -> list[Offered]:
    body, address = b"", f"{url.rstrip('/')}/models"
    # One deadline for all of it: what comes a byte at a time is in time for every read.
    async with asyncio.timeout(_TIMEOUT_S), client.stream("GET", address) as answer:
        answer.raise_for_status()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > _LONGEST_ANSWER:
                raise ValueError(f"the answer is larger than {_LONGEST_ANSWER} bytes")
    return read(bodies.parse(body).document)
