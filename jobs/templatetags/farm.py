"""`{% load farm %}`: errors and payloads as pages show them, links to what has a page, and one badge for each status of
what the jobs app shows, with the colour and icon of the status of a job that it looks like (parts/status.html)."""

import json
from typing import Any, Final

from django import template
from django.contrib.auth.models import User
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from jobs import kinds, operations
from jobs.domain import labels, outputs, payloads
from jobs.domain.bulks import Phase
from jobs.domain.quotas import Quota
from jobs.domain.states import AttemptOutcome, Status
from jobs.live_queries.common import OPERATOR
from jobs.queries.fleet import QueueRow, WorkerRow
from observing.logs import in_short

register = template.Library()
register.filter("own_frames", outputs.own_frames)
register.filter("as_query", urlencode)
register.filter("conditions", labels.in_words)

LONGEST_TEXT = 50_000  # characters of a JSON value or a traceback in a page; the API has all of it


@register.filter
def pretty(value: Any) -> str:
    """A JSON value, indented, as text (the template escapes it)."""
    return cut(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


@register.filter
def cut(text: str) -> str:
    """The text, or what a page holds of it with a note that it goes on."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n… cut here; the API has all of it"


@register.filter
def last_line(text: str) -> str:
    """The last line that says something: of a traceback, the error itself."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return in_short(lines[-1]) if lines else ""


@register.filter
def has_output_text(kind: str) -> bool:
    """Whether the output of jobs of this kind is read line by line into a text for people."""
    return kind in kinds.OUTPUT_TEXTS


@register.filter
def title(payload: Any) -> str:
    """What a job with this payload is about, as far as a page's head has room."""
    return payloads.title(payload)[:300]


@register.filter
def span(number: float) -> str:
    """A power of ten of seconds, as an axis says it: "1 ms", "10 s", "1,000 s"."""
    return f"{number * 1000:.0f} ms" if number < 1 else f"{number:,.0f} s"


@register.filter
def mood(status: str) -> str:
    """The class of a progress bar in this state: "good", "bad" or none."""
    return {Status.SUCCESS: "good", Status.FAILED: "bad", Status.TIMED_OUT: "bad"}.get(Status(status), "")


_NOTHING: Final = "–"


@register.filter
def jobs_of(value: Any, name: str) -> SafeString | str:
    """The value as a link to the list of jobs with this filter: `{{ job.kind|jobs_of:"kind" }}`."""
    return jobs_with(value, **{name: value}) if value else _NOTHING


@register.simple_tag
def jobs_with(text: Any, **filters: Any) -> SafeString:
    """A text as a link to the list of jobs with these filters."""
    return format_html('<a href="{}?{}">{}</a>', reverse("jobs:list"), urlencode(filters), text)


@register.filter
def queue_link(name: str) -> SafeString | str:
    """A link to the queue's page; its name may be broken behind a dot, and not in mid-word."""
    shown = SafeString(escape(name).replace(".", ".<wbr>"))
    return format_html('<a href="{}">{}</a>', reverse("jobs:queue", args=[name]), shown) if name else _NOTHING


@register.filter
def queue_links(names: list[str]) -> SafeString:
    return SafeString(", ".join(map(queue_link, names)))


@register.filter
def tag_links(tags: list[str]) -> SafeString:
    return SafeString(", ".join(jobs_with(tag, tag=tag) for tag in tags))


@register.simple_tag(takes_context=True)
def worker_link(context: dict[str, Any], had: Any) -> SafeString | str:
    """Who had a job or an attempt: for operators a link to the worker, for others to the jobs that they see of it."""
    if had.worker_id and context.get("audience") == OPERATOR:
        address = reverse("jobs:worker", args=[had.worker_id])
        return format_html('<a href="{}">{}</a>', address, had.worker_name)
    return jobs_of(had.worker_name, "worker")


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
    """Whether a queue is paused, full, served or busy: what is most urgent of it."""
    by_urgency = {
        "paused": queue.paused_at, "stuck": queue.is_stuck, "full": queue.is_full, "busy": queue.running,
        "open": queue.workers,
    }  # fmt: skip
    return QUEUES[next((status for status, applies in by_urgency.items() if applies), "unserved")]


@register.inclusion_tag(_TEMPLATE)
def worker_badge(row: WorkerRow) -> dict[str, str]:
    """Whether a worker is there, and whether it is drained: one that still holds jobs is draining."""
    if row.is_alive and row.is_drained:
        return WORKERS["draining" if row.jobs else "drained"]
    return WORKERS[row.presence.value]


_LABELS: Final = {
    "waiting jobs": "Pending jobs", "bytes of output": "Output", "files": "Files", "bytes of files": "Bytes of files"
}  # fmt: skip


@register.filter
def used(user: User) -> list[tuple[str, str]]:
    """What the jobs of a person have, and may have: labels and amounts."""
    return [(_LABELS[quota.resource], amount(quota)) for quota in operations.used(user.pk)]


def amount(quota: Quota) -> str:
    """What is used, and of how much: "3 of 100,000"; without a quota what is used."""
    write = filesizeformat if quota.resource.startswith("bytes") else "{:,}".format
    return f"{write(quota.used)} of {write(quota.quota)}" if quota.quota else str(write(quota.used))
