"""Several at the same moment: one outcome, as if they had come one after the other."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from examples.imagegame import operations
from examples.imagegame.domain.stages import Stage
from examples.imagegame.errors import GameFull, ImageGameError, StillPainting, TooAlike, TooLateToChange, WrongMoment
from examples.imagegame.models import Game, Guess, Player, Round, Submission, Title
from jobs import operations as jobs
from jobs.models import Job
from postgres import transactions
from tests import farm
from tests.imagegame.integration import players
from tests.imagegame.integration.players import Party, party, party_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _files(settings: Settings, tmp_path: Path) -> None:
    """A place of its own for files."""
    settings.MEDIA_ROOT = tmp_path


def refusal_of(function: Callable[[], object]) -> str:
    """What came of it, in a word: the name of the refusal, or "done"."""
    try:
        function()
    except ImageGameError as refusal:
        return type(refusal).__name__
    return "done"


def _deadline(made: Party) -> Callable[[], None]:
    """The scheduler's call for the end of the stage at hand, in a serializable transaction as it makes it."""
    made.game.refresh_from_db()
    call = partial(operations.deadline, game_id=made.game.pk, step=made.game.step)
    return partial(transactions.serializable, call)


def _activity(condition: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
        )
        return bool(cursor.fetchone()[0])


def _somebody_waits_for_a_lock() -> bool:
    return _activity("wait_event_type = 'Lock'")


def _a_transaction_is_open() -> bool:
    return _activity("state IN ('idle in transaction', 'active') AND backend_xid IS NOT NULL")


class TestAskingForPictures:
    def test_at_once_gives_a_person_one(self) -> None:
        ada = farm.user()
        outcomes = farm.at_once(*[partial(refusal_of, partial(operations.start, "a fox", by=ada))] * 12)
        assert Counter(outcomes) == {"done": 1, StillPainting.__name__: 11}
        assert Job.objects.count() == Submission.objects.count() == 1

    @pytest.mark.parametrize("_round", range(4))
    def test_instead_of_one_that_is_just_taken_replaces_it_or_does_nothing(self, _round: int) -> None:
        ada, painter = farm.user(), players.painter()
        first = operations.start("a fox", by=ada)
        change = partial(refusal_of, lambda: operations.change(first.pk, "a hen", by=ada))
        payloads: list[object] = []

        def claim() -> str:
            payloads.extend(one.payload for one in jobs.claim(painter))
            return "claimed"

        changed, _ = farm.at_once(change, claim)
        states = dict(Submission.objects.values_list("prompt", "state"))
        if changed == "done":
            assert states == {"a fox": "canceled", "a hen": "painting"}
            assert payloads in ([], [{"prompt": "a hen"}])
        else:
            assert (changed, states) == (TooLateToChange.__name__, {"a fox": "painting"})
            assert payloads == [{"prompt": "a fox"}]

    @pytest.mark.parametrize("_round", range(4))
    def test_and_taking_back_as_it_is_finished_leaves_job_and_picture_of_one_mind(self, _round: int) -> None:
        ada, painter = farm.user(), players.painter()
        submission = operations.start("a fox", by=ada)
        claimed = farm.claim_one(painter)
        players.paint(painter, claimed)
        taken_back, _ = farm.at_once(
            partial(refusal_of, lambda: operations.withdraw(submission.pk, by=ada)),
            lambda: farm.succeed(painter, claimed, {"file": "picture.png"}),
        )
        submission.refresh_from_db()
        ends = ("canceled", "canceled") if taken_back == "done" else ("saved", "success")
        assert (submission.state, farm.status(claimed)) == ends


class TestJoining:
    def test_lets_in_as_many_as_there_is_room_for(self) -> None:
        made = party(5)
        people = [farm.user(f"late{n}") for n in range(8)]
        outcomes = farm.at_once(
            *(partial(refusal_of, partial(operations.join, made.code, by=person)) for person in people)
        )
        assert Counter(outcomes) == {"done": 3, GameFull.__name__: 5}
        assert Player.objects.count() == 8


class TestPlaying:
    def test_all_at_once_moves_the_game_on_once(self) -> None:
        made = party_at(Stage.PAINTING, 4)
        submissions = [players.picture(person, made.painter) for person in made.people]
        farm.at_once(
            *(
                partial(operations.play, made.code, submission.pk, by=person)
                for person, submission in zip(made.people, submissions, strict=True)
            )
        )
        assert made.stage() is Stage.NAMING
        assert made.game.step == 2
        assert list(Round.objects.values_list("number", flat=True)) == [0, 1, 2, 3]
        assert Title.objects.filter(is_true=True).count() == 1

    def test_one_picture_twice_puts_it_on_the_table_once(self) -> None:
        made = party_at(Stage.PAINTING, 2)
        picture = players.picture(made.people[0], made.painter)
        play = partial(operations.play, made.code, picture.pk, by=made.people[0])
        outcomes = farm.at_once(*[partial(refusal_of, play)] * 6)
        assert sorted(outcomes) == ["AlreadyPlayed"] * 5 + ["done"]
        assert Round.objects.count() == 1


class TestNaming:
    def test_with_the_same_title_is_granted_to_one(self) -> None:
        made = party_at(Stage.NAMING, 4)
        outcomes = farm.at_once(
            *(
                partial(refusal_of, partial(operations.name, made.code, "Monday", number=0, by=person))
                for person in made.guessers()
            )
        )
        assert Counter(outcomes) == {"done": 1, TooAlike.__name__: 2}
        assert made.stage() is Stage.NAMING


class TestGuessing:
    def test_of_all_at_once_counts_every_guess_and_reveals_once(self) -> None:
        made = party_at(Stage.GUESSING, 6)
        truth = made.truth().pk
        farm.at_once(*(partial(operations.guess, made.code, truth, by=person) for person in made.guessers()))
        assert (made.stage(), made.game.step) == (Stage.REVEAL, 4)
        assert Guess.objects.count() == 5

    @pytest.mark.parametrize("_round", range(5))
    def test_last_and_the_deadline_are_one_after_the_other(self, _round: int) -> None:
        made = party_at(Stage.GUESSING, 2)
        [guesser] = made.guessers()
        guess = partial(refusal_of, partial(operations.guess, made.code, made.truth().pk, by=guesser))
        outcome, _, _ = farm.at_once(guess, _deadline(made), _deadline(made))
        assert (made.stage(), made.game.step) == (Stage.REVEAL, 4)  # once, whoever was first
        assert (outcome, Guess.objects.count()) in {("done", 1), (WrongMoment.__name__, 0)}

    def test_while_the_deadline_waits_is_seen_by_it(self) -> None:
        """The deadline's transaction began before the title was committed, and must not decide by what it saw then."""
        made = party_at(Stage.NAMING, 4)
        deadline, namer = _deadline(made), made.guessers()[0]

        def name_slowly() -> None:
            with transaction.atomic():
                operations.name(made.code, "Monday", number=0, by=namer)
                farm.until(_somebody_waits_for_a_lock, what="the deadline")

        def deadline_meanwhile() -> None:
            farm.until(_a_transaction_is_open, what="the title")
            deadline()

        farm.at_once(name_slowly, deadline_meanwhile)
        places = set(Title.objects.filter(round=made.on_the_table()).values_list("place", flat=True))
        assert made.stage() is Stage.GUESSING
        assert places == {0, 1, 2, 3}, "every title that is in has a place among those to choose from"

    def test_after_the_host_pushed_twice_skips_no_picture(self) -> None:
        made = party_at(Stage.REVEAL, 3)
        step = made.game.step
        push = partial(operations.go_on, made.code, step=step, by=made.people[0])
        farm.at_once(push, push, push, _deadline(made))
        assert (made.stage(), made.game.round, made.game.step) == (Stage.NAMING, 1, step + 1)


class TestPlayingAgain:
    def test_is_one_game_whoever_asks(self) -> None:
        made = party(4)
        operations.leave(made.code, by=made.people[0])
        made.game.refresh_from_db()
        found = farm.at_once(*(partial(operations.again, made.code, by=person) for person in made.people))
        assert len({game.pk for game in found}) == 1
        assert Game.objects.count() == 2
