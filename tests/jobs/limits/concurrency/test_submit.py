"""Programs that submit from many sides at once: as many jobs as the limits have tokens, and not one more."""

from collections import Counter
from typing import Any

import pytest
from django.test import Client

from accounts import operations as accounts
from jobs.models import Job
from ratelimits import operations as limits
from tests import farm
from tests.jobs.limits.integration.sample import used

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = 300  # jobs of one bulk: more than come in while the test runs


def bulk(key: str) -> Any:
    """The status of one bulk with this token."""
    client = Client(headers={"Authorization": f"Bearer {key}"})
    body = {"jobs": [{"kind": "plain", "payload": {}}] * SIZE}
    return client.post("/api/v1/jobs/bulk", body, content_type="application/json").status_code


class TestTwelveBulksAtOnce:
    def test_of_one_token_store_what_its_limit_grants(self) -> None:
        farm.kind("plain")
        ada = farm.user("ada")
        token, key = accounts.create_token(ada, name="laptop")
        statuses = farm.at_once(*[lambda: bulk(key)] * 12)
        assert Counter(statuses) == {201: 6, 429: 6}  # 2,000 tokens
        assert Job.objects.count() == 6 * SIZE
        assert used("submit/token") == {f"token:{token.pk}": 6 * SIZE}
        assert used("submit/user") == {f"user:{ada.pk}": 6 * SIZE}

    def test_of_three_tokens_store_what_their_person_may(self) -> None:
        farm.kind("plain")
        ada = farm.user("ada")
        limits.limit("submit/user", key=f"user:{ada.pk}", count=1000)  # of 4,000
        keys = [accounts.create_token(ada, name=f"machine {n}")[1] for n in range(3)]
        statuses = farm.at_once(*[lambda key=key: bulk(key) for key in keys for _ in range(5)])
        assert Counter(statuses) == {201: 10, 429: 5}
        assert Job.objects.count() == 10 * SIZE
        assert used("submit/user") == {f"user:{ada.pk}": 1000 + 10 * SIZE}
        assert sum(used("submit/token").values()) == 10 * SIZE
