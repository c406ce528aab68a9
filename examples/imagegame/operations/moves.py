"""What players do: put a picture on the table, name one, guess which title is the true one."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from examples.imagegame.domain import prompts
from examples.imagegame.domain.stages import Stage
from examples.imagegame.errors import (
    AlreadyNamed,
    AlreadyPlayed,
    NotAPlayer,
    NotPlayable,
    OwnPicture,
    OwnTitle,
    TitleUnknown,
    TooAlike,
    WrongMoment,
)
from examples.imagegame.models import Game, Round
from examples.imagegame.operations import progress
from examples.imagegame.queries import games, pictures, rounds


def play(code: str, submission_id: int, *, by: User) -> None:
    """Put a finished picture of one's own on the table, once in a game.

    Raises GameUnknown, NotAPlayer, WrongMoment, AlreadyPlayed, NotPlayable.
    """
    with _table(code, Stage.PAINTING, by) as game:
        if rounds.played(game.pk, by) is not None:
            raise AlreadyPlayed
        submission = pictures.playable(by, submission_id)
        if submission is None:
            raise NotPlayable
        rounds.play(game, submission)


def name(code: str, text: str, *, number: int, by: User) -> None:
    """Think of a title for the picture with this number that the others may take for the true one.

    Raises GameUnknown, NotAPlayer, WrongMoment (also for a picture that is not on the table), OwnPicture,
    AlreadyNamed, TooAlike, PromptRefused.
    """
    with _table(code, Stage.NAMING, by) as game:
        picture = _others_picture(game, by)
        if picture.number != number:
            raise WrongMoment
        title = prompts.checked(text, blocked=settings.OF_APPS["JOBFARM_GAME_BLOCKED"], noun="title")
        titles = rounds.titles(picture.pk)
        if any(other.author_id == by.pk for other in titles):
            raise AlreadyNamed
        if any(prompts.are_alike(title, other.text) for other in titles):
            raise TooAlike
        rounds.add_title(picture, title, author=by)


def guess(code: str, title_id: int, *, by: User) -> None:
    """Take a title for the true one; another one until the reveal takes its place.

    Raises GameUnknown, NotAPlayer, WrongMoment, OwnPicture, TitleUnknown, OwnTitle.
    """
    with _table(code, Stage.GUESSING, by) as game:
        picture = _others_picture(game, by)
        title = next((title for title in rounds.titles(picture.pk) if title.pk == title_id), None)
        if title is None:
            raise TitleUnknown
        if title.author_id == by.pk:
            raise OwnTitle
        rounds.guess(picture, title, player=by)


@contextmanager
def _table(code: str, stage: Stage, by: User) -> Iterator[Game]:
    """The game, locked at this stage, with this person among its players; it moves on if that was the last thing."""
    progress.catch_up(code)
    with transaction.atomic():
        game = progress.locked(code)
        if not games.is_player(game.pk, by):
            raise NotAPlayer
        if game.stage != stage:
            raise WrongMoment
        yield game
        progress.advance(game, is_pushed=False)


def _others_picture(game: Game, by: User) -> Round:
    picture = rounds.current(game)
    if picture is None:  # its author's account was deleted
        raise WrongMoment
    if picture.author_id == by.pk:
        raise OwnPicture
    return picture
