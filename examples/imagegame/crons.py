"""What is kept of games, and checking that pictures agree with their jobs."""

from django.conf import settings

from examples.imagegame import operations
from examples.imagegame.models import Game, Submission
from scheduling.operations import declare, interval, keep

declare("imagegame: pictures follow their jobs", interval(minutes=15), operations.mend)
keep("games", Game.objects.all(), by="ended_at", days=lambda: settings.JOBFARM["RETENTION_DAYS"])
keep(  # those of games go with them
    "pictures", Submission.objects.filter(round__isnull=True), by="ended_at",
    days=lambda: settings.JOBFARM["RETENTION_DAYS"],
)  # fmt: skip
