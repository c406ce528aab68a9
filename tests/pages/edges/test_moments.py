"""One moment is one text, wherever the farm says it."""

import pytest
from django.test import Client

from accounts import operations as accounts
from jobs.protocol import jobs as protocol
from tests import farm

pytestmark = pytest.mark.django_db


def test_the_api_says_a_moment_with_all_the_digits_that_the_event_stream_says() -> None:
    farm.kind()
    ada = farm.user("ada")
    [job] = farm.submit(1, owner=ada)
    _, token = accounts.create_token(ada, name="test")
    document = Client().get(f"/api/v1/jobs/{job.pk}", headers={"Authorization": f"Bearer {token}"}).json()
    streamed = protocol.in_full([job.pk])[0].model_dump(mode="json")
    assert (document["created_at"], document["run_at"]) == (streamed["created_at"], streamed["run_at"])
