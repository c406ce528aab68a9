"""Pages of deeds on many jobs: from the list to the number, to yes, to undo."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import Bulk, BulkItem, Job, ViewToken
from live import registry
from live.registry import Viewer
from postgres import clock
from scheduling.models import ScheduledFunction
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def _follow(client: Client, address: str, data: dict[str, Any]) -> tuple[str, str]:
    """POST, and the page that it leads to: its path and text."""
    answer = client.post(address, data)
    assert answer.status_code == 302
    where = answer["Location"]
    return where, client.get(where).content.decode()


def _run_steps() -> None:
    for row in ScheduledFunction.objects.filter(function__endswith="bulk.step", status="pending"):
        operations.bulk.step(**row.args)


class TestTheAdministration:
    """A bulk action may have changed a hundred thousand jobs, with an item of each."""

    @pytest.fixture
    def bulk(self, little_farm: Farm) -> Bulk:
        bulk = operations.bulk.create(BulkAction.CANCEL, by=little_farm.oscar, filters=Filters())
        BulkItem.objects.bulk_create(BulkItem(bulk=bulk, job_id=n, was={}) for n in range(1_500))
        return bulk

    def test_reads_none_of_its_items_and_deletes_none(self, admin_client: Client, bulk: Bulk) -> None:
        with CaptureQueriesContext(connection) as queries:
            assert admin_client.get(f"/admin/jobs/bulk/{bulk.pk}/delete/").status_code == 403
        assert not [query for query in queries if "jobs_bulkitem" in query["sql"]]

    def test_reads_so_many_of_its_items_to_say_what_would_go_along_with_its_maker(
        self, admin_client: Client, bulk: Bulk
    ) -> None:
        page = admin_client.get(f"/admin/auth/user/{bulk.by_id}/delete/")
        along = str(page.context["deleted_objects"])
        assert (along.count("Bulk item: "), str(bulk) in along) == (1_000, True)
        counts = dict(page.context["model_count"])
        assert (counts["bulk items"], counts["bulks"]) == ("1,000 or more", "1")

    def test_deletes_more_of_somebody_than_it_lists(self, admin_client: Client, little_farm: Farm) -> None:
        of_eve = {"by": little_farm.eve, "tag": "a", "expires_at": clock.now()}
        ViewToken.objects.bulk_create(ViewToken(key_hash=str(n), **of_eve) for n in range(1_500))
        address = f"/admin/auth/user/{little_farm.eve.pk}/delete/"
        assert str(admin_client.get(address).context["deleted_objects"]).count("View token: ") == 1_000
        assert admin_client.post(address, {"post": "yes"}).status_code == 302
        assert not ViewToken.objects.exists()


class TestTheWay:
    def test_goes_by_the_number_to_yes_and_back(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(3, "image", owner=little_farm.ada)
        client = browse(little_farm.oscar)
        listed = client.get("/jobs/?kind=image").content.decode()
        assert '<input type="hidden" name="kind" value="image">' in listed
        where, page = _follow(
            client, "/jobs/bulk/", {"kind": "image", "action": "change_priority", "new_priority": "8"}
        )
        assert "Give 3 jobs the priority 8?" in page
        assert Job.objects.filter(priority=8).count() == 0
        _follow(client, f"{where}begin/", {})
        _run_steps()
        page = client.get(where).content.decode()
        assert 'data-phase="done"' in page
        assert 'data-undo="yes"' in page
        assert Job.objects.filter(priority=8).count() == 3
        undoing, page = _follow(client, f"{where}undo/", {})
        assert undoing != where
        _run_steps()
        assert "put back" in client.get(undoing).content.decode()
        assert Job.objects.filter(priority=8).count() == 0
        assert [bulk.phase for bulk in Bulk.objects.all()] == ["done", "done"]
        assert len(re.findall(r'href="/jobs/bulk/\d+/"', client.get("/jobs/bulk/").content.decode())) == 2

    @pytest.mark.parametrize("ticked", [False, True])
    def test_leads_back_to_the_filters_the_order_and_the_page(
        self, browse: Browse, little_farm: Farm, ticked: bool
    ) -> None:
        jobs = farm.submit(60, "image", owner=little_farm.ada)
        client = browse(little_farm.oscar)
        place = "kind=image&sort=wait&before=50"
        listed = client.get(f"/jobs/?{place}").content.decode()
        [form] = re.findall(r'<form class="card selected".*?</form>', listed, re.DOTALL)
        kept = dict(re.findall(r'<input type="hidden" name="(kind|sort|before)" value="(\w+)">', form))
        assert kept == {"kind": "image", "sort": "wait", "before": "50"}
        chosen = {"job": [str(jobs[0].pk), str(jobs[1].pk)]} if ticked else {}
        _, page = _follow(client, "/jobs/bulk/", {"action": "cancel", **kept, **chosen})
        assert f"Cancel {2 if ticked else 60} jobs?" in page
        assert re.findall(r'href="(.*?)">Back', page) == [f"/jobs/?{place}".replace("&", "&amp;")] * 2

    @pytest.mark.parametrize(
        ("data", "sentence"),
        [
            ({}, "Choose an action."),
            ({"action": "explode"}, "Select a valid choice"),
            ({"action": "change_priority"}, "Enter the new value."),
            ({"action": "change_priority", "new_priority": "101"}, "less than or equal to 100"),
            ({"action": "change_queue", "new_queue": "nowhere"}, "Select a valid choice"),
            ({"action": "undo"}, "Select a valid choice"),
            ({"action": "cancel", "since": "yesterday"}, "Enter a date and a time, like"),
        ],
    )
    def test_stops_where_something_is_missing(
        self, browse: Browse, little_farm: Farm, data: dict[str, str], sentence: str
    ) -> None:
        where, page = _follow(browse(little_farm.oscar), "/jobs/bulk/", {"kind": "chat", **data})
        assert (where, Bulk.objects.count()) == ("/jobs/?kind=chat", 0)
        assert sentence in page

    def test_of_nothing_says_so_and_offers_nothing_to_undo(self, browse: Browse, little_farm: Farm) -> None:
        _, page = _follow(browse(little_farm.eve), "/jobs/bulk/", {"action": "cancel"})
        assert "No job matches: there is nothing to do." in page


class TestRights:
    @pytest.fixture
    def adas(self, little_farm: Farm) -> Bulk:
        """Ada has asked to cancel what is hers."""
        return operations.bulk.create(BulkAction.CANCEL, by=little_farm.ada, filters=Filters())

    @pytest.mark.parametrize(
        ("who", "look", "act"), [("ada", 200, 302), ("bob", 404, 404), ("eve", 404, 404), ("oscar", 200, 302)]
    )
    def test_are_those_of_who_asked_and_of_who_runs_the_farm(
        self, browse: Browse, little_farm: Farm, adas: Bulk, who: str, look: int, act: int
    ) -> None:
        client = browse(little_farm.person(who))
        assert client.get(f"/jobs/bulk/{adas.pk}/").status_code == look
        query = registry.find("bulk")
        viewer = Viewer(user=little_farm.person(who))
        assert (query.audience(viewer, {"bulk_id": adas.pk}) is not None) == (look == 200)
        assert (f"/jobs/bulk/{adas.pk}/" in client.get("/jobs/bulk/").content.decode()) is False
        for action in ("begin", "stop", "undo"):
            assert client.post(f"/jobs/bulk/{adas.pk}/{action}/").status_code == act
        adas.refresh_from_db()
        assert adas.phase == ("stopped" if act == 302 else "ready")

    def test_strangers_are_sent_to_log_in_and_forged_forms_refused(
        self, browse: Browse, little_farm: Farm, adas: Bulk
    ) -> None:
        for path in ("", f"{adas.pk}/"):
            assert browse(None).get(f"/jobs/bulk/{path}")["Location"].startswith("/accounts/login/")
        client = Client(enforce_csrf_checks=True)
        client.force_login(little_farm.ada)
        for path in ("", f"{adas.pk}/begin/", f"{adas.pk}/stop/", f"{adas.pk}/undo/"):
            assert client.post(f"/jobs/bulk/{path}", {"action": "cancel"}).status_code == 403
        assert Bulk.objects.get().phase == "ready"

    def test_a_member_does_nothing_to_what_is_only_shared_with_them(self, browse: Browse, little_farm: Farm) -> None:
        client = browse(little_farm.bob)
        where, page = _follow(client, "/jobs/bulk/", {"action": "cancel"})
        assert "No job matches" in page
        _follow(client, f"{where}begin/", {})
        _run_steps()
        assert farm.status(little_farm.job) == "pending"
