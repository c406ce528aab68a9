"""People who look at the administration, and browsers in which they are logged in."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from jobfarm import administration

As = Callable[[str], Client]


@pytest.fixture
def as_(db: None) -> As:
    """The browser of `root`, of one of the `readers` or `operators`, or of `nobody` in particular of the staff."""
    administration.grant(reset=True)
    groups = {"readers": administration.READERS, "operators": administration.OPERATORS}

    def browser(role: str) -> Client:
        user = User.objects.filter(username=role).first()
        if user is None:
            user = User.objects.create_user(role, is_staff=True, is_superuser=role == "root")
            user.groups.set(Group.objects.filter(name=groups.get(role, "")))
        client = Client()
        client.force_login(user)
        return client

    return browser
