"""The live picture of the front page: one job of the farm's own for all who come, and nobody else's for anybody."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from pytest_django import Settings

from jobfarm import demonstration, live_queries
from jobs import operations
from jobs.models import Job, Worker
from live import registry
from live.registry import Viewer
from tests import farm
from tests.imagegame.integration import players

pytestmark = pytest.mark.django_db
NOBODY = Viewer(user=AnonymousUser())
NO_DEMONSTRATOR = "No demonstrator is live on this farm"


@pytest.fixture(autouse=True)
def _public(settings: Settings, tmp_path: Path) -> Iterator[None]:
    """As under `make run`, with nothing remembered of an earlier test."""
    settings.JOBFARM = {**settings.JOBFARM, "PUBLIC_NUMBERS": True}
    settings.MEDIA_ROOT = tmp_path
    remembered = (live_queries.public_numbers, live_queries.visited, live_queries.is_painted_here)
    for each in remembered:
        each.forget()
    yield
    for each in remembered:
        each.forget()


@pytest.fixture
def demonstrator() -> Worker:
    """The farm's own, idle."""
    operations.sync()
    return farm.worker("demonstrator", "image", demonstration.QUEUE)


def sees(name: str, **arguments: int) -> bool:
    """Whether somebody without a log-in may watch it."""
    return registry.find(name).audience(NOBODY, arguments) is not None


def visit() -> str:
    """The page as another process would answer it: nothing is remembered."""
    live_queries.visited.forget()
    live_queries.is_painted_here.forget()
    return Client().get("/").text


class TestAVisit:
    def test_starts_a_picture_and_shows_how_it_is_painted(self, demonstrator: Worker) -> None:
        page = visit()
        job = Job.objects.get()
        assert (job.owner, job.queue, job.kind) == (None, demonstration.QUEUE, "image")
        assert f"“{job.payload['prompt']}”" in page
        claimed = farm.claim_one(demonstrator)
        players.paint(demonstrator, claimed, name="preview.png")
        operations.heartbeat(demonstrator, claimed.id, claimed.lease, progress=0.5, detail="Painting band 12")
        page = visit()
        assert ("Painting band 12" in page, "files/preview.png" in page) == (True, True)
        picture = Client().get("/jobs/shared/demonstration/files/preview.png")
        assert picture.status_code == 200
        assert b"".join(picture) == players.png()
        players.finish(demonstrator, claimed)
        assert "files/picture.png" in visit()

    def test_a_thousand_times_costs_one_picture_in_a_minute(self, demonstrator: Worker) -> None:
        started = [demonstration.start_if_due() for _ in range(20)]
        players.finish(demonstrator, farm.claim_one(demonstrator))
        started += [demonstration.start_if_due() for _ in range(20)]
        assert (started.count(True), Job.objects.count()) == (1, 1)
        first = Job.objects.get()
        assert demonstration.start_if_due(every=timedelta(0))
        shown = demonstration.current()
        assert shown is not None
        assert shown.retry_of is None
        assert shown != first
        assert not sees("front-picture", job_id=first.pk), "the link shows the newest alone"

    def test_without_a_demonstrator_starts_nothing_and_says_so(self) -> None:
        operations.sync()
        farm.worker("artist", "image")
        assert NO_DEMONSTRATOR in visit()
        assert not Job.objects.exists()

    def test_while_the_demonstrator_is_busy_starts_nothing(self, demonstrator: Worker) -> None:
        operations.submit("image", {"prompt": "somebody's"}, owner=farm.user())
        farm.claim_one(demonstrator)
        assert NO_DEMONSTRATOR not in visit()
        assert Job.objects.count() == 1

    @pytest.mark.usefixtures("demonstrator")
    def test_where_the_numbers_are_not_public_starts_and_shows_nothing(self, settings: Settings) -> None:
        visit()
        job = Job.objects.get()
        settings.JOBFARM = {**settings.JOBFARM, "PUBLIC_NUMBERS": False}
        operations.cancel(job.pk, by=None)
        assert not demonstration.start_if_due(every=timedelta(0))
        assert 'data-live="front-' not in visit()
        assert (sees("front-demonstration"), sees("front-picture", job_id=job.pk)) == (False, False)

    @pytest.mark.usefixtures("demonstrator")
    def test_to_a_full_farm_is_answered(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_IN_ALL": 1}
        operations.submit("image", {"prompt": "somebody's"}, owner=farm.user())
        assert "No picture has been painted yet" in visit()


class TestRights:
    def test_are_for_the_one_job_and_no_other(self, demonstrator: Worker) -> None:
        demonstration.start_if_due()
        shown = demonstration.current()
        assert shown is not None
        theirs = operations.submit("image", {"prompt": "secret"}, owner=farm.user("ada"))
        copied = operations.submit(
            "image", {"prompt": "secret"}, owner=farm.user("eve"), queue=demonstration.QUEUE, unique_key="demonstration"
        )
        assert sees("front-picture", job_id=shown.pk)
        for job in (theirs, copied):
            assert not sees("front-picture", job_id=job.pk)
            for name in ("job", "job-files", "job-output", "job-facts"):
                ticket = Viewer(user=AnonymousUser(), ticket=demonstration.TOKEN)
                assert registry.find(name).audience(ticket, {"job_id": job.pk}) is None
        assert "secret" not in visit()


def test_a_demonstrator_of_an_earlier_start_is_given_the_queue_too() -> None:
    operations.ensure_worker("demonstrator", queues=["image"])
    key = operations.ensure_worker("demonstrator", queues=["image", demonstration.QUEUE])
    assert operations.authenticate(key).queues == ["image", demonstration.QUEUE]


@pytest.mark.django_db(transaction=True)
def test_many_first_visitors_at_once_start_one_picture(demonstrator: Worker) -> None:
    started = farm.at_once(*[partial(demonstration.start_if_due) for _ in range(8)])
    assert (started.count(True), Job.objects.count()) == (1, 1)
