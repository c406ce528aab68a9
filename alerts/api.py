"""The HTTP API of alerts, version 1: what fires, and the rules. The rights are those of the pages."""

from datetime import datetime

from django.db import transaction
from django.http import HttpRequest
from ninja import Status

from accounts import http as people
from alerts import operations, protocol, queries, registry
from alerts.errors import NotFound
from core.api import Calls, Deleted, Sample, allowed, refuse_unknown_parameters
from core.refusal import existing

router = Calls(tags=["Alerts"])
READ, OPERATE = map(people.callers, ("read", "operate"))
SHOWN = 100  # alerts of an answer, as of the page


@router.call("get", "", auth=READ)
def firing(request: HttpRequest) -> protocol.Alerts:
    """What fires.

    What fires now and what is about to: firing first, the critical first. For who may see rules (`alerts.view_rule`).

    `judged_at` is the moment of that: rules are judged every minute, by a cluster for actions.
    """
    refuse_unknown_parameters(request, [])
    allowed(request, "alerts.view_rule")
    judged_at: datetime | None = queries.last_observed_at()
    return protocol.Alerts.of(queries.alerts(limit=SHOWN), queries.count_alerts(), judged_at=judged_at)


@router.call("get", "/conditions", auth=READ)
def conditions(request: HttpRequest) -> protocol.AlertConditions:
    """List conditions.

    What a rule may watch.
    """
    refuse_unknown_parameters(request, [])
    allowed(request, "alerts.view_rule")
    return protocol.AlertConditions(conditions=[protocol.AlertCondition.of(one) for one in registry.everything()])


@router.call("get", "/rules", auth=READ)
def rules(request: HttpRequest) -> protocol.AlertRules:
    """List rules.

    All rules by name, and how each stands.
    """
    refuse_unknown_parameters(request, [])
    allowed(request, "alerts.view_rule")
    return protocol.AlertRules(rules=[protocol.AlertRule.of(row) for row in queries.rules()])


@router.call(
    "post",
    "/rules",
    auth=OPERATE,
    sample=Sample(
        body={"name": "Jobs wait", "condition": "jobs_wait", "threshold": 900, "mail_to": ["ops@example.org"]}
    ),
)
def create(request: HttpRequest, body: protocol.NewAlertRule) -> Status[protocol.AlertRule]:
    """Make a rule.

    Makes a rule, which is judged within a minute. To name who gets its messages takes the scope `endpoints` as well.
    422 `bad_rule` names the `field` that is wrong, and the `reason`.
    """
    by, values = allowed(request, "alerts.add_rule"), body.values(of=None)
    _check_recipients(request, body)
    if values["threshold"] is None:
        condition = registry.find(body.condition)
        values["threshold"] = condition.threshold if condition else 0.0
    return Status(201, _rule(operations.make(body.condition, values, by=by).pk))


@router.call("get", "/rules/{jobid:rule_id}", auth=READ)
def rule(request: HttpRequest, rule_id: int) -> protocol.AlertRule:
    """Look at a rule.

    One rule.
    """
    allowed(request, "alerts.view_rule")
    return _rule(rule_id)


@router.call(
    "patch", "/rules/{jobid:rule_id}", auth=OPERATE, sample=Sample(body={"threshold": 1800, "severity": "critical"})
)
def change(request: HttpRequest, rule_id: int, body: protocol.ChangedAlertRule) -> protocol.AlertRule:
    """Change a rule.

    Changes the fields that are there. What fires stays, and is judged by the new numbers; a rule with `is_enabled`
    false forgets it, without a message.
    """
    by = allowed(request, "alerts.change_rule")
    _check_recipients(request, body)
    with transaction.atomic():
        row = existing(queries.locked_rule(rule_id), NotFound())
        operations.change(rule_id, body.values(of=row), by=by)
    return _rule(rule_id)


@router.call("post", "/rules/{jobid:rule_id}/test", auth=OPERATE)
def send_test(request: HttpRequest, rule_id: int) -> protocol.SentAlertTest:
    """Send a test message.

    Sends a message to each of its recipients, to see that it arrives.
    """
    sent = operations.send_test(rule_id, by=allowed(request, "alerts.change_rule"))
    return protocol.SentAlertTest(messages=len(sent))


@router.call("post", "/rules/{jobid:rule_id}/mute", auth=OPERATE, sample=Sample(body={"for_s": 3600}))
def mute(request: HttpRequest, rule_id: int, body: protocol.NewAlertMute) -> protocol.AlertRule:
    """Mute a rule.

    Sends nothing of it for so many seconds. It is judged meanwhile.
    """
    operations.mute(rule_id, for_s=body.for_s, by=allowed(request, "alerts.change_rule"))
    return _rule(rule_id)


@router.call("post", "/rules/{jobid:rule_id}/unmute", auth=OPERATE)
def unmute(request: HttpRequest, rule_id: int) -> protocol.AlertRule:
    """Unmute a rule.

    Lets it send again.
    """
    operations.mute(rule_id, for_s=None, by=allowed(request, "alerts.change_rule"))
    return _rule(rule_id)


@router.call("delete", "/rules/{jobid:rule_id}", auth=OPERATE)
def delete(request: HttpRequest, rule_id: int) -> Deleted:
    """Delete a rule.

    Deletes it with what fires of it. No message of a resolved alert follows.
    """
    operations.remove(rule_id, by=allowed(request, "alerts.delete_rule"))
    return Deleted(id=rule_id)


def _check_recipients(request: HttpRequest, body: protocol.ChangedAlertRule) -> None:
    """Where messages go is what a scope of its own is for, as with endpoints of the outbox."""
    if body.mail_to or body.webhook_url:
        people.require(request, "endpoints")


def _rule(rule_id: int) -> protocol.AlertRule:
    return protocol.AlertRule.of(existing(queries.rules().filter(pk=rule_id).first(), NotFound()))
