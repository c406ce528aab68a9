"""Crons that people make and change, on the site's pages, to which the administration leads."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client

from postgres import clock
from scheduling import operations as scheduling, registry
from scheduling.models import Cron
from scheduling.operations import crons
from scheduling.views import FIELDS
from tests import farm
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
SAY = registry.dotted_name(sample.say)
FORM = {
    "function": SAY, "arguments_text": '{"word": "ho"}', "timing": "30 9 * * 1-5", "zone": "Europe/Berlin",
    "missed": "once", "at_most": "1", "overlap": "skip",
}  # fmt: skip
ADD, CHANGE, PREVIEW = "/new-cron/", "/crons/greet/edit/", "/new-cron/preview/"


@pytest.fixture(autouse=True)
def own_crons(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of an app, and one of the farm itself."""
    monkeypatch.setattr(crons, "_declared", {})
    Cron.objects.all().delete()
    scheduling.declare("greet", scheduling.hourly(), sample.say, word="hi")
    scheduling.declare("count", scheduling.hourly(), "jobs.operations.rollup.roll_up")
    scheduling.sync_crons()


def _client(*rights: str, is_superuser: bool = False) -> Client:
    user = farm.user("_".join(rights) or "root", is_staff=True, is_superuser=is_superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root() -> Client:
    """Who may do everything."""
    return _client(is_superuser=True)


class TestMaking:
    def test_makes_it_and_leaves_a_line(self, root: Client) -> None:
        assert root.post(ADD, FORM | {"name": "mine"}).status_code == 302
        made = Cron.objects.get(pk="mine")
        assert (made.source, made.schedule) == ("person", "30 9 * * 1-5 in Europe/Berlin")
        assert (made.args, made.function) == ({"word": "ho"}, SAY)
        line = LogEntry.objects.get(object_id="mine")
        assert (line.user.username, line.get_change_message()) == ("root", "Added.")

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"name": "a/b"}, "printable, without /"),
            ({"name": "all *"}, "ends with no *"),
            ({"name": "greet"}, "already exists"),
            ({"timing": "at noon"}, "is no cron expression"),
            ({"timing": "every 0 s"}, "from one second to five years"),
            ({"arguments_text": "{"}, "This is not JSON"),
            ({"arguments_text": "[]"}, "A JSON object"),
            ({"arguments_text": '{"loud": 1}'}, "cannot be called like that"),
            ({"function": "jobs.operations.rollup.roll_up"}, "Select a valid choice"),
            ({"at_most": "0"}, "at_most is from 1"),
            (
                {"function": "jobs.operations.from_crons.submit_job", "arguments_text": '{"kind": "no", "payload": 1}'},
                "no",
            ),
        ],
    )
    def test_says_what_is_wrong(self, root: Client, change: dict[str, str], sentence: str) -> None:
        answer = root.post(ADD, FORM | {"name": "mine"} | change)
        assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
        assert set(Cron.objects.values_list("pk", flat=True)) == {"greet", "count"}

    def test_that_is_refused_is_still_that_of_a_new_one(self, root: Client) -> None:
        page = root.post(ADD, FORM | {"name": "mine", "timing": "@daily"}).content.decode()
        assert ("New cron" in page, "Edit" in page, "/crons/mine/" in page) == (True, False, False)

    def test_shows_the_next_ten_firings_of_what_is_typed(self, root: Client) -> None:
        def shown(timing: str, zone: str = "UTC") -> str:
            return root.get(PREVIEW, {"timing": timing, "zone": zone}).content.decode()

        assert re.findall(r"<li>\w+ \d+ \w+ \d+ (.+?)</li>", shown("0 6 * * 1", "Asia/Tokyo")) == ["06:00:00 JST"] * 10
        assert "no cron expression" in shown("x")
        assert "Exceeds" in shown("1" * 5000 + " * * * *")
        assert "no time zone" in shown("* * * * *", "../x")
        assert "<li>" not in shown("")

    def test_begins_with_a_kind(self, root: Client) -> None:
        farm.kind()
        answer = root.get("/admin/jobs/kind/work/by-cron/", follow=True)
        assert "&quot;kind&quot;: &quot;work&quot;" in answer.content.decode()

    def test_is_offered_to_who_may_and_leads_to_its_page(self) -> None:
        adds = _client("view_scheduledfunction", "add_cron")
        assert f'href="{ADD}"' in adds.get("/crons/").content.decode()
        assert "at least" not in adds.get(ADD).content.decode()
        answer = adds.post(ADD, FORM | {"name": "mine"}, follow=True)
        assert (answer.status_code, answer.redirect_chain) == (200, [("/crons/mine/", 302)])
        assert adds.post(ADD, FORM | {"name": "other", "timing": "@daily"}).status_code == 422

    def test_asks_first_what_it_does_and_when_and_has_a_default_for_the_rest(self) -> None:
        form = _client("view_scheduledfunction", "add_cron").get(ADD).context["form"]
        assert tuple(form.fields) == FIELDS
        assert (form["missed"].value(), form["at_most"].value(), form["overlap"].value()) == ("once", 1, "skip")

    def test_is_not_offered_to_who_may_not(self) -> None:
        looks = _client("view_scheduledfunction", "operate_scheduledfunction")
        assert ADD not in looks.get("/crons/").content.decode()
        assert looks.get(ADD).status_code == looks.get(PREVIEW).status_code == 404


class TestChanging:
    def test_changes_it_and_says_so(self, root: Client) -> None:
        assert "30 9" not in root.get(CHANGE).content.decode()
        assert root.post(CHANGE, FORM).status_code == 302
        row = Cron.objects.get(pk="greet")
        assert (row.source, row.schedule, row.args) == ("edited", "30 9 * * 1-5 in Europe/Berlin", {"word": "ho"})
        assert "Schedule" in LogEntry.objects.get(object_id="greet").get_change_message()
        assert "by a person: code says otherwise" in root.get("/crons/greet/").content.decode()

    def test_is_undone(self, root: Client) -> None:
        root.post(CHANGE, FORM)
        way = "/crons/greet/reset/"
        assert f'action="{way}"' in root.get("/crons/greet/").content.decode()
        root.post(way)
        assert (Cron.objects.get(pk="greet").source, Cron.objects.get(pk="greet").args) == ("code", {"word": "hi"})
        assert f'action="{way}"' not in root.get("/crons/greet/").content.decode()

    def test_mends_a_schedule_that_nobody_can_read(self, root: Client) -> None:
        Cron.objects.filter(pk="greet").update(schedule="whenever")
        assert 'value="whenever"' in root.get(CHANGE).content.decode()
        assert root.post(CHANGE, FORM).status_code == 302
        assert Cron.objects.get(pk="greet").schedule == "30 9 * * 1-5 in Europe/Berlin"

    def test_removes_what_a_person_made(self, root: Client) -> None:
        root.post(ADD, FORM | {"name": "mine"})
        assert root.post("/crons/mine/remove/", follow=True).status_code == 200
        root.post("/crons/greet/remove/")
        assert Cron.objects.get(pk="mine").retired_at is not None
        assert Cron.objects.get(pk="greet").retired_at is None

    def test_removes_and_does_not_resume_one_whose_function_or_zone_is_gone(self, root: Client) -> None:
        root.post(ADD, FORM | {"name": "mine"})
        for poison in (
            {"function": "tests.scheduling.integration.sample.gone"},
            {"function": SAY, "schedule": "x in Mars/Phobos"},
        ):
            Cron.objects.filter(pk="mine").update(paused_at=clock.now(), next_at=clock.now(), **poison)
            resume = {"action": "resume", "_selected_action": ["mine"], "confirmed": "yes"}
            answer = root.post("/admin/scheduling/cron/", resume, follow=True)
            assert (answer.status_code, bool(list(answer.context["messages"]))) == (200, True)
            assert Cron.objects.get(pk="mine").paused_at is not None
        root.post("/crons/mine/remove/")
        assert Cron.objects.get(pk="mine").retired_at is not None

    def test_leaves_the_farms_own_as_they_are(self, root: Client) -> None:
        assert "/crons/count/edit/" not in root.get("/crons/count/").content.decode()
        assert root.get("/crons/count/edit/").status_code == root.post("/crons/count/edit/", FORM).status_code == 404
        assert Cron.objects.get(pk="count").source == "code"


class TestRights:
    def test_whoever_may_only_look_sees_no_form(self) -> None:
        client = _client("view_cron", "view_scheduledfunction", "operate_scheduledfunction")
        page = client.get("/crons/greet/").content.decode()
        assert ("greet" in page, CHANGE in page) == (True, False)
        assert [client.get(ADD).status_code, client.post(CHANGE, FORM).status_code] == [404, 404]
        assert client.get("/admin/scheduling/cron/add/").status_code == 403

    def test_adding_and_changing_are_rights_of_their_own(self) -> None:
        adds = _client("view_scheduledfunction", "add_cron")
        assert adds.post(ADD, FORM | {"name": "mine"}).status_code == 302
        assert adds.post(CHANGE, FORM).status_code == 404
        changes = _client("view_scheduledfunction", "change_cron")
        assert changes.get(PREVIEW).status_code == 200
        assert (changes.post(ADD, FORM).status_code, changes.post(CHANGE, FORM).status_code) == (404, 302)

    def test_whoever_may_add_and_see_no_functions_has_the_preview_and_stays_at_the_form(self) -> None:
        adds = _client("add_cron")
        assert adds.get(PREVIEW, {"timing": "every 5 min", "zone": "UTC"}).status_code == 200
        answer = adds.post(ADD, FORM | {"name": "mine"}, follow=True)
        assert (answer.status_code, answer.redirect_chain) == (200, [(ADD, 302)])
        assert Cron.objects.filter(pk="mine").exists()

    def test_whoever_may_see_crons_and_no_functions_is_led_to_no_page_that_is_not_there(self) -> None:
        looks, shows = "/admin/scheduling/cron/", "/admin/scheduling/cron/greet/change/"
        client = _client("view_cron")
        page = client.get(looks).content.decode()
        assert ("greet" in page, shows in page) == (True, False)
        assert client.get(shows).status_code == 403
        assert shows in _client("view_cron", "view_scheduledfunction").get(looks).content.decode()


def test_a_button_that_meets_a_fault_of_ours_leaves_a_line_in_the_log(
    root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    gone = "tests.scheduling.integration.sample.gone"
    Cron.objects.filter(pk="greet").update(function=gone, paused_at=clock.now())
    for address, form in (
        ("/crons/greet/resume/", {}),
        ("/admin/scheduling/cron/", {"action": "resume", "_selected_action": ["greet"], "confirmed": "yes"}),
    ):
        caplog.clear()
        assert gone in " ".join(map(str, root.post(address, form, follow=True).context["messages"]))
        assert gone in caplog.text, address


def test_the_administration_leads_to_these_pages(root: Client) -> None:
    for page, leads_to in (("add", ADD), ("greet/change", "/crons/greet/")):
        assert root.get(f"/admin/scheduling/cron/{page}/").headers["Location"] == leads_to
