"""The audit log: who came in and went, by which way; tokens, rights, and what staff do; as a list, a file, events."""

import csv
import io
import json
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from accounts import domain, operations
from accounts.models import ApiToken, AuditEvent, AuditLine
from core import audit
from outbox.models import Event
from tests import farm
from tests.accounts.edges.test_login import log_in
from tests.accounts.edges.test_second_factors import CODE_PAGE, code, with_app
from tests.accounts.integration import people
from tests.outbox.support import endpoint

pytestmark = pytest.mark.django_db
JOBS = "/api/v1/jobs"


def lines(*events: str) -> list[tuple[str, str, str, str]]:
    """Event, who, about whom, and what, oldest first."""
    rows = AuditLine.objects.select_related("by").order_by("pk")
    found = [(row.event, str(row.by or ""), row.about, row.summary) for row in rows]
    return [line for line in found if not events or line[0] in events]


@pytest.fixture
def boss(client: Client) -> User:
    """A superuser, in this browser."""
    boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
    client.force_login(boss)
    AuditEvent.objects.all().delete()
    return boss


def test_says_what_somebody_did_who_is_deleted(ada: User) -> None:
    """Django's own lines go with who wrote them: with the account of an operator all that they had done was gone."""
    mallory = User.objects.create_superuser("mallory")
    audit.record(mallory, ada, "Canceled all of it")
    AuditEvent.objects.create(event="rights_changed", by=mallory, person=ada, about="ada", detail="is_staff: yes")
    mallory.delete()
    assert lines("changed", "rights_changed")[-2:] == [
        ("changed", "", "ada", "mallory: Canceled all of it"),
        ("rights_changed", "", "ada", "mallory: is_staff: yes"),
    ]


def test_says_so_of_a_line_that_another_app_wrote_too(ada: User) -> None:
    mallory = User.objects.create_superuser("mallory")
    LogEntry.objects.create(user=mallory, object_repr="a thing", action_flag=7, change_message="Looked at it")
    mallory.delete()
    assert lines()[-1] == ("deleted", "", "a thing", "mallory: Looked at it")


def test_leads_to_what_somebody_did_it_to_who_is_deleted(client: Client, boss: User) -> None:
    group, mallory = Group.objects.create(name="painters"), User.objects.create_superuser("mallory")
    audit.record(mallory, group, "Renamed")
    mallory.delete()
    page = client.get("/admin/accounts/auditline/?event=changed")
    assert f'<a href="/admin/auth/group/{group.pk}/change/">painters</a>' in page.text
    [row] = map(json.loads, client.get("/admin/accounts/auditline/audit.jsonl?event=changed").text.splitlines())
    assert (row["object_id"], row["detail"]) == (str(group.pk), "mallory: Renamed")


class TestComingIn:
    def test_says_by_which_way_and_from_where(self, client: Client, ada: User) -> None:
        log_in(client)
        client.post("/accounts/logout/")
        client.post(operations.one_time_link(ada))
        assert lines("log_in", "log_out") == [
            ("log_in", "ada", "ada", "password"),
            ("log_out", "ada", "ada", ""),
            ("log_in", "ada", "ada", "one-time link"),
        ]
        assert set(AuditEvent.objects.filter(event="log_in").values_list("address", flat=True)) == {"127.0.0.1"}

    def test_with_a_second_factor_is_one_line_and_a_wrong_code_another(self, client: Client) -> None:
        with_app()
        log_in(client)
        assert lines("log_in") == []
        client.post(CODE_PAGE, {"code": "000000"})
        client.post(CODE_PAGE, {"code": code()})
        assert lines() == [
            ("log_in_failed", "", "ada", "TOTP Authenticator"),
            ("log_in", "ada", "ada", "password, second factor"),
        ]

    def test_as_a_guest_is_none_of_it(self, client: Client) -> None:
        people.come_as_guest(client)
        client.post("/accounts/logout/")
        assert lines("log_in", "log_out") == []


class TestFailures:
    def test_name_who_was_tried_and_no_name_that_nobody_has(self, client: Client, ada: User) -> None:
        log_in(client, password="wrong")
        log_in(client, login="my secret in the wrong field")
        client.post("/accounts/link/made-up/")
        assert lines() == [
            ("log_in_failed", "", "ada", "password"),
            ("log_in_failed", "", "a name that nobody has", "password"),
            ("log_in_failed", "", "", "one-time link"),
        ]

    def test_of_one_address_do_not_fill_the_table(self, client: Client, settings: Settings) -> None:
        for _ in range(40):
            operations.end_log_in("nobody", None, address="address:127.0.0.1")
        assert AuditEvent.objects.count() == 30


class TestTokens:
    def test_made_used_elsewhere_and_revoked_are_lines(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        client.post("/accounts/confirm/", {"password": farm.PASSWORD})
        key = client.post("/accounts/tokens/", {"name": "ci", "scopes": ["read"]}).context["key"]
        for address in ("192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "192.0.2.1"):
            assert Client(REMOTE_ADDR=address).get(JOBS, headers={"Authorization": f"Bearer {key}"}).status_code == 200
        token = ApiToken.objects.get()
        assert token.addresses == ["192.0.2.1", "2001:db8::/64"]
        client.post(f"/accounts/tokens/{token.pk}/revoke/")
        assert [line[0] for line in lines()] == [
            "token_created", "token_from_new_address", "token_from_new_address", "token_revoked"
        ]  # fmt: skip
        elsewhere = AuditEvent.objects.filter(event="token_from_new_address").order_by("pk")
        assert [(line.address, line.by) for line in elsewhere] == [("192.0.2.1", None), ("2001:db8::/64", None)]

    def test_of_many_addresses_are_noted_no_more(self, ada: User) -> None:
        _, key = operations.create_token(ada, name="phone")
        for number in range(60):
            operations.token(key, address=f"192.0.2.{number}")
        assert len(ApiToken.objects.get().addresses) == domain.ADDRESSES_LIMIT
        assert len(lines("token_from_new_address")) == domain.ADDRESSES_LIMIT


class TestRights:
    def test_of_people_and_groups_are_lines_with_who_changed_them(self, client: Client, boss: User) -> None:
        ada, group = farm.user("ada"), Group.objects.create(name="operators")
        right = Permission.objects.get(codename="operate_job")
        group.permissions.add(right)
        ada.groups.add(group)
        ada.groups.add(group)
        ada.is_active = False
        ada.save()
        ada.save()
        assert [(event, about, detail) for event, _, about, detail in lines()] == [
            ("rights_changed", "operators", f"+{right}"),
            ("groups_changed", "ada", "+operators"),
            ("rights_changed", "ada", "is_active: no"),
        ]
        client.post(f"/admin/auth/user/{ada.pk}/change/", {"username": "ada", "is_active": "on", "is_staff": "on"})
        assert ("rights_changed", "boss", "ada", "is_active: yes, is_staff: yes") in lines()
        assert ("groups_changed", "boss", "ada", "-operators") in lines()

    def test_that_a_provider_gives_and_takes_are_lines_where_something_changes(
        self, ada: User, settings: Settings
    ) -> None:
        settings.OIDC_GROUP_MAP = [("ml-team", "operators"), ("heads", "staff")]
        for claimed in (["ml-team"], ["ml-team"], ["heads"]):
            operations.follow_claims(ada, claimed)
        assert [(about, detail) for _, _, about, detail in lines()] == [
            ("ada", "+operators"), ("ada", "-operators"), ("ada", "is_staff: yes"),
        ]  # fmt: skip


class TestStaff:
    def test_take_factors_away_and_make_links_with_their_name_on_it(self, client: Client, boss: User) -> None:
        ada = with_app()
        chosen = {"_selected_action": [ada.pk], "confirmed": "yes"}
        client.post("/admin/auth/user/", {"action": "make_login_link", **chosen})
        client.post("/admin/auth/user/", {"action": "forget_second_factors", **chosen})
        assert not Authenticator.objects.exists()
        assert lines() == [
            ("link_created", "boss", "ada", "good for 1440 minutes"),
            ("second_factor_removed", "boss", "ada", "all, of a lost device"),
        ]

    def test_on_the_farms_machine_have_no_name(self, ada: User) -> None:
        call_command("login_link", "ada")
        assert lines("link_created") == [("link_created", "", "ada", "good for 1440 minutes")]

    def test_lines_of_djangos_own_log_are_in_the_same_list_in_the_order_of_time(
        self, client: Client, boss: User
    ) -> None:
        ada = farm.user("ada")
        operations.one_time_link(ada)
        audit.record(boss, ada, "looked at")
        operations.one_time_link(ada)
        assert [line[0] for line in lines()] == ["link_created", "changed", "link_created"]
        assert AuditLine.objects.count() == len(set(AuditLine.objects.values_list("pk", flat=True)))


class TestTheList:
    def test_is_narrowed_by_event_person_and_day(self, client: Client, boss: User) -> None:
        operations.one_time_link(farm.user("ada"))
        operations.one_time_link(farm.user("bob"))
        audit.record(boss, boss, "looked at")
        for query, count in (("", 3), ("?event=link_created", 2), ("?q=bob", 1), ("?at_day=today", 3), ("?q=boss", 1)):
            page = client.get(f"/admin/accounts/auditline/{query}")
            assert (page.status_code, len(page.context["cl"].result_list)) == (200, count), query

    def test_shows_each_line_by_itself(self, client: Client, boss: User) -> None:
        operations.one_time_link(farm.user("ada"))
        page = client.get(f"/admin/accounts/auditline/{AuditLine.objects.get().pk}/change/")
        assert (page.status_code, "good for 1440 minutes" in page.text) == (200, True)

    def test_is_a_file_too(self, client: Client, boss: User) -> None:
        operations.audit("log_in_failed", None, "=1+1", about="bob")
        operations.one_time_link(farm.user("ada"))
        answer = client.get("/admin/accounts/auditline/audit.csv")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [(row["Event"], row["Detail"]) for row in rows] == [
            ("link_created", "good for 1440 minutes"), ("log_in_failed", "'=1+1"),
        ]  # fmt: skip
        answer = client.get("/admin/accounts/auditline/audit.jsonl?event=link_created")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.jsonl"'
        [row] = map(json.loads, answer.text.splitlines())
        assert (row["event"], row["by"], row["about"]) == ("link_created", None, "ada")

    def test_is_for_who_may_view_it(self, client: Client) -> None:
        client.force_login(User.objects.create_user("staff", is_staff=True))
        for page in ("", "audit.csv", "audit.jsonl"):
            assert client.get(f"/admin/accounts/auditline/{page}").status_code == 403

    def test_is_kept_for_so_many_days(self, boss: User, settings: Settings) -> None:
        operations.audit("log_in", boss)
        audit.record(boss, boss, "looked at")
        farm.retain()
        assert len(lines()) == 2
        AuditEvent.objects.update(at=farm.now() - timedelta(days=401))
        LogEntry.objects.update(action_time=farm.now() - timedelta(days=401))
        farm.retain()
        assert lines() == []


class TestEvents:
    @pytest.fixture(autouse=True)
    def _endpoint(self) -> None:
        endpoint(events=["audit.*"])

    def test_are_sent_of_people_and_of_what_staff_do(self, client: Client, ada: User) -> None:
        log_in(client)
        client.force_login(User.objects.create_superuser("boss"))
        client.post(f"/admin/auth/user/{ada.pk}/change/", {"username": "ada2", "is_active": "on"})
        sent = [(event.type, json.loads(event.body)["data"]["about"]) for event in Event.objects.all()]
        assert ("audit.log_in", "ada") in sent
        assert ("audit.changed", "ada2") in sent

    def test_are_not_sent_of_what_members_do_to_their_own(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        audit.record(ada, ada, "shared by a link")
        assert not Event.objects.exists()
