"""Budgets and usage by the API, in its form and in OpenAI's."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.domain.workers import Facts
from jobs.models import Job
from metering.models import Budget, Day
from postgres import clock
from tests import farm
from tests.metering import budgets

pytestmark = pytest.mark.django_db(transaction=True)


def caller(person: User) -> Client:
    """Her program, with a token of its own."""
    _, key = accounts.create_token(person, name="program")
    return Client(headers={"Authorization": f"Bearer {key}"})


def post(client: Client, path: str, body: Any, **headers: str) -> Any:
    """The response to a body of JSON."""
    return client.post(path, body, content_type="application/json", headers=headers)


class TestAFullBudget:
    def test_is_429_with_the_time(self, ada: User, work_kind: None) -> None:
        budgets.budget("seconds", 100, person=ada)
        client, body = caller(ada), {"kind": "work", "payload": 1}
        assert post(client, "/api/v1/jobs", body).status_code == 201
        refused = post(client, "/api/v1/jobs", body)
        assert refused.status_code == 429
        wait_s = (budgets.tomorrow() - clock.now()).total_seconds()
        assert int(refused["Retry-After"]) == pytest.approx(wait_s, abs=10)
        assert refused.json()["error"] == "budget_exhausted"
        assert f"{budgets.tomorrow():%Y-%m-%d %H:%M} UTC" in refused.json()["message"]

    @pytest.mark.parametrize(
        ("more", "header"),
        [pytest.param({"wait": True}, "0", id="by the body"), pytest.param({}, "1", id="by the header")],
    )
    def test_lets_who_asks_for_it_wait(self, ada: User, work_kind: None, more: dict[str, Any], header: str) -> None:
        budgets.budget("seconds", 100, person=ada)
        client, body = caller(ada), {"kind": "work", "payload": 1, **more}
        post(client, "/api/v1/jobs", body)
        accepted = post(client, "/api/v1/jobs", body, **{"X-Wait": header})
        assert accepted.status_code == 201
        assert accepted.json()["run_at"].startswith(f"{budgets.tomorrow():%Y-%m-%dT00:00:00}")
        why = client.get(f"/api/v1/jobs/{accepted.json()['id']}/why").json()["reasons"][0]
        assert why["code"] == "waiting_for_budget"
        assert client.post(f"/api/v1/jobs/{accepted.json()['id']}/run_now").status_code == 409

    def test_of_a_token_bounds_that_token(self, ada: User, work_kind: None) -> None:
        token, key = accounts.create_token(ada, name="small")
        budgets.budget("seconds", 100, token=token)
        small, body = Client(headers={"Authorization": f"Bearer {key}"}), {"kind": "work", "payload": 1}
        first = post(small, "/api/v1/jobs", body)
        assert Job.objects.get(pk=first.json()["id"]).token_id == token.pk
        assert post(small, "/api/v1/jobs", body).status_code == 429
        assert post(caller(ada), "/api/v1/jobs", body).status_code == 201

    def test_is_429_in_openais_form(self, ada: User) -> None:
        gpu = budgets.worker()
        jobs.introduce(gpu, Facts(models=(budgets.MODEL,)))
        budgets.budget("tokens", 50, person=ada)
        body = {"model": budgets.MODEL, "messages": [], "max_tokens": 40}
        client = caller(ada)
        background = {"X-Background": "1"}
        assert post(client, "/v1/chat/completions", body, **background).status_code == 202
        refused = post(client, "/v1/chat/completions", body, **background)
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "budget_exhausted")
        assert "There is room from" in error["message"]
        assert int(refused["Retry-After"]) > 0
        assert refused.get("x-should-retry") == ("false" if int(refused["Retry-After"]) > 60 else None)
        waiting = post(client, "/v1/chat/completions", body, **background, **{"X-Wait": "1"})
        assert waiting.status_code == 202
        assert Job.objects.get(pk=int(waiting["X-Job-Id"])).run_at == budgets.tomorrow()
        too_large = post(client, "/v1/chat/completions", {**body, "max_tokens": 100}, **background)
        assert (too_large.status_code, too_large.json()["error"]["code"]) == (400, "exceeds_budget")


class TestBudgets:
    def test_are_made_changed_and_deleted_by_staff(self, ada: User, boss: User) -> None:
        staff = caller(boss)
        made = post(staff, "/api/v1/budgets", {"person": "ada", "unit": "tokens", "period": "day", "amount": 500})
        assert made.status_code == 201
        entry = made.json()
        assert (entry["person"], entry["left"], entry["ends_at"][:10]) == ("ada", 500, f"{budgets.tomorrow():%Y-%m-%d}")
        at = f"/api/v1/budgets/{entry['id']}"
        changed = staff.patch(at, json.dumps({"amount": 700}), content_type="application/json")
        assert changed.json()["amount"] == 700
        assert caller(ada).get("/api/v1/budgets").json()["budgets"] == [changed.json()]
        assert staff.delete(at).json() == {"id": entry["id"], "deleted": True}
        assert staff.delete(at).status_code == 404
        assert not Budget.objects.exists()

    def test_of_others_are_not_shown(self, ada: User, bob: User, boss: User) -> None:
        budgets.budget("tokens", 10, person=ada)
        assert caller(bob).get("/api/v1/budgets").json() == {"budgets": []}
        assert len(caller(boss).get("/api/v1/budgets").json()["budgets"]) == 1

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param({"unit": "tokens", "period": "day", "amount": 5}, id="of nobody"),
            pytest.param({"person": "ada", "token": 1, "unit": "tokens", "period": "day", "amount": 5}, id="of two"),
            pytest.param({"person": "nobody", "unit": "tokens", "period": "day", "amount": 5}, id="of a stranger"),
            pytest.param({"token": 10**9, "unit": "tokens", "period": "day", "amount": 5}, id="of no token"),
            pytest.param({"person": "ada", "unit": "tokens", "period": "day", "amount": -5}, id="negative"),
            pytest.param({"person": "ada", "unit": "tokens", "period": "day", "amount": 1e16}, id="too large"),
            pytest.param({"person": "ada", "unit": "miles", "period": "day", "amount": 5}, id="of miles"),
            pytest.param({"person": "ada", "unit": "tokens", "period": "week", "amount": 5}, id="a week"),
        ],
    )
    def test_that_make_no_sense_are_refused(self, ada: User, boss: User, body: dict[str, Any]) -> None:
        refused = post(caller(boss), "/api/v1/budgets", body)
        assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
        assert not Budget.objects.exists()


class TestUsage:
    @pytest.fixture(autouse=True)
    def _used(self, ada: User, bob: User) -> None:
        today = clock.now().date()
        common: dict[str, Any] = {"attempts": 1, "seconds": 3, "tokens_in": 10, "tokens_out": 5, "cost": 0}
        Day.objects.create(day=today, kind="openai", model="tiny", person=ada, **common)
        Day.objects.create(day=today - timedelta(days=40), kind="openai", model="old", person=ada, **common)
        Day.objects.create(day=today, kind="work", person=bob, **common)

    def test_is_ones_own(self, ada: User) -> None:
        answer = caller(ada).get("/api/v1/usage?by=model").json()
        assert answer["rows"] == [
            {"name": "tiny", "id": None, "attempts": 1, "seconds": 3, "tokens_in": 10, "tokens_out": 5, "cost": 0}
        ]
        assert answer["to"] == f"{clock.now():%Y-%m-%d}"

    def test_is_everybodys_for_operators(self, ada: User, bob: User, boss: User) -> None:
        rows = caller(boss).get("/api/v1/usage?by=person").json()["rows"]
        assert {(row["name"], row["id"]) for row in rows} == {("ada", ada.pk), ("bob", bob.pk)}

    def test_is_of_the_days_that_are_asked_for(self, ada: User) -> None:
        since = clock.now().date() - timedelta(days=60)
        rows = caller(ada).get(f"/api/v1/usage?from={since}&by=model").json()["rows"]
        assert [row["name"] for row in rows] == ["old", "tiny"]

    @pytest.mark.parametrize(
        "query", ["by=moon", "from=2026-02-30", "from=2026-03-02&to=2026-03-01", "from=1900-01-01", "colour=red"]
    )
    def test_that_makes_no_sense_is_refused(self, ada: User, query: str) -> None:
        assert caller(ada).get(f"/api/v1/usage?{query}").status_code == 422


def test_a_calls_tokens_are_on_its_page(ada: User, client: Client) -> None:
    gpu = budgets.worker()
    job = budgets.call(ada)
    farm.succeed(gpu, farm.claim_one(gpu), budgets.answer(120, 45))
    client.force_login(ada)
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "120 tokens in, 45 out" in page
