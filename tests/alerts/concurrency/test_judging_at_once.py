"""Several clusters that judge at once: each message is written by one of them."""

import pytest

from alerts import operations
from alerts.errors import BadRule
from alerts.models import Alert, Notification, Rule
from scheduling.models import ScheduledFunction
from tests import farm
from tests.alerts import watching
from tests.webhooks.inbox.support import receive
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)
RULES = 5


@pytest.fixture
def firing() -> list[Rule]:
    """Rules whose condition holds."""
    delivery = receive()
    Delivery.objects.filter(pk=delivery.pk).update(status="dead", note="No.", ended_at=delivery.received_at)
    return [watching.make("deliveries_dead", name=f"rule {number}") for number in range(RULES)]


def sends() -> int:
    return ScheduledFunction.objects.filter(function="alerts.operations.send").count()


def test_what_fires_is_said_once(firing: list[Rule]) -> None:
    farm.at_once(*[operations.watch] * 6)
    assert Notification.objects.count() == Alert.objects.count() == sends() == RULES


def test_what_is_repeated_and_what_is_resolved_is_said_once(firing: list[Rule]) -> None:
    operations.watch()
    watching.pass_time(60)
    farm.at_once(*[operations.watch] * 6)
    assert Notification.objects.count() == 2 * RULES
    Delivery.objects.update(status="processed", note=None)
    watching.pass_time(10)
    farm.at_once(*[operations.watch] * 6)
    assert Notification.objects.count() == sends() == 3 * RULES
    assert Alert.objects.count() == 0


def test_a_person_who_mutes_deletes_or_changes_meanwhile_collides_with_nobody(firing: list[Rule]) -> None:
    by = firing[0].created_by
    assert by is not None
    farm.at_once(
        operations.watch,
        lambda: operations.mute(firing[0].pk, for_s=60, by=by),
        operations.watch,
        lambda: operations.remove(firing[1].pk, by=by),
        operations.watch,
        lambda: operations.change(firing[2].pk, {**watching.VALUES, "is_enabled": False}, by=by),
    )
    operations.watch()
    assert set(Alert.objects.values_list("rule", flat=True)) == {firing[0].pk, firing[3].pk, firing[4].pk}
    assert Notification.objects.filter(rule__in=firing[3:]).count() == 2


def test_a_rule_that_two_make_at_once_is_one_and_the_other_is_refused() -> None:
    """As by a button that was pressed twice: it was an error of the server."""
    farm.user("boss", is_staff=True, is_superuser=True)
    with pytest.raises(BadRule):
        farm.meanwhile(lambda: watching.make("jobs_wait"), lambda: watching.make("jobs_wait"))
    assert Rule.objects.count() == 1
