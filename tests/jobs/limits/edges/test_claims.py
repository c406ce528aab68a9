"""Claims that would not wait and found nothing: counted; all other ways of asking: not."""

from typing import Any

import pytest
from django.test import Client

from jobs import operations
from ratelimits import operations as limits
from tests import farm
from tests.jobs.limits.integration.sample import used

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = "empty-claims"


class Asker:
    """A worker that asks over HTTP, past the wrapper in which claims wait."""

    def __init__(self, name: str = "w1") -> None:
        self.worker, key = operations.create_worker(name, queues=["chat"])
        self.key = f"worker:{self.worker.pk}"
        self._client = Client(headers={"Authorization": f"Bearer {key}"})

    def post(self, path: str, **body: Any) -> Any:
        """Call one verb."""
        return self._client.post(f"/api/v1/worker/{path}", body, content_type="application/json")

    def drain(self) -> None:
        """Leave nothing of its limit; one comes in each second."""
        limits.limit(LIMIT, key=self.key, count=limits.get_value(LIMIT, key=self.key).value)
        limits.limit(LIMIT, key=self.key, count=100, reserve=True)


@pytest.fixture
def asker() -> Asker:
    """A worker."""
    operations.sync()
    return Asker()


class TestAClaimThatWouldNotWait:
    def test_is_counted_when_it_found_nothing(self, asker: Asker) -> None:
        assert [asker.post("claim").status_code for _ in range(3)] == [200] * 3
        assert used(LIMIT) == {asker.key: 3}

    def test_is_refused_when_it_was_one_too_many_of_this_worker(self, asker: Asker) -> None:
        asker.drain()
        refused = asker.post("claim", limit=5)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) == refused.json()["retry_after"] in (100, 101)
        assert refused.json()["error"] == "rate_limited"
        assert not [name for name in refused.headers if name.startswith("X-Jobfarm")]
        assert Asker("w2").post("claim").json() == {"jobs": [], "drained": False}

    def test_gets_a_job_that_is_there_however_often_it_asked_in_vain(self, asker: Asker) -> None:
        asker.drain()
        before = used(LIMIT)
        [job] = farm.submit(1, "chat")
        assert [claimed["id"] for claimed in asker.post("claim").json()["jobs"]] == [job.pk]
        assert used(LIMIT) == before


class TestNothingIsCounted:
    def test_of_a_claim_that_waits_however_often_it_is_asked_again_for_it(self, asker: Asker) -> None:
        """Each time somebody rings, the wrapper asks once more with the same body."""
        assert [asker.post("claim", wait=30).status_code for _ in range(3)] == [200] * 3
        assert used(LIMIT) == {}

    def test_of_a_finish_that_asks_for_the_next_job_and_gets_none(self, asker: Asker) -> None:
        asker.drain()
        before = used(LIMIT)
        farm.submit(1, "chat")
        [job] = asker.post("claim").json()["jobs"]
        ended = asker.post(f"jobs/{job['id']}/finish", lease=job["lease"], outcome="success", claim_next=3)
        assert ended.json() == {"status": "success", "jobs": [], "drained": False}
        assert used(LIMIT) == before

    def test_of_a_claim_that_was_refused(self, asker: Asker) -> None:
        assert asker.post("claim", queues=["nowhere"]).status_code == 422
        assert used(LIMIT) == {}
