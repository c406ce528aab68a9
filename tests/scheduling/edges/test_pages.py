"""Pages and admin of the scheduler: who sees them, what they show, what their buttons do."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from scheduling import operations as scheduling
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import crons
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)

NASTY = "<script>alert(1)</script>"


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture(autouse=True)
def one_cron(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crons, "_declared", {})
    scheduling.declare("greet", scheduling.daily(hour=6, tz="Europe/Berlin"), sample.say, word=NASTY)
    scheduling.sync_crons()


def row(word: str = NASTY) -> ScheduledFunction:
    return scheduling.run_after(timedelta(hours=1), sample.say, word=word)


def addresses(pk: int) -> list[str]:
    return ["/functions/", f"/functions/{pk}/", "/crons/", "/crons/greet/"]


def buttons(pk: int) -> list[str]:
    functions = [f"/functions/{pk}/{word}/" for word in ("cancel", "run-again")]
    return functions + [f"/crons/greet/{word}/" for word in ("pause", "resume", "run")]


class TestRights:
    def test_nobody_is_asked_to_log_in(self) -> None:
        for url in addresses(row().pk):
            response = Client().get(url)
            assert (response.status_code, response.headers["Location"].partition("?")[0]) == (302, "/accounts/login/")

    def test_a_member_finds_nothing(self) -> None:
        client = Client()
        client.force_login(User.objects.create_user("ada"))
        pk = row().pk
        assert {client.get(url).status_code for url in addresses(pk)} == {404}
        assert {client.post(url).status_code for url in buttons(pk)} == {404}

    def test_who_may_look_may_not_act(self) -> None:
        person = User.objects.create_user("eve", is_staff=True)
        person.user_permissions.set(
            Permission.objects.filter(codename__startswith="view_", content_type__app_label="scheduling")
        )
        client = Client()
        client.force_login(person)
        pk = row().pk
        assert {client.get(url).status_code for url in addresses(pk)} == {200}
        assert {client.post(url).status_code for url in buttons(pk)} == {404}
        assert "Cancel" not in client.get(addresses(pk)[1]).content.decode()
        assert ScheduledFunction.objects.get().status == "pending"

    def test_a_button_needs_the_csrf_token(self) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("root"))
        assert {client.post(url).status_code for url in buttons(row().pk)} == {403}


class TestAPage:
    def test_escapes_what_it_shows(self, operator: Client) -> None:
        bad = scheduling.run_after(0, sample.break_down_and_be_tried_again, word=NASTY)
        scheduling.run_due()
        for url in [*addresses(row().pk), f"/functions/{bad.pk}/"]:
            assert NASTY not in operator.get(url).content.decode()
        assert "&lt;script&gt;" in operator.get(f"/functions/{bad.pk}/").content.decode()

    @pytest.mark.parametrize(
        "query",
        [
            "before=x",
            "before=99999999999999999999",
            "before=-1",
            "before=%00",
            "status=nonsense",
            "status=%00",
            "function=%00&cron=%00",
            "function=%27",
            "before=٣",
        ],
    )
    def test_takes_any_filter_without_an_error(self, operator: Client, query: str) -> None:
        row()
        assert operator.get(f"/functions/?{query}").status_code == 200

    def test_filters_by_status_and_function(self, operator: Client) -> None:
        row("a")
        scheduling.run_after(0, sample.break_down)
        scheduling.run_due()
        page = operator.get("/functions/?status=failed").content.decode()
        assert "sample.break_down" in page
        assert ">#" in page
        assert 'title="tests.scheduling.integration.sample.say"' not in page
        page = operator.get("/functions/?function=tests.scheduling.integration.sample.say").content.decode()
        assert 'title="tests.scheduling.integration.sample.say"' in page

    def test_of_a_name_that_no_cron_can_have_is_not_there(self, operator: Client) -> None:
        assert operator.get("/crons/a%00b/").status_code == 404

    def test_of_what_there_is_not_is_not_there(self, operator: Client) -> None:
        urls = ["/functions/999/", "/functions/9999999999999999999999/", "/crons/nothing/"]
        assert {operator.get(url).status_code for url in urls} == {404}

    def test_of_a_long_list_takes_few_queries(
        self, operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for n in range(60):
            row(str(n))
        with django_assert_max_num_queries(10):
            page = operator.get("/functions/").content.decode()
        assert page.count("data-key=") == 50
        assert "Older" in page

    def test_of_a_cron_that_is_no_address_is_no_error(self, operator: Client) -> None:
        assert operator.get("/functions/?cron=a/b").status_code == 200

    def test_of_crons_shows_how_the_last_firings_ended_and_those_that_are_retired_last(self, operator: Client) -> None:
        scheduling.declare("aged", scheduling.interval(hours=1), sample.break_down)
        scheduling.sync_crons()
        scheduling.run_now("aged")
        scheduling.run_now("greet")
        scheduling.run_due()
        del crons._declared["aged"]  # as if its line had been taken out of crons.py
        scheduling.sync_crons()
        page = operator.get("/crons/").content.decode()
        order = [page.index(f'data-key="c{name}"') for name in ("greet", "aged")]
        assert order == sorted(order)
        greet, aged = page[order[0] : order[1]], page[order[1] :]
        assert ('data-status="success"' in greet, 'data-status="failed"' in greet) == (True, False)
        assert ('data-status="success"' in aged, 'data-status="failed"' in aged) == (False, True)

    def test_of_the_farm_itself_are_folded_away_from_peoples_own(self, operator: Client, settings: Settings) -> None:
        operator.get("/crons/")
        scheduling.declare("nightly", scheduling.daily(hour=3, tz="UTC"), sample.say, word="x")
        scheduling.sync_crons()
        Cron.objects.filter(name="nightly").update(function="accounts.operations.tidy")
        page = operator.get("/crons/").content.decode()
        own, internal = page.split('<details class="card flush internal">')
        assert ('data-key="cnightly"' in own, 'data-key="cgreet"' in own) == (False, True)
        assert "Crons of the farm itself: 1" in internal
        settings.JOBFARM_APPS = ["accounts"]
        assert 'class="card flush internal"' not in operator.get("/crons/").content.decode()

    def test_of_a_function_leads_to_its_next_try(self, operator: Client) -> None:
        first = scheduling.run_after(0, sample.break_down_and_be_tried_again, word="x")
        scheduling.run_due()
        second = ScheduledFunction.objects.get(retry_of=first)
        assert f'href="/functions/{second.pk}/"' in operator.get(f"/functions/{first.pk}/").content.decode()
        assert f'href="/functions/{first.pk}/"' in operator.get(f"/functions/{second.pk}/").content.decode()

    def test_is_in_the_bar_of_those_who_may_see_it_alone(self, operator: Client) -> None:
        member = Client()
        member.force_login(User.objects.create_user("ada"))
        links = ['href="/functions/"', 'href="/crons/"']
        assert [link in operator.get("/jobs/").content.decode() for link in links] == [True, True]
        assert [link in member.get("/jobs/").content.decode() for link in links] == [False, False]

    @pytest.mark.parametrize(
        ("changes", "badge"),
        [
            ({}, 'data-status="on">active<'),
            ({"paused_at": Now()}, 'data-status="paused">paused<'),
            ({"paused_at": Now(), "retired_at": Now()}, 'data-status="off">retired<'),
        ],
    )
    def test_of_a_cron_its_list_and_the_administration_have_one_word_for_its_status(
        self, operator: Client, changes: dict[str, Any], badge: str
    ) -> None:
        Cron.objects.filter(pk="greet").update(created_at=Now(), **changes)
        for url in ("/crons/", "/crons/greet/"):
            assert badge in operator.get(url).content.decode()
        word = badge.partition(">")[2]
        assert re.search(rf">\s*{word.rstrip('<')}\s*<", operator.get("/admin/scheduling/cron/").content.decode())

    @pytest.mark.parametrize(
        ("missed", "at_most", "words"),
        [("skip", 1, "skipped"), ("once", 1, "made up for once"), ("catch_up", 5, "made up for, at most 5")],
    )
    def test_of_a_cron_says_what_becomes_of_missed_firings(
        self, operator: Client, missed: str, at_most: int, words: str
    ) -> None:
        Cron.objects.filter(pk="greet").update(missed=missed, at_most=at_most)
        assert f"<dd>{words} <span" in operator.get("/crons/greet/").content.decode()

    def test_of_a_cron_shows_the_next_ten_firings_in_its_own_zone(self, operator: Client) -> None:
        page = operator.get("/crons/greet/").content.decode()
        assert page.count("06:00:00 CE") == 10


class TestAButton:
    def test_cancels_and_says_what_that_came_to(self, operator: Client) -> None:
        pk = row().pk
        page = operator.post(f"/functions/{pk}/cancel/", follow=True).content.decode()
        assert "Canceled: it will never run." in page
        page = operator.post(f"/functions/{pk}/cancel/", follow=True).content.decode()
        assert "Too late: it has ended as canceled." in page
        assert LogEntry.objects.get().get_change_message() == "Canceled (canceled_before_start)."

    def test_runs_again_what_has_ended(self, operator: Client) -> None:
        pk = row().pk
        assert "has not ended yet" in operator.post(f"/functions/{pk}/run-again/", follow=True).content.decode()
        scheduling.cancel(pk)
        operator.post(f"/functions/{pk}/run-again/")
        assert ScheduledFunction.objects.get(run_again_of=pk).status == "pending"

    def test_pauses_resumes_and_runs_a_cron(self, operator: Client) -> None:
        operator.post("/crons/greet/pause/")
        assert Cron.objects.get().paused_at is not None
        operator.post("/crons/greet/resume/")
        assert Cron.objects.get().paused_at is None
        operator.post("/crons/greet/run/")
        assert ScheduledFunction.objects.get().cron_id == "greet"
        assert LogEntry.objects.count() == 3

    @pytest.mark.parametrize("url", ["/functions/999/cancel/", "/functions/999/run-again/", "/crons/x/run/"])
    def test_on_what_there_is_not_is_not_there(self, operator: Client, url: str) -> None:
        assert operator.post(url).status_code == 404


class TestTheAdmin:
    def test_shows_its_lists_and_pages(self, operator: Client) -> None:
        pk = row().pk
        scheduling.run_due()
        for model in ("scheduledfunction", "cron", "cluster"):
            assert operator.get(f"/admin/scheduling/{model}/").status_code == 200
        answer = operator.get(f"/admin/scheduling/scheduledfunction/{pk}/change/")
        assert answer["Location"] == f"/functions/{pk}/"
        assert operator.get("/admin/scheduling/cron/greet/change/")["Location"] == "/crons/greet/"
        listed = operator.get(
            "/admin/scheduling/scheduledfunction/?status__exact=pending&function=tests.scheduling.integration.sample.say"
        )
        assert f">{pk}<" in listed.content.decode()

    def test_cancels_and_runs_again(self, operator: Client) -> None:
        pks = [row(str(n)).pk for n in range(3)]
        self._do(operator, "scheduledfunction", "run_again", pks[:1])
        self._do(operator, "scheduledfunction", "cancel", pks)
        self._do(operator, "scheduledfunction", "run_again", pks)
        statuses = list(ScheduledFunction.objects.order_by("pk").values_list("status", flat=True))
        assert statuses == ["canceled"] * 3 + ["pending"] * 3

    def test_pauses_resumes_and_runs_crons(self, operator: Client) -> None:
        self._do(operator, "cron", "pause", ["greet"])
        assert Cron.objects.get().paused_at is not None
        self._do(operator, "cron", "resume", ["greet"])
        self._do(operator, "cron", "run_now", ["greet"])
        assert Cron.objects.get().paused_at is None
        assert ScheduledFunction.objects.get().cron_id == "greet"

    def _do(self, operator: Client, model: str, action: str, pks: list[int] | list[str]) -> None:
        form = {"action": action, "_selected_action": pks}
        before = list(ScheduledFunction.objects.values()) + list(Cron.objects.values())
        assert 'name="confirmed"' in operator.post(f"/admin/scheduling/{model}/", form).content.decode()
        assert list(ScheduledFunction.objects.values()) + list(Cron.objects.values()) == before
        answer = operator.post(f"/admin/scheduling/{model}/", {**form, "confirmed": "yes"}, follow=True)
        assert answer.status_code == 200
