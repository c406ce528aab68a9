"""Every table of the administration and every page of it: who may look, and what a page costs however much there is."""

from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlencode

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import DataError, connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from accounts.models import ApiToken
from core.administration import OnSite, registered
from jobfarm import live_queries
from jobs.models import Worker
from tests.admin import samples
from tests.admin.conftest import As
from tests.effort import turn
from webhooks.models import SandboxToken, Secret

Table = type[Model]
MOST_QUERIES = 17  # of a list or a page: a job asks for its app's link (a batch) too
MOST_OF_THE_FIRST_PAGE = 21
BIG = ("jobs_job", "jobs_attempt", "scheduling_scheduledfunction", "webhooks_delivery", "webhooks_activity",
       "ratelimits_bucket", "django_admin_log", "chat_message")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_sidebar(settings: Settings) -> None:
    """It is on every page, so that one page shows whether it is right."""
    settings.UNFOLD = {**settings.UNFOLD, "SIDEBAR": {}}


def tables() -> list[Table]:
    return sorted(registered(), key=lambda model: str(model._meta.label))


def address(model: Table, page: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def newest(model: Table) -> Any:
    return model._default_manager.order_by("-pk").values_list("pk", flat=True)[0]


def get(client: Client, url: str) -> tuple[Any, list[str]]:
    """The answer, and the statements that it took."""
    with CaptureQueriesContext(connection) as seen:
        answer = client.get(url)
    assert answer.status_code == 200, url
    return answer, [query["sql"] for query in seen.captured_queries]


def uncounted(statements: list[str]) -> list[str]:
    """Those that count one of the big tables without a bound."""
    counts = [
        statement
        for statement in statements
        if "COUNT(" in statement.upper() and any(f'"{table}"' in statement for table in BIG)
    ]
    bounded = ("LIMIT 10000", "GROUP BY", "OVER (")  # a window counts what is in progress, by worker
    return [statement for statement in counts if not any(bound in statement for bound in bounded)]


def everything_chosen(answer: Any) -> str:
    """The list's address with the second choice of each filter, and something searched for."""
    changelist = answer.context["cl"]
    chosen: dict[str, str] = {"q": "x1"} if changelist.model_admin.search_fields else {}
    for spec in changelist.filter_specs:
        choices = list(spec.choices(changelist))
        chosen |= dict(parse_qsl(choices[1]["query_string"].removeprefix("?")))
    return urlencode(chosen)


class TestPages:
    def test_open_and_cost_the_same_however_much_there_is(self, as_: As) -> None:
        """One walk for all of it: each page is fifty milliseconds of unfold's templates."""
        root = as_("root")
        samples.fill(2)
        small, narrowed = _walk(root)
        assert {url: count for url, count in small.items() if count > MOST_QUERIES} == {}
        samples.fill(6)
        for url, count in small.items():
            if "/change/" in url and "/webhooks/" in url and "/delivery/" not in url:
                continue  # things without parts: nothing of such a page can grow
            statements = get(root, url)[1]
            assert len(statements) <= count, url
            assert uncounted(statements) == []
        for url in narrowed:
            assert uncounted(get(root, url)[1]) == []


def _walk(client: Client) -> tuple[dict[str, int], list[str]]:
    """How many statements each list and each page of a newest row takes; and the lists with all filters chosen."""
    counts, narrowed = {}, []
    for model in turn(tables(), of=6):
        listed = address(model, "changelist")
        answer, statements = get(client, listed)
        counts[listed] = len(statements)
        page = address(model, "change", newest(model))
        if isinstance(registered()[model], OnSite):
            assert client.get(page).status_code == 302, page
        else:
            counts[page] = len(get(client, page)[1])
        narrowed += [f"{listed}?{everything_chosen(answer)}"]
    narrowed += [address(model, "history", newest(model)) for model in (Worker, Secret)]
    return counts, narrowed


class TestWhoMay:
    def test_a_reader_changes_nothing(self, as_: As) -> None:
        samples.fill(1)
        reader = as_("readers")
        for model in tables():
            page = address(model, "change", newest(model))
            assert reader.get(address(model, "add")).status_code == 403, model
            assert reader.post(address(model, "delete", newest(model)), {"post": "yes"}).status_code == 403, model
            assert reader.post(page, {"x": "y"}).status_code == 403, model

    def test_nobody_in_particular_sees_nothing(self, as_: As) -> None:
        samples.fill(1)
        nobody = as_("nobody")
        for model in tables():
            pages = [address(model, "changelist"), address(model, "change", newest(model)), address(model, "add")]
            assert {nobody.get(page).status_code for page in pages} == {403}, model

    def test_nobody_is_shown_a_secret(self, as_: As) -> None:
        samples.fill(1)
        hidden: dict[Table, str] = {
            Worker: "key_hash", Secret: "sealed", SandboxToken: "token_hash", ApiToken: "key_hash", User: "password"
        }  # fmt: skip
        rows = [(model._default_manager.order_by("-pk")[0], column) for model, column in hidden.items()]
        secrets = [_as_text(getattr(row, column)) for row, column in rows]
        assert min(len(secret) for secret in secrets) > 8
        for role in ("root", "readers"):
            browser = as_(role)
            for row, _ in rows:
                for url in (address(type(row), "changelist"), address(type(row), "change", row.pk)):
                    page = browser.get(url, follow=True).content.decode()
                    assert [secret for secret in secrets if secret in page] == [], url


def _as_text(secret: Any) -> str:
    return secret if isinstance(secret, str) else bytes(secret).hex()


NO_MOMENT = DataError("timestamp too small (before year 1): '-infinity'")
NO_MOMENT.__cause__ = psycopg.DataError(*NO_MOMENT.args)  # of a row that was read, and without a code


class TestWhatNoColumnHolds:
    """Django's own pages hand on what an address or a form says as it came."""

    @pytest.mark.parametrize("page", [
        "jobs/job/?kind=%00", "jobs/queue/%00/delete/", "webhooks/modelserver/%00/change/",
        "webhooks/rule/?payload=%00", "accounts/apitoken/?addresses=x", "webhooks/rule/add/?owner=x",
        "webhooks/rule/add/?owner=%00",
    ])  # fmt: skip
    def test_is_a_bad_request_in_an_address(self, as_: As, page: str) -> None:
        assert _unraised(as_("root")).get(f"/admin/{page}").status_code == 400

    @pytest.mark.parametrize(
        ("listed", "action", "row"),
        [("accounts/apitoken", "revoke", "x"), ("auth/user", "delete_selected", "\0"), ("jobs/queue", "pause", "\0")],
    )
    def test_is_a_bad_request_in_a_form(self, as_: As, listed: str, action: str, row: str) -> None:
        form = {"action": action, "_selected_action": [row], "confirmed": "yes", "post": "yes"}
        assert _unraised(as_("root")).post(f"/admin/{listed}/", form).status_code == 400

    @pytest.mark.parametrize("error", [ValueError("a fault of ours"), DataError("numeric field overflow"), NO_MOMENT])
    def test_is_no_fault_of_ours(self, as_: As, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        monkeypatch.setattr(registered()[Worker], "get_queryset", mock.Mock(side_effect=error))
        assert _unraised(as_("root")).get("/admin/jobs/worker/").status_code == 500


def _unraised(client: Client) -> Client:
    client.raise_request_exception = False
    return client


class TestFirstPage:
    def test_shows_the_farm_and_all_tables_in_its_sidebar(
        self, as_: As, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.UNFOLD = {**settings.UNFOLD, "SIDEBAR": {"navigation": "jobfarm.administration.sidebar"}}
        samples.fill(1)
        live_queries.warnings.forget()
        monkeypatch.setattr(live_queries.warnings, "_for_s", 600)  # doctor does not look again on a slow machine
        reader = as_("readers")
        get(reader, reverse("admin:index"))
        answer, statements = get(reader, reverse("admin:index"))
        assert len(statements) <= MOST_OF_THE_FIRST_PAGE
        page = answer.content.decode()
        assert [
            url for url in (address(model, "changelist") for model in tables()) if f'href="{url}"' not in page
        ] == []
        names = ("warnings", "figures", "charts", "crons", "webhooks", "limits")
        assert [name for name in names if f'data-live="overview-{name}"' not in page] == []
        assert uncounted(statements) == []

    def test_says_what_it_needs_to_who_may_not_see_the_farm(self, as_: As) -> None:
        page = as_("nobody").get(reverse("admin:index")).content.decode()
        assert ("data-live=" in page, "Can view job" in page) == (False, True)
