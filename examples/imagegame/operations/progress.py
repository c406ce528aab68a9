"""How a game moves on: because everybody has done their part, because its host says so, because its time is up.

Whoever changes anything of a game locks its row first, does that, and asks `advance`; so of two last votes one is the
last, and a vote and the deadline happen one after the other. Every change raises the game's version: the deadline's
mutation is serializable, and PostgreSQL runs it again when it waited for a lock while the row changed, instead of
letting it decide by what it saw before.
"""

import random
from datetime import datetime, timedelta

from django.db import transaction

from examples.imagegame.domain import prompts, stages
from examples.imagegame.domain.stages import Stage
from examples.imagegame.errors import GameUnknown
from examples.imagegame.models import Game, Round
from examples.imagegame.queries import games, rounds
from live import operations as live
from postgres import clock
from scheduling import operations as scheduling
from scheduling.operations import mutation

_RNG = random.SystemRandom()
OVERTIME = timedelta(seconds=10)  # for pictures that are being painted when the time is up; then it is asked again


@mutation
def deadline(*, game_id: int, step: int) -> None:
    """The time of a stage is up. For a game that has moved on since, is gone, or has more time now, this does
    nothing."""
    game = games.lock(game_id)
    if game is not None and game.step == step and not _has_more_time(game):
        _time_is_up(game)


def locked(code: str) -> Game:
    """The game with this code, locked to the end of the caller's transaction. Raises GameUnknown."""

    unlocked = games.by_code(code)
    game = None if unlocked is None else games.lock(unlocked.pk)
    if game is None:
        raise GameUnknown
    return game


def catch_up(code: str) -> None:
    """Move a game on whose time is up, should the scheduler be late; whoever comes too late finds it so."""
    unlocked = games.by_code(code)
    if unlocked is None or not _is_overdue(unlocked, clock.now()):
        return
    with transaction.atomic():
        game = games.lock(unlocked.pk)
        if game is not None and _is_overdue(game, clock.now()):
            _time_is_up(game)


def advance(game: Game, *, is_pushed: bool) -> None:
    """Let a locked game go where the table of moves says it goes now, or stay, and notify who watches."""
    if is_pushed and game.stage == Stage.PAINTING and game.stage_began_at is not None:
        rounds.play_finished(game, submitted_after=game.stage_began_at)
    target = stages.following(rounds.facts(game), is_pushed=is_pushed)
    if target is not None:
        enter(game, target)
        return
    games.changed(game.pk)
    touch(game)


def enter(game: Game, target: Stage) -> None:
    """Take a locked game to another stage: prepare what lies on the table, and have its end scheduled."""
    if not stages.may_move(Stage(game.stage), target):
        raise AssertionError(f"a game does not go from {game.stage} to {target}")
    if target is Stage.NAMING:
        _reveal_next(game)
    elif target is Stage.GUESSING:
        _mix(game)
    now = clock.now()
    is_over = target in stages.ENDED
    game.stage, game.step, game.version = target, game.step + 1, game.version + 1
    game.deadline_at = None if is_over else ends_at(target, now)
    game.ended_at = now if is_over else None
    game.stage_began_at = now
    game.save(update_fields=["stage", "step", "version", "round", "deadline_at", "ended_at", "stage_began_at"])
    schedule_end(game)
    touch(game)


def ends_at(stage: Stage, now: datetime) -> datetime:
    """When a stage that begins now ends by itself."""
    return now + timedelta(seconds=stages.LASTS_S[stage])


def schedule_end(game: Game) -> None:
    """Have the scheduler end the stage of a locked game when its time is up."""
    if game.deadline_at is not None:
        scheduling.run_at(game.deadline_at, deadline, game_id=game.pk, step=game.step)


def _time_is_up(game: Game) -> None:
    """Move a locked game on, or have it wait for pictures that were submitted in time: painters may be slow, and one
    of them may serve all. Each picture has a time limit, so this ends."""
    if game.stage == Stage.PAINTING and game.stage_began_at is not None:
        in_time = ends_at(Stage.PAINTING, game.stage_began_at)
        if rounds.is_awaited(game, submitted_before=in_time):
            _extend(game)
            return
    advance(game, is_pushed=True)


def _extend(game: Game) -> None:
    game.deadline_at, game.version = clock.now() + OVERTIME, game.version + 1
    game.save(update_fields=["deadline_at", "version"])
    schedule_end(game)
    touch(game)


def _has_more_time(game: Game) -> bool:
    """Whether this call of the scheduler is for a moment that was put off since."""
    return game.stage == Stage.PAINTING and not _is_overdue(game, clock.now())


def _reveal_next(game: Game) -> None:
    """Put the next picture on the table, with its prompt as the true title."""
    start = 0 if game.stage == Stage.PAINTING else game.round + 1
    upcoming = rounds.first_from(game, start)
    assert upcoming is not None  # the table of moves leads here only when there is one
    game.round = upcoming.number
    rounds.add_title(upcoming, upcoming.submission.prompt, author=upcoming.author, is_true=True)


def _mix(game: Game) -> None:
    """Make up what is missing to a fair choice, and draw the order of the titles by lot."""
    on_the_table = rounds.current(game)
    if on_the_table is None:  # its author's account was deleted while the others thought of titles
        return
    _add_decoys(on_the_table)
    drawn = rounds.titles(on_the_table.pk)
    _RNG.shuffle(drawn)
    rounds.seat(drawn)


def _add_decoys(on_the_table: Round) -> None:
    titles = [title.text for title in rounds.titles(on_the_table.pk)]
    missing = max(0, stages.LEAST_TITLES - len(titles))
    rounds.add_decoys(on_the_table, prompts.made_up(missing, rng=_RNG, unlike=titles))


def _is_overdue(game: Game, now: datetime) -> bool:
    return game.deadline_at is not None and game.deadline_at <= now


def touch(game: Game) -> None:
    """Say that something happened in a game: its players see it, and the lists it stands in."""
    players = (f"imagegame:player:{player.pk}" for player in games.players(game.pk))
    live.touch(f"imagegame:game:{game.pk}", f"imagegame:games:{game.group_id or 0}", *players)
