"""The app that docs/python.md prints, run as printed."""

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.contrib.auth.models import User

from jobs.errors import NotUnique
from jobs.models import Job
from live import operations as live
from postgres.transactions import Gathered
from ratelimits.errors import RateLimited
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import documented
from tests.jobfarm.integration.forgetting import what_is_declared

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The page's first module, on a farm that forgets afterwards what it declared."""
    source = documented.block("python.md", '"""Thumbnails')
    (tmp_path / "thumbnails.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with what_is_declared():
        yield importlib.import_module("thumbnails")
    del sys.modules["thumbnails"]


@pytest.fixture
def owner() -> User:
    return User.objects.create_user("ada")


class TestTheApp:
    def test_orders_a_job_and_the_call_that_gives_it_up(self, app: ModuleType, owner: User) -> None:
        job_id = app.order(owner_id=owner.pk, picture="cat.png")
        assert Job.objects.get(pk=job_id).owner == owner
        assert ScheduledFunction.objects.get().args == {"job_id": job_id}
        assert app.give_up(job_id=job_id) == "canceled_before_start"
        assert Job.objects.get(pk=job_id).status == "canceled"

    def test_orders_one_thumbnail_of_a_picture_at_a_time(self, app: ModuleType, owner: User) -> None:
        app.order(owner_id=owner.pk, picture="cat.png")
        with pytest.raises(NotUnique):
            app.order(owner_id=owner.pk, picture="cat.png")
        assert Job.objects.count() == ScheduledFunction.objects.count() == 1

    def test_lets_a_person_order_sixty_a_minute(self, app: ModuleType, owner: User) -> None:
        began = time.monotonic()
        orders = _until_refused(app, owner)
        assert 60 <= orders <= 60 + (time.monotonic() - began) + 1  # one more is granted each second

    def test_orders_for_all_by_its_cron(self, app: ModuleType, owner: User) -> None:
        scheduling.sync_crons()
        scheduling.run_now("thumbnails: the daily picture")
        assert scheduling.run_due() == 1
        scheduling.run_due()
        assert Job.objects.get().owner == owner

    def test_has_pages_rendered_again_when_a_job_moves(
        self, app: ModuleType, owner: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        published: list[str] = []
        job_id = app.order(owner_id=owner.pk, picture="cat.png")
        monkeypatch.setattr(live, "_touched", Gathered(published.extend))
        app.give_up(job_id=job_id)
        assert f"thumbnail:{job_id}" in published


def _until_refused(app: ModuleType, owner: User) -> int:
    for number in range(1000):
        try:
            app.order(owner_id=owner.pk, picture=f"{number}.png")
        except RateLimited:
            return number
    raise AssertionError("a thousand were granted")
