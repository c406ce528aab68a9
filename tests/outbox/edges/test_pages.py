"""The pages of the outbox, as a person uses them; and its tables in the administration."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from outbox import operations
from outbox.errors import CannotReplay
from outbox.models import Attempt, Endpoint, Message
from outbox.operations import endpoints
from postgres import clock
from scheduling import operations as scheduling
from tests import farm
from tests.outbox.receivers import HERE, receiver
from tests.outbox.support import drain, endpoint

pytestmark = pytest.mark.django_db

GOOD = {"name": "hooks", "url": "https://hooks.example/x", "events": ["job.*"], "kinds": "image, chat"}


@pytest.fixture
def ann() -> User:
    return farm.user("ann")


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password=farm.PASSWORD)


def browser(of: User) -> Client:
    client = Client()
    client.force_login(of)
    return client


class TestANewEndpoint:
    def test_shows_its_secret_once(self, ann: User) -> None:
        client = browser(ann)
        page = client.post("/outbox/new/", GOOD).content.decode()
        row = Endpoint.objects.get()
        [secret] = endpoints.secrets_of([row.pk])[row.pk]
        assert secret in page
        assert (row.owner, row.events, row.kinds, row.status) == (ann, ["job.*"], ["image", "chat"], "active")
        assert secret not in client.get(f"/outbox/{row.pk}/").content.decode()
        assert LogEntry.objects.filter(user=ann, object_id=row.pk).exists()

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"url": "ftp://x.example/"}, "begins with https:// or http://"),
            ({"url": "https://user:pw@x.example/"}, "names a user"),
            ({"name": ""}, "This field is required"), ({"events": []}, "This field is required"),
            ({"events": ["queue.*"]}, "not one of the available choices"),
            ({"per_minute": "0"}, "greater than or equal to"),
            ({"kinds": "x" * 101}, "at most 100 names"),
        ],
    )  # fmt: skip
    def test_that_cannot_be_says_why(self, ann: User, change: dict[str, object], sentence: str) -> None:
        answer = browser(ann).post("/outbox/new/", GOOD | change)
        assert answer.status_code == 422
        assert sentence in answer.content.decode().replace("&#x27;", "'")
        assert not Endpoint.objects.exists()

    def test_of_the_whole_farm_is_for_operators(self, ann: User, root: User) -> None:
        for person in (ann, root):
            browser(person).post("/outbox/new/", GOOD | {"name": person.username, "for_farm": "on"})
        assert {row.name: row.owner for row in Endpoint.objects.all()} == {"ann": ann, "root": None}

    def test_is_one_of_so_many(self, ann: User, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ENDPOINTS_PER_OWNER": 1}
        client = browser(ann)
        client.post("/outbox/new/", GOOD)
        assert "There are 1 endpoints of yours already" in client.post("/outbox/new/", GOOD).content.decode()


class TestAnEndpoint:
    def test_is_changed(self, ann: User) -> None:
        row = endpoint(owner=ann, events=["job.*"])
        client = browser(ann)
        assert 'value="https://hooks.example/"' in client.get(f"/outbox/{row.pk}/edit/").content.decode()
        client.post(f"/outbox/{row.pk}/edit/", GOOD | {"with_result": "on", "per_minute": "5"})
        row.refresh_from_db()
        assert (row.url, row.with_result, row.per_minute) == ("https://hooks.example/x", True, 5)

    def test_is_paused_resumed_disabled_and_deleted(self, ann: User) -> None:
        row = endpoint(owner=ann)
        client = browser(ann)
        for action, status in (("pause", "paused"), ("resume", "active"), ("disable", "disabled")):
            client.post(f"/outbox/{row.pk}/{action}/")
            row.refresh_from_db()
            assert row.status == status
        assert client.post(f"/outbox/{row.pk}/burn/").status_code == 404
        client.post(f"/outbox/{row.pk}/delete/")
        assert not Endpoint.objects.exists()

    def test_gets_another_secret_which_is_shown_once(self, ann: User) -> None:
        row = endpoint(owner=ann)
        page = browser(ann).post(f"/outbox/{row.pk}/rotate/").content.decode()
        new, _ = endpoints.secrets_of([row.pk])[row.pk]
        assert new in page

    def test_shows_its_messages_and_one_of_them_its_attempts(self, ann: User, settings: Settings) -> None:
        row = endpoint(owner=ann, url="https://hooks.example/<b>")
        client = browser(ann)
        client.post(f"/outbox/{row.pk}/test/")
        message = Message.objects.get()
        page = client.get(f"/outbox/{row.pk}/").content.decode()
        assert f"#{message.pk} outbox.test" in page
        assert "&lt;b&gt;" in page
        assert "<b>" not in page
        assert f"#{message.pk}" not in client.get(f"/outbox/{row.pk}/?status=dead").content.decode()
        assert "A test event, sent by hand." in client.get(f"/outbox/messages/{message.pk}/").content.decode()

    def test_names_the_earlier_message_that_one_of_its_subject_waits_for(self, ann: User) -> None:
        row = endpoint(owner=ann)
        for _ in range(2):
            operations.record("queue.paused", "queue/gpu", {}, owner=ann)
        earlier, later = Message.objects.filter(endpoint=row).order_by("pk")
        client = browser(ann)
        link = f'<a href="/outbox/messages/{earlier.pk}/">Message {earlier.pk}</a>'
        assert link in client.get(f"/outbox/messages/{later.pk}/").content.decode()
        assert "Waits for" not in client.get(f"/outbox/messages/{earlier.pk}/").content.decode()

    def test_of_somebody_else_is_not_there(self, ann: User) -> None:
        eve = farm.user("eve")
        row = endpoint(owner=eve)
        operations.send_test(row.pk, by=eve)
        message, client = Message.objects.get(), browser(ann)
        paths = [f"/outbox/{row.pk}/", f"/outbox/{row.pk}/edit/", f"/outbox/messages/{message.pk}/"]
        acts = ["pause", "resume", "disable", "test", "rotate", "delete", "replay"]
        assert {client.get(path).status_code for path in paths} == {404}
        assert {client.post(f"/outbox/{row.pk}/{act}/").status_code for act in acts} == {404}
        assert client.post(f"/outbox/messages/{message.pk}/replay/").status_code == 404
        assert "hooks" not in client.get("/outbox/").content.decode().partition("<main")[2]
        row.refresh_from_db()
        assert row.status == "active"

    def test_may_be_looked_at_by_staff_who_may_look(self, ann: User) -> None:
        from django.contrib.auth.models import Permission

        ann.is_staff = True
        ann.save()
        ann.user_permissions.add(Permission.objects.get(codename="view_endpoint"))
        row = endpoint(owner=farm.user("eve"))
        client = browser(ann)
        page = client.get(f"/outbox/{row.pk}/")
        assert page.status_code == 200
        assert "Rotate" not in page.content.decode()
        assert client.post(f"/outbox/{row.pk}/rotate/").status_code == 404

    def test_whose_number_is_too_large_is_not_there(self, ann: User) -> None:
        client = browser(ann)
        for path in (f"/outbox/{2**70}/", f"/outbox/messages/{2**70}/"):
            assert client.get(path).status_code == 404
        row = endpoint(owner=ann)
        assert client.get(f"/outbox/{row.pk}/?before={2**70}&status=x").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_dead_messages_are_replayed_from_the_page(ann: User, settings: Settings) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE}
    client = browser(ann)
    with receiver(status=410) as there:
        row = endpoint(there.url(), owner=ann)
        client.post(f"/outbox/{row.pk}/test/")
        drain()
        message = Message.objects.get()
        assert "HTTP 410" in client.get(f"/outbox/messages/{message.pk}/").content.decode()
        there.status = 200
        client.post(f"/outbox/{row.pk}/resume/")
        client.post(f"/outbox/{row.pk}/replay/", {"status": "dead"})
        scheduling.run_due()
        drain()
        client.post(f"/outbox/messages/{message.pk}/replay/")
        client.post(f"/outbox/messages/{message.pk}/replay/")  # it waits: nothing more
        drain()
    assert len(there.requests) == 3


@pytest.mark.django_db(transaction=True)
class TestABulkReplay:
    def test_is_counted_for_the_filter_of_the_page_then_confirmed_and_followed(self, ann: User) -> None:
        row = endpoint(owner=ann)
        dead(row, "job.failed", "job.failed", "job.lost")
        client = browser(ann)
        page = client.get(f"/outbox/{row.pk}/?status=dead&event_type=job.failed").content.decode()
        rows = page.partition("<tbody")[2].partition("</tbody")[0]
        assert ("job.lost" in rows, rows.count(" job.failed</a>")) == (False, 2)
        assert 'name="event_type" value="job.failed"' in page  # of the form that asks
        wanted = {"status": "dead", "event_type": "job.failed"}
        question = client.get(f"/outbox/{row.pk}/replay/", wanted).content.decode()
        assert "2 messages match" in question
        assert not Message.objects.filter(status="pending").exists()
        begun = client.post(f"/outbox/{row.pk}/replay/", wanted)
        assert "0</strong> of 2" in client.get(begun["Location"]).content.decode()
        scheduling.run_due()
        assert "2</strong> of 2" in client.get(begun["Location"]).content.decode()
        assert Message.objects.get(status="dead").event.type == "job.lost"

    def test_of_nothing_says_so(self, ann: User) -> None:
        row = endpoint(owner=ann)
        client = browser(ann)
        assert "No matches" in client.get(f"/outbox/{row.pk}/replay/").content.decode()
        page = client.post(f"/outbox/{row.pk}/replay/", follow=True).content.decode()
        assert "none was replayed" in page

    def test_is_stopped_between_two_batches_and_ends_with_the_rights_of_who_began_it(
        self, ann: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("outbox.operations.replays.BATCH", 1)
        row = endpoint(owner=ann)
        dead(row, *["job.failed"] * 4)
        client = browser(ann)
        address = client.post(f"/outbox/{row.pk}/replay/")["Location"]
        scheduling.run_due()
        assert "Stopped" in client.post(f"{address}stop/", follow=True).content.decode()
        assert "Too late" in client.post(f"{address}stop/", follow=True).content.decode()
        assert Message.objects.filter(status="pending").count() == 1
        client.post(f"/outbox/{row.pk}/replay/")
        User.objects.update(is_active=False)
        scheduling.run_due()
        assert Message.objects.filter(status="pending").count() == 1


def dead(row: Endpoint, *types: str) -> None:
    """Messages that this endpoint did not take."""
    for number, event_type in enumerate(types):
        event = operations.NewEvent(type=event_type, subject=f"job/{number}", data={})
        operations.record_all([event], only=row.pk)
    Message.objects.filter(endpoint=row).update(status="dead", next_attempt_at=None, ended_at=Now())


class TestTheAdministration:
    def test_lists_and_shows_both_tables_and_no_secret(self, root: User) -> None:
        row = endpoint()
        operations.send_test(row.pk, by=root)
        client = browser(root)
        [secret] = endpoints.secrets_of([row.pk])[row.pk]
        for table, pk in (("endpoint", row.pk), ("message", Message.objects.get().pk)):
            lists = client.get(reverse(f"admin:outbox_{table}_changelist")).content.decode()
            page = client.get(reverse(f"admin:outbox_{table}_change", args=[pk]), follow=True).content.decode()
            assert secret not in lists + page
        assert "A test event" in page

    @pytest.mark.parametrize(("action", "status"), [("pause", "paused"), ("resume", "active"), ("disable", "disabled")])
    def test_acts_on_several(self, root: User, action: str, status: str) -> None:
        rows = [endpoint(), endpoint("https://two.example/")]
        data = {"action": f"{action}_selected", "_selected_action": [row.pk for row in rows]}
        client = browser(root)
        client.post(reverse("admin:outbox_endpoint_changelist"), data)
        assert set(Endpoint.objects.values_list("status", flat=True)) == {"active"}
        client.post(reverse("admin:outbox_endpoint_changelist"), data | {"confirmed": "yes"})
        assert set(Endpoint.objects.values_list("status", flat=True)) == {status}

    @pytest.mark.django_db(transaction=True)
    def test_replays_all_that_is_dead_of_endpoints(self, root: User) -> None:
        one, two = endpoint(), endpoint("https://two.example/")
        dead(one, "queue.paused", "queue.paused")
        dead(two, "queue.paused")
        data = {"action": "replay_dead", "_selected_action": [one.pk, two.pk]}
        client = browser(root)
        question = client.post(reverse("admin:outbox_endpoint_changelist"), data).content.decode()
        assert "Replay 3 dead messages?" in question
        page = client.post(reverse("admin:outbox_endpoint_changelist"), data | {"confirmed": "yes"}, follow=True)
        assert "Replays 2 messages" in page.content.decode()
        scheduling.run_due()
        assert Message.objects.filter(status="pending").count() == 3

    def test_replays(self, root: User) -> None:
        row = endpoint()
        operations.send_test(row.pk, by=root)
        operations.disable(row.pk, by=root)
        message = Message.objects.get()
        data = {"action": "replay_selected", "_selected_action": [message.pk], "confirmed": "yes"}
        browser(root).post(reverse("admin:outbox_message_changelist"), data)
        message.refresh_from_db()
        assert message.status == "pending"

    def test_goes_on_behind_a_message_that_cannot_be_replayed_and_counts_both(self, root: User) -> None:
        row = endpoint()
        dead(row, "queue.paused")
        operations.send_test(row.pk, by=root)
        pks = [*Message.objects.order_by("-pk").values_list("pk", flat=True)]
        data = {"action": "replay_selected", "_selected_action": pks}
        client = browser(root)
        question = client.post(reverse("admin:outbox_message_changelist"), data).content.decode()
        assert "1 dead" in question
        assert "1 pending" in question
        page = client.post(reverse("admin:outbox_message_changelist"), data | {"confirmed": "yes"}, follow=True)
        [line] = [str(one) for one in page.context["messages"]]
        assert "1 sent once more" in line
        assert f"1 {CannotReplay().message}" in line
        assert Message.objects.filter(status="pending").count() == 2


def test_the_account_leads_there(ann: User) -> None:
    assert re.search(r'href="/outbox/"', browser(ann).get("/accounts/").content.decode())


def test_an_endpoint_with_many_messages_is_deleted_by_as_many_statements_as_one_with_few(ann: User) -> None:
    def statements(count: int) -> int:
        row = endpoint(owner=ann)
        for n in range(count):
            operations.record("job.failed", f"job/{n}", {}, owner=ann)
        ids = Message.objects.filter(endpoint=row).values_list("pk", flat=True)
        common = {"number": 1, "started_at": clock.now(), "duration_ms": 1, "outcome": "failed"}
        Attempt.objects.bulk_create([Attempt(message_id=pk, **common) for pk in ids])
        with CaptureQueriesContext(connection) as captured:
            operations.delete(row.pk, by=ann)
        return len(captured)

    assert statements(250) == statements(2)
    assert (Message.objects.count(), Attempt.objects.count(), Endpoint.objects.count()) == (0, 0, 0)


def test_a_callback_cannot_be_sent_where_another_one_goes(ann: User) -> None:
    one, other = (endpoint(f"https://hooks.example/{n}", owner=ann, is_callback=True) for n in (1, 2))
    answer = browser(ann).post(f"/outbox/{one.pk}/edit/", GOOD | {"url": other.url})
    assert answer.status_code == 422
    assert "another callback goes there" in answer.content.decode()
