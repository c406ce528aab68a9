"""Bulk actions: who began them, and their results."""

from typing import Final

from django.contrib import admin

from core import administration
from jobs.domain.bulks import Phase
from jobs.models import Bulk
from jobs.templatetags import badges

COLOURS: Final[dict[str, str]] = {Phase.DONE: "success", Phase.STOPPED: "warning"}


@admin.register(Bulk)
class BulkAdmin(administration.OnSite, administration.BoundedList):
    """They are begun, stopped and undone on the farm's own pages."""

    page = "jobs:bulk"

    list_display = ["id", "action", "value", "how", "by", "matched", "changed", "created_at", "ended_at"]
    list_display_links = ["id", "action"]
    list_filter = ["action", "phase", administration.by_day("created_at")]
    list_select_related = ["by"]
    search_fields = ["=id", "=by__username"]
    how = administration.shown(
        "Status", lambda bulk: (bulk.phase, badges.PHASES[Phase(bulk.phase)]["label"]), label=COLOURS
    )
