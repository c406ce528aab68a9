"""`{% load scheduling %}`: JSON, times in a cron's own zone, and what a cron's status looks like."""

import json
from contextlib import suppress
from datetime import datetime
from typing import Final

from django import template

from live.templatetags.words import badges
from scheduling.domain import schedules
from scheduling.domain.schedules import Missed, Overlap
from scheduling.errors import BadSchedule
from scheduling.models import Cron
from scheduling.queries.pages import Chain

register = template.Library()

badges(
    register, "cron_badge", {"active": ("on", "active"), "paused": ("paused", "paused"), "retired": ("off", "retired")}
)
MISSED: Final = {Missed.SKIP: "skipped", Missed.ONCE: "made up for once", Missed.CATCH_UP: "made up for"}
OVERLAP: Final = {Overlap.SKIP: "skipped", Overlap.ALLOW: "allowed"}
_CHAINS: Final = {"success": ("success", "done"), "canceled": ("canceled", "stopped")}
LONGEST_TEXT = 50_000  # characters of a JSON value or a traceback in a page


@register.filter
def stored(text: str) -> str:
    """The text of a JSON value, indented; one that cannot be read is shown as it is."""
    with suppress(ValueError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n(cut here)"


@register.filter
def short(function: str) -> str:
    return ".".join(function.split(".")[-2:])


@register.filter
def timing(schedule: str) -> str:
    """A schedule as pages show it: an interval in the largest unit that needs no fraction, "every 15 min"."""
    try:
        parsed = schedules.parse(schedule)
    except BadSchedule:
        return schedule
    return parsed.typed() if isinstance(parsed, schedules.Interval) else schedule


@register.filter
def wall(moment: datetime) -> str:
    return moment.strftime("%a %d %b %Y %H:%M:%S %Z")


@register.filter
def cron_status(cron: Cron) -> str:
    return "retired" if cron.retired_at else "paused" if cron.paused_at else "active"


@register.filter
def missed_policy(cron: Cron) -> str:
    most = f", at most {cron.at_most}" if cron.missed == Missed.CATCH_UP else ""
    return MISSED[Missed(cron.missed)] + most


@register.filter
def overlap_policy(cron: Cron) -> str:
    return OVERLAP[Overlap(cron.overlap)]


@register.inclusion_tag("parts/status.html")
def chain_badge(chain: Chain) -> dict[str, str]:
    """How far a chain of batches is; whatever else it ended as is a failure."""
    running = ("in_progress", "in progress")
    status, label = _CHAINS.get(chain.status, ("failed", "failed")) if chain.is_over else running
    return {"status": status, "label": label}
