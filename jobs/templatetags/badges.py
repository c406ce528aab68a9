"""`{% load badges %}`: one badge for each status of what the jobs app shows: colour, icon and label.

The colour and the icon belong to the status of a job that the badge looks like (`templates/parts/status.html`).
"""

from dataclasses import dataclass
from typing import Final

from django import template

from jobs.domain.bulks import Phase
from jobs.domain.states import AttemptOutcome
from jobs.queries.fleet import QueueRow, WorkerRow

register = template.Library()
_TEMPLATE: Final = "parts/status.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A label, and the status whose colour and icon it has."""

    status: str
    label: str


OUTCOMES: Final = {
    AttemptOutcome.FAILED: Badge(status="failed", label="failed"),
    AttemptOutcome.LOST: Badge(status="timed_out", label="lost"),
    AttemptOutcome.TIMED_OUT: Badge(status="timed_out", label="timed out"),
    AttemptOutcome.RELEASED: Badge(status="canceled", label="released"),
    AttemptOutcome.CANCELED: Badge(status="canceled", label="canceled"),
    AttemptOutcome.UNCONFIRMED: Badge(status="timed_out", label="unconfirmed"),
}
PHASES: Final = {
    Phase.COUNTING: Badge(status="in_progress", label="counting"),
    Phase.READY: Badge(status="paused", label="awaits confirmation"),
    Phase.RUNNING: Badge(status="in_progress", label="in progress"),
    Phase.DONE: Badge(status="success", label="done"),
    Phase.STOPPED: Badge(status="canceled", label="stopped"),
}
QUEUES: Final = {
    "paused": Badge(status="paused", label="paused"),
    "stuck": Badge(status="failed", label="no worker"),
    "full": Badge(status="in_progress", label="full"),
    "busy": Badge(status="in_progress", label="busy"),
    "open": Badge(status="on", label="open"),
    "unserved": Badge(status="off", label="no worker"),
}
WORKERS: Final = {
    "revoked": Badge(status="canceled", label="revoked"),
    "draining": Badge(status="paused", label="draining"),
    "drained": Badge(status="paused", label="drained"),
    "live": Badge(status="on", label="live"),
    "away": Badge(status="off", label="away"),
    "never_connected": Badge(status="off", label="never connected"),
}


@register.inclusion_tag(_TEMPLATE)
def outcome_badge(outcome: str) -> dict[str, str]:
    return _context(OUTCOMES[AttemptOutcome(outcome)])


@register.filter
def outcome_status(outcome: str) -> str:
    """The status whose colour an attempt has that ended like this."""
    return OUTCOMES[AttemptOutcome(outcome)].status


@register.inclusion_tag(_TEMPLATE)
def phase_badge(phase: str) -> dict[str, str]:
    return _context(PHASES[Phase(phase)])


@register.inclusion_tag(_TEMPLATE)
def queue_badge(queue: QueueRow) -> dict[str, str]:
    """Whether a queue is paused, full, served or busy."""
    return _context(QUEUES[_status_of_queue(queue)])


@register.inclusion_tag(_TEMPLATE)
def worker_badge(row: WorkerRow) -> dict[str, str]:
    """Whether a worker is there, and whether it is drained: one that still holds jobs is draining."""
    return _context(WORKERS[_status_of_worker(row)])


def _context(badge: Badge) -> dict[str, str]:
    return {"status": badge.status, "label": badge.label}


def _status_of_queue(queue: QueueRow) -> str:
    by_urgency = (
        ("paused", queue.paused_at),
        ("stuck", queue.is_stuck),
        ("full", queue.is_full),
        ("busy", queue.running),
        ("open", queue.workers),
    )
    return next((status for status, applies in by_urgency if applies), "unserved")


def _status_of_worker(row: WorkerRow) -> str:
    if row.is_alive and row.is_drained:
        return "draining" if row.jobs else "drained"
    return row.presence.value
