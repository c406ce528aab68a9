"""Every address as everybody who may come to it, as `table` has it."""

from collections.abc import Iterable

import pytest
from django.db.models.functions import Now
from django.test import Client

from accounts import operations as accounts
from accounts.models import ApiToken
from tests.effort import turn
from tests.permissions import asking, forms, table
from tests.permissions.world import World

pytestmark = pytest.mark.django_db
_REFUSED = frozenset({"in", "403", "404", "405"})
_LINES = list(table.lines())


def _answer(farm: World, client: Client, method: str, pattern: str) -> str:
    names = farm.names(pattern)
    form = forms.form(pattern, names) if method != "GET" else {}
    return asking.answer(client, method, asking.address(pattern, names), form)


def test_every_address_has_a_line() -> None:
    """Whoever adds an address says here who may come to it."""
    written = {pattern for _, pattern, _ in _LINES}
    assert asking.patterns() - written == set(), "add a line to tests/permissions/table.py for each"
    assert written - asking.patterns() == set(), "these are gone: take their lines out of the table"
    assert forms.FORMS.keys() <= written


def test_everybody_is_answered_as_the_table_says(farm: World) -> None:
    browsers, lines = farm.browsers(), turn(_LINES, of=6)
    found = {
        (method, pattern): {who: _answer(farm, browsers[who], method, pattern) for who in cells}
        for method, pattern, cells in lines
    }
    assert found == {(method, pattern): cells for method, pattern, cells in lines}


@pytest.mark.parametrize("who", ["nobody", "other", "root"])
def test_a_method_without_a_line_is_refused(farm: World, who: str) -> None:
    browser, listed = farm.browsers()[who], {(method, pattern) for method, pattern, _ in _LINES}
    for pattern in asking.patterns():
        for method in {("GET", pattern), ("POST", pattern)} - listed:
            assert _answer(farm, browser, *method) in _REFUSED, method


def test_who_comes_with_an_api_token_may_do_what_they_may_here(farm: World) -> None:
    for who in ("other", "mate", "owner", "reader", "staff", "root"):
        _, key = accounts.create_token(farm.users[who], name="the table's")
        ApiToken.objects.update(last_used_at=Now(), addresses=["127.0.0.1"])  # so that no call notes it
        program = Client(headers={"Authorization": f"Bearer {key}"}, enforce_csrf_checks=True)
        for method, pattern, cells in (*_of("api/v1/jobs"), *_of("api/v1/outbox"), *_of("api/v1/alerts")):
            assert _answer(farm, program, method, pattern) == cells[who], (who, method, pattern)


def test_no_session_changes_anything_without_the_csrf_token(farm: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(farm.users["root"])
    changes = [pattern for method, pattern, cells in _LINES if method == "POST" and "+" in "".join(cells.values())]
    assert len(changes) > 50
    for pattern in changes:
        refused = "401" if pattern.startswith("api/v1/worker/") else "403"
        assert _answer(farm, browser, "POST", pattern) == refused, pattern


def _of(prefix: str) -> Iterable[tuple[str, str, dict[str, str]]]:
    return [line for line in _LINES if line[1].startswith(prefix)]
