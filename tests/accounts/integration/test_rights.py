"""Whoever watches as somebody is asked again when that somebody's rights change."""

import json
from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import transaction
from django.test import Client
from django.utils import timezone

from accounts import operations
from tests.live.integration.support import listening

pytestmark = pytest.mark.django_db(transaction=True)


class Farm:
    """Ada is in the group, Bob is not; the group holds a permission, and so does Bob."""

    def __init__(self) -> None:
        self.ada = User.objects.create_user("ada")
        self.bob = User.objects.create_user("bob")
        self.group = Group.objects.create(name="painters")
        self.empty = Group.objects.create(name="nobody")
        self.permission, self.unused = (_permission(name) for name in ("paint", "sing"))
        self.group.permissions.add(self.permission)
        self.bob.user_permissions.add(self.permission)
        self.ada.groups.add(self.group)
        self.token, _ = operations.create_token(self.ada, name="ci")


def _permission(codename: str) -> Permission:
    about = ContentType.objects.get_for_model(Group)
    return Permission.objects.create(codename=codename, name=f"Can {codename}", content_type=about)


@pytest.fixture
def farm() -> Iterator[Farm]:
    """Two people and a group. Permissions outlive tests, so those it made go with it."""
    yield Farm()
    Permission.objects.filter(codename__in=["paint", "sing"]).delete()


def touched_by(change: Callable[[], object], *, kind: str = "user") -> set[str]:
    """The topics of people (or of groups) that were published while `change` ran."""
    with listening() as notifications:
        change()
        topics = {topic for payload in notifications() for topic in json.loads(payload)["message"]["topics"]}
    return {topic for topic in topics if topic.startswith(f"{kind}:")}


def save(person: User, **fields: object) -> None:
    """Change some fields the way forms do."""
    for name, value in fields.items():
        setattr(person, name, value)
    person.save()


CHANGES: dict[str, tuple[Callable[[Farm], object], str]] = {
    "switched off": (lambda farm: save(farm.ada, is_active=False), "ada"),
    "made staff": (lambda farm: save(farm.ada, is_staff=True), "ada"),
    "password changed": (lambda farm: save(farm.ada, password="another"), "ada"),
    "deleted": (lambda farm: farm.ada.delete(), "ada"),
    "joins a group": (lambda farm: farm.bob.groups.add(farm.group), "bob"),
    "leaves a group": (lambda farm: farm.ada.groups.remove(farm.group), "ada"),
    "leaves all groups": (lambda farm: farm.ada.groups.clear(), "ada"),
    "group takes people in": (lambda farm: farm.group.user_set.add(farm.bob), "bob"),
    "group lets people go": (lambda farm: farm.group.user_set.remove(farm.ada), "ada"),
    "group lets all go": (lambda farm: farm.group.user_set.clear(), "ada"),
    "given a permission": (lambda farm: farm.ada.user_permissions.add(farm.unused), "ada"),
    "permission taken": (lambda farm: farm.bob.user_permissions.clear(), "bob"),
    "permission given to people": (lambda farm: farm.unused.user_set.add(farm.bob), "bob"),
    "permission taken from people": (lambda farm: farm.permission.user_set.clear(), "ada bob"),
    "group given a permission": (lambda farm: farm.group.permissions.add(farm.unused), "ada"),
    "group loses its permissions": (lambda farm: farm.group.permissions.clear(), "ada"),
    "permission given to groups": (lambda farm: farm.unused.group_set.add(farm.group), "ada"),
    "permission taken from groups": (lambda farm: farm.permission.group_set.clear(), "ada bob"),
    "group deleted": (lambda farm: farm.group.delete(), "ada"),
    "permission deleted": (lambda farm: farm.permission.delete(), "ada bob"),
    "token revoked": (lambda farm: operations.revoke_token(farm.token.pk, by=farm.ada), "ada"),
    "token deleted": (lambda farm: farm.token.delete(), "ada"),
}


class TestUserTopic:
    @pytest.mark.parametrize("change", CHANGES)
    def test_is_touched_when(self, farm: Farm, change: str) -> None:
        act, names = CHANGES[change]
        expected = {f"user:{getattr(farm, name).pk}" for name in names.split()}
        assert touched_by(lambda: act(farm)) == expected

    def test_is_touched_when_somebody_logs_out_after_the_session_is_gone(self, farm: Farm) -> None:
        client = Client()
        client.force_login(farm.ada)
        assert touched_by(client.logout) == {f"user:{farm.ada.pk}"}

    def test_is_touched_when_a_session_runs_out(self, farm: Farm) -> None:
        client = Client()
        client.force_login(farm.ada)
        Session.objects.update(expire_date=timezone.now())
        assert touched_by(operations.end_sessions) == {f"user:{farm.ada.pk}"}
        assert not Session.objects.exists()

    def test_is_left_alone_by_what_changes_no_right(self, farm: Farm) -> None:
        def change() -> None:
            User.objects.create_user("eve")
            farm.ada.last_login = timezone.now()
            farm.ada.save(update_fields=["last_login"])
            Client().force_login(farm.bob)
            farm.empty.permissions.add(farm.unused)
            farm.empty.delete()
            operations.create_token(farm.bob, name="ci")

        assert touched_by(change) == set()

    def test_is_left_alone_when_the_change_is_rolled_back(self, farm: Farm) -> None:
        def change() -> None:
            with transaction.atomic():
                farm.ada.groups.clear()
                transaction.set_rollback(True)

        assert touched_by(change) == set()


class TestGroupTopic:
    @pytest.mark.parametrize(
        "change",
        [
            "deleted",
            "joins a group",
            "leaves a group",
            "leaves all groups",
            "group takes people in",
            "group lets people go",
            "group lets all go",
            "group deleted",
        ],
    )
    def test_is_touched_when(self, farm: Farm, change: str) -> None:
        act, _ = CHANGES[change]
        group_id = farm.group.pk
        assert touched_by(lambda: act(farm), kind="group") == {f"group:{group_id}"}
