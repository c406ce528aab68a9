"""Starting jobs: a delivery that was processed starts one job of each rule that it meets, by the same transaction.

What keeps it at one: the delivery is locked, says whether its jobs are due (`starts_jobs`, which a replay turns off
unless it is asked for them), and a unique row of rule, delivery and round goes with each job. A rule that fails costs
the delivery nothing: why is kept in that row, and a person can have it started again. A rule as it is written down can
be checked, and tried on a stored delivery.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from core.refusal import existing
from core.templates import TemplateError, as_text
from jobs import operations as jobs
from jobs.errors import InvalidValue, JobsError, NotUnique, UnknownKind
from observing import fields
from postgres import transactions
from ratelimits.errors import RateLimitsError
from scheduling import operations as scheduling
from scheduling.operations import endings
from webhooks.domain import rules
from webhooks.domain.deliveries import StartOutcome
from webhooks.domain.rules import Rule
from webhooks.errors import BadRule, CannotStart, NotFound, WebhooksError
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Delivery, JobStart
from webhooks.operations import deliveries
from webhooks.queries import inbox, results as queries

log = logging.getLogger(__name__)
_OURS = (WebhooksError, TemplateError, JobsError, RateLimitsError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    outcome: StartOutcome
    job: int | None = None
    error: str | None = None


def start_jobs(row: Any, event: Event) -> None:
    """Start the jobs of a delivery, a row of `sql/take.sql`, that ends well in this transaction."""
    if not row.starts_jobs:
        return
    kept = queries.enabled_rules(source=event.source) if row.has_rules else []
    failures = scheduling.Failures()
    for rule in [*registry.declared_for(event.source, event.type), *kept]:
        with failures.aside(f"rule {rule.name} on delivery {event.pk}"):
            _start(rule, event, round_=row.start_round)


@transactions.retried
def start_again(start: int, *, by: User | None = None) -> JobStart:
    """Start the job of a rule and a delivery that was not started, with the rule as it is now; what that came to.
    Raises NotFound, and CannotStart where a job was started, or rule or delivery are gone."""
    rows = JobStart.objects.select_for_update().filter(pk=start)
    row = existing(rows.first(), NotFound(resource="start of a job"))
    if row.outcome in {StartOutcome.STARTED, StartOutcome.SENT}:
        done = "sent its signal" if row.job_id is None else f"started job #{row.job_id}"
        raise CannotStart(reason=f"this rule {done} for this delivery")
    delivery = _again(row)
    audit.record(by, delivery, _message(row))
    deliveries.touch([delivery.pk], sources=[delivery.source])
    return row


def values_of(event: Event) -> dict[str, Any]:
    """What paths of rules lead to (`domain.rules.ROOTS`)."""
    return {
        "source": event.source,
        "event": event.type,
        "delivery": event.pk,
        "delivery_id": event.delivery_id,
        "sandbox": event.sandbox,
        "occurred_at": event.occurred_at.isoformat(),
        "received_at": event.received_at.isoformat(),
        "body": event.body,
    }


def payload_of(rule: Rule, event: Event, values: Mapping[str, Any]) -> Any:
    """The payload that a rule makes of an event; what its function raises, or TemplateError."""
    if rule.build:
        return rule.build(event)
    return rules.render(rule.template, values, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"])


def values_of_flow(payload: Any) -> dict[str, Any]:
    """The values of a flow template's placeholders. Raises CannotStart for what is no object."""
    if not isinstance(payload, dict):
        raise CannotStart(reason="the payload is to be an object: the values of the flow template, by placeholder")
    return payload


def owner_of(rule: Rule) -> User | None:
    """Whose job it would be; None: the site's own. Raises CannotStart where nobody of that name may log in."""
    if rule.owner is None:
        return None
    nobody = CannotStart(reason=f"its owner {rule.owner} does not exist or may not log in")
    return existing(User.objects.filter(username=rule.owner, is_active=True).first(), nobody)


def _start(rule: Rule, event: Event, *, round_: int) -> None:
    """The job and the row that says so, or neither: in a savepoint."""
    result = _attempt(rule, event, round_=round_)
    if result is None:
        return
    kept = queries.keep_start(
        rule, delivery=event.pk, round_=round_, outcome=result.outcome, job=result.job, error=result.error
    )
    if not kept:
        transaction.set_rollback(True)
    if kept and result.outcome is StartOutcome.STARTED:
        with fields.about(job_id=result.job):
            log.info("The rule %r started a job on delivery %d", rule.name, event.pk)


def _attempt(rule: Rule, event: Event, *, round_: int | None = None) -> _Result | None:
    """Submit the job of this rule; None if the event does not meet it, which a person asks for whatever it meets: then
    it is of no round. Collisions alone are raised."""
    try:
        with transaction.atomic():
            return _submit(rule, event, round_=round_)
    except NotUnique as refusal:
        return _Result(outcome=StartOutcome.SKIPPED, job=refusal.job)
    except Exception as error:
        if transactions.collided(error) or endings.is_away(error):
            raise
        if not isinstance(error, _OURS):
            log.exception("The rule %r failed on delivery %d.", rule.name, event.pk)
        return _Result(outcome=StartOutcome.FAILED, error=deliveries.sentence(error, ours=_OURS))


def _submit(rule: Rule, event: Event, *, round_: int | None) -> _Result | None:
    values = values_of(event)
    if round_ is not None and rule.mismatch(values) is not None:
        return None
    payload = payload_of(rule, event, values)
    if rule.build and payload is None:
        return None
    if rule.flow_template:
        owner = owner_of(rule)
        started = jobs.store_flow(rule.flow_template, values_of_flow(payload), by=owner, owner=owner)[0].id
        return _Result(outcome=StartOutcome.STARTED, job=started)
    owner, limit_bytes = owner_of(rule), settings.JOBFARM["PAYLOAD_BYTES"]
    template = [[*rule.tags], rule.unique_key, rule.signal_key]
    tags, key, signal_key = rules.render(template, values, limit_bytes=limit_bytes)
    if rule.signal:
        jobs.signal_by_key(as_text(signal_key), rule.signal, payload, by=owner)
        return _Result(outcome=StartOutcome.SENT)
    unique_key = None if rule.unique_key is None else as_text(key)
    if round_ is not None and unique_key and (rule.on_conflict or rule.debounce):
        later = queries.later_start(rule.key, unique_key, delivery=event.pk, round_=round_)
        if later is not None:  # this delivery was processed late: what came last is run last
            raise NotUnique(job=later)
    job = jobs.submit(
        rule.kind, payload, by=owner if rule.pk is not None else None,  # code of the site submits as it likes
        owner=owner, queue=rule.queue, priority=rule.priority, unique_key=unique_key,
        on_conflict=rule.on_conflict, debounce=rule.debounce, tags=[as_text(tag) for tag in tags],
    )  # fmt: skip
    return _Result(outcome=StartOutcome.STARTED, job=job.pk)


def _again(row: JobStart) -> Delivery:
    """Write into the row what another attempt of it comes to; its delivery."""
    rule = registry.declared_rule(row.rule_key) if row.rule_id is None else queries.rule(row.rule_id)
    delivery = inbox.lock(row.delivery_id)
    if rule is None or delivery is None:
        raise CannotStart(reason="its rule is gone" if rule is None else "its delivery is gone")
    event, _ = deliveries.opened(inbox.with_body(delivery.pk))
    nothing = CannotStart(reason="its rule makes no job of this delivery any more")
    result = existing(_attempt(rule, event), nothing)
    row.outcome, row.job_id, row.error = result.outcome, result.job, result.error
    row.save(update_fields=["outcome", "job_id", "error"])
    return delivery


def _message(row: JobStart) -> str:
    if row.outcome == StartOutcome.FAILED:
        return f"Tried to start the job of the rule {row.rule_name} again"
    if row.outcome == StartOutcome.SENT:
        return f"Sent the signal of the rule {row.rule_name} again"
    return f"Started the job of the rule {row.rule_name} again: #{row.job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a rule makes of a delivery: why it does not meet it, or the payload, or why there can be none. Of a signal
    also its key."""

    mismatch: str | None = None
    payload: Any = None
    signal_key: str | None = None
    error: str | None = None


def check_rule(rule: Rule) -> None:
    """Raise BadRule for a rule that could start no job, whatever is delivered."""
    rules.check(rule)
    try:
        owner = owner_of(rule)
        by = owner if rule.pk is not None else None
        if rule.flow_template:
            jobs.check_start(rule.flow_template, values_of_flow(rule.template), by=by)
            return
        if rule.signal:
            jobs.Wait(signal=rule.signal)
            return
        jobs.check_submit(
            rule.kind, by=by, owner=owner, queue=rule.queue, priority=rule.priority, debounce=rule.debounce,
            on_conflict=rule.on_conflict, unique_key=rule.unique_key and "as the delivery has it",
        )  # fmt: skip
    except UnknownKind as refusal:
        raise BadRule(field="kind", reason=refusal.message.rstrip(".")) from None
    except InvalidValue as refusal:
        raise BadRule(field=refusal.field, reason=refusal.why) from None
    except (JobsError, WebhooksError) as refusal:
        raise BadRule(field="job", reason=refusal.message.rstrip(".")) from None


def broken_rules() -> dict[str, str]:
    """The names of the enabled rules that can start no job, each with why."""
    reasons = {}
    for rule in [*(one.rule for one in registry.declared()), *queries.enabled_rules()]:
        try:
            check_rule(rule)
        except BadRule as refusal:
            reasons[rule.name] = f"Its {refusal.field}: {refusal.reason}."
    return reasons


def try_rule(pk: int, *, delivery: int) -> Trial:
    """What the rule with this number, enabled or not, would make of a stored delivery; nothing is started. Raises
    NotFound."""
    rule, row = queries.rule(pk), inbox.with_body(delivery)
    if rule is None or row is None:
        raise NotFound(resource="rule" if rule is None else "delivery")
    try:
        event, _ = deliveries.opened(row)
        values = values_of(event)
        mismatch = rule.mismatch(values)
        if mismatch:
            return Trial(mismatch=mismatch)
        key = rules.render(rule.signal_key, values, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"])
        signal_key = as_text(key) if rule.signal else None
        return Trial(payload=payload_of(rule, event, values), signal_key=signal_key)
    except _OURS as refusal:
        return Trial(error=refusal.message)
