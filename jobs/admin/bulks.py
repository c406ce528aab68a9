"""Bulk actions: who began them, and their results."""

from typing import Final

from django.contrib import admin
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.decorators import display

from core import administration
from jobs import live_queries
from jobs.domain.bulks import Phase
from jobs.models import Bulk
from jobs.templatetags import badges
from live import html

COLOURS: Final = {Phase.DONE: "success", Phase.STOPPED: "warning"}


@admin.register(Bulk)
class BulkAdmin(administration.BoundedList):
    """They are begun, stopped and undone on the farm's own pages."""

    list_display = ["id", "action", "value", "how", "by", "matched", "changed", "created_at", "ended_at"]
    list_display_links = ["id", "action"]
    list_filter = ["action", "phase", administration.by_day("created_at")]
    list_select_related = ["by"]
    search_fields = ["=id", "=by__username"]
    fields = [
        ("action", "value"), "live_state", "by", "filters", "undoes", ("created_at", "began_at", "ended_at"), "why"
    ]  # fmt: skip
    readonly_fields = ["live_state"]

    def view_on_site(self, obj: Bulk) -> str:
        return reverse("jobs:bulk", args=[obj.pk])

    @display(description="Status", label=COLOURS)  # type: ignore[untyped-decorator]
    def how(self, bulk: Bulk) -> tuple[str, str]:
        return bulk.phase, badges.PHASES[Phase(bulk.phase)]["label"]

    @display(description="Status")  # type: ignore[untyped-decorator]
    @administration.once
    def live_state(self, bulk: Bulk) -> SafeString:
        return html.wrapper("bulk", {"bulk_id": bulk.pk}, audience=live_queries.MEMBER)
