"""What is watched of messages that come in and go out: the webhook inbox and the outbox."""

from collections.abc import Iterator
from typing import Final

from alerts.domain.rules import Unit
from core.commands import MANAGE
from jobfarm.findings import Area, Condition, Finding, Gauge, Level, Rule
from outbox import operations as outbox
from postgres import clock
from webhooks import operations as webhooks

EVENTS_LATE_S: Final = 60.0  # a sender looks every 15 s, also when nobody wakes it


def _without_secret(facts: webhooks.Health) -> Iterator[Finding]:
    """Fine: most farms are sent webhooks by one or two of the adapters, a new one by none."""
    if facts.needs_secret:
        named = ", ".join(source.label for source in facts.needs_secret)
        yield Finding(f"Webhooks that are refused because they have no secret: {named}.", level=Level.FINE)


_Webhooks = Condition[webhooks.Health]
_OfWebhooks = Gauge[webhooks.Health]
inbox: Final = Area(
    name="webhooks", read=webhooks.health, others=_without_secret,
    gauges=[
        _OfWebhooks(
            "jobfarm_webhook_deliveries", "Deliveries that stand so now, up to 10000.",
            lambda f: {status: getattr(f, status) for status in ("waiting", "late", "failed", "dead", "rejected")},
            ["status"],
        ),
        _OfWebhooks(
            "jobfarm_webhook_jobs_not_started",
            "Jobs that a rule should have started within a day and did not, up to 10000.", lambda f: f.unstarted,
        ),
        _OfWebhooks("jobfarm_webhook_sources_unreadable", "Sources whose secret SECRET_KEY does not open.",
                    lambda f: len(f.unreadable)),
    ],
    conditions=[
        _Webhooks(
            code="webhook_secrets_unreadable", read=lambda f: len(f.unreadable), level=Level.ERROR,
            sentence=lambda f: "SECRET_KEY cannot decrypt the secrets of these sources, so their webhooks are refused: "
            f"{', '.join(source.label for source in f.unreadable)}.",
            remedy="Set the SECRET_KEY that they were stored under, or add them again.",
            rule=Rule(
                "WebhookSecretsUnreadable", "jobfarm_webhook_sources_unreadable",
                "Secrets of webhook sources cannot be opened", severity="critical",
            ),
        ),
        _Webhooks(
            code="deliveries_late", read=lambda f: f.late,
            sentence=lambda f: f"Webhook deliveries that should have been processed a minute ago: {f.late:,}.",
            remedy="Check that a cluster for mutations runs; the inbox says what they are waiting for.",
        ),
        _Webhooks(
            code="deliveries_dead", read=lambda f: f.dead,
            sentence=lambda f: f"Dead letters (webhook deliveries whose attempts all failed): {f.dead:,}.",
            remedy="The inbox says why each failed. Fix the cause, then replay them.",
            title="Webhook deliveries failed for good", unit=Unit.NUMBER, page="webhooks:inbox?status=dead",
            rule=Rule(
                "WebhooksDied", 'jobfarm_webhook_deliveries{status="dead"}',
                "Webhook deliveries failed for good",
            ),
        ),
        _Webhooks(
            code="deliveries_rejected", read=lambda f: f.rejected,
            sentence=lambda f: "Webhook deliveries of the last day without a field that their handler needs: "
            f"{f.rejected:,}.",
            remedy="The inbox names the field. Fix the sender or the handler, then replay them.",
        ),
        _Webhooks(
            code="jobs_unstarted", read=lambda f: f.unstarted,
            sentence=lambda f: "Jobs that webhooks of the last day should have started but did not: "
            f"{f.unstarted:,}.",
            remedy="The administration says why under Job starts. Fix the cause, then start them there.",
        ),
    ],
)  # fmt: skip


def _failing_s(facts: outbox.Health) -> dict[str, float]:
    """How long each fails, from the ten minutes on after which it counts as failing."""
    now = clock.now() if facts.failing else None
    return {one.name: (now - one.failing_since).total_seconds() for one in facts.failing if now and one.failing_since}


_Outbox = Condition[outbox.Health]
_OfOutbox = Gauge[outbox.Health]
events: Final = Area(
    name="outbox", read=outbox.health,
    gauges=[
        _OfOutbox("jobfarm_outbox_messages", "Messages that stand so now, up to 10000.",
                  lambda f: {"waiting": f.waiting, "dead": f.dead}, ["status"]),
        _OfOutbox("jobfarm_outbox_oldest_due_seconds", "Since when a message is due that could have been sent.",
                  lambda f: f.oldest_due_s),
        _OfOutbox("jobfarm_outbox_endpoint_failing_seconds", "For how long every attempt to an endpoint has failed.",
                  lambda f: f.failing_s),
        _OfOutbox("jobfarm_outbox_endpoints_paused", "Endpoints that the farm paused because every attempt failed.",
                  lambda f: f.paused),
        _OfOutbox("jobfarm_outbox_endpoints_unreadable", "Endpoints whose secret SECRET_KEY does not open.",
                  lambda f: f.unreadable),
    ],
    conditions=[
        _Outbox(
            code="events_late", read=lambda f: f.oldest_due_s, noticed=EVENTS_LATE_S, above=EVENTS_LATE_S,
            is_absence=True,
            sentence=lambda f: f"A message of the outbox should have been sent {f.oldest_due_s:.0f} s ago.",
            remedy=f"Janitors send them ({MANAGE} janitor): the log of one that runs says what fails, and more of them "
            "send more.",
            rule=Rule(
                "EventsAreLate", "jobfarm_outbox_oldest_due_seconds",
                "Events of the outbox are due and not sent", lasts="5m",
            ),
        ),
        _Outbox(
            code="endpoints_paused", read=lambda f: f.paused,
            sentence=lambda f: "Endpoints of the outbox that were paused because every attempt failed: "
            f"{f.paused}.",
            remedy="Their pages say what the receivers answered. Resume them when that is fixed: events are kept.",
            rule=Rule(
                "EndpointsPaused", "jobfarm_outbox_endpoints_paused",
                "Endpoints take no events, and were paused",
            ),
        ),
        _Outbox(
            code="endpoint_failing", read=_failing_s,
            sentence=lambda f: f"Endpoints of the outbox that take nothing: {len(f.failing)}.",
            remedy=lambda f: "Their pages show each attempt: mend the receiver, or pause or disable the endpoint. "
            "Longest: " + "; ".join(
                f"{one.name} since {one.failing_since:%Y-%m-%d %H:%M} UTC: {one.last_failure}" for one in f.failing[:3]
            ),
            title="An endpoint of the outbox takes nothing", target="endpoint", unit=Unit.SECONDS, above=900,
            page="outbox:endpoints",
            rule=Rule(
                "EndpointFails", "jobfarm_outbox_endpoint_failing_seconds",
                "An endpoint has taken no event for a quarter of an hour",
            ),
        ),
        _Outbox(
            code="endpoint_secrets_unreadable", read=lambda f: f.unreadable, level=Level.ERROR,
            sentence=lambda f: "Endpoints of the outbox with no secret that SECRET_KEY can decrypt, so nothing is sent "
            f"to them: {f.unreadable}.",
            remedy="Set the SECRET_KEY that they were stored under, or rotate their secrets.",
            rule=Rule(
                "EndpointSecretsUnreadable", "jobfarm_outbox_endpoints_unreadable",
                "Secrets of endpoints cannot be opened", severity="critical",
            ),
        ),
    ],
)  # fmt: skip
