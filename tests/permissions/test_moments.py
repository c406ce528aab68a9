"""Rows with moments that no calendar has, as somebody may have written them by hand: no page fails for them."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, models, transaction
from django.test import Client
from django.urls import reverse

from core.administration import registered
from tests.effort import turn
from tests.permissions import asking, table
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
# What their moments say is who may come in, and until when.
_OF_ACCESS = ("django_session", "auth_user", "accounts_apitoken", "account_emailaddress")


def _spoil(moment: str) -> int:
    """Write this into every column of moments that takes it; how many did."""
    fields = [
        (model._meta.db_table, str(field.column))
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.concrete_fields
        if isinstance(field, models.DateTimeField) and model._meta.db_table not in _OF_ACCESS
    ]
    return sum(_is_spoiled(*field, moment) for field in fields)


def _is_spoiled(name: str, column: str, moment: str) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f'UPDATE "{name}" SET "{column}" = %s WHERE "{column}" IS NOT NULL', [moment])
            return bool(cursor.rowcount)
    except DatabaseError:  # what a table refuses nobody writes there by hand either
        return False


def _pages(farm: World) -> Iterator[str]:
    for method, pattern, _ in table.lines():
        if method == "GET":
            yield asking.address(pattern, farm.names(pattern))
    for model in registered():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{name}_changelist")
        for pk in model._default_manager.order_by("-pk").values_list("pk", flat=True)[:1]:
            yield reverse(f"{name}_change", args=[pk])


@pytest.mark.parametrize("moment", turn(["-infinity", "infinity"], of=2))
def test_make_no_page_fail(farm: World, moment: str) -> None:
    client = Client(raise_request_exception=False)
    with asking.undone(client):
        client.force_login(farm.users["root"])
        assert _spoil(moment) > 50
        pages = turn(list(_pages(farm)), of=4, beside=2)
        answers = {page: asking.answer(client, "GET", page, {}) for page in pages}
        assert {page: answer for page, answer in answers.items() if answer.startswith("5")} == {}
