"""What a socket may ask for: the same rights as the pages, asked of the live queries themselves."""

import pytest
from django.contrib.auth.models import AnonymousUser

from jobs import operations
from live import registry
from live.registry import Viewer
from tests import farm
from tests.pages.edges.conftest import Farm

pytestmark = pytest.mark.django_db

OF_A_JOB = ("job", "job-facts", "job-files", "job-history", "job-output")
OF_A_VIEWER = ("overview", "jobs", "queues", "workers")


def _audience(name: str, viewer: Viewer, **arguments: object) -> str | None:
    query = registry.find(name)
    return query.audience(viewer, query.checked(arguments))


class TestAJob:
    @pytest.mark.parametrize("name", [*OF_A_JOB, "job-why", "job-json", "job-status"])
    def test_is_for_those_who_may_see_it(self, little_farm: Farm, name: str) -> None:
        more = {"queue": "chat"} if name == "job-why" else {}
        people = ("eve", "bob", "ada", "oscar")
        viewers = [Viewer(user=AnonymousUser()), *(Viewer(user=little_farm.person(who)) for who in people)]
        found = [_audience(name, viewer, job_id=little_farm.job.pk, **more) for viewer in viewers]
        assert [audience is not None for audience in found] == [False, False, True, True, True]

    @pytest.mark.parametrize("name", OF_A_JOB)
    def test_a_ticket_opens_its_own_job_to_the_public_alone(self, little_farm: Farm, name: str) -> None:
        token = operations.share(little_farm.job.pk, by=little_farm.ada).token
        other = operations.submit("chat", {}, owner=little_farm.ada)
        stranger, owner = (Viewer(user=AnonymousUser(), ticket=token), Viewer(user=little_farm.ada, ticket=token))
        wrong = Viewer(user=little_farm.ada, ticket="wrong")
        assert _audience(name, stranger, job_id=little_farm.job.pk) == "public"
        assert _audience(name, owner, job_id=little_farm.job.pk) == "public"
        assert _audience(name, stranger, job_id=other.pk) is None
        assert _audience(name, wrong, job_id=little_farm.job.pk) is None

    @pytest.mark.parametrize("name", ["job-why", "job-json", "job-status"])
    def test_a_ticket_opens_nothing_that_is_not_on_the_shared_page(self, little_farm: Farm, name: str) -> None:
        token = operations.share(little_farm.job.pk, by=little_farm.ada).token
        more = {"queue": "chat"} if name == "job-why" else {}
        stranger = Viewer(user=AnonymousUser(), ticket=token)
        assert _audience(name, stranger, job_id=little_farm.job.pk, **more) is None


class TestLists:
    @pytest.mark.parametrize("name", [*OF_A_VIEWER, "queue"])
    def test_everybodys_are_for_operators_and_ones_own_for_oneself(self, little_farm: Farm, name: str) -> None:
        more = {"queue": "chat"} if name == "queue" else {}
        ada, eve, oscar = (Viewer(user=little_farm.person(who)) for who in ("ada", "eve", "oscar"))
        own = little_farm.ada.pk
        assert [_audience(name, viewer, whose=0, **more) for viewer in (ada, eve, oscar)] == [None, None, "operator"]
        assert [_audience(name, viewer, whose=own, **more) for viewer in (ada, eve, oscar)] == ["member", None, None]
        assert _audience(name, Viewer(user=AnonymousUser()), whose=0, **more) is None

    def test_a_worker_is_for_its_owner_and_operators(self, little_farm: Farm) -> None:
        adas = farm.worker("adas", "chat", owner=little_farm.ada)
        people = ("ada", "bob", "eve", "oscar")
        found = [_audience("worker", Viewer(user=little_farm.person(who)), worker_id=adas.pk) for who in people]
        assert found == ["member", None, None, "member"]
