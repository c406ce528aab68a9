from core.values import words
from postgres import statements
from webhooks.domain import rules
from webhooks.domain.states import StartOutcome
from webhooks.models import Delivery, JobStart, Rule

SHOWN = 200  # starts of one delivery or one job that a page lists


def enabled(**of: str) -> list[rules.Rule]:
    return [as_rule(row) for row in Rule.objects.select_related("owner").filter(is_enabled=True, **of).order_by("pk")]


def rule(pk: int) -> rules.Rule | None:
    row = Rule.objects.select_related("owner").filter(pk=pk).first()
    return None if row is None else as_rule(row)


def as_rule(row: Rule) -> rules.Rule:
    return rules.Rule(
        key=row.key, name=row.name, source=row.source, event=row.event, kind=row.kind,
        flow_template=row.flow_template, signal=row.signal, signal_key=row.signal_key, template=row.payload,
        filter=row.filter, queue=row.queue or None, priority=row.priority, unique_key=row.unique_key or None,
        on_conflict=row.on_conflict or None, debounce=row.debounce or None,
        owner=row.owner.get_username() if row.owner else None, pk=row.pk, tags=words(row.tags),
    )  # fmt: skip


def keep(
    rule: rules.Rule, *, delivery: int, round_: int, outcome: StartOutcome, job: int | None, error: str | None
) -> bool:
    """Keep what became of a rule and a delivery in this round; False if that was kept before."""
    params = {"delivery": delivery, "rule": rule.pk, "rule_key": rule.key, "rule_name": rule.name, "round": round_}
    params |= {
        "kind": rule.kind or rule.flow_template or rule.signal,
        "outcome": outcome.value,
        "job": job,
        "error": error,
    }
    return bool(statements.load("webhooks", "keep_start").run(params))


def of_delivery(delivery: int) -> list[JobStart]:
    return list(JobStart.objects.filter(delivery_id=delivery).order_by("round", "pk")[:SHOWN])


def of_job(job: int) -> list[JobStart]:
    """The deliveries that started a job, or that it stands for; those that were forgotten are left out."""
    rows = JobStart.objects.filter(job_id=job).select_related("delivery")
    rows = rows.defer("delivery__body", "delivery__search", "delivery__headers")
    return list(rows.filter(delivery__pk__isnull=False).order_by("pk")[:SHOWN])


def newest(source: str, *, among: int) -> list[Delivery]:
    rows = Delivery.objects.defer("body", "search", "headers").filter(source=source)
    return list(rows.order_by("-pk")[:among])
