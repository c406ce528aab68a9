"""Who fills a queue: told to operators, and to nobody else, since the jobs may be other people's."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def full_queue() -> tuple[int, int]:
    """(the job that fills the queue, ada's that waits for it)"""
    farm.kind()
    [filling] = farm.submit(1)
    operations.set_ceiling("work", 1)
    farm.claim_one(farm.worker())
    [waiting] = farm.submit(1, owner=farm.user("ada"))
    return filling.pk, waiting.pk


class TestWhoFillsAQueue:
    @pytest.mark.parametrize("superuser", [False, True])
    def test_is_told_by_the_api_to_operators_alone(self, full_queue: tuple[int, int], superuser: bool) -> None:
        filling, waiting = full_queue
        person = farm.user("root", is_staff=True, is_superuser=True) if superuser else User.objects.get(username="ada")
        _, token = accounts.create_token(person, name="test")
        answer = Client().get(f"/api/v1/jobs/{waiting}/why", headers={"Authorization": f"Bearer {token}"})
        [full] = [reason for reason in answer.json()["reasons"] if reason["code"] == "queue_full"]
        assert full.get("running") == ([filling] if superuser else None)

    @pytest.mark.parametrize("superuser", [False, True])
    def test_is_told_by_the_page_to_operators_alone(self, full_queue: tuple[int, int], superuser: bool) -> None:
        filling, waiting = full_queue
        client = Client()
        client.force_login(
            farm.user("root", is_staff=True, is_superuser=True) if superuser else User.objects.get(username="ada")
        )
        page = client.get(f"/jobs/{waiting}/").content.decode()
        assert "is full: 1 of its jobs may run at a time." in page
        assert (f'href="/jobs/{filling}/"' in page) is superuser
