"""A share link shows a job for as long as who made it may log in."""

import asyncio

import pytest
from django.contrib.auth.models import AnonymousUser, User

from jobs import operations
from jobs.models import Share
from live import hub, registry
from live.registry import Viewer
from postgres import connections
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db
OF_A_JOB = ("job", "job-facts", "job-files", "job-history", "job-output")


@pytest.fixture
def token(little_farm: Farm) -> str:
    """Ada's link to her job, of which an attempt wrote something."""
    claimed = farm.claim_one(little_farm.worker)
    operations.write_output(little_farm.worker, claimed.id, claimed.lease, seq=0, text="blue")
    return operations.share(little_farm.job.pk, by=little_farm.ada).token


def _statuses(browse: Browse, token: str) -> list[int]:
    return [browse(None).get(f"/jobs/shared/{token}/{part}").status_code for part in ("", "output/1")]


def _audiences(job_id: int, token: str) -> set[str | None]:
    viewer = Viewer(user=AnonymousUser(), ticket=token)
    queries = map(registry.find, OF_A_JOB)
    return {query.audience(viewer, query.checked({"job_id": job_id})) for query in queries}


def test_of_somebody_who_is_deactivated_shows_nothing(browse: Browse, little_farm: Farm, token: str) -> None:
    assert (_statuses(browse, token), _audiences(little_farm.job.pk, token)) == ([200, 200], {"public"})
    little_farm.ada.is_active = False
    little_farm.ada.save()
    assert (_statuses(browse, token), _audiences(little_farm.job.pk, token)) == ([404, 404], {None})
    little_farm.ada.is_active = True
    little_farm.ada.save()
    assert _statuses(browse, token) == [200, 200]


def _shared_by_ada() -> tuple[User, int]:
    farm.kind()
    ada = farm.user("ada")
    [job] = farm.submit(1, owner=ada)
    operations.share(job.pk, by=ada)
    return ada, job.pk


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["deactivated", "deleted"])
async def test_pages_that_are_open_by_it_ask_again_once_its_maker_is_gone(how: str) -> None:
    ada, job_id = await connections.run(_shared_by_ada)
    here = hub.current()
    await here.ready()
    touched = asyncio.Event()
    listening = here.watch_topics([f"share:{job_id}"], lambda _: touched.set())
    ada.is_active = False
    await connections.run(ada.save if how == "deactivated" else ada.delete)
    await asyncio.wait_for(touched.wait(), 10)
    listening.close()
    await here.stop()


def test_of_somebody_who_is_deactivated_is_made_anew_by_who_may(browse: Browse, little_farm: Farm, token: str) -> None:
    """The page of the job has none of the old one: it leads nowhere."""
    User.objects.filter(pk=little_farm.ada.pk).update(is_active=False)
    oscar = browse(little_farm.oscar)
    address = f"/jobs/{little_farm.job.pk}/"
    assert token not in oscar.get(address).content.decode()
    oscar.post(f"{address}share/")
    new = Share.objects.get(job_id=little_farm.job.pk).token
    assert new != token
    assert new in oscar.get(address).content.decode()
    assert (_statuses(browse, token), _statuses(browse, new)) == ([404, 404], [200, 200])


def test_of_somebody_who_is_deleted_shows_nothing(browse: Browse, little_farm: Farm, token: str) -> None:
    little_farm.ada.delete()
    assert _statuses(browse, token) == [404, 404]


def test_of_the_site_itself_has_no_maker_and_shows_its_job(browse: Browse, little_farm: Farm) -> None:
    operations.move_link("demonstration", little_farm.job.pk)
    assert browse(None).get("/jobs/shared/demonstration/").status_code == 200
