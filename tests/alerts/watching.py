"""Rules on a farm of a test's own, which is watched as a cluster for actions does; and time that passes at once."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F

from alerts import operations, registry
from alerts.models import Alert, Notification, Rule
from scheduling import operations as scheduling
from tests import farm

VALUES: dict[str, Any] = {
    "name": "Bad", "target": "", "threshold": 0.0, "window_s": 900, "hold_s": 0, "keep_firing_s": 0, "repeat_s": 3600,
    "severity": "warning", "mail_to": "ops@example.org", "is_enabled": True,
}  # fmt: skip


def make(condition: str, **values: Any) -> Rule:
    """A rule for this condition, with the threshold that it proposes."""
    known = registry.find(condition)
    assert known is not None
    by = User.objects.filter(username="boss").first() or farm.user("boss", is_staff=True, is_superuser=True)
    return operations.make(condition, {**VALUES, "threshold": known.threshold, **values}, by=by)


def watch(*, after: float = 0) -> list[str]:
    """Let so many minutes pass and judge all rules; the titles of the messages that were sent then, the first one
    first. Nothing but actions runs."""
    pass_time(after)
    last = Notification.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    scheduling.run_after(0, operations.watch)
    for _ in range(2):  # the watch, and the messages that it scheduled
        scheduling.run_due(kinds=[scheduling.Kind.ACTION])
    return list(Notification.objects.filter(pk__gt=last).order_by("pk").values_list("title", flat=True))


def pass_time(minutes: float) -> None:
    """Let all moments of rules and alerts move into the past."""
    back = timedelta(minutes=minutes)
    Rule.objects.update(observed_at=F("observed_at") - back, notified_at=F("notified_at") - back)
    Rule.objects.update(muted_until=F("muted_until") - back)
    Alert.objects.update(since=F("since") - back, known_at=F("known_at") - back, below_since=F("below_since") - back)


def write(statement: str) -> None:
    """Change rows past the guards of ended jobs: what only time would do."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_outcome DISABLE TRIGGER USER")
        cursor.execute(statement)
        cursor.execute("ALTER TABLE jobs_outcome ENABLE TRIGGER USER")


def states() -> dict[str, str]:
    """Of each subject its state."""
    return dict(Alert.objects.order_by("subject").values_list("subject", "state"))
