"""Bulk actions: who began them, and their results."""

from typing import Final

from django.contrib import admin

from core import administration
from jobs.admin import common
from jobs.domain.bulks import Phase
from jobs.models import Bulk
from jobs.templatetags import badges

COLOURS: Final[dict[str, str]] = {Phase.DONE: "success", Phase.STOPPED: "warning"}


@admin.register(Bulk)
class BulkAdmin(administration.BoundedList):
    """They are begun, stopped and undone on the farm's own pages."""

    list_display = ["id", "action", "value", "how", "by", "matched", "changed", "created_at", "ended_at"]
    list_display_links = ["id", "action"]
    list_filter = ["action", "phase", administration.by_day("created_at")]
    list_select_related = ["by"]
    search_fields = ["=id", "=by__username"]
    fields = [
        ("action", "value"), "begins_up_to", "live_state", "by", "filters", "undoes",
        ("created_at", "began_at", "ended_at"), "why",
    ]  # fmt: skip
    view_on_site = administration.on_site("jobs:bulk")

    how = administration.shown(
        "Status", lambda bulk: (bulk.phase, badges.PHASES[Phase(bulk.phase)]["label"]), label=COLOURS
    )
    live_state = common.live("Status", "bulk", lambda bulk: {"bulk_id": bulk.pk})
