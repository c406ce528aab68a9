"""Clerk's events: what they write and how they read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webhook_samples import RECEIVED, changed, clear, line, lines, report, stored
from webhooks.models import Activity
from webhooks.models.resources import ClerkMembership, ClerkOrganization, ClerkSession, ClerkUser

pytestmark = pytest.mark.django_db

USER = "clerk/user.created.1.json"
MEMBERSHIP = "clerk/organizationMembership.created.1.json"
USER_ID, ORGANIZATION_ID = "user_2kR0aYb1ZtXx7VvQ3mNpLw9hJcD", "org_2kR0cQ8sWm4TzLr6JfYvKd1bNxE"


class TestUsers:
    def test_are_kept(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(2):  # the user, the line
            report(USER)
        user = stored(ClerkUser)
        assert (str(user), user.email, user.username) == ("John Doe", "user@example.com", "example_user")
        assert user.created_at == user.state_at == datetime(2022, 5, 31, 15, 52, 25, 678000, tzinfo=UTC)
        assert line() == ("John Doe signed up", "", "clerkuser user_2NNEqL2nrIRxCBNiiSPAKxvlkEJ")

    def test_that_changed_are_kept_and_not_told(self) -> None:
        report(USER, type="user.updated", body=changed(USER, data__updated_at=1654012345679, data__last_name="Roe"))
        report(USER)
        assert stored(ClerkUser).last_name == "Roe"
        assert lines() == ["John Doe signed up"]

    def test_of_the_least_body_are_there_and_have_no_state(self) -> None:
        report("clerk/user.created.2.json", occurred_at=RECEIVED)
        user = stored(ClerkUser)
        assert (str(user), user.state_at, user.deleted_at) == ("user_123", None, None)
        assert ClerkUser.objects.get().document == {}

    @pytest.mark.parametrize(
        ("primary", "addresses", "email"),
        [
            ("b", [("a", "a@example.org"), ("b", "b@example.org")], "b@example.org"),
            (None, [("a", "a@example.org"), ("b", "b@example.org")], "a@example.org"),
            ("gone", [("a", "a@example.org")], "a@example.org"),
            ("b", [], ""),
        ],
    )
    def test_are_written_to_at_their_primary_address(
        self, primary: str | None, addresses: list[Any], email: str
    ) -> None:
        addresses_sent = [{"id": name, "email_address": address} for name, address in addresses]
        report(USER, body=changed(USER, data__email_addresses=addresses_sent, data__primary_email_address_id=primary))
        assert stored(ClerkUser).email == email

    def test_that_were_deleted_before_they_came_stay_so(self) -> None:
        report("clerk/user.deleted.1.json")
        assert line()[0] == f"deleted account {USER_ID}"
        late = changed(USER, data__id=USER_ID, data__updated_at=1790000900001)
        report(USER, body=late)
        user = stored(ClerkUser)
        assert (str(user), user.deleted_at) == ("John Doe", datetime(2026, 9, 21, 14, 28, 20, tzinfo=UTC))


class TestOrganizations:
    def test_come_along_with_memberships(self) -> None:
        report(MEMBERSHIP)
        membership = stored(ClerkMembership)
        assert (membership.role, str(stored(ClerkOrganization, external_id=membership.parent))) == (
            "org:admin",
            "Acme Inc",
        )
        assert (membership.user_id, ClerkUser.objects.exists()) == (USER_ID, False)
        assert line()[0] == "Ana joined organization Acme Inc"

    def test_know_best_of_themselves_within_one_moment(self) -> None:
        file = "clerk/organization.created.1.json"
        for own, carried in (("A", "B"), ("B", "A")):  # a digest would choose the same of them twice
            clear()
            report(file, type="organization.updated", body=changed(file, data__name=own))
            report(MEMBERSHIP, body=changed(MEMBERSHIP, data__organization__name=carried))
            assert stored(ClerkOrganization).name == own

    def test_that_were_deleted_stay_so(self) -> None:
        report("clerk/organization.created.1.json", type="organization.deleted")
        report("clerk/organization.created.1.json")
        assert stored(ClerkOrganization).deleted_at is not None

    def test_lose_members_although_the_body_does_not_say_so(self) -> None:
        report("clerk/organizationMembership.deleted.1.json")
        report(MEMBERSHIP)
        membership = stored(ClerkMembership)
        assert (membership.deleted_at, membership.role) == (datetime(2026, 9, 21, 14, 26, 40, tzinfo=UTC), "org:admin")
        assert lines() == ["Ana left organization Acme Inc", "Ana joined organization Acme Inc"]

    def test_give_other_roles(self) -> None:
        body = changed(MEMBERSHIP, data__role="org:member", data__updated_at=1790000001201)
        report(MEMBERSHIP, type="organizationMembership.updated", body=body)
        report(MEMBERSHIP)
        assert stored(ClerkMembership).role == "org:member"
        assert lines()[0] == "Ana became org:member of organization Acme Inc"

    @pytest.mark.parametrize(
        ("action", "verb"),
        [
            ("created", "was invited to"),
            ("accepted", "accepted the invitation to"),
            ("revoked", "lost the invitation to"),
        ],
    )
    def test_ask_people_in(self, action: str, verb: str) -> None:
        data = {"id": "orginv_1", "email_address": "bob@example.org", "organization_id": ORGANIZATION_ID}
        body = {"data": data, "timestamp": 1790000001200}
        report(MEMBERSHIP, type=f"organizationInvitation.{action}", body=body)
        assert line() == (
            f"bob@example.org {verb} organization {ORGANIZATION_ID}", "", f"clerkorganization {ORGANIZATION_ID}"
        )  # fmt: skip


class TestSessions:
    def test_begin_and_end(self) -> None:
        file = "clerk/session.created.1.json"
        ended = changed(file, data__status="ended", data__updated_at=1790000009000)
        report(file, type="session.ended", body=ended, pk=1000)
        report(file)
        session = stored(ClerkSession)
        assert (session.status, session.parent) == ("ended", USER_ID)
        assert session.expires_at == datetime(2026, 9, 28, 14, 13, 20, 500000, tzinfo=UTC)
        assert lines() == [f"{USER_ID} logged out", f"{USER_ID} logged in"]

    def test_are_told_with_the_person_they_are_of(self) -> None:
        report("clerk/session.created.1.json")
        assert Activity.objects.values_list("kind", "resource").get() == ("clerkuser", USER_ID)
