"""Calls made up from the OpenAPI document, right ones and wrong ones: each is answered as the document says."""

import json

import httpx
import pytest
from django.contrib.auth.models import User

from accounts import operations as accounts
from jobs.models import Job
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.effort import turn
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("mode", turn(["positive", "negative"], of=2))
def test_generated_calls_are_answered_as_the_document_says(server: Server, crew: Crew, ada: User, mode: str) -> None:
    """No 5xx, no status or field that the document has not, no answer that takes long, nothing stored that cannot be
    read again."""
    from tests.fuzz import calls

    [over] = farm.submit(1, "chat", owner=ada)
    done = crew.claim_one()
    crew.post(f"jobs/{over.pk}/finish", lease=done["lease"], outcome="success", result=1)
    farm.submit(1, "chat", owner=ada)
    running, (_, token) = crew.claim_one(), accounts.create_token(ada, name="tests")
    known = calls.Known(worker=crew.key, token=token, running=running["id"], lease=running["lease"], ended=over.pk)
    assert calls.check(server.url, known, mode=mode) > 15
    _nothing_invalid_is_stored(callers.client(server, ada))


def _nothing_invalid_is_stored(client: httpx.Client) -> None:
    """Whatever came of it can be read again, by the API and by PostgreSQL."""
    for pk in Job.objects.order_by("-pk").values_list("pk", flat=True)[:20]:
        for path in (f"jobs/{pk}", f"jobs/{pk}/why", f"jobs/{pk}/output"):
            answer = client.get(f"/api/v1/{path}")
            assert answer.status_code == 200, (path, answer.text)
    for payload in Job.objects.values_list("payload", flat=True):
        json.dumps(payload, allow_nan=False)
