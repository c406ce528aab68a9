"""`{% load badges %}`: one badge for each status of what the jobs app shows: colour, icon and label.

The colour and the icon belong to the status of a job that the badge looks like (`templates/parts/status.html`).
"""

from typing import Final

from django import template

from jobs.domain.bulks import Phase
from jobs.domain.states import AttemptOutcome
from jobs.queries.fleet import QueueRow, WorkerRow

register = template.Library()
_TEMPLATE: Final = "parts/status.html"


def _badge(status: str, label: str) -> dict[str, str]:
    """The context of a badge: its label, and the status whose colour and icon it has."""
    return {"status": status, "label": label}


OUTCOMES: Final = {
    AttemptOutcome.FAILED: _badge("failed", "failed"),
    AttemptOutcome.LOST: _badge("timed_out", "lost"),
    AttemptOutcome.TIMED_OUT: _badge("timed_out", "timed out"),
    AttemptOutcome.RELEASED: _badge("canceled", "released"),
    AttemptOutcome.CANCELED: _badge("canceled", "canceled"),
    AttemptOutcome.UNCONFIRMED: _badge("timed_out", "unconfirmed"),
    AttemptOutcome.SUSPENDED: _badge("paused", "suspended"),
}
PHASES: Final = {
    Phase.COUNTING: _badge("in_progress", "counting"),
    Phase.READY: _badge("paused", "awaits confirmation"),
    Phase.RUNNING: _badge("in_progress", "in progress"),
    Phase.DONE: _badge("success", "done"),
    Phase.STOPPED: _badge("canceled", "stopped"),
}
QUEUES: Final = {
    "paused": _badge("paused", "paused"),
    "stuck": _badge("failed", "no worker"),
    "full": _badge("in_progress", "full"),
    "busy": _badge("in_progress", "busy"),
    "open": _badge("on", "open"),
    "unserved": _badge("off", "no worker"),
}
WORKERS: Final = {
    "revoked": _badge("canceled", "revoked"),
    "draining": _badge("paused", "draining"),
    "drained": _badge("paused", "drained"),
    "live": _badge("on", "live"),
    "away": _badge("off", "away"),
    "never_connected": _badge("off", "never connected"),
}


@register.inclusion_tag(_TEMPLATE)
def outcome_badge(outcome: str) -> dict[str, str]:
    return OUTCOMES[AttemptOutcome(outcome)]


@register.filter
def outcome_status(outcome: str) -> str:
    """The status whose colour an attempt has that ended like this."""
    return OUTCOMES[AttemptOutcome(outcome)]["status"]


@register.inclusion_tag(_TEMPLATE)
def phase_badge(phase: str) -> dict[str, str]:
    return PHASES[Phase(phase)]


@register.inclusion_tag(_TEMPLATE)
def queue_badge(queue: QueueRow) -> dict[str, str]:
    """Whether a queue is paused, full, served or busy."""
    return QUEUES[_status_of_queue(queue)]


@register.inclusion_tag(_TEMPLATE)
def worker_badge(row: WorkerRow) -> dict[str, str]:
    """Whether a worker is there, and whether it is drained: one that still holds jobs is draining."""
    return WORKERS[_status_of_worker(row)]


def _status_of_queue(queue: QueueRow) -> str:
    by_urgency = {
        "paused": queue.paused_at, "stuck": queue.is_stuck, "full": queue.is_full, "busy": queue.running,
        "open": queue.workers,
    }  # fmt: skip
    return next((status for status, applies in by_urgency.items() if applies), "unserved")


def _status_of_worker(row: WorkerRow) -> str:
    if row.is_alive and row.is_drained:
        return "draining" if row.jobs else "drained"
    return row.presence.value
