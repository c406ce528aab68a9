"""Every button of the site and every action of the administration is pressed twice: the second time it answers with a
sentence, and nothing is done twice that is wanted once."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import resolve, reverse

from core.administration import registered
from tests.permissions import asking, forms
from tests.permissions.page import Page, presses, target
from tests.permissions.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.long]
Fields = dict[str, Any]
Press = tuple[str, str, Fields]  # what it is, where it goes, what is sent

# Who presses these again wants another one: each makes something anew, with a name or a number of its own.
AGAIN: Final = frozenset({
    "alerts/rules/<jobid:rule_id>/test/", "chat/<jobid:group_id>/worker/",
    "crons/<cronname:name>/<cronaction:action>/",
    "game/open/", "inbox/replays/new/", "inbox/sources/<str:name>/", "jobs/<jobid:job_id>/clone/",
    "jobs/bulk/", "outbox/<int:endpoint_id>/<slug:action>/",
    "outbox/<int:endpoint_id>/replay/", "outbox/<int:endpoint_id>/rotate/", "outbox/new/",
    "workers/connect/",
    "admin auth.User make_login_link",
    "admin outbox.Endpoint replay_dead", "admin scheduling.Cron run_now",
    "admin scheduling.ScheduledFunction run-again", "admin scheduling.ScheduledFunction run_again",
})  # fmt: skip
# Lines about what was done, the outbox of what happened, and what is taken back with a transaction.
_BESIDE: Final = (
    "django_session",
    "django_admin_log",
    "django_migrations",
    "ratelimits_bucket",
    "captcha_captchastore",
)


def _rows() -> dict[str, int]:
    """How many rows each table has."""
    tables = sorted(set(connection.introspection.table_names()) - set(_BESIDE))
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{table}', count(*) FROM \"{table}\"" for table in tables))
        return dict(cursor.fetchall())


def _fault(client: Client, press: Press) -> str:
    """What is wrong with pressing it twice; empty if nothing is."""
    what, to, data = press
    with asking.undone(client):
        first = asking.send(client, "POST", to, data)
        _says_something(client, first)  # so that the next page shows what the second press says
        before = _rows()
        second = asking.send(client, "POST", to, data)
        if max(first.status_code, second.status_code) >= 500:
            return f"{first.status_code}, then {second.status_code}"
        after = _rows()
        more = {table: count - before[table] for table, count in after.items() if count > before[table]}
        if more and what not in AGAIN:
            return f"made again: {more}"
        return "" if _says_something(client, second) else "it says nothing"


def _says_something(client: Client, answer: Any) -> bool:
    """A page says how it stands; where a page leads on to another, that one shows a sentence, or is another page."""
    if answer.status_code not in {301, 302, 303}:
        return bool(answer.content.strip())
    page = client.get(answer.headers["Location"])
    is_list_of_the_administration = "cl" in (page.context or {})
    return bool(list(page.context["messages"])) if is_list_of_the_administration else page.status_code == 200


def _of_the_site(client: Client, farm: World) -> Iterator[Press]:
    for pattern in sorted(asking.patterns()):
        if pattern.startswith(("api/", "health", "metrics", "accounts/logout", "accounts/link")):
            continue
        address = asking.address(pattern, farm.names(pattern))
        with asking.undone(client):
            answer = asking.send(client, "GET", address, {})
        if answer.status_code != 200 or not answer.headers.get("Content-Type", "").startswith("text/html"):
            continue
        for method, to, data in presses(address, answer.content.decode()):
            if method == "POST" and not to.startswith("/admin/"):
                route = resolve(to.partition("?")[0]).route
                typed = forms.form(route, farm.names(route)) or {}
                shown = {name: values for name, values in data.items() if name not in typed or any(values)}
                yield route, to, typed | shown


def _of_the_administration(client: Client, farm: World) -> Iterator[Press]:
    request = RequestFactory().get("/")
    request.user = farm.users["root"]
    for model in registered():
        label, name = model._meta.label, f"{model._meta.app_label}_{model._meta.model_name}"
        listed = reverse(f"admin:{name}_changelist")
        for row in model._default_manager.order_by("-pk")[:3]:
            for action in admin.site._registry[model].get_actions(request):
                chosen = {"action": action, "_selected_action": [str(row.pk)], "confirmed": "yes", "post": "yes"}
                yield f"admin {label} {action}", listed, chosen
            yield from _of_one_row(client, label, reverse(f"admin:{name}_change", args=[row.pk]))


def _of_one_row(client: Client, label: str, address: str) -> Iterator[Press]:
    """The links of its page that ask a question first, answered with yes."""
    with asking.undone(client):
        text = client.get(address).content.decode()
    own = address.removesuffix("change/")
    for link in sorted(Page(text).links):
        to = target(address, link) or ""
        if to.startswith(own) and not to.endswith(("/change/", "/history/")):
            with asking.undone(client):
                question = client.get(to)
            for method, there, data in presses(to, question.content.decode() if question.status_code == 200 else ""):
                if method == "POST" and there == to:
                    yield f"admin {label} {to.removeprefix(own).strip('/')}", to, data


def _faults(client: Client, found: Iterator[Press], tried: set[str]) -> dict[str, str]:
    faults: dict[str, str] = {}
    for press in list(found):
        sent = {name: value for name, value in press[2].items() if "csrf" not in name}
        if (key := f"{press[1]} {sent}") not in tried:
            tried.add(key)
            if fault := _fault(client, press):
                faults[f"{press[0]} {sent}"] = fault
    return faults


def test_no_button_of_the_site_does_twice_what_is_wanted_once(farm: World) -> None:
    browsers, tried = farm.browsers(), set[str]()
    faults = {who: _faults(browsers[who], _of_the_site(browsers[who], farm), tried) for who in ("owner", "root")}
    assert faults == {"owner": {}, "root": {}}
    assert len(tried) > 60


def test_no_action_of_the_administration_does_twice_what_is_wanted_once(farm: World) -> None:
    root, tried = farm.browsers()["root"], set[str]()
    assert _faults(root, _of_the_administration(root, farm), tried) == {}
    assert len(tried) > 60
