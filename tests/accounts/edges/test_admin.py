"""People and their tokens in the admin."""

import re

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from accounts import operations
from accounts.errors import Unauthorized
from accounts.models import AuditEvent, MemberGroup, OneTimeLink

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(client: Client) -> User:
    """A superuser, in this browser."""
    root = User.objects.create_superuser("root")
    client.force_login(root)
    return root


def staff(*permissions: str) -> User:
    """Somebody in the staff who may do just this."""
    person = User.objects.create_user("staff", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return person


def act(client: Client, url_name: str, action: str, *ids: int) -> str:
    """The page after an action on these rows."""
    fields = {"action": action, "_selected_action": [str(number) for number in ids], "confirmed": "yes"}
    return client.post(reverse(url_name), fields, follow=True).text


class TestPages:
    @pytest.mark.parametrize(
        "url_name", ["auth_user_changelist", "auth_user_add", "auth_group_changelist", "accounts_apitoken_changelist"]
    )
    def test_open(self, client: Client, root: User, url_name: str) -> None:
        operations.create_token(root, name="ci")
        assert client.get(reverse(f"admin:{url_name}")).status_code == 200

    def test_show_a_token_without_its_hash_and_let_nobody_edit_or_add_one(self, client: Client, root: User) -> None:
        token, key = operations.create_token(root, name="ci")
        page = client.get(reverse("admin:accounts_apitoken_change", args=[token.pk]))
        assert page.status_code == 200
        assert token.key_hash not in page.text
        assert key not in page.text
        assert client.get(reverse("admin:accounts_apitoken_add")).status_code == 403


class TestPeople:
    def test_delete_others_and_not_themselves(self, client: Client, root: User) -> None:
        ada = User.objects.create_user("ada")
        for person in (root, ada):
            client.post(reverse("admin:auth_user_delete", args=[person.pk]), {"post": "yes"})
        assert [*User.objects.all()] == [root]
        bob = User.objects.create_user("bob")
        chosen = {"action": "delete_selected", "_selected_action": [root.pk, bob.pk], "post": "yes"}
        page = client.post(reverse("admin:auth_user_changelist"), chosen)
        assert "you yourself, which another administrator may do" in page.text
        assert User.objects.count() == 2


class TestGroups:
    def test_show_who_made_them_and_how_many_are_in_them(self, client: Client, root: User) -> None:
        ada = User.objects.create_user("ada")
        operations.create_group("Painters", by=ada)
        Group.objects.create(name="operators")
        text = re.sub(r"<[^>]+>|\s+", " ", client.get(reverse("admin:auth_group_changelist")).text)
        assert re.search(r"Painters +1 +ada ", text)
        assert re.search(r"operators +0 +staff ", text)

    def test_cost_the_same_reads_however_many(
        self, client: Client, root: User, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for number in range(15):
            group = Group.objects.create(name=f"group {number}")
            MemberGroup.objects.create(group=group, maker=User.objects.create_user(f"maker{number}"))
        client.get(reverse("admin:auth_group_changelist"))
        with django_assert_max_num_queries(8):
            client.get(reverse("admin:auth_group_changelist"))

    def test_have_their_invitation_closed_here(self, client: Client, root: User) -> None:
        ada = User.objects.create_user("ada")
        group = operations.create_group("Painters", by=ada)
        url = reverse("admin:auth_group_change", args=[group.pk])
        assert "by_members-0-is_inviting" in client.get(url).text
        form = {"by_members-TOTAL_FORMS": 1, "by_members-INITIAL_FORMS": 1, "by_members-0-group": group.pk}
        assert client.post(url, {"name": "Painters", **form}).status_code == 302
        assert operations.invitation(group, by=ada) is None

    def test_of_staff_get_no_invitation(self, client: Client, root: User) -> None:
        group = Group.objects.create(name="operators")
        url = reverse("admin:auth_group_change", args=[group.pk])
        assert "is_inviting" not in client.get(url).text
        assert client.post(url, {"name": "operators"}).status_code == 302
        assert not MemberGroup.objects.exists()


class TestLoginLinkAction:
    def test_shows_a_link_that_logs_in_and_writes_down_who_made_it(self, client: Client, root: User) -> None:
        ada = User.objects.create_user("ada")
        page = act(client, "admin:auth_user_changelist", "make_login_link", ada.pk)
        (path,) = re.findall(r"http://testserver(/accounts/link/[\w-]+/)", page)
        other = Client()
        other.post(path)
        assert other.session[SESSION_KEY] == str(ada.pk)
        line = AuditEvent.objects.get(event="link_created")
        assert (line.by, line.person) == (root, ada)

    def test_is_for_superusers_alone(self, client: Client) -> None:
        """Somebody in the staff who may edit people would become a superuser by it."""
        root = User.objects.create_superuser("root")
        client.force_login(staff("view_user", "change_user"))
        page = act(client, "admin:auth_user_changelist", "make_login_link", root.pk)
        assert "/accounts/link/" not in page
        assert not OneTimeLink.objects.exists()

    def test_refuses_people_who_may_not_log_in(self, client: Client, root: User) -> None:
        bob = User.objects.create_user("bob", is_active=False)
        assert "bob may not log in" in act(client, "admin:auth_user_changelist", "make_login_link", bob.pk)


class TestRevokeAction:
    def test_revokes_and_writes_down_who_did(self, client: Client, root: User) -> None:
        ada = User.objects.create_user("ada")
        first, key = operations.create_token(ada, name="ci")
        second, _ = operations.create_token(ada, name="old")
        operations.revoke_token(second.pk, by=ada)
        assert "1 revoked" in act(client, "admin:accounts_apitoken_changelist", "revoke", first.pk, second.pk)
        with pytest.raises(Unauthorized):
            operations.token(key)
        lines = AuditEvent.objects.filter(event="token_revoked").order_by("pk")
        assert [(line.by, line.person, line.detail) for line in lines] == [
            (None, ada, str(second)),
            (root, ada, str(first)),
        ]

    def test_asks_first(self, client: Client, root: User) -> None:
        ada = User.objects.create_user("ada")
        token, key = operations.create_token(ada, name="ci")
        fields = {"action": "revoke", "_selected_action": str(token.pk)}
        answer = client.post(reverse("admin:accounts_apitoken_changelist"), fields)
        assert answer.context["lines"] == [f"{token} of ada"]
        assert operations.token(key).user == ada

    def test_is_not_for_those_who_may_only_look(self, client: Client) -> None:
        ada = User.objects.create_user("ada")
        token, key = operations.create_token(ada, name="ci")
        client.force_login(staff("view_apitoken"))
        act(client, "admin:accounts_apitoken_changelist", "revoke", token.pk)
        assert operations.token(key).user == ada
