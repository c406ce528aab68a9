"""What the event streams of many jobs have yet to send, and how far they say that they are."""

import pytest
from django.db import transaction

from jobs.domain.changes import EVERYBODY, Wanted
from jobs.models import Job
from jobs.waiting import matching
from jobs.waiting.matching import Changes
from live import hub
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@transaction.atomic
def _submitted() -> list[Job]:
    farm.kind()
    return farm.submit(3)


async def test_a_stream_is_not_ahead_of_what_it_has_yet_to_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who came back to that place an hour later would never be sent the rest."""
    monkeypatch.setattr(matching, "MOST_READ", 1)
    changes = Changes()
    stream = await changes.open(Wanted(viewer=EVERYBODY))
    jobs = await connections.run(_submitted)
    given = []
    for _ in jobs:
        given += [(document["id"], bool(stream.position)) for document in await stream.take()]
    changes.close(stream)
    await hub.current().stop()
    assert given == [(jobs[0].pk, False), (jobs[1].pk, False), (jobs[2].pk, True)]
