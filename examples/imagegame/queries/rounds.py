"""What lies on the table: pictures, titles, guesses."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from examples.imagegame.domain import scores, stages
from examples.imagegame.domain.painting import State
from examples.imagegame.domain.stages import Facts, Stage
from examples.imagegame.models import Game, Guess, Player, Round, Submission, Title


def facts(game: Game) -> Facts:
    """What the next move of a locked game is decided by."""
    rounds = Round.objects.filter(game=game)
    counted = rounds.aggregate(pictures=Count("pk"), remaining=Count("pk", filter=Q(number__gt=game.round)))
    here = {"round__game": game, "round__number": game.round}
    return Facts(
        stage=Stage(game.stage),
        players=Player.objects.filter(game=game).count(),
        titles=Title.objects.filter(**here, author__isnull=False, is_true=False).count(),
        guesses=Guess.objects.filter(**here).count(),
        **counted,
    )


def current(game: Game) -> Round | None:
    """The picture on the table, with its submission; None before there is one, and if its author is gone."""
    return Round.objects.select_related("submission", "author").filter(game=game, number=game.round).first()


def first_from(game: Game, number: int) -> Round | None:
    """The next picture, from this number on."""
    rounds = Round.objects.select_related("submission").filter(game=game, number__gte=number)
    return rounds.order_by("number").first()


def played(game_id: int, user: User) -> Round | None:
    """What this person played."""
    return Round.objects.filter(game_id=game_id, author=user).first()


def play(game: Game, submission: Submission) -> Round:
    """Put a picture on the table of a locked game."""
    number = Round.objects.filter(game=game).count()
    return Round.objects.create(game=game, number=number, author=submission.owner, submission=submission)


def is_awaited(game: Game, *, submitted_before: datetime) -> bool:
    """Whether a player who has not played has a picture in the making since before this moment."""
    making = _unplayed(game).filter(state=State.PAINTING, created_at__lt=submitted_before)
    return making.exists()


def play_finished(game: Game, *, submitted_after: datetime) -> None:
    """Put the newest finished picture of each player who has not played on the table of a locked game."""
    finished = _unplayed(game).filter(state=State.SAVED, round__isnull=True, created_at__gte=submitted_after)
    for submission in finished.order_by("owner_id", "-pk").distinct("owner_id"):
        play(game, submission)


def _unplayed(game: Game) -> QuerySet[Submission]:
    """The pictures of the players who have not played one."""
    waited_for = Player.objects.filter(game=game).exclude(user__in=Round.objects.filter(game=game).values("author"))
    return Submission.objects.filter(owner__in=waited_for.values("user"))


def titles(round_id: int) -> list[Title]:
    """The titles of a picture, as they are to be chosen from."""
    return list(Title.objects.filter(round_id=round_id).select_related("author").order_by("place", "pk"))


def add_title(round_: Round, text: str, *, author: User | None, is_true: bool = False) -> None:
    """Let a picture be called so."""
    Title.objects.create(round=round_, author=author, text=text, is_true=is_true)


def add_decoys(round_: Round, texts: Iterable[str]) -> None:
    """Let a picture be called what the game made up."""
    Title.objects.bulk_create([Title(round=round_, text=text) for text in texts])


def seat(ordered: Sequence[Title]) -> None:
    """Give titles their places, in this order."""
    for place, title in enumerate(ordered):
        title.place = place
    Title.objects.bulk_update(ordered, ["place"])


def guess(round_: Round, title: Title, *, player: User) -> None:
    """Note which title this player takes for the true one, instead of what they took before."""
    Guess.objects.update_or_create(round=round_, player=player, defaults={"title": title})


def revealed(game: Game) -> list[list[scores.Title]]:
    """The titles of every picture that was revealed, with who chose them, in the order of the pictures."""
    over = Q(round__number__lt=game.round)
    over |= Q(round__number=game.round) if game.stage in {Stage.REVEAL, Stage.OVER} else Q(pk__in=[])
    if game.stage not in {*stages.AT_THE_TABLE, Stage.OVER}:
        return []
    rows = Title.objects.filter(over, round__game=game).prefetch_related("guesses")
    pictures: dict[int, list[scores.Title]] = {}
    for row in rows.order_by("round__number", "place", "pk"):
        pictures.setdefault(row.round_id, []).append(to_scored(row))
    return list(pictures.values())


def to_scored(title: Title) -> scores.Title:
    """A title as the scores see it; its guesses are read, or prefetched."""
    chosen_by = tuple(guess.player_id for guess in title.guesses.all())
    return scores.Title(author=title.author_id, is_true=title.is_true, chosen_by=chosen_by)


def with_guesses(round_id: int) -> list[Title]:
    """The titles of a picture, with who chose each."""
    rows = Title.objects.filter(round_id=round_id).select_related("author")
    return list(rows.prefetch_related("guesses__player").order_by("place", "pk"))


def done(game: Game) -> set[int]:
    """The players who have done what this stage asks of them."""
    here = {"round__game": game, "round__number": game.round}
    match Stage(game.stage):
        case Stage.PAINTING:
            return set(Round.objects.filter(game=game).values_list("author_id", flat=True))
        case Stage.NAMING:
            named = Title.objects.filter(**here, author__isnull=False, is_true=False)
            return set(named.values_list("author_id", flat=True))
        case Stage.GUESSING:
            return set(Guess.objects.filter(**here).values_list("player_id", flat=True))
        case _:
            return set()


def pictures(game: Game) -> list[Round]:
    """All pictures of a game, in their order, with who painted them."""
    return list(Round.objects.filter(game=game).select_related("submission", "author").order_by("number"))
