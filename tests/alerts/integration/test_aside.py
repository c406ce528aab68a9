"""A rule that cannot be judged is put aside with the reason on it, and the other rules are judged."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now

from alerts import registry
from alerts.domain.rules import Condition, Measure, Reading, Unit
from alerts.models import Rule
from jobfarm import health
from tests.alerts import watching

pytestmark = pytest.mark.django_db(transaction=True)


NONE: Any = None


def condition(code: str, reader: Callable[[int], Any]) -> None:
    registry.register(Condition(code=code, title=code, unit=Unit.NUMBER, target="thing"))(reader)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    registry.everything()
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.fixture
def good(boss: User) -> str:
    condition("good", lambda _: Reading(measures=[Measure(subject="x", value=2.0)]))
    watching.make("good", name="Good")
    return "[FIRING:1] Good"


def refused() -> Any:
    raise RuntimeError("it cannot be read")


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (refused, "It cannot be read: RuntimeError"),
        (lambda: None, "What was read makes no sense: AttributeError"),
        (lambda: Reading(measures=[Measure(subject="x", value=NONE)]), "What was read makes no sense: TypeError"),
        (lambda: Reading(measures=[Measure(subject="x" * 501, value=2.0)]), "It cannot be judged: DataError"),
        (lambda: Reading(measures=[Measure(subject="x\x00", value=2.0)]), "It cannot be judged: "),
    ],
)
def test_a_reading_that_cannot_be_kept_is_one_rules_trouble(good: str, read: Callable[[], Any], reason: str) -> None:
    condition("bad", lambda _: read())
    bad = watching.make("bad", name="Bad")  # before the good one in every order
    Rule.objects.filter(pk=bad.pk).update(id=0)
    assert watching.watch() == [good]
    assert Rule.objects.get(name="Bad").unknown.startswith(reason)
    assert Rule.objects.get(name="Good").unknown == ""


def test_doctor_names_a_rule_of_which_nothing_is_known_for_an_hour(good: str) -> None:
    condition("bad", lambda _: refused())
    watching.make("bad", name="Bad")
    watching.watch()
    assert list(health._alerts()) == []
    Rule.objects.update(created_at=Now() - timedelta(hours=2))
    [finding] = health._alerts()
    assert finding.sentence == "Alert rules of which nothing has been known for an hour: 1."
    assert "Bad: It cannot be read: RuntimeError." in (finding.remedy or "")


def test_a_rule_whose_row_was_spoilt_is_one_rules_trouble(good: str) -> None:
    condition("also", lambda _: Reading(measures=[Measure(subject="x", value=2.0)]))
    bad = watching.make("also", name="Bad")
    Rule.objects.filter(pk=bad.pk).update(mail_to="nobody", id=0)
    assert watching.watch() == [good]
    assert watching.states() == {"x": "firing"}
    assert Rule.objects.get(name="Bad").unknown.startswith("It cannot be judged: This cannot be a rule: its mail_to")


def test_a_condition_that_takes_too_long_is_not_known_and_the_others_are_read(
    good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleeps(_: int) -> Reading:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(5)")
        return Reading()

    monkeypatch.setattr(registry, "READ_WITHIN_MS", 200)
    condition("slow", sleeps)
    slow = watching.make("slow", name="Slow")
    Rule.objects.filter(pk=slow.pk).update(id=0)
    assert watching.watch() == [good]
    assert Rule.objects.get(name="Slow").unknown.startswith("It cannot be read: OperationalError")
