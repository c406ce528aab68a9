"""The administration: who gets in, and that staff who may only view change nothing by any of its addresses."""

import re
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver

from core.administration import registered
from tests.effort import turn
from tests.permissions import asking
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
# People's own, on any farm: their log-out and their password.
_THEIR_OWN = ("admin/logout/", "admin/password_change/", "admin/password_change/done/", "admin/login/")


def _addresses() -> Iterator[str]:
    """All of its addresses, with the newest row of each model where one is meant."""
    for pattern in _patterns(admin.site.urls[0], "admin/"):
        if pattern not in _THEIR_OWN and "(" not in pattern:
            yield pattern


def _patterns(found: Any, prefix: str) -> Iterator[str]:
    for each in found:
        pattern = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _patterns(each.url_patterns, pattern)
        elif isinstance(each, URLPattern):
            yield pattern


def _answers(client: Client, method: str, *, but: Collection[str] = (), of: int = 1) -> dict[str, str]:
    rows = {
        f"admin/{model._meta.app_label}/{model._meta.model_name}/": model._default_manager.order_by("-pk").first()
        for model in registered()
    }
    found = {}
    for pattern in turn(sorted(set(_addresses()) - set(but)), of=of):
        row = next((row for prefix, row in rows.items() if row and pattern.startswith(prefix)), None)
        path = re.sub(r"<[^>]+>", str(row.pk if row else 1), f"/{pattern}")
        found[pattern] = asking.answer(client, method, path, {})
    return found


@pytest.mark.parametrize(("who", "method"), [("nobody", "GET"), ("owner", "POST")])
def test_is_closed_to_who_is_not_staff(farm: World, who: str, method: str) -> None:
    """Each address by itself, for those that an app adds are not closed by Django."""
    found = _answers(farm.browsers()[who], method)
    assert len(found) > 200
    assert {
        pattern: answer for pattern, answer in found.items() if answer not in {"302", "in", "403", "404", "405"}
    } == {}


def test_lets_who_may_only_view_change_nothing(farm: World) -> None:
    """By all but the lists: what they can be told to do is looked at below."""
    lists = {f"admin/{model._meta.app_label}/{model._meta.model_name}/" for model in registered()}
    found = _answers(farm.browsers()["reader"], "POST", but=lists, of=3)
    assert len(found) > 50
    assert {pattern: answer for pattern, answer in found.items() if "+" in answer} == {}


def test_offers_who_may_only_view_no_action(farm: World) -> None:
    offered = {model._meta.label: _actions(farm.users["reader"], model) for model in registered()}
    assert {label: actions for label, actions in offered.items() if actions} == {}


def test_shows_every_list_to_who_may_view_it(farm: World) -> None:
    reader = farm.browsers()["reader"]
    every = [f"/admin/{model._meta.app_label}/{model._meta.model_name}/" for model in registered()]
    lists = turn(every, of=6)
    assert {path: asking.answer(reader, "GET", path, {}) for path in lists} == dict.fromkeys(lists, "200")


def test_keeps_the_accounts_of_people_from_staff_who_are_no_superusers(farm: World) -> None:
    """Whoever could write a user or a group could make themselves a superuser."""
    staff, row = farm.browsers()["staff"], farm.users["owner"].pk
    people = ["auth/user/", "auth/user/add/", f"auth/user/{row}/change/", f"auth/user/{row}/password/", "auth/group/"]
    for path in people:
        for method in ("GET", "POST"):
            assert asking.answer(staff, method, f"/admin/{path}", {"is_superuser": "on"}) == "403", (method, path)


def test_leaves_a_line_behind_for_what_was_changed_in_it(farm: World) -> None:
    root = farm.browsers()["root"]
    root.post(f"/admin/auth/user/{farm.users['other'].pk}/change/", {"username": "eve2", "is_active": "on"})
    entry = LogEntry.objects.latest("pk")
    assert (entry.user, entry.object_repr) == (farm.users["root"], "eve2")


def _actions(user: User, model: type[Model]) -> list[str]:
    request = RequestFactory().get("/admin/")
    request.user = user
    return sorted(registered()[model].get_actions(request))
