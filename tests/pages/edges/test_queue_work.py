"""A queue's page shows its jobs and its workers, and why nothing moves."""

import pytest

from jobs import operations
from jobs.queries import fleet, pages
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


class TestAQueuesPage:
    def test_shows_its_jobs_and_its_workers_and_no_others(self, browse: Browse, little_farm: Farm) -> None:
        farm.kind("video")
        other = farm.worker("w2", "video")
        elsewhere = operations.submit("video", {"prompt": "elsewhere"}, owner=little_farm.ada)
        held = farm.claim_one(little_farm.worker)
        page = browse(little_farm.oscar).get("/queues/chat/").content.decode()
        assert f'data-key="j{held.id}"' in page
        assert f'data-key="w{little_farm.worker.pk}"' in page
        assert f'data-key="j{elsewhere.pk}"' not in page
        assert f'data-key="w{other.pk}"' not in page

    def test_shows_a_member_their_own(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.eve).get("/queues/chat/").content.decode()
        assert "No job of this queue is in progress." in page
        assert f'data-key="j{little_farm.job.pk}"' not in page
        assert f'data-key="w{little_farm.worker.pk}"' not in page

    def test_says_when_nobody_serves_it(self, browse: Browse, little_farm: Farm) -> None:
        farm.kind("video")
        operations.submit("video", {}, owner=little_farm.ada)
        page = browse(little_farm.oscar).get("/queues/video/").content.decode()
        assert "No live worker serves the queue" in page

    def test_counts_those_who_take_from_it_when_idle(self, little_farm: Farm) -> None:
        farm.kind("video")
        idle, _ = operations.create_worker("idle", queues=["video"], steals=["*"])
        names = {row.worker.pk for row in fleet.worker_rows(viewer=pages.EVERYBODY, queue="chat")}
        assert {idle.pk, little_farm.worker.pk} <= names
