"""The scheduled functions that a job's moves made are remembered with it, and shown on its page (docs/adr/0026)."""

from collections.abc import Callable, Sequence

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import kinds, operations
from jobs.models import Job, Offspring
from jobs.operations import Kind, Move
from jobs.queries import pages
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import farm
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Sequence[Move]], None]], None]:
    """Declare the kind "work" with a hook, for this test."""
    monkeypatch.setattr(kinds, "DECLARED", dict(kinds.DECLARED))
    monkeypatch.setattr(kinds, "HOOKS", dict(kinds.HOOKS))

    def with_hook(moved: Callable[[Sequence[Move]], None]) -> None:
        operations.declare(Kind(name="work"), on_transition=moved)
        operations.sync()

    return with_hook


def _call_outside(moves: Sequence[Move]) -> None:
    for move in moves:
        scheduling.run_after(60, sample.say, word=f"{move.job_id} is {move.to}")


def _words(job: Job) -> list[str]:
    made = ScheduledFunction.objects.filter(pk__in=pages.offspring(job.pk)).order_by("pk")
    return [row.args["word"] for row in made]


class TestOffspring:
    def test_are_the_functions_that_a_jobs_moves_scheduled(
        self, declare: Callable[[Callable[[Sequence[Move]], None]], None]
    ) -> None:
        declare(_call_outside)
        first, second = farm.submit(2)
        scheduling.run_after(60, sample.say, word="of nobody")
        runner = farm.worker()
        farm.succeed(runner, farm.claim_one(runner))
        operations.cancel(second.pk, by=None)
        assert _words(first) == [f"{first.pk} is in_progress", f"{first.pk} is success"]
        assert _words(second) == [f"{second.pk} is canceled"]

    def test_of_many_that_move_at_once_are_told_apart_by_the_hook(
        self, declare: Callable[[Callable[[Sequence[Move]], None]], None]
    ) -> None:
        def moved(moves: Sequence[Move]) -> None:
            scheduling.run_after(60, sample.say, word="of all")
            for move in moves:
                with operations.on_behalf_of(move.job_id):
                    _call_outside([move])

        declare(moved)
        first, second = farm.submit(2)
        operations.claim(farm.worker(), limit=2)
        assert _words(first) == [f"{first.pk} is in_progress"]
        assert _words(second) == [f"{second.pk} is in_progress"]

    def test_of_a_hook_that_failed_are_gone_with_what_it_scheduled(
        self, declare: Callable[[Callable[[Sequence[Move]], None]], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        def moved(moves: Sequence[Move]) -> None:
            _call_outside(moves)
            raise ValueError("a fault of the app")

        declare(moved)
        [job] = farm.submit(1)
        operations.cancel(job.pk, by=None)
        assert farm.status(job) == "canceled"
        assert not Offspring.objects.exists()
        assert not ScheduledFunction.objects.exists()

    def test_cost_a_hook_that_schedules_nothing_no_statement(
        self, declare: Callable[[Callable[[Sequence[Move]], None]], None]
    ) -> None:
        declare(lambda moves: None)
        [job] = farm.submit(1)
        with CaptureQueriesContext(connection) as captured:
            operations.cancel(job.pk, by=None)
        assert [query for query in captured.captured_queries if "offspring" in query["sql"]] == []

    def test_are_forgotten_with_the_job(self, declare: Callable[[Callable[[Sequence[Move]], None]], None]) -> None:
        declare(_call_outside)
        [job] = farm.submit(1)
        operations.cancel(job.pk, by=None)
        assert Offspring.objects.count() == 1
        farm.age(job, 366 * 86400)
        farm.retain()
        assert not Offspring.objects.exists()

    def test_are_shown_on_the_page_with_links_for_who_may_follow_them(
        self, declare: Callable[[Callable[[Sequence[Move]], None]], None], client: Client
    ) -> None:
        declare(_call_outside)
        owner = farm.user("ada")
        [job] = farm.submit(1, owner=owner)
        operations.cancel(job.pk, by=None)
        [made] = pages.offspring(job.pk)
        client.force_login(owner)
        page = " ".join(client.get(f"/jobs/{job.pk}/").text.split())
        assert f"Its transitions scheduled the function #{made}." in page
        client.force_login(User.objects.create_superuser("boss"))
        assert f'<a href="/functions/{made}/">#{made}</a>' in client.get(f"/jobs/{job.pk}/").text
