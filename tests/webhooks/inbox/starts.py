"""Rules, deliveries that meet them, and the jobs that come of it."""

from typing import Any

from jobs.models import Job
from scheduling import operations as scheduling
from tests.webhooks.inbox.support import receive
from webhooks import operations
from webhooks.models import Delivery, JobStart, Rule

BODY = {"ref": "refs/heads/main", "repository": {"full_name": "ada/engine", "id": 12}}
PAYLOAD = {"repo": "{{ body.repository.full_name }}", "id": "{{ body.repository.id }}"}


def rule(**fields: Any) -> Rule:
    given = {"name": "deploy main", "source": "github", "event": "probe", "kind": "deploy", "payload": PAYLOAD}
    return Rule.objects.create(**given | fields)


def processed(document: Any = BODY, *, event_type: str = "probe", **options: Any) -> Delivery:
    delivery = receive(document, event_type=event_type, **options)
    scheduling.run_due()
    delivery.refresh_from_db()
    return delivery


def replayed(delivery: Delivery, **options: Any) -> None:
    operations.replay(delivery.pk, **options)
    scheduling.run_due()


def payloads() -> list[Any]:
    return [job.payload for job in Job.objects.whole().order_by("pk")]


def starts() -> list[tuple[str, int, str, bool]]:
    rows = JobStart.objects.order_by("pk")
    return [(row.rule_name, row.round, row.outcome, row.job_id is not None) for row in rows]


STARTED = ("deploy main", 1, "started", True)
