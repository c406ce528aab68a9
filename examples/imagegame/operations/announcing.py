"""Which topics a change makes stale: touched inside its transaction, published after the commit."""

from examples.imagegame.models import Game, Submission
from examples.imagegame.queries import games
from live import operations as live


def changed(game: Game) -> None:
    """Something happened in a game: its players see it, and the lists it stands in."""
    players = (f"imagegame:player:{player.pk}" for player in games.players(game.pk))
    live.touch(f"imagegame:game:{game.pk}", f"imagegame:games:{game.group_id or 0}", *players)


def player_left(game: Game, user_id: int) -> None:
    """Somebody plays in it no more."""
    live.touch(f"imagegame:player:{user_id}", f"imagegame:rights:{game.pk}")


def submitted(submission: Submission) -> None:
    """Somebody submitted a prompt."""
    live.touch(f"imagegame:player:{submission.owner_id}")


def ended(submission: Submission) -> None:
    """A picture is finished, or there will be none."""
    mine = (f"imagegame:submission:{submission.pk}", f"imagegame:player:{submission.owner_id}")
    live.touch(*mine, "imagegame:health")
