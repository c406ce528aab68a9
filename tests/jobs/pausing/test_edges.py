"""Where people pause jobs and let queues age: the list of jobs, the page of a queue, the administration, the API."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from accounts import operations as accounts
from jobs import operations
from jobs.models import ConcurrencyKey, PausedOwner, Queue
from jobs.queries import reads
from outbox.models import Message
from tests import farm
from tests.outbox import support

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss(client: Client) -> User:
    person = User.objects.create_superuser("boss")
    client.force_login(person)
    return person


@pytest.fixture
def ada() -> User:
    farm.kind()
    return farm.user("ada")


def call(client: Client, word: str, body: dict[str, Any], *, by: User) -> Any:
    _, key = accounts.create_token(by, name="t", scopes=["operate"])
    answer = client.post(
        f"/api/v1/jobs/{word}", body, content_type="application/json", headers={"Authorization": f"Bearer {key}"}
    )
    return answer.status_code, answer.json()


def test_a_list_narrowed_to_an_owner_pauses_and_resumes_them(client: Client, boss: User, ada: User) -> None:
    page = reverse("jobs:list") + "?owner=ada"
    assert "Pause what waits" in client.get(page).text
    answer = client.post(reverse("jobs:pause_owner", args=[ada.pk]))
    assert answer["Location"] == page
    shown = client.get(page).text
    assert "The jobs of ada were paused by boss" in shown
    client.post(reverse("jobs:resume_owner", args=[ada.pk]))
    assert not PausedOwner.objects.exists()
    assert [line.change_message for line in LogEntry.objects.order_by("pk")] == ["jobs paused", "jobs resumed"]
    assert "Pause what waits" not in client.get(reverse("jobs:list")).text


def test_the_page_of_a_job_pauses_its_concurrency_key_and_resumes_it_for_those_who_run_the_farm(
    client: Client, boss: User, ada: User
) -> None:
    farm.kind(concurrency=1, concurrency_key="{n}")
    [job] = farm.submit(1, owner=ada)
    page = reverse("jobs:job", args=[job.pk])
    assert "Pause what waits" in client.get(page).text
    answer = client.post(reverse("jobs:pause_key", args=[job.pk]))
    assert answer["Location"] == f"{page}#concurrency-key"
    shown = " ".join(client.get(page).text.split())
    assert "The jobs of the concurrency key &quot;0&quot; have been paused since" in shown
    assert "By boss." in shown
    assert '<a href="#concurrency-key">Resume the jobs of this concurrency key</a>' in shown
    client.force_login(ada)
    shown = " ".join(client.get(page).text.split())
    assert ("have been paused since" in shown, "By boss." in shown) == (True, False)
    assert 'id="concurrency-key"' not in shown
    assert client.post(reverse("jobs:resume_key", args=[job.pk])).status_code == 403
    client.force_login(boss)
    client.post(reverse("jobs:resume_key", args=[job.pk]))
    assert ConcurrencyKey.objects.get().paused_at is None
    assert [line.change_message for line in LogEntry.objects.order_by("pk")] == ["paused", "resumed"]


def test_who_waits_without_the_field_of_a_key_is_not_told_that_all_of_the_kind_do(client: Client, ada: User) -> None:
    farm.kind(concurrency=1, concurrency_key="{account}")
    operations.submit("work", {"account": "a"})
    job = operations.submit("work", {}, owner=ada)
    operations.pause_key(ConcurrencyKey.objects.get(name="").pk)
    [reason] = reads.why_not_running(job.pk)[:1]
    assert reason.sentence.startswith("The jobs of its kind without a concurrency key have been paused since ")


def test_who_is_paused_sees_that_on_their_list_and_not_by_whom(client: Client, ada: User) -> None:
    operations.pause_owner(ada, by=farm.user("boss", is_staff=True))
    client.force_login(ada)
    shown = client.get(reverse("jobs:list")).text
    assert "Your jobs were paused" in shown
    assert "boss" not in shown
    assert "Resume" not in shown


def test_why_leads_operators_to_where_they_are_resumed(client: Client, boss: User, ada: User) -> None:
    [job] = farm.submit(1, owner=ada)
    operations.pause_owner(ada, by=boss)
    shown = client.get(reverse("jobs:job", args=[job.pk])).text
    assert "The jobs of ada have been paused since" in shown
    assert "By boss." in shown
    assert '<a href="/jobs/?owner=ada">Resume the jobs of ada</a>' in shown


def test_the_administration_pauses_by_adding_and_resumes_by_deleting(client: Client, boss: User, ada: User) -> None:
    client.post(reverse("admin:jobs_pausedowner_add"), {"owner": ada.pk})
    assert PausedOwner.objects.get().paused_by == boss
    client.post(reverse("admin:jobs_pausedowner_delete", args=[ada.pk]), {"post": "yes"})
    assert not PausedOwner.objects.exists()
    words = LogEntry.objects.filter(object_repr="ada", action_flag=2).order_by("pk")
    assert list(words.values_list("change_message", flat=True)) == ["jobs paused", "jobs resumed"]


def test_the_api_pauses_and_resumes_an_owner(client: Client, boss: User, ada: User) -> None:
    status, answer = call(client, "pause", {"owner": "ada"}, by=boss)
    assert (status, answer["paused"], answer["by"]) == (200, True, "boss")
    assert answer["since"]
    assert call(client, "pause", {"owner": "ada"}, by=boss) == (200, answer)
    assert call(client, "resume", {"owner": "ada"}, by=boss) == (200, {"paused": False, "since": None, "by": None})


def test_the_api_pauses_queues_and_concurrency_keys_too(client: Client, boss: User) -> None:
    farm.kind(concurrency=1, concurrency_key="{n}")
    [job] = farm.submit(1)
    assert call(client, "pause", {"queue": "work"}, by=boss)[1]["by"] == "boss"
    assert call(client, "resume", {"queue": "work"}, by=boss)[1]["paused"] is False
    assert Queue.objects.get(pk="work").paused_at is None
    assert call(client, "pause", {"kind": "work", "concurrency_key": "0"}, by=boss)[1]["by"] == "boss"
    assert ConcurrencyKey.objects.get().paused_by == boss
    _, key = accounts.create_token(boss, name="why", scopes=["read"])
    why = client.get(f"/api/v1/jobs/{job.pk}/why", headers={"Authorization": f"Bearer {key}"}).json()
    assert (why["reasons"][0]["code"], why["reasons"][0]["by"]) == ("key_paused", "boss")
    assert call(client, "resume", {"kind": "work", "concurrency_key": "0"}, by=boss)[1]["by"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"owner": "ada", "queue": "work"}, 422),
        ({"owner": "ada", "concurrency_key": "x"}, 422),
        ({"kind": "work"}, 422),
        ({"owner": "nobody"}, 404),
        ({"queue": "nowhere"}, 404),
        ({"queue": "work", "concurrency_key": "x"}, 404),
    ],
)
def test_what_names_nothing_or_too_much_is_refused(
    client: Client, boss: User, ada: User, body: dict[str, Any], status: int
) -> None:
    assert call(client, "pause", body, by=boss)[0] == status
    assert not PausedOwner.objects.exists()


def test_members_pause_nobody_over_the_api(client: Client, ada: User) -> None:
    status, answer = call(client, "pause", {"owner": "ada"}, by=ada)
    assert (status, answer["error"]) == (403, "forbidden")


def test_endpoints_hear_of_it(boss: User, ada: User) -> None:
    support.endpoint(events=["owner.*"])
    operations.pause_owner(ada, by=boss)
    operations.resume_owner(ada)
    sent = [(one.event.type, one.event.subject) for one in Message.objects.select_related("event").order_by("pk")]
    assert sent == [("owner.paused", f"owner/{ada.pk}"), ("owner.resumed", f"owner/{ada.pk}")]


def test_a_queues_page_sets_how_it_ages(client: Client, boss: User, ada: User) -> None:
    order = reverse("jobs:order", args=["work"])
    client.post(order, {"fair": "owner", "ages_after": "600"})
    queue = Queue.objects.get(pk="work")
    assert (queue.fair, queue.ages_after) == ("owner", 600)
    assert "one priority each 10 min" in client.get(reverse("jobs:queue", args=["work"])).text
    assert client.post(order, {"fair": "owner", "ages_after": "0"}).status_code == 422
    client.post(order, {"fair": "off", "ages_after": ""})
    queue.refresh_from_db()
    assert (queue.fair, queue.ages_after) == ("off", None)


def test_a_jobs_page_shows_what_it_counts_as(client: Client, boss: User, ada: User) -> None:
    operations.set_ages_after("work", 600)
    [job] = farm.submit(1)
    farm.submit(1, priority=9)
    farm.pass_time(job, 1300)
    operations.tend_lanes()
    shown = " ".join(client.get(reverse("jobs:job", args=[job.pk])).text.split())
    assert "counts as 2, having waited for so long" in shown
    assert "counts as priority 2 by now" in shown
