"""Every form that changes something, of the administration and of the site: sent as its page renders it, it is saved,
and nothing is another than before."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client, RequestFactory
from django.urls import reverse

from core.administration import registered
from jobs.models import Kind, Weight
from jobs.operations import from_crons
from metering.models import Model as TokenModel
from openai_api.models import Alias, CallRule
from ratelimits.models import Limit
from scheduling import operations as scheduling, registry
from scheduling.domain import schedules
from scheduling.domain.schedules import Missed, Overlap, Policy
from tests.permissions import asking
from tests.permissions.page import Page, target
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
ROWS = 7  # of each table, the newest
_TIMINGS = ("every 336 h", "every 1.5 s", "every 1234567 s", "every 5 min", "*/15 8-18 * * MON-FRI", "0 0 L * *")


def _rows() -> None:
    """What the world has none of: rows with something in each field, and with the values that are hard to show."""
    Kind.objects.create(
        name="photos", queue="gpu", max_attempts=7, backoff_first_s=0.1, backoff_base=1.5, backoff_cap_s=1e6,
        timeout_s=0.25, expires_s=86400, retry_when_lost=False, retry_on_timeout=True, priority=-100,
        requires={"vram": ">=16", "x": "ä"}, limit="rented api", limit_count=0.001, limit_key="owner",
    )  # fmt: skip
    Weight.objects.create(group=Group.objects.create(name="weighty"), weight=1000)
    Limit.objects.create(name="rented api", rate=1 / 3, period_s=1_209_600, capacity=1e15, max_reserved=0)
    Limit.objects.create(name="windows", is_window=True, rate=1e-12, period_s=0.001)
    TokenModel.objects.create(name="org/tiny:1", price_in="0.000001", price_out="999999", note="<b> & 'x'")
    Alias.objects.create(name="gpt-4o", model="org/tiny:1", after_s=0.5, is_only_way=True)
    CallRule.objects.create(group=Group.objects.get(name="weighty"), names=["gpt-4o", "tiny"], tokens_per_minute=7)
    args = {"kind": "chat", "payload": {"prompt": '  two\n\nlines & "<x>" ', "numbers": [1e-7, 2**60, None]}}
    policy = Policy(missed=Missed.CATCH_UP, at_most=3, overlap=Overlap.ALLOW)
    for text in _TIMINGS:
        scheduling.make(
            f"{text.replace('/', '|')} it's", function=registry.dotted_name(from_crons.submit_job), args=args,
            schedule=schedules.typed(text, tz="Asia/Tokyo"), policy=policy,
        )  # fmt: skip


def _editable(root: User) -> Iterator[tuple[type[Model], list[Any]]]:
    """The tables whose rows this person may change, with their rows."""
    request = RequestFactory().get("/")
    request.user = root
    for model in sorted(registered(), key=lambda each: str(each._meta.label)):
        of_admin, rows = admin.site._registry[model], list(model._default_manager.order_by("-pk")[:ROWS])
        if of_admin.has_change_permission(request):
            yield model, rows
        elif may := [row for row in rows if of_admin.has_change_permission(request, row)]:
            yield model, may


def _state(model: type[Model], pk: Any) -> dict[str, Any]:
    """A row as it is stored, with what it is linked to."""
    row = model._default_manager.get(pk=pk)
    values = {field.attname: getattr(row, field.attname) for field in model._meta.concrete_fields}
    for field in model._meta.many_to_many:
        values[field.name] = sorted(getattr(row, field.name).values_list("pk", flat=True))
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in values.items()}


def _fault(client: Client, model: type[Model], row: Any) -> str:
    """What is wrong with the form of this row; empty if nothing is."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
    with asking.undone(client):
        form = Page(client.get(address).content.decode()).forms.get(f"{model._meta.model_name}_form")
        if form is None or "_continue" not in dict(form.buttons):
            return "there is no form with a button"
        before = _state(model, row.pk)
        answer = client.post(address, form.pressed("_continue", "1"))
        if answer.status_code != 302:
            return f"{answer.status_code}: {_errors(answer)}"
        after = _state(model, row.pk)
        return str({name: (old, after[name]) for name, old in before.items() if old != after[name]} or "")


def _errors(answer: Any) -> str:
    if not answer.context or "adminform" not in answer.context:
        return str(answer.content.decode()[:300])
    parts = [each.formset.errors for each in answer.context["inline_admin_formsets"]]
    return str([dict(answer.context["adminform"].form.errors), *parts])


def test_the_administrations_forms_save_what_they_show(farm: World) -> None:
    client, opened, faults = farm.browsers()["root"], 0, {}
    with asking.undone(client):
        _rows()
        for model, rows in _editable(farm.users["root"]):
            if not rows:
                faults[model._meta.label] = "the world has no row of it"
            for row in rows:
                opened += 1
                if fault := _fault(client, model, row):
                    faults[f"{model._meta.label} {row.pk}"] = fault
    assert faults == {}
    assert opened > 20


# Where the site changes what is there: the page with the form, and where that goes.
_OF_THE_SITE = {
    "alerts/rules/<jobid:rule_id>/": "alerts/rules/<jobid:rule_id>/",
    "outbox/<int:endpoint_id>/edit/": "outbox/<int:endpoint_id>/edit/",
    "queues/<str:name>/": "queues/<str:name>/ceiling/",
    "workers/<jobid:worker_id>/": "workers/<jobid:worker_id>/labels/",
    "chat/<jobid:group_id>/": "chat/<jobid:group_id>/instructions/",
}


def _own_form(client: Client, address: str, to: str) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """What the form on this page that goes there sends, but for the token, and its buttons."""
    forms = Page(client.get(address).content.decode()).forms.values()
    [form] = [each for each in forms if target(address, each.action or address) == to and each.method == "post"]
    return {name: values for name, values in form.fields.items() if "csrf" not in name}, form.buttons


def test_the_sites_forms_save_what_they_show(farm: World) -> None:
    """The rows are looked at by what the page shows of them, before and after."""
    root, owner = farm.browsers()["root"], farm.browsers()["owner"]
    for page, to in _OF_THE_SITE.items():
        client = owner if page.startswith("chat") else root
        names = farm.names(to)
        with asking.undone(client):
            address, there = asking.address(page, names), asking.address(to, names)
            fields, [(button, value), *_] = _own_form(client, address, there)
            answer = client.post(there, fields | ({button: value} if button else {}))
            assert answer.status_code == 302, (page, answer.content.decode()[:500])
            assert _own_form(client, address, there)[0] == fields, page
