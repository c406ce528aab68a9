"""What people do with rules: make, change, mute and delete them, also while they fire."""

import importlib

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

import alerts.crons
from alerts import operations
from alerts.errors import BadRule, NotFound
from alerts.models import Alert, Notification, Rule
from scheduling.operations import crons
from tests.alerts import watching
from tests.webhooks.inbox.support import receive
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def firing(boss: User) -> Rule:
    """A rule that fires: a delivery is dead."""
    delivery = receive()
    Delivery.objects.filter(pk=delivery.pk).update(status="dead", note="No.", ended_at=delivery.received_at)
    rule = watching.make("deliveries_dead")
    assert watching.watch() == ["[FIRING:1] Bad"]
    return rule


def mend() -> None:
    Delivery.objects.update(status="processed", note=None)


def change(rule: Rule, by: User, **values: object) -> Rule:
    return operations.change(rule.pk, {**watching.VALUES, **values}, by=by)


def lines() -> list[str]:
    return list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True))


def test_a_rule_that_is_deleted_while_it_fires_says_nothing_of_an_end(firing: Rule, boss: User) -> None:
    operations.remove(firing.pk, by=boss)
    assert watching.watch(after=100) == []
    assert (Alert.objects.count(), Notification.objects.count()) == (0, 1)
    assert lines()[-1] == "Deleted the rule."


def test_a_rule_that_is_disabled_while_it_fires_forgets_it_and_begins_anew(firing: Rule, boss: User) -> None:
    change(firing, boss, is_enabled=False)
    assert watching.watch(after=100) == []
    assert watching.states() == {}
    change(firing, boss)
    assert watching.watch(after=1) == ["[FIRING:1] Bad"]


def test_a_threshold_that_is_raised_above_what_fires_resolves_it(firing: Rule, boss: User) -> None:
    change(firing, boss, threshold=5.0)
    assert watching.watch(after=10) == ["[RESOLVED] Bad"]
    assert lines()[-1] == "Changed threshold."


def test_a_rule_that_is_muted_sends_nothing_and_what_is_so_afterwards(firing: Rule, boss: User) -> None:
    operations.mute(firing.pk, for_s=7200, by=boss)
    assert watching.watch(after=60) == []
    assert watching.watch(after=70) == ["[FIRING:1] Bad"]
    operations.mute(firing.pk, for_s=7200, by=boss)
    mend()
    assert watching.watch(after=60) == []
    operations.mute(firing.pk, for_s=None, by=boss)
    assert watching.watch(after=1) == ["[RESOLVED] Bad"]
    assert [line.partition(" ")[0] for line in lines()] == ["Made", "Muted", "Muted", "Unmuted."]


def test_a_rule_without_a_recipient_is_shown_and_sends_nothing(firing: Rule, boss: User) -> None:
    change(firing, boss, mail_to="")
    assert watching.watch(after=100) == []
    assert watching.states() == {"": "firing"}


def test_what_comes_and_goes_is_one_message_with_a_time_to_hold_and_one_to_keep_firing(
    firing: Rule, boss: User
) -> None:
    change(firing, boss, keep_firing_s=600, repeat_s=0)
    for _ in range(3):
        mend()
        assert watching.watch(after=4) == []
        Delivery.objects.update(status="dead", note="No.")
        assert watching.watch(after=4) == []
    mend()
    assert watching.watch(after=4) == []
    assert [watching.watch(after=4) for _ in range(3)] == [[], [], ["[RESOLVED] Bad"]]


def test_two_rules_of_one_name_and_a_rule_that_is_none_are_refused(boss: User) -> None:
    watching.make("deliveries_dead")
    for values, field in (
        ({}, "name"), ({"name": "B", "mail_to": "nobody"}, "mail_to"),
        ({"name": "B", "webhook_url": "ftp://a"}, "webhook_url"),
        ({"name": "B", "webhook_url": "https://user@example.org/"}, "webhook_url"),
    ):  # fmt: skip
        with pytest.raises(BadRule) as refusal:
            watching.make("deliveries_dead", **values)
        assert refusal.value.field == field
    with pytest.raises(BadRule):
        operations.make("nothing", watching.VALUES, by=boss)
    assert Rule.objects.count() == 1


def test_a_rule_that_is_gone_cannot_be_changed(boss: User) -> None:
    for act in (
        lambda: operations.remove(7, by=boss), lambda: operations.mute(7, for_s=60, by=boss),
        lambda: operations.mute(7, for_s=None, by=boss), lambda: operations.change(7, watching.VALUES, by=boss),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            act()


def test_a_farm_has_a_bounded_number_of_rules(boss: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alerts.domain.rules.MOST_RULES", 1)
    watching.make("deliveries_dead")
    with pytest.raises(BadRule, match="There are 1 already"):
        watching.make("disk", name="Another")


@pytest.mark.parametrize("for_s", [0, -1, 31 * 86400])
def test_a_mute_is_bounded(boss: User, for_s: int) -> None:
    with pytest.raises(BadRule):
        operations.mute(watching.make("deliveries_dead").pk, for_s=for_s, by=boss)


def test_an_address_stays_until_another_or_none_is_given(boss: User) -> None:
    rule = watching.make("deliveries_dead", webhook_url="https://hooks.example.org/secret")
    assert change(rule, boss).webhook_host == "hooks.example.org"
    assert change(rule, boss, webhook_url="https://b.example.org/x").webhook_host == "b.example.org"
    assert (change(rule, boss, webhook_url="").webhook_host, lines()[-1]) == ("", "Changed webhook_url.")


def test_rules_are_judged_by_a_cron_of_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crons, "_declared", {})
    importlib.reload(alerts.crons)
    assert crons._declared[operations.CRON].function.name == "alerts.operations.watch"
