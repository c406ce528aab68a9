"""The page of usage: everybody their own, operators everybody's; as a table, and as a file."""

import csv
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from metering.models import Day
from postgres import clock
from tests import farm
from tests.metering import budgets

pytestmark = pytest.mark.django_db


@pytest.fixture
def _used(ada: User, bob: User) -> None:
    today = clock.now().date()
    common: dict[str, Any] = {"attempts": 2, "tokens_in": 1000, "tokens_out": 50}
    Day.objects.create(day=today, kind="openai", model="tiny", person=ada, seconds=3, cost="1.5", **common)
    Day.objects.create(
        day=today - timedelta(days=10), kind="work", person=bob, worker=farm.worker("=gpu"), seconds=9, cost=0, **common
    )


def page(client: Client, person: User, query: str = "") -> str:
    client.force_login(person)
    response = client.get(f"/usage/?{query}")
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


@pytest.mark.usefixtures("_used")
class TestThePage:
    def test_shows_a_person_their_own(self, client: Client, ada: User) -> None:
        budgets.budget("tokens", 4000, person=ada)
        text = page(client, ada)
        assert "What your jobs used" in text
        assert "openai" in text
        assert "0 tokens of 4,000 tokens" in text
        assert "=gpu" not in page(client, ada, "by=worker")
        assert "Change budgets" not in text

    def test_shows_operators_everybodys(self, client: Client, ada: User, boss: User) -> None:
        budgets.budget("tokens", 4000, person=ada)
        text = page(client, boss, "by=person")
        assert ">ada</a>" in text
        assert ">bob</a>" in text
        assert "Change budgets" in text

    def test_leads_to_the_days_of_one_row(self, client: Client, boss: User, ada: User) -> None:
        assert f"?by=day&amp;person={ada.pk}" in page(client, boss, "by=person")
        text = page(client, boss, f"by=kind&person={ada.pk}")
        assert "openai" in text
        assert ">work</a>" not in text

    def test_shows_the_period_that_is_asked_for(self, client: Client, boss: User) -> None:
        assert ">work</a>" not in page(client, boss, "days=7")
        assert ">work</a>" in page(client, boss, "days=90&measure=cost")

    def test_of_a_day_or_a_range_is_shown_by_person(self, client: Client, boss: User) -> None:
        past, yesterday = (clock.now().date() - timedelta(days=days) for days in (10, 1))
        that_day = page(client, boss, f"by=person&since={past}&until={past}")
        assert (">bob</a>" in that_day, ">ada</a>" in that_day) == (True, False)
        since_then = page(client, boss, f"by=person&since={past}")
        assert (">bob</a>" in since_then, ">ada</a>" in since_then) == (True, True)
        assert "Nothing was used" in page(client, boss, f"by=person&since={yesterday}&until={yesterday}")
        assert f"?by=person&amp;since={past}&amp;until={past}" in page(client, boss, "by=day")

    @pytest.mark.parametrize(
        "query",
        [
            "since=x&until=9999-12-31", "since=0001-01-01", "since=2030-01-01&until=2020-01-01", "until=0001-01-05",
            "since=0001-01-01&until=0001-06-01",
        ],
    )  # fmt: skip
    def test_ignores_days_that_make_no_sense(self, client: Client, boss: User, query: str) -> None:
        assert "Usage" in page(client, boss, query)

    @pytest.mark.parametrize("query", ["by=moon&days=x&measure=y", "person=x&worker=99999999999999", "kind=%00"])
    def test_ignores_what_makes_no_sense(self, client: Client, boss: User, query: str) -> None:
        assert "Usage" in page(client, boss, query)

    def test_costs_as_much_for_many_budgets_as_for_one(self, client: Client, boss: User) -> None:
        def count() -> int:
            with CaptureQueriesContext(connection) as captured:
                page(client, boss)
            return len(captured)

        budgets.budget("tokens", 4000, person=boss)
        page(client, boss)
        before = count()
        for n in range(5):
            budgets.budget("tokens", 4000, person=farm.user(f"p{n}"))
        assert count() == before


def test_the_page_lists_what_used_most_time_and_the_file_everything(client: Client, ada: User) -> None:
    """The name of a model is any text of a payload: a thousand a day of each person are told apart."""
    common: dict[str, Any] = {"attempts": 1, "tokens_in": 1, "tokens_out": 1, "cost": 0}
    day = clock.now().date()
    models = [Day(day=day, kind="openai", model=f"m{n}", person=ada, seconds=n, **common) for n in range(502)]
    Day.objects.bulk_create(models)
    text = page(client, ada, "by=model")
    assert (text.count('data-label="Attempts"'), ">m501</a>" in text, ">m1</a>" in text) == (500, True, False)
    assert "The 500 that used most" in text
    assert len(client.get("/usage/usage.csv?by=model").content.decode().splitlines()) == 503


@pytest.mark.usefixtures("_used")
class TestTheFile:
    def test_has_the_rows_of_the_table(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        response = client.get("/usage/usage.csv?by=model")
        assert response["Content-Type"] == "text/csv; charset=utf-8"
        rows = list(csv.DictReader(response.content.decode().splitlines()))
        assert rows == [
            {
                "Model": "tiny", "Attempts": "2", "Seconds": "3.0", "Tokens in": "1000", "Tokens out": "50",
                "Cost": "1.500000",
            }
        ]  # fmt: skip

    def test_holds_no_formula(self, client: Client, boss: User) -> None:
        client.force_login(boss)
        text = client.get("/usage/usage.csv?by=worker").content.decode()
        assert "'=gpu" in text


class TestTheAdministration:
    def test_writes_the_amounts_of_budgets_as_the_page_does(self, client: Client, boss: User, ada: User) -> None:
        row = budgets.budget("money", 1500, person=ada)
        row.refresh_from_db()
        client.force_login(boss)
        answer = client.get("/admin/metering/budget/").content.decode()
        assert ("1,500.00 USD" in answer, "1500.000000" in answer) == (True, False)
        assert str(row) == "1,500 money per day of ada"
