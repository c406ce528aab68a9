"""Games and pictures in the admin, to look at: what happens in a game is for its players."""

from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from core import administration
from examples.imagegame.domain.painting import State
from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Game, Player, Round, Submission

COLOURS: Final = {State.PAINTING: "info", State.SAVED: "success", State.FAILED: "danger", State.CANCELED: "default"}


class PlayersInline(administration.Part):
    """Who plays."""

    model = Player
    fields = ["user", "joined_at"]


class RoundsInline(administration.Part):
    """The pictures on the table."""

    model = Round
    fields = ["number", "author", "submission"]


class _Deletable(administration.BoundedList):
    """Nobody adds or changes anything here; who may delete, may."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Who has the right to delete such rows."""
        right = f"{self.opts.app_label}.delete_{self.opts.model_name}"
        return bool(request.user.has_perm(right))


@admin.register(Game)
class GameAdmin(_Deletable):
    """Games."""

    list_display = ["code", "theme", "stage_now", "host", "group", "created_at", "ended_at"]
    list_filter = ["stage", administration.by_day("created_at")]
    list_select_related = ["host", "group"]
    search_fields = ["=code", "theme", "=host__username"]
    inlines = [PlayersInline, RoundsInline]

    @display(description="Stage", label={Stage.LOBBY: "default", Stage.OVER: "success"})  # type: ignore[untyped-decorator]
    def stage_now(self, game: Game) -> tuple[str, str]:
        """How far it is."""
        return game.stage, game.get_stage_display()


@admin.register(Submission)
class SubmissionAdmin(_Deletable):
    """Pictures and what became of them."""

    list_display = ["prompt", "owner", "state_now", "reason", "job_link", "created_at", "ended_at"]
    list_filter = ["state", administration.by_day("created_at")]
    list_select_related = ["owner"]
    search_fields = ["prompt", "=owner__username", "=job_id"]

    @display(description="Status", label=COLOURS)  # type: ignore[untyped-decorator]
    def state_now(self, submission: Submission) -> tuple[str, str]:
        """What became of it."""
        return submission.state, submission.get_state_display()

    @display(description="Job")  # type: ignore[untyped-decorator]
    def job_link(self, submission: Submission) -> SafeString | str:
        """The job that paints it."""
        return administration.link("jobs_job", submission.job_id, f"#{submission.job_id}")
