"""The front page: what somebody who is not logged in learns of a farm."""

import re

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from jobfarm import live_queries
from jobs import operations
from live import registry
from live.registry import Viewer
from tests import farm
from tests.accounts.integration import people
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    live_queries.public_numbers.forget()


@pytest.fixture
def _public(settings: Settings) -> None:
    settings.JOBFARM = {**settings.JOBFARM, "PUBLIC_NUMBERS": True}


class TestFrontPage:
    def test_says_what_this_is_and_offers_the_ways_in(self, client: Client) -> None:
        page = client.get("/")
        assert page.status_code == 200
        for path in ("/accounts/login/", "/accounts/sign-up/", "/accounts/guest/"):
            assert re.search(f'class="button[^"]*" href="{path}"', page.text)
        assert "farm=http://testserver/api/v1" in page.text

    def test_offers_no_way_in_that_is_closed(self, client: Client, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "SIGN_UP": False, "GUESTS": False}
        page = client.get("/").text
        assert ("/accounts/sign-up/" in page, "/accounts/guest/" in page) == (False, False)

    def test_gives_way_to_the_overview_for_who_is_logged_in(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.ada).get("/").text
        assert ("Your jobs on the farm" in page, "A job in three lines" in page) == (True, False)


class TestAGuest:
    @pytest.mark.parametrize("path", ["/", "/jobs/", "/workers/", "/queues/"])
    def test_is_offered_no_way_to_submit(self, client: Client, path: str) -> None:
        people.come_as_guest(client)
        page = client.get(path)
        assert (page.status_code, 'href="/jobs/new/"' in page.text) == (200, False)


class TestNumbers:
    def test_are_nobodys_unless_the_settings_say_so(self, client: Client) -> None:
        query = registry.find("front")
        assert query.audience(Viewer(user=AnonymousUser()), {}) is None
        assert 'data-live="front"' not in client.get("/").text

    @pytest.mark.usefixtures("_public")
    def test_are_of_the_whole_farm_and_name_nothing(self, client: Client, little_farm: Farm) -> None:
        farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
        operations.roll_up()
        page = client.get("/").text
        assert ('data-live="front"' in page, "100 %" in page, '<path d="M' in page) == (True, True, True)
        for private in ("w1", "ada", "studio", f"/jobs/{little_farm.job.pk}"):
            assert not re.search(f'[>"]{private}[<"]', page)

    @pytest.mark.usefixtures("_public", "little_farm")
    def test_are_read_once_for_all_who_come(
        self, client: Client, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        client.get("/")
        with django_assert_num_queries(1):  # which job the live picture is of
            client.get("/")
