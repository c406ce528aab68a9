"""Draining a worker on its page and in the administration, and what both say of it."""

import pytest
from django.test import Client

from jobs import operations
from jobs.domain.workers import Facts, Gpu
from jobs.live_queries.farm import worker_arrival
from jobs.models import Worker
from tests import farm

pytestmark = pytest.mark.django_db
REPORTED = Facts(host="attic-7", gpus=(Gpu(name="NVIDIA H100", memory_bytes=80 * 2**30),))


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(farm.user("root", is_staff=True, is_superuser=True))
    return client


def _page(client: Client, path: str) -> str:
    """The page's text with single spaces."""
    return " ".join(client.get(path).content.decode().split())


class TestThePage:
    def test_says_since_when_it_is_drained_by_whom_and_what_it_holds(self, root: Client) -> None:
        farm.kind()
        worker = farm.worker("gpu-3")
        farm.submit(2)
        operations.claim(worker, limit=2)
        path = f"/workers/{worker.pk}/"
        assert 'data-drained="no"' in _page(root, path)
        assert root.post(f"{path}drain/").status_code == 302
        page = _page(root, path)
        assert 'data-drained="yes"' in page
        assert "by root: it finishes the 2 jobs that it holds, and is given no more." in page
        assert "draining" in _page(root, "/workers/")
        root.post(f"{path}undrain/")
        assert 'data-drained="no"' in _page(root, path)

    def test_says_away_and_never_connected_where_that_is_so(self, root: Client) -> None:
        operations.create_worker("rack 4", queues=["work"])
        page = _page(root, "/workers/")
        assert "never connected" in page
        assert "NEVER CONNECTED" in _page(root, "/admin/jobs/worker/").upper()

    def test_shows_what_the_worker_reported(self, root: Client) -> None:
        worker = farm.worker("gpu-3")
        operations.introduce(worker, REPORTED)
        page = _page(root, f"/workers/{worker.pk}/")
        assert "attic-7" in page
        assert "NVIDIA H100 (80.0" in page


class TestTheAdministration:
    def test_drains_and_undrains_those_that_are_chosen(self, root: Client) -> None:
        chosen = [farm.worker("a").pk, farm.worker("b").pk]
        other = farm.worker("c")
        for action, drained in (("drain_selected", 2), ("undrain_selected", 0)):
            root.post("/admin/jobs/worker/", {"action": action, "_selected_action": chosen, "confirmed": "yes"})
            assert Worker.objects.filter(drained_at__isnull=False).count() == drained
            assert Worker.objects.get(pk=other.pk).drained_at is None


class TestConnecting:
    def test_shows_the_key_once_in_each_way_to_start_it(self, root: Client) -> None:
        assert 'value="gpu"' in _page(root, "/workers/connect/?queue=gpu")
        form = {"name": "gpu-3", "queues": "gpu", "scope": "everybody"}
        answer = root.post("/workers/connect/", form)
        key, page = answer.context["key"], answer.content.decode()
        assert operations.authenticate(key).queues == ["gpu"]
        assert page.count(key) >= 5
        assert "no-store" in answer["Cache-Control"]

    def test_waits_for_the_first_call_and_says_from_where_it_came(self, root: Client) -> None:
        form = {"name": "gpu-3", "queues": "gpu", "scope": "everybody"}
        answer = root.post("/workers/connect/", form)
        assert "Waiting for its first call" in answer.content.decode()
        worker = operations.authenticate(answer.context["key"])
        operations.introduce(worker, REPORTED)
        since = answer.context["since_ms"]
        part = worker_arrival.read(worker_id=worker.pk, since_ms=since)
        assert part is not None
        assert part["has_arrived"] is True
