"""Games: opened, joined, left, begun, moved on by their host, played again."""

import random
from typing import Final

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from accounts import operations as accounts
from examples.imagegame import limits
from examples.imagegame.domain import stages
from examples.imagegame.domain.stages import Stage
from examples.imagegame.errors import (
    GameBegan,
    GameFull,
    GameUnknown,
    InvalidTheme,
    NotAMember,
    NotAPlayer,
    NothingPlayed,
    NotTheHost,
    TooFewPlayers,
    WrongMoment,
)
from examples.imagegame.models import CODE_LENGTH, THEME_LIMIT, Game
from examples.imagegame.operations import progress
from examples.imagegame.queries import games, rounds
from live import operations as live
from postgres import clock, transactions
from ratelimits import operations as ratelimits

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ2569"  # none that looks like another, no vowels to make words of
_TRIES: Final = 10  # of eight million codes some are taken
_RNG = random.SystemRandom()


@transactions.retried
def open_game(theme: str, *, by: User, group: Group | None) -> Game:
    """Open a game with this person as its host and first player; for everybody, or for the members of a group.

    Raises InvalidTheme, NotAMember, RateLimited.
    """
    tidied = " ".join(theme.split())
    if not (0 < len(tidied) <= THEME_LIMIT and tidied.isprintable()):
        raise InvalidTheme(limit=THEME_LIMIT)
    if group is not None and not accounts.is_member(by, group):
        raise NotAMember
    ratelimits.limit(limits.OPEN, key=accounts.limit_key(by), throws=True)
    return _opened(tidied, by=by, group=group)


def find(code: str, *, by: User) -> Game:
    """The game with this code, for its players and for who may join it. Raises GameUnknown."""
    game = games.by_code(code)
    if game is None or not (games.is_player(game.pk, by) or _may_join(game, by)):
        raise GameUnknown
    return game


def join(code: str, *, by: User) -> Game:
    """Play in a game that has not begun; who plays in it already goes on playing.

    Of any number who come at once, as many get in as there is room for. Raises GameUnknown (also for a game of a group
    that this person is not in), GameBegan, GameFull, RateLimited.
    """
    ratelimits.limit(limits.JOIN, key=accounts.limit_key(by), throws=True)
    progress.catch_up(code)
    with transaction.atomic():
        game = progress.locked(code)
        if games.is_player(game.pk, by):
            return game
        if not _may_join(game, by):
            raise GameUnknown
        if game.stage != Stage.LOBBY:
            raise GameBegan
        if len(games.players(game.pk)) >= stages.MOST_PLAYERS:
            raise GameFull(limit=stages.MOST_PLAYERS)
        games.add_player(game, by)
        games.changed(game.pk)
        progress.touch(game)
    return game


@transactions.retried
def leave(code: str, *, by: User) -> None:
    """Play no more in a game that has not begun. A game whose host leaves is abandoned.

    Once it has begun nobody waits for who is away: every stage ends by itself. Raises GameUnknown, NotAPlayer,
    WrongMoment.
    """
    game = progress.locked(code)
    if game.stage != Stage.LOBBY:
        raise WrongMoment
    if game.host_id == by.pk:
        progress.enter(game, Stage.ABANDONED)
        return
    if not games.remove_player(game, by):
        raise NotAPlayer
    games.changed(game.pk)
    live.touch(f"imagegame:player:{by.pk}", f"imagegame:rights:{game.pk}")
    progress.touch(game)


def begin(code: str, *, by: User) -> None:
    """Let everybody paint. For the host. Raises GameUnknown, NotTheHost, WrongMoment, TooFewPlayers."""
    progress.catch_up(code)
    with transaction.atomic():
        game = _hosted(code, by)
        if game.stage != Stage.LOBBY:
            raise WrongMoment
        if len(games.players(game.pk)) < stages.LEAST_PLAYERS:
            raise TooFewPlayers(least=stages.LEAST_PLAYERS)
        progress.enter(game, Stage.PAINTING)


@transactions.retried
def go_on(code: str, *, step: int, by: User) -> None:
    """Wait for nobody any longer. For the host, who saw the game at this step; what it has left is left alone.

    Raises GameUnknown, NotTheHost, WrongMoment, and NothingPlayed while there is no picture to go on with.
    """
    game = _hosted(code, by)
    if game.stage in {Stage.LOBBY, *stages.ENDED}:
        raise WrongMoment
    if game.step != step:
        return
    if game.stage == Stage.PAINTING and not rounds.pictures(game):
        raise NothingPlayed
    progress.advance(game, is_pushed=True)


@transactions.retried
def again(code: str, *, by: User) -> Game:
    """The game that follows one that is over: opened by whoever asks first, the same for all who ask.

    Raises GameUnknown, NotAPlayer, WrongMoment, NotAMember.
    """
    game = progress.locked(code)
    if not games.is_player(game.pk, by):
        raise NotAPlayer
    if game.stage not in stages.ENDED:
        raise WrongMoment
    following = games.next_of(game)
    if following is not None:
        return following
    if not _may_join(game, by):  # no longer in its group
        raise NotAMember
    following = _opened(game.theme, by=by, group=game.group)
    games.follow_with(game, following)
    progress.touch(game)
    return following


def _opened(theme: str, *, by: User, group: Group | None) -> Game:
    game = _with_some_code(theme, by=by, group=group)
    progress.schedule_end(game)
    progress.touch(game)
    return game


def _with_some_code(theme: str, *, by: User, group: Group | None) -> Game:
    deadline_at = progress.ends_at(Stage.LOBBY, clock.now())
    for _ in range(_TRIES):
        code = "".join(_RNG.choices(_LETTERS, k=CODE_LENGTH))
        try:
            with transaction.atomic():
                return games.add(code=code, host=by, group=group, theme=theme, deadline_at=deadline_at)
        except IntegrityError:
            continue
    raise RuntimeError(f"{_TRIES} codes in a row were taken")


def _may_join(game: Game, person: User) -> bool:
    return game.group is None or accounts.is_member(person, game.group)


def _hosted(code: str, by: User) -> Game:
    game = progress.locked(code)
    if game.host_id != by.pk:
        raise NotTheHost
    return game
