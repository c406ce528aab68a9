"""Games and who plays in them. Whoever changes a game has its row locked by `lock` and ends with `changed`."""

from datetime import datetime, timedelta

from django.contrib.auth.models import Group, User
from django.db.models import Count, F, Q
from django.db.models.functions import Now

from examples.imagegame.domain import stages
from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Game, Player

SHOWN = 30  # games in a list
LISTED_FOR = timedelta(hours=2)  # how long an ended game stays in its players' own list


def add(*, code: str, host: User, group: Group | None, theme: str, deadline_at: datetime) -> Game:
    """Open a game with its host as the first player. IntegrityError if another has this code."""
    game = Game.objects.create(code=code, host=host, group=group, theme=theme, deadline_at=deadline_at)
    Player.objects.create(game=game, user=host)
    return game


def by_code(code: str) -> Game | None:
    """The game with this code."""
    if not (code.isascii() and code.isalnum()):
        return None
    return Game.objects.select_related("group", "host").filter(code=code).first()


def lock(game_id: int) -> Game | None:
    """The game, locked to the end of the caller's transaction."""
    return Game.objects.select_for_update(of=("self",)).filter(pk=game_id).first()


def changed(game_id: int) -> None:
    """Raise the version of a locked game, so that a serializable transaction which saw it before is run again."""
    Game.objects.filter(pk=game_id).update(version=F("version") + 1)


def is_player(game_id: int, user: User) -> bool:
    """Whether this person plays in it."""
    return plays(game_id, user.pk)


def plays(game_id: int, user_id: int) -> bool:
    """Whether who has this id plays in it."""
    return Player.objects.filter(game_id=game_id, user_id=user_id).exists()


def add_player(game: Game, user: User) -> None:
    """Let this person play in a locked game."""
    Player.objects.create(game=game, user=user)


def remove_player(game: Game, user: User) -> bool:
    """Take this person out of a locked game; whether they were in it."""
    return bool(Player.objects.filter(game=game, user=user).delete()[0])


def next_of(game: Game) -> Game | None:
    """The game that follows this one, if somebody opened it."""
    return None if game.next_game_id is None else Game.objects.filter(pk=game.next_game_id).first()


def follow_with(game: Game, following: Game) -> None:
    """Note which game follows a locked one."""
    Game.objects.filter(pk=game.pk).update(next_game=following, version=F("version") + 1)


def players(game_id: int) -> list[User]:
    """Who plays in it, who joined first being first."""
    rows = Player.objects.filter(game_id=game_id).select_related("user").order_by("pk")
    return [row.user for row in rows]


def listed(group_id: int) -> list[Game]:
    """The games of a group (0: those that are open to everybody) that have not ended, the newest first."""
    where = Q(group_id=group_id) if group_id else Q(group__isnull=True)
    games = Game.objects.filter(where, stage__in=sorted(stages.LIVE)).select_related("host")
    return list(games.annotate(count=Count("players")).order_by("-pk")[:SHOWN])


def of_player(user_id: int) -> list[Game]:
    """The games this person plays in, and those that ended a short while ago, the newest first."""
    lately = Q(stage__in=sorted(stages.LIVE)) | Q(stage=Stage.OVER, ended_at__gt=Now() - LISTED_FOR)
    mine = Player.objects.filter(user_id=user_id).values("game_id")
    games = Game.objects.filter(lately, pk__in=mine).select_related("host", "group")
    return list(games.annotate(count=Count("players")).order_by("-pk")[:SHOWN])
