"""Rules as they are written down: whether they can start a job, and what they would make of a delivery."""

from dataclasses import dataclass
from typing import Any

from jobs import operations as jobs
from jobs.errors import JobsError, UnknownKind
from webhooks.domain import rules
from webhooks.domain.rules import Rule
from webhooks.errors import BadRule, NotFound, NotJson, WebhooksError
from webhooks.handlers import rules as declared
from webhooks.operations import deliveries, job_starts
from webhooks.queries import inbox
from webhooks.queries import job_starts as queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a rule makes of a delivery: why it does not meet it, or the payload, or why there can be none."""

    mismatch: str | None = None
    payload: Any = None
    error: str | None = None


def check(rule: Rule) -> None:
    """Raise BadRule for a rule that could start no job, whatever is delivered."""
    rules.check(rule)
    try:
        owner = job_starts.owner_of(rule)
        by = owner if rule.pk is not None else None
        jobs.check_submit(rule.kind, by=by, owner=owner, queue=rule.queue, priority=rule.priority)
    except UnknownKind as refusal:
        raise BadRule(field="kind", reason=refusal.message.rstrip(".")) from None
    except (JobsError, WebhooksError) as refusal:
        raise BadRule(field="job", reason=refusal.message.rstrip(".")) from None


def broken() -> dict[str, str]:
    """The names of the enabled rules that can start no job, each with why."""
    reasons = {}
    for rule in [*(one.rule for one in declared.declared()), *queries.enabled()]:
        try:
            check(rule)
        except BadRule as refusal:
            reasons[rule.name] = f"Its {refusal.field}: {refusal.reason}."
    return reasons


def try_rule(pk: int, *, delivery: int) -> Trial:
    """What the rule with this number, enabled or not, would make of a stored delivery; nothing is started.

    Raises NotFound.
    """
    rule, row = queries.rule(pk), inbox.with_body(delivery)
    if rule is None or row is None:
        raise NotFound(resource="rule" if rule is None else "delivery")
    try:
        event, _ = deliveries.opened(row)
        values = job_starts.values_of(event)
        mismatch = rule.mismatch(values)
        return Trial(mismatch=mismatch) if mismatch else Trial(payload=job_starts.payload_of(rule, event, values))
    except (NotJson, WebhooksError) as refusal:
        return Trial(error=refusal.message)
