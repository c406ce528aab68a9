"""The inbox: deliveries with their attempts, what was refused, and the secrets, of which no page shows any."""

from functools import partial
from typing import Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from core import administration, people
from core.values import row_id
from live import html
from webhooks import live_queries, operations
from webhooks.admin.rules import StartInline
from webhooks.domain import bodies
from webhooks.domain.deliveries import Source, Status
from webhooks.models import Activity, Delivery, DeliveryAttempt, Refusal, SandboxToken, Secret
from webhooks.queries import pages

_MAY_BREAK: Final = mark_safe("<wbr>")


FILTERS: Final = [
    administration.among("source", Source),
    administration.among("status", Status, led=set(Status) - {Status.PROCESSED}),  # most were: they have no index
    administration.recent("event_type"),
    administration.by_day("received_at", leads=True),
]


class AttemptInline(administration.Part):
    model = DeliveryAttempt
    fields = ["number", "outcome", "started_at", "ended_at", "error_details"]
    ordering = ["-number"]

    error_details = administration.shown(
        "Error",
        lambda one: administration.folded(one.error or "", one.traceback) if one.traceback else one.error or "–",
    )


class ActivityInline(administration.Part):
    model = Activity
    fields = ["at", "actor", "verb", "object"]
    ordering = ["n"]


def _badge(row: Delivery) -> SafeString:
    arguments, known = {"delivery_id": row.pk}, {"delivery": row}
    return html.wrapper_of_context("delivery-badge", arguments, context=known, audience=live_queries.OPERATOR)


def _functions(row: Delivery) -> SafeString | str:
    page = "scheduling_scheduledfunction"
    links = [(administration.link(page, one.pk), one.status) for one in pages.runs_of(row)]
    return format_html_join(", ", "{} {}", links) or "–"


def _digest(row: Delivery) -> SafeString:
    """Of the body; a narrow page may break it anywhere between eight digits."""
    digits = bytes(row.body_sha256).hex()
    return format_html_join(_MAY_BREAK, "{}", ((digits[at : at + 8],) for at in range(0, len(digits), 8)))


def _headers(row: Delivery) -> SafeString:
    """As they are stored: those that hold secrets by name alone."""
    return administration.preformatted(format_html_join("\n", "{}: {}", row.headers.items()))


def _body(row: Delivery) -> SafeString:
    """Its beginning, as text or in hexadecimal; its own page folds and saves it."""
    start = pages.body_start(row.pk, most=bodies.SHOWN_BYTES)
    shown = bodies.show(start, size=row.body_bytes, content_type="")
    text = shown.dump if shown.text is None else shown.text
    return administration.preformatted(text + ("\n… cut here" if shown.is_cut else ""))


def _replay(request: HttpRequest, row: Delivery, *, with_jobs: bool = False) -> str:
    operations.replay(row.pk, with_jobs=with_jobs, by=people.person(request))
    return "processed again"


_replay_with_jobs = partial(_replay, with_jobs=True)


@admin.register(Delivery)
class DeliveryAdmin(administration.Operated, administration.BoundedList):
    """What came, as it came. What it leads to changes by replaying it."""

    operate = live_queries.OPERATE

    list_display = ["id", "source", "event_type", "state", "attempts", "duplicates", "excerpt", "received_at"]
    list_display_links = ["id", "event_type"]
    list_filter = FILTERS
    search_fields = ["delivery_id"]
    search_help_text = "Words of the body, a delivery id, a type, or a number of the inbox"
    fieldsets = [
        (None, {"fields": ["live_state"]}),
        ("Request", {"fields": [
            ("source", "event_type"), "delivery_id", ("received_at", "occurred_at"), ("address", "sandbox"),
            "signed_with", "body_bytes", "digest", "functions", "shown_headers", "shown_body",
        ]}),
        ("Progress", {"fields": [
            ("attempts", "tries"), ("next_attempt_at", "ended_at"), ("duplicates", "last_duplicate_at")
        ]}),
    ]  # fmt: skip
    inlines = [StartInline, AttemptInline, ActivityInline]
    actions = ["replay_selected", "replay_selected_with_jobs"]
    actions_detail = ["replay_one", "replay_one_with_jobs"]
    view_on_site = administration.on_site("webhooks:delivery")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Without bodies, which may be of 25 MB, and without what seals the secret."""
        rows: QuerySet[Delivery] = super().get_queryset(request)
        return rows.select_related("secret").defer("body", "search", "secret__sealed")

    def finds_exactly(self, term: str) -> bool:
        """A number is an id; a word may be in any number of bodies."""
        return row_id(term) is not None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Delivery], search_term: str  # noqa: ARG002
    ) -> tuple[QuerySet[Delivery], bool]:  # fmt: skip
        term = search_term.strip()
        if not term:
            return queryset, False
        return pages.with_words(queryset, term, or_pk=row_id(term)), False

    state = administration.shown("Status", _badge)
    functions = administration.shown("Processed by", _functions)
    excerpt = administration.shown("Note", lambda row: Truncator(row.note or "").chars(80))
    live_state = administration.shown(
        "Status", lambda row: html.wrapper("delivery-state", {"delivery_id": row.pk}, audience=live_queries.OPERATOR)
    )
    signed_with = administration.shown("Signed with", lambda row: row.secret.fingerprint if row.secret else "–")
    digest = administration.shown("SHA-256", _digest)
    shown_headers = administration.shown("Headers", _headers)
    shown_body = administration.shown("Body", _body)

    replay_selected = administration.on_each("Replay {}", _replay)
    replay_one = administration.on_one("Replay {}", _replay)
    replay_selected_with_jobs = administration.on_each("Replay {} and start their jobs again", _replay_with_jobs)
    replay_one_with_jobs = administration.on_one("Replay {} and start its jobs again", _replay_with_jobs)


@admin.register(Refusal)
class RefusalAdmin(administration.BoundedList):
    """Counts of what was refused. Of the requests themselves nothing is kept."""

    list_display = ["hour", "source", "reason", "count", "last_at", "last_address"]
    list_filter = ["source", administration.recent("reason"), administration.by_day("hour")]


def _retire(request: HttpRequest, row: Secret) -> str:
    operations.retire(row.pk, by=people.person(request))
    return "retired"


@admin.register(Secret)
class SecretAdmin(administration.Operated, administration.ReadOnly):
    """Which secrets there are. What they are is shown once, on the page where they are added."""

    operate = live_queries.OPERATE

    list_display = ["fingerprint", "source", "name", "state", "created_at", "retired_at", "last_used_at"]
    list_filter = ["source", ("retired_at", admin.EmptyFieldListFilter)]
    exclude = ["sealed"]
    actions = ["retire_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        rows: QuerySet[Secret] = super().get_queryset(request)
        return rows.defer("sealed")

    # Whether it opens anything, or will not once its time comes.
    state = administration.shown(
        "Status", lambda secret: "retired" if secret.retired_at else "active",
        label={"retired": "danger", "active": "success"},
    )  # fmt: skip

    def view_on_site(self, obj: Secret) -> str:
        return reverse("webhooks:source", args=[obj.source])

    retire_selected = administration.on_each(
        "Retire {} at once", _retire, line=lambda row: f"{row.get_source_display()} {row.fingerprint} {row.name}"
    )


@admin.register(SandboxToken)
class SandboxTokenAdmin(administration.ReadOnly):
    """Which tokens there are. Their hashes are of no use to anybody."""

    list_display = ["sandbox", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["sandbox"]
    exclude = ["token_hash"]
