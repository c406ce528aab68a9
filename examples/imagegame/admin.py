"""Games and pictures in the admin, to look at: what happens in a game is for its players."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from examples.imagegame.models import Game, Player, Round, Submission


class _ToLookAt:
    """Nobody adds or changes anything here; who may delete, may."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's signature
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False


class PlayersInline(_ToLookAt, TabularInline):  # type: ignore[misc]  # unfold ships no types
    """Who plays."""

    model = Player
    fields = ["user", "joined_at"]
    readonly_fields = fields
    extra = 0


class RoundsInline(_ToLookAt, TabularInline):  # type: ignore[misc]
    """The pictures on the table."""

    model = Round
    fields = ["number", "author", "submission"]
    readonly_fields = fields
    extra = 0


@admin.register(Game)
class GameAdmin(_ToLookAt, ModelAdmin):  # type: ignore[misc]
    """Games."""

    list_display = ["code", "theme", "stage", "host", "group", "created_at", "ended_at"]
    list_filter = ["stage", "created_at"]
    list_select_related = ["host", "group"]
    search_fields = ["code", "theme", "host__username"]
    inlines = [PlayersInline, RoundsInline]


@admin.register(Submission)
class SubmissionAdmin(_ToLookAt, ModelAdmin):  # type: ignore[misc]
    """Pictures and what became of them."""

    list_display = ["prompt", "owner", "state", "reason", "job_id", "created_at", "ended_at"]
    list_filter = ["state", "created_at"]
    list_select_related = ["owner"]
    search_fields = ["prompt", "owner__username", "=job_id"]
