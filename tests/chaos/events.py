"""A receiver of the farm's events that has its moods, and what it got held against what the farm wrote down."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jobs.models import Job
from outbox.models import Endpoint, Event, Message
from outbox.operations import endpoints
from postgres import connections
from tests.chaos.truth import Findings
from tests.outbox import receivers
from tests.outbox.receivers import Receiver, Request, receiver

FAILS_EACH = 10  # of so many events one is refused once, another hung up on once, a third answered late
LATE_S = 1.0  # long enough for a kill to fall between a request and its record
TYPES = {"success": "succeeded"}


async def moody(there: Receiver, writer: Any, request: Request) -> None:
    """Refuse some events once, hang up on others once, take some late and the rest at once."""
    mood = int(request.headers["webhook-id"][-4:], 16) % FAILS_EACH
    is_first = sum(one.headers["webhook-id"] == request.headers["webhook-id"] for one in there.requests) == 1
    if is_first and mood == 1:
        await receivers.hangs_up(there, writer, request)
        return
    if mood == 2:
        await asyncio.sleep(LATE_S)
    there.status = 500 if is_first and mood == 0 else 204
    await receivers.answers(there, writer, request)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver whose endpoint asks for all events."""
    with receiver(moody) as there:
        with connections.released():
            row = Endpoint.objects.create(name="chaos", url=there.url(), events=["*"])
            endpoints.add_secret(row)
        yield there


@connections.released()
def judge(there: Receiver, findings: Findings) -> None:
    """Every job that ended has its event, every event came, and those of a job in their order."""
    arrived = [one.headers["webhook-id"] for one in list(there.requests)]
    events = list(Event.objects.order_by("id"))
    findings.events, findings.arrivals = len(events), len(arrived)
    known = set(arrived)
    findings.events_lost = [f"{event} never came" for event in events if f"msg_{event.uid.hex}" not in known]
    undelivered = Message.objects.exclude(status="delivered").select_related("event")
    findings.events_lost += [f"{one.event} is {one.status}: {one.note}" for one in undelivered]
    written = {(event.subject, event.type) for event in events}
    for job in Job.objects.ended():
        if (f"job/{job.pk}", f"job.{TYPES.get(job.status, job.status)}") not in written:
            findings.events_lost.append(f"job {job.pk} is {job.status}, and no event says so")
    findings.out_of_order = _out_of_order(arrived, events)


def _out_of_order(arrived: Sequence[str], events: Sequence[Event]) -> list[str]:
    """Subjects of which a later event came, for the first time, before an earlier one."""
    first = {uid: place for place, uid in reversed(list(enumerate(arrived)))}
    places: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if (place := first.get(f"msg_{event.uid.hex}")) is not None:
            places[event.subject].append(place)
    return [subject for subject, each in places.items() if each != sorted(each)]
