"""The pages of batches: for their owners and for whoever sees all jobs."""

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.test import Client
from django.urls import reverse

from live.registry import Viewer
from openai_api import live_queries
from openai_api.models import Batch
from tests import farm
from tests.openai_api import batching
from tests.openai_api.batching import line, made, offering, step, text

pytestmark = pytest.mark.django_db


def browser(user: User) -> Client:
    """Of somebody who is logged in."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def running(ada: User) -> Batch:
    """A batch of hers of 60 lines, all of them jobs."""
    offering("tiny")
    return step(made(text(*map(line, range(60))), user=ada, metadata={"month": "May"}))


class TestThePageOfABatch:
    def test_shows_how_far_it_is_with_its_lines_and_their_jobs(self, ada: User, running: Batch) -> None:
        page = browser(ada).get(running.get_absolute_url()).content.decode()
        assert running.public_id in page
        assert "May" in page
        assert "line-49" in page
        assert "line-50" not in page
        later = browser(ada).get(running.get_absolute_url(), {"page": 1}).content.decode()
        assert "line-50" in later
        assert "line-49" not in later

    def test_shows_why_its_file_was_refused(self, ada: User) -> None:
        failed = step(made(text(b"{"), user=ada))
        page = browser(ada).get(failed.get_absolute_url()).content.decode()
        assert "Line 1:" in page
        assert "No line of this batch became a job." in page

    def test_is_linked_from_the_page_of_each_of_its_jobs_for_who_may_see_it(
        self, ada: User, bob: User, running: Batch
    ) -> None:
        job_id = running.slices.get().job_ids[7]
        assert running.public_id in browser(ada).get(f"/jobs/{job_id}/").content.decode()

    def test_offers_its_cancel_as_long_as_it_goes_on_without_a_reload(self, ada: User, running: Batch) -> None:
        going_on = browser(ada).get(running.get_absolute_url()).content.decode()
        assert ('class="when-running"' in going_on, 'data-over="no"' in going_on) == (True, True)
        browser(ada).post(reverse("openai_api:cancel", args=[running.pk]))
        batching.to_the_end(running)
        over = browser(ada).get(running.get_absolute_url()).content.decode()
        assert ('data-over="yes"' in over, "canceled" in over, ">cancelled<" in over) == (True, True, False)

    def test_sends_its_files(self, ada: User, running: Batch) -> None:
        response = browser(ada).get(reverse("openai_api:file", args=[running.pk, "input"]))
        assert b"".join(response.streaming_content).startswith(b'{"custom_id"')  # type: ignore[attr-defined]
        for which in ("output", "errors", "other"):
            assert browser(ada).get(reverse("openai_api:file", args=[running.pk, which])).status_code == 404

    def test_is_of_nobody_else(self, bob: User, running: Batch) -> None:
        for path in ("", "cancel/", "input.jsonl"):
            address = f"{running.get_absolute_url()}{path}"
            send = browser(bob).post if path == "cancel/" else browser(bob).get
            assert send(address).status_code == 404
        assert running.public_id[:18] not in browser(bob).get("/batches/").content.decode()

    def test_cancels_it_for_its_owner_and_for_who_may_cancel_any_job(
        self, ada: User, boss: User, running: Batch
    ) -> None:
        reader = farm.user("rita", is_staff=True)
        reader.user_permissions.set(Permission.objects.filter(codename="view_job"))
        cancel = reverse("openai_api:cancel", args=[running.pk])
        browser(reader).post(cancel)
        assert Batch.objects.get().status == "in_progress"
        browser(ada).post(cancel)
        assert Batch.objects.get().status == "cancelling"
        batching.to_the_end(running)
        refused = browser(boss).post(cancel, follow=True).content.decode()
        assert "cannot be cancelled: it is cancelled" in refused


def test_the_list_has_ones_own_and_for_operators_all(ada: User, bob: User, boss: User, running: Batch) -> None:
    other = made(text(line(0)), user=bob)
    own, every = (browser(who).get("/batches/").content.decode() for who in (ada, boss))
    shown = [running.public_id[:18], other.public_id[:18]]
    assert [each in own for each in shown] == [True, False]
    assert [each in every for each in shown] == [True, True]


def test_live_queries_are_for_the_same_people(ada: User, bob: User, boss: User, running: Batch) -> None:
    of = {"batch_id": running.pk.hex}
    people = {None: (bob, AnonymousUser()), "member": (ada,), "operator": (boss,)}
    for audience, who in people.items():
        for user in who:
            assert live_queries.batch.audience(Viewer(user=user), of) == audience
            assert live_queries.lines.audience(Viewer(user=user), {**of, "page": 0}) == audience
    assert live_queries.batches.audience(Viewer(user=bob), {"whose": ada.pk}) is None
    assert live_queries.batches.audience(Viewer(user=bob), {"whose": live_queries.EVERYBODY}) is None
    assert live_queries.batch.audience(Viewer(user=boss), {"batch_id": "no id"}) is None
