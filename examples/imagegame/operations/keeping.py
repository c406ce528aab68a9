"""What is forgotten, and when."""

from django.conf import settings

from examples.imagegame.queries import games, pictures
from scheduling.operations import mutation

AT_ONCE = 500  # rows in one transaction


@mutation
def forget() -> int:
    """Delete games and pictures that ended longer ago than the farm keeps jobs; how many rows.

    Pictures go after the games they lie in. What is too much for one transaction is left to the next firing.
    """
    days: int = settings.JOBFARM["RETENTION_DAYS"]
    return games.forget(days=days, limit=AT_ONCE) + pictures.forget(days=days, limit=AT_ONCE)
