"""Pages of alerts: what fires, rules that are made and changed, and what is shown when something is wrong."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client
from pytest_django import Settings

from alerts import registry
from alerts.models import Alert, Notification, Rule
from scheduling.models import ScheduledFunction
from tests import farm
from tests.alerts import watching
from tests.looped import looped

pytestmark = pytest.mark.django_db
FORM = {
    "name": "Waits", "target": "chat", "threshold": "600", "hold_s": "5", "keep_firing_s": "10", "repeat_s": "4",
    "severity": "critical", "mail_to": "ops@example.org", "webhook_url": "https://hooks.example.org/secret",
    "is_enabled": "on",
}  # fmt: skip
NEW = "/alerts/rules/new/?condition=jobs_wait"


@pytest.fixture
def page(boss: User) -> Client:
    """The browser of who runs the farm."""
    client = Client()
    client.force_login(boss)
    return client


def text(answer: Any) -> str:
    """What a page says, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def alert(rule: Rule, subject: str, **values: Any) -> Alert:
    first = {"state": "firing", "value": 1500, "since": farm.now(), "known_at": farm.now()}
    return Alert.objects.create(rule=rule, subject=subject, **first | values)


def test_a_rule_is_made_for_a_condition(page: Client) -> None:
    shown = text(page.get("/alerts/rules/new/"))
    assert all(condition.title in shown for condition in registry.everything())
    answer = page.post(NEW, FORM)
    rule = Rule.objects.get()
    assert answer["Location"] == f"/alerts/rules/{rule.pk}/"
    assert (rule.condition, rule.target, rule.threshold, rule.hold_s) == ("jobs_wait", "chat", 600, 300)
    assert (rule.keep_firing_s, rule.repeat_s, rule.severity) == (600, 14400, "critical")
    assert (rule.mail_to, rule.webhook_host, rule.is_enabled) == ("ops@example.org", "hooks.example.org", True)
    assert LogEntry.objects.get().change_message == "Made the rule."


@looped("code", [condition.code for condition in registry.everything()], rolled_back=True)
def test_each_condition_has_a_form_that_makes_a_rule_as_it_is_proposed(page: Client, code: str) -> None:
    address = f"/alerts/rules/new/?condition={code}"
    form = page.get(address).context["form"]
    proposed = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    sent = {name: value for name, value in proposed.items() if value is not None}
    assert page.post(address, sent).status_code == 302
    rule = Rule.objects.get()
    assert (rule.condition, rule.window_s, rule.mail_to) == (code, 900, "")
    assert page.get(f"/alerts/rules/{rule.pk}/").status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", "", "This field is required."), ("name", "Taken", "Another rule has this name."),
        ("threshold", "nan", "Enter a number."), ("hold_s", "10081", "less than or equal to 10080"),
        ("mail_to", "nobody", "is no address"), ("webhook_url", "ftp://x", "cannot be sent to"),
        ("severity", "dire", "Select a valid choice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_kept(
    page: Client, field: str, value: str, sentence: str
) -> None:
    watching.make("disk", name="Taken")
    answer = page.post(NEW, {**FORM, field: value})
    assert answer.status_code == 422
    assert sentence in str(answer.context["form"].errors[field])
    assert Rule.objects.count() == 1


def test_a_rule_is_changed_and_keeps_the_address_that_it_does_not_show(page: Client) -> None:
    page.post(NEW, FORM)
    rule = Rule.objects.get()
    address = f"/alerts/rules/{rule.pk}/"
    assert "secret" not in page.get(address).content.decode()
    page.post(address, {**FORM, "threshold": "60", "webhook_url": ""})
    rule.refresh_from_db()
    assert (rule.threshold, rule.webhook_host) == (60, "hooks.example.org")
    page.post(address, {**FORM, "webhook_url": "", "without_webhook": "on", "is_enabled": ""})
    rule.refresh_from_db()
    assert (rule.webhook_host, rule.sealed_url, rule.is_enabled) == ("", None, False)
    answer = page.post(address, {**FORM, "repeat_s": "x"})
    assert (answer.status_code, "Enter a number" in text(answer)) == (422, True)


def test_a_rule_that_is_saved_as_its_form_shows_it_stays_as_it_is(page: Client) -> None:
    """What the API made need not be whole minutes and hours."""
    seconds = {"window_s": 500, "hold_s": 90, "keep_firing_s": 604_799, "repeat_s": 1800}
    rule = watching.make("failure_share", name="Fails", **seconds)
    address = f"/alerts/rules/{rule.pk}/"
    form = page.get(address).context["form"]
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    assert page.post(address, shown).status_code == 302
    rule.refresh_from_db()
    assert {name: getattr(rule, name) for name in seconds} == seconds
    assert LogEntry.objects.latest("pk").change_message == "Changed nothing."


def test_a_rule_is_muted_unmuted_and_deleted(page: Client) -> None:
    rule = watching.make("disk", name="Full")
    page.post(f"/alerts/rules/{rule.pk}/mute/", {"hours": "4"})
    assert 'data-status="paused"' in page.get("/alerts/").content.decode()
    page.post(f"/alerts/rules/{rule.pk}/unmute/")
    assert 'data-status="paused"' not in page.get("/alerts/").content.decode()
    assert page.post(f"/alerts/rules/{rule.pk}/mute/", {"hours": "9999"}).status_code == 422
    page.post(f"/alerts/rules/{rule.pk}/delete/")
    assert Rule.objects.count() == 0
    assert page.get(f"/alerts/rules/{rule.pk}/").status_code == 404
    assert page.post(f"/alerts/rules/{rule.pk}/mute/", {"hours": "4"}).status_code == 404


def test_what_fires_is_listed_first_with_its_number_and_rule(page: Client) -> None:
    rule = watching.make("jobs_wait", name="Waits")
    alert(rule, "images", state="pending")
    alert(rule, "<b>chat</b>")
    alert(rule, "over", state="resolved")
    shown = text(page.get("/alerts/"))
    assert "1 firing, 1 pending" in shown
    assert shown.index("&lt;b&gt;chat") < shown.index("images")
    assert "25 min" in shown
    assert "over " not in shown
    other = watching.make("disk", name="Full")
    assert "Nothing fires" in text(page.get(f"/alerts/rules/{other.pk}/"))


def test_many_are_cut_and_counted(page: Client) -> None:
    rule = watching.make("jobs_wait", name="Waits")
    for number in range(103):
        alert(rule, f"queue-{number:03}", value=number)
    shown = text(page.get("/alerts/"))
    assert "The first 100 of 103" in shown
    assert "queue-102" in shown
    assert "queue-002" not in shown


def test_an_empty_page_says_what_a_rule_is(page: Client) -> None:
    shown = text(page.get("/alerts/"))
    assert "Nothing fires" in shown
    assert "No rule yet" in shown
    assert "No message yet" in shown


def test_what_nobody_judges_any_more_is_said_to_be_old(page: Client) -> None:
    rule = watching.make("jobs_wait", name="Waits")
    Rule.objects.filter(pk=rule.pk).update(observed_at=farm.now())
    assert "No rule was judged since" not in text(page.get("/alerts/"))
    Rule.objects.update(observed_at=F("observed_at") - timedelta(minutes=10))
    assert "No rule was judged since" in text(page.get("/alerts/"))


def test_what_is_not_known_and_what_was_not_sent_is_shown_with_its_reason(page: Client) -> None:
    rule = watching.make("jobs_wait", name="Waits")
    Rule.objects.filter(pk=rule.pk).update(unknown="The roll-up of jobs is behind.")
    Notification.objects.create(
        rule=rule, channel="mail", recipient="ops@example.org", title="[FIRING:1] Waits", body="x", status="failed",
        tries=7, error="ConnectionRefusedError: no", ended_at=farm.now(),
    )  # fmt: skip
    shown = text(page.get("/alerts/"))
    assert "unknown The roll-up of jobs is behind." in shown
    assert "failed Try 7: ConnectionRefusedError: no" in shown


def test_a_rule_whose_condition_no_app_knows_is_shown_and_can_be_deleted(page: Client) -> None:
    rule = watching.make("jobs_wait", name="Waits")
    Rule.objects.filter(pk=rule.pk).update(condition="gone")
    alert(rule, "x")
    for address in ("/alerts/", f"/alerts/rules/{rule.pk}/"):
        assert page.get(address).status_code == 200
    answer = page.post(f"/alerts/rules/{rule.pk}/", FORM)
    assert (answer.status_code, "There is no such condition." in text(answer)) == (422, True)
    assert page.post(f"/alerts/rules/{rule.pk}/delete/").status_code == 302


def test_the_pages_ask_a_bounded_number_of_statements(page: Client, django_assert_max_num_queries: Any) -> None:
    for number in range(30):
        rule = watching.make("jobs_wait", name=f"Rule {number}")
        alert(rule, "a")
        Notification.objects.create(rule=rule, channel="mail", recipient="a@b", title="t", body="x")
    with django_assert_max_num_queries(12):
        page.get("/alerts/")


def test_the_administration_shows_a_rule_with_its_history_and_no_address(page: Client) -> None:
    page.post(NEW, FORM)
    rule = Rule.objects.get()
    alert(rule, "chat")
    shown = page.get(f"/admin/alerts/rule/{rule.pk}/change/").content.decode()
    assert "hooks.example.org" in shown
    assert "hooks.example.org/secret" not in shown
    assert "Made the rule." in text(page.get(f"/admin/alerts/rule/{rule.pk}/history/"))


def test_a_test_message_goes_to_each_recipient_and_to_nobody_where_there_is_none(page: Client) -> None:
    rule = watching.make("jobs_wait", mail_to="ops@example.org, ann@example.org")
    answer = page.post(f"/alerts/rules/{rule.pk}/test/", follow=True)
    assert "Test messages on their way: 2." in text(answer)
    rows = Notification.objects.order_by("pk").values_list("recipient", "title")
    assert list(rows) == [("ops@example.org", "[TEST] Bad"), ("ann@example.org", "[TEST] Bad")]
    assert [row.function.rpartition(".")[2] for row in ScheduledFunction.objects.all()] == ["send", "send"]
    Rule.objects.update(mail_to="")
    assert "it names no recipient" in text(page.post(f"/alerts/rules/{rule.pk}/test/", follow=True))
    assert Notification.objects.count() == 2
    assert LogEntry.objects.filter(change_message="Sent a test message to 2 recipients.").exists()


def test_a_farm_without_a_mail_server_says_so_in_the_form_and_beside_the_rule(page: Client, settings: Settings) -> None:
    rule = watching.make("jobs_wait")
    for has, shown in ((False, True), (True, False)):
        settings.HAS_MAIL_SERVER = has
        for address in (NEW, f"/alerts/rules/{rule.pk}/"):
            assert ("no mail server" in text(page.get(address))) is shown


@pytest.mark.parametrize(
    ("condition", "subject", "url"),
    [
        ("jobs_wait", "gpu", "/queues/gpu/"),
        ("kind_failed", "image", "/jobs/?status=failed&amp;kind=image"),
        ("cron_failed", "nightly", "/crons/nightly/"),
        ("deliveries_dead", "x", "/inbox/?status=dead"),
        ("endpoint_failing", "hooks", "/outbox/"),
        ("limit_exhausted", "log-in user:ada", "/limits/"),
    ],
)
def test_what_fires_is_a_link_to_its_page(page: Client, condition: str, subject: str, url: str) -> None:
    alert(watching.make(condition, name="It"), subject)
    shown = page.get("/alerts/").content.decode()
    [found] = re.findall(rf'<a href="([^"]*)">{subject}</a></th>', shown)
    assert found == url
    assert page.get(found.replace("&amp;", "&")).status_code in {200, 404}  # no such queue or cron is here
