"""A game as one of its players sees it."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User

from examples.imagegame.domain import scores, stages
from examples.imagegame.domain.scores import Score
from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Game, Round, Title
from examples.imagegame.queries import games, rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A player at the table. `is_done`: has done what this stage asks of them."""

    user: User
    score: Score
    is_done: bool
    is_host: bool
    is_me: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A title to choose from. Who thought of it and who chose it is known after the reveal only."""

    title: Title
    is_mine: bool
    is_chosen: bool
    chosen_by: tuple[User, ...] = ()
    points: int = 0  # of its author, for this title


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table. `waits_for_me`: this stage asks something of this player, who has not done it."""

    game: Game
    seats: tuple[Seat, ...]
    picture: Round | None
    pictures: int
    choices: tuple[Choice, ...]
    is_mine: bool
    is_host: bool
    waits_for_me: bool
    may_begin: bool
    recap: tuple[Round, ...]

    @property
    def has_scores(self) -> bool:
        """Whether a picture has been on the table."""
        return self.game.stage not in {Stage.LOBBY, Stage.PAINTING}

    @property
    def may_push(self) -> bool:
        """Whether this player may wait for nobody any longer."""
        is_under_way = self.game.stage not in {Stage.LOBBY, *stages.ENDED}
        return self.is_host and is_under_way and self.pictures > 0

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The names of the others who have not done what this stage asks of them."""
        if self.game.stage not in {Stage.PAINTING, Stage.NAMING, Stage.GUESSING}:
            return ()
        author = self.picture.author_id if self.picture else None
        waited_for = [seat.user for seat in self.seats if not (seat.is_done or seat.is_me)]
        return tuple(user.get_username() for user in waited_for if user.pk != author)

    @property
    def is_overtime(self) -> bool:
        """Whether the time to paint is up, and the game waits for pictures that are being painted."""
        began, ends = self.game.stage_began_at, self.game.deadline_at
        if self.game.stage != Stage.PAINTING or began is None or ends is None:
            return False
        return ends > began + timedelta(seconds=stages.LASTS_S[Stage.PAINTING])

    @property
    def number(self) -> int:
        """Which picture is on the table, for people: from 1."""
        return self.game.round + 1


def table(game_id: int, *, me: int) -> Table | None:
    """The table for this player; None when there is no such game."""
    game = Game.objects.select_related("group", "host").filter(pk=game_id).first()
    if game is None:
        return None
    stage = Stage(game.stage)
    seats = _seats(game, me)
    picture = rounds.current(game) if stage in stages.AT_THE_TABLE else None
    is_mine = picture is not None and picture.author_id == me
    mine = next((seat for seat in seats if seat.is_me), None)
    is_acting = stage in {Stage.PAINTING, Stage.NAMING, Stage.GUESSING} and not is_mine
    all_pictures = rounds.pictures(game)
    return Table(
        game=game,
        seats=seats,
        picture=picture,
        pictures=len(all_pictures),
        choices=() if picture is None else _choices(picture, stage, me),
        is_mine=is_mine,
        is_host=game.host_id == me,
        waits_for_me=is_acting and mine is not None and not mine.is_done,
        may_begin=len(seats) >= stages.LEAST_PLAYERS,
        recap=tuple(all_pictures) if stage is Stage.OVER else (),
    )


def _seats(game: Game, me: int) -> tuple[Seat, ...]:
    people = {user.pk: user for user in games.players(game.pk)}
    points: Counter[int] = Counter()
    for titles in rounds.revealed(game):
        points.update(scores.of_picture(titles))
    done = rounds.done(game)
    return tuple(
        Seat(
            user=people[score.player],
            score=score,
            is_done=score.player in done,
            is_host=score.player == game.host_id,
            is_me=score.player == me,
        )
        for score in scores.table(people, points)
    )


def _choices(picture: Round, stage: Stage, me: int) -> tuple[Choice, ...]:
    if stage is Stage.NAMING:
        return ()
    return tuple(_choice(title, stage, me) for title in rounds.with_guesses(picture.pk))


def _choice(title: Title, stage: Stage, me: int) -> Choice:
    chosen_by = tuple(guess.player for guess in title.guesses.all())
    is_chosen = any(player.pk == me for player in chosen_by)
    if stage is not Stage.REVEAL:
        return Choice(title=title, is_mine=title.author_id == me, is_chosen=is_chosen)
    points = scores.of_picture([rounds.to_scored(title)])
    mine = points[title.author_id] if title.author_id is not None else 0
    return Choice(title=title, is_mine=title.author_id == me, is_chosen=is_chosen, chosen_by=chosen_by, points=mine)
