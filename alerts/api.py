"""The HTTP API of alerts, version 1: what fires, and the rules. The rights are those of the pages."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from ninja import Router, Status

from accounts import http as people
from alerts import operations, protocol, queries, registry
from alerts.errors import NotFound, RightMissing
from core.api import caller, documented, refuse_unknown_parameters

router = Router(tags=["Alerts"])
READ, OPERATE = map(people.callers, ("read", "operate"))
SHOWN = 100  # alerts of an answer, as of the page

FIRING = """
What fires now and what is about to: firing first, the critical first. For who may see rules (`alerts.view_rule`).

    curl -sS $FARM/api/v1/alerts -H "Authorization: Bearer $TOKEN"

`judged_at` is the moment of that: rules are judged every minute, by a cluster for actions.
"""
CONDITIONS = """
What a rule may watch.

    curl -sS $FARM/api/v1/alerts/conditions -H "Authorization: Bearer $TOKEN"
"""
RULES = """
All rules by name, and how each stands.

    curl -sS $FARM/api/v1/alerts/rules -H "Authorization: Bearer $TOKEN"
"""
RULE = """
One rule.

    curl -sS $FARM/api/v1/alerts/rules/$RULE -H "Authorization: Bearer $TOKEN"
"""
CREATE = """
Makes a rule, which is judged within a minute. To name who gets its messages takes the scope `endpoints` as well. 422
`bad_rule` names the `field` that is wrong, and the `reason`.

    curl -sS $FARM/api/v1/alerts/rules -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
         -d '{"name": "Jobs wait", "condition": "jobs_wait", "threshold": 900, "mail_to": ["ops@example.org"]}'
"""
CHANGE = """
Changes the fields that are there. What fires stays, and is judged by the new numbers; a rule with `is_enabled` false
forgets it, without a message.

    curl -sS -X PATCH $FARM/api/v1/alerts/rules/$RULE -H "Authorization: Bearer $TOKEN" \\
         -H 'Content-Type: application/json' -d '{"threshold": 1800, "severity": "critical"}'
"""
MUTE = """
Sends nothing of it for so many seconds. It is judged meanwhile.

    curl -sS $FARM/api/v1/alerts/rules/$RULE/mute -H "Authorization: Bearer $TOKEN" \\
         -H 'Content-Type: application/json' -d '{"for_s": 3600}'
"""
TEST = """
Sends a message to each of its recipients, to see that it arrives.

    curl -sS -X POST $FARM/api/v1/alerts/rules/$RULE/test -H "Authorization: Bearer $TOKEN"
"""
UNMUTE = """
Lets it send again.

    curl -sS -X POST $FARM/api/v1/alerts/rules/$RULE/unmute -H "Authorization: Bearer $TOKEN"
"""
DELETE = """
Deletes it with what fires of it. No message of a resolved alert follows.

    curl -sS -X DELETE $FARM/api/v1/alerts/rules/$RULE -H "Authorization: Bearer $TOKEN"
"""


@router.get("", auth=READ, **documented("What fires", FIRING, protocol.Alerts))
def firing(request: HttpRequest) -> protocol.Alerts:
    refuse_unknown_parameters(request, [])
    _allowed(request, "view")
    judged_at: datetime | None = queries.last_observed_at()
    return protocol.Alerts.of(queries.alerts(limit=SHOWN), queries.count_alerts(), judged_at=judged_at)


@router.get("/conditions", auth=READ, **documented("List conditions", CONDITIONS, protocol.AlertConditions))
def conditions(request: HttpRequest) -> protocol.AlertConditions:
    refuse_unknown_parameters(request, [])
    _allowed(request, "view")
    return protocol.AlertConditions(conditions=[protocol.AlertCondition.of(one) for one in registry.everything()])


@router.get("/rules", auth=READ, **documented("List rules", RULES, protocol.AlertRules))
def rules(request: HttpRequest) -> protocol.AlertRules:
    refuse_unknown_parameters(request, [])
    _allowed(request, "view")
    return protocol.AlertRules(rules=[protocol.AlertRule.of(row) for row in queries.rules()])


@router.post("/rules", auth=OPERATE, **documented("Make a rule", CREATE, protocol.AlertRule, status=201, has_body=True))
def create(request: HttpRequest, body: protocol.NewAlertRule) -> Status[protocol.AlertRule]:
    by, values = _allowed(request, "add"), body.values(of=None)
    _check_recipients(request, body)
    if values["threshold"] is None:
        condition = registry.find(body.condition)
        values["threshold"] = condition.threshold if condition else 0.0
    return Status(201, _rule(operations.make(body.condition, values, by=by).pk))


@router.get("/rules/{jobid:rule_id}", auth=READ, **documented("Look at a rule", RULE, protocol.AlertRule))
def rule(request: HttpRequest, rule_id: int) -> protocol.AlertRule:
    _allowed(request, "view")
    return _rule(rule_id)


@router.patch(
    "/rules/{jobid:rule_id}", auth=OPERATE, **documented("Change a rule", CHANGE, protocol.AlertRule, has_body=True)
)
def change(request: HttpRequest, rule_id: int, body: protocol.ChangedAlertRule) -> protocol.AlertRule:
    by = _allowed(request, "change")
    _check_recipients(request, body)
    with transaction.atomic():
        if (row := queries.locked_rule(rule_id)) is None:
            raise NotFound
        operations.change(rule_id, body.values(of=row), by=by)
    return _rule(rule_id)


@router.post(
    "/rules/{jobid:rule_id}/test", auth=OPERATE, **documented("Send a test message", TEST, protocol.SentAlertTest)
)
def send_test(request: HttpRequest, rule_id: int) -> protocol.SentAlertTest:
    sent = operations.send_test(rule_id, by=_allowed(request, "change"))
    return protocol.SentAlertTest(messages=len(sent))


@router.post(
    "/rules/{jobid:rule_id}/mute", auth=OPERATE, **documented("Mute a rule", MUTE, protocol.AlertRule, has_body=True)
)
def mute(request: HttpRequest, rule_id: int, body: protocol.NewAlertMute) -> protocol.AlertRule:
    operations.mute(rule_id, for_s=body.for_s, by=_allowed(request, "change"))
    return _rule(rule_id)


@router.post("/rules/{jobid:rule_id}/unmute", auth=OPERATE, **documented("Unmute a rule", UNMUTE, protocol.AlertRule))
def unmute(request: HttpRequest, rule_id: int) -> protocol.AlertRule:
    operations.unmute(rule_id, by=_allowed(request, "change"))
    return _rule(rule_id)


@router.delete("/rules/{jobid:rule_id}", auth=OPERATE, **documented("Delete a rule", DELETE, protocol.DeletedAlertRule))
def delete(request: HttpRequest, rule_id: int) -> protocol.DeletedAlertRule:
    operations.remove(rule_id, by=_allowed(request, "delete"))
    return protocol.DeletedAlertRule(id=rule_id)


def _check_recipients(request: HttpRequest, body: protocol.ChangedAlertRule) -> None:
    """Where messages go is what a scope of its own is for, as with endpoints of the outbox."""
    if body.mail_to or body.webhook_url:
        people.require(request, "endpoints")


def _allowed(request: HttpRequest, right: str) -> User:
    """Who calls, if they may do this with rules, as on the pages. Raises RightMissing."""
    person = caller(request)
    if not person.has_perm(f"alerts.{right}_rule"):
        raise RightMissing(right=f"alerts.{right}_rule")
    return person


def _rule(rule_id: int) -> protocol.AlertRule:
    row = queries.rules().filter(pk=rule_id).first()
    if row is None:
        raise NotFound
    return protocol.AlertRule.of(row)
