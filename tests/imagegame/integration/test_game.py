"""A game from the lobby to the end: what players do moves it on, and so does the time."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import Settings

from examples.imagegame import operations
from examples.imagegame.domain import stages
from examples.imagegame.domain.stages import Stage
from examples.imagegame.errors import (
    AlreadyNamed,
    AlreadyPlayed,
    GameBegan,
    GameFull,
    GameUnknown,
    ImageGameError,
    NotAMember,
    NotAPlayer,
    NothingPlayed,
    NotPlayable,
    NotTheHost,
    OwnPicture,
    OwnTitle,
    TitleUnknown,
    TooAlike,
    TooFewPlayers,
    WrongMoment,
)
from examples.imagegame.models import Game, Guess, Player, Round, Submission, Title
from examples.imagegame.queries import tables
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import farm
from tests.imagegame.integration import players
from tests.imagegame.integration.players import party, party_at

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _files(settings: Settings, tmp_path: Path) -> None:
    """A place of its own for files; deadlines are called by the tests, so no other moves a game on."""
    settings.MEDIA_ROOT = tmp_path


class TestAGame:
    def test_goes_through_a_picture_of_everybody_to_its_end(self) -> None:
        made = party(3)
        made.begin()
        made.play_all()
        seen = []
        for _ in range(3):
            seen.append((made.stage(), made.game.round, made.on_the_table().author))
            made.name_all()
            made.guess_all()
            assert made.stage() is Stage.REVEAL
            made.go_on()
        assert seen == [(Stage.NAMING, number, made.people[number]) for number in range(3)]
        assert made.stage() is Stage.OVER
        assert made.game.deadline_at is None
        board = tables.table(made.game.pk, me=made.people[0].pk)
        assert board is not None
        # For each: two knew their picture (2 x 1000), and they knew two themselves (2 x 200).
        assert [(seat.score.rank, seat.score.points) for seat in board.seats] == [(1, 2400)] * 3

    def test_gives_points_to_who_misled_and_to_who_knew(self) -> None:
        made = party_at(Stage.GUESSING, 3)
        author = made.on_the_table().author
        fooled, fooler = made.guessers()
        operations.guess(made.code, made.title_of(fooler).pk, by=fooled)
        operations.guess(made.code, made.truth().pk, by=fooler)
        board = tables.table(made.game.pk, me=author.pk)
        assert board is not None
        points = {seat.user: seat.score.points for seat in board.seats}
        assert points == {author: 1000, fooler: 500 + 200, fooled: 0}

    def test_offers_four_titles_at_least(self) -> None:
        made = party_at(Stage.GUESSING, 2)
        titles = Title.objects.filter(round=made.on_the_table())
        assert titles.count() == 4
        assert set(titles.values_list("place", flat=True)) == {0, 1, 2, 3}
        assert titles.filter(author__isnull=True).count() == 2

    def test_is_played_on_without_who_is_away(self) -> None:
        made = party_at(Stage.PAINTING, 3)
        first = players.picture(made.people[1], made.painter)
        operations.play(made.code, first.pk, by=made.people[1])
        players.time_is_up(made.game)
        assert made.stage() is Stage.NAMING
        players.time_is_up(made.game)
        assert made.stage() is Stage.GUESSING
        operations.guess(made.code, made.truth().pk, by=made.people[0])
        players.time_is_up(made.game)
        assert made.stage() is Stage.REVEAL
        players.time_is_up(made.game)
        assert made.stage() is Stage.OVER

    def test_ends_when_nobody_paints(self) -> None:
        made = party_at(Stage.PAINTING)
        players.time_is_up(made.game)
        assert made.stage() is Stage.ABANDONED

    def test_goes_on_when_an_account_is_deleted(self) -> None:
        made = party_at(Stage.GUESSING, 3)
        made.on_the_table().author.delete()
        players.time_is_up(made.game)
        players.time_is_up(made.game)
        assert (made.stage(), made.game.round) == (Stage.NAMING, 1)

    def test_is_followed_by_one_game_whoever_asks(self) -> None:
        made = party_at(Stage.PAINTING, 2)
        players.time_is_up(made.game)
        following = operations.again(made.code, by=made.people[1])
        assert operations.again(made.code, by=made.people[0]) == following
        assert (following.host, following.theme, following.stage) == (made.people[1], made.game.theme, "lobby")

    def test_of_a_group_is_followed_by_members_of_it_alone(self) -> None:
        group = Group.objects.create(name="studio")
        made = party(2, group=group)
        operations.leave(made.code, by=made.people[0])
        made.people[1].groups.remove(group)
        with pytest.raises(NotAMember):
            operations.again(made.code, by=made.people[1])
        assert Game.objects.count() == 1


class TestSlowPainters:
    def test_are_waited_for_when_the_time_to_paint_is_up(self) -> None:
        made = party_at(Stage.PAINTING, 2)
        ada, bob = made.people
        operations.play(made.code, players.picture(ada, made.painter).pk, by=ada)
        operations.start("a hen", by=bob)
        Submission.objects.update(created_at=farm.now() - timedelta(seconds=60))
        Game.objects.update(stage_began_at=farm.now() - timedelta(seconds=180))
        players.time_is_up(made.game)
        assert (made.stage(), made.game.step) == (Stage.PAINTING, 1)
        board = tables.table(made.game.pk, me=ada.pk)
        assert board is not None
        assert (board.is_overtime, board.waiting_for) == (True, ("player1",))
        page = _page(made.code, of=ada)
        assert "The time is up." in page
        assert "countdown" not in page, "it would count the seconds until the next look"
        ends = made.game.deadline_at
        assert ends is not None
        assert ScheduledFunction.objects.filter(args__step=1, run_at=ends).exists()
        operations.deadline(game_id=made.game.pk, step=1)  # the call for the moment that was put off
        assert made.stage() is Stage.PAINTING
        players.finish(made.painter, farm.claim_one(made.painter))
        players.time_is_up(made.game)
        assert made.stage() is Stage.NAMING
        assert Round.objects.filter(author=bob).exists(), "a finished picture is played when the time is up"

    def test_are_not_waited_for_with_what_is_submitted_later(self) -> None:
        made = party_at(Stage.PAINTING, 2)
        ada, bob = made.people
        operations.play(made.code, players.picture(ada, made.painter).pk, by=ada)
        operations.start("a hen", by=bob)
        Game.objects.update(stage_began_at=farm.now() - timedelta(seconds=181))
        players.time_is_up(made.game)
        assert made.stage() is Stage.NAMING

    def test_that_fail_hold_nobody_up(self) -> None:
        made = party_at(Stage.PAINTING, 2)
        ada, bob = made.people
        operations.play(made.code, players.picture(ada, made.painter).pk, by=ada)
        operations.start("a hen", by=bob)
        farm.fail(made.painter, farm.claim_one(made.painter), retryable=False)
        players.time_is_up(made.game)
        assert made.stage() is Stage.NAMING

    def test_leave_a_picture_painted_before_the_game_where_it_is(self) -> None:
        made = party(2)
        ada, bob = made.people
        players.picture(bob, made.painter)
        made.begin()
        Game.objects.update(stage_began_at=farm.now())
        operations.play(made.code, players.picture(ada, made.painter).pk, by=ada)
        players.time_is_up(made.game)
        assert made.stage() is Stage.NAMING
        assert not Round.objects.filter(author=bob).exists()


class TestDeadlines:
    def test_are_scheduled_for_each_stage_and_do_nothing_when_they_are_stale(self) -> None:
        made = party_at(Stage.REVEAL, 2)
        calls = ScheduledFunction.objects.order_by("pk")
        assert [call.args["step"] for call in calls] == [0, 1, 2, 3, 4]
        waits = [call.run_at - call.created_at for call in calls]
        planned = [3600, 180, 60, 45, 30]
        for wait, seconds in zip(waits, planned, strict=True):
            assert abs(wait - timedelta(seconds=seconds)) < timedelta(seconds=1)
        before = Game.objects.values().get()
        for step in range(4):
            operations.deadline(game_id=made.game.pk, step=step)
        assert Game.objects.values().get() == before

    def test_are_kept_by_whoever_comes_when_the_scheduler_is_late(self) -> None:
        made = party_at(Stage.NAMING, 2)
        [guesser] = made.guessers()
        Game.objects.update(deadline_at=farm.now() - timedelta(seconds=1))
        with pytest.raises(WrongMoment):
            operations.name(made.code, "Too late", number=0, by=guesser)
        assert made.stage() is Stage.GUESSING
        assert not Title.objects.filter(text="Too late").exists()

    @pytest.mark.django_db(transaction=True)
    def test_are_met_by_the_scheduler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(stages.LASTS_S, Stage.PAINTING, 0.0)
        made = party_at(Stage.PAINTING, 2)
        scheduling.run_due()
        assert made.stage() is Stage.ABANDONED
        call = ScheduledFunction.objects.get(args__step=1)
        assert (call.function, call.status) == ("examples.imagegame.operations.progress.deadline", "success")

    def test_of_a_game_that_is_gone_do_nothing(self) -> None:
        operations.deadline(game_id=1, step=0)
        assert not Game.objects.exists()


class TestJoining:
    def test_is_for_the_members_of_the_games_group(self) -> None:
        group = Group.objects.create(name="studio")
        made = party(2, group=group)
        stranger = farm.user("stranger")
        with pytest.raises(GameUnknown):
            operations.join(made.code, by=stranger)
        with pytest.raises(GameUnknown):
            operations.find(made.code, by=stranger)
        with pytest.raises(NotAMember):
            operations.open_game("Mine", by=stranger, group=group)
        assert Player.objects.filter(game=made.game).count() == 2

    def test_twice_is_no_error(self) -> None:
        made = party(2)
        assert operations.join(made.code, by=made.people[1]) == made.game
        assert Player.objects.filter(game=made.game).count() == 2

    def test_ends_with_eight(self) -> None:
        made = party(8)
        with pytest.raises(GameFull):
            operations.join(made.code, by=farm.user("ninth"))

    def test_ends_with_the_beginning(self) -> None:
        made = party_at(Stage.PAINTING)
        with pytest.raises(GameBegan):
            operations.join(made.code, by=farm.user("late"))

    def test_makes_room_when_somebody_leaves(self) -> None:
        made = party(3)
        operations.leave(made.code, by=made.people[2])
        with pytest.raises(NotAPlayer):
            operations.leave(made.code, by=made.people[2])
        assert list(Player.objects.values_list("user", flat=True)) == [p.pk for p in made.people[:2]]

    def test_is_over_when_the_host_leaves(self) -> None:
        made = party(2)
        operations.leave(made.code, by=made.people[0])
        assert made.stage() is Stage.ABANDONED

    def test_nobody_leaves_a_game_that_has_begun(self) -> None:
        made = party_at(Stage.PAINTING)
        with pytest.raises(WrongMoment):
            operations.leave(made.code, by=made.people[1])


class TestRefusals:
    def test_of_beginning(self) -> None:
        made = party(1)
        with pytest.raises(TooFewPlayers):
            made.begin()
        other = farm.user("other")
        operations.join(made.code, by=other)
        with pytest.raises(NotTheHost):
            operations.begin(made.code, by=other)
        made.begin()
        with pytest.raises(WrongMoment):
            made.begin()

    def test_of_playing_what_is_not_finished_ones_own_or_new(self) -> None:
        made = party_at(Stage.PAINTING, 3)
        ada, bob, _ = made.people
        hers = players.picture(ada, made.painter)
        waiting = operations.start("a whale", by=bob)
        for submission in (hers.pk, waiting.pk, 0, 2**62):
            with pytest.raises(NotPlayable):
                operations.play(made.code, submission, by=bob)
        operations.play(made.code, hers.pk, by=ada)
        with pytest.raises(AlreadyPlayed):
            operations.play(made.code, players.picture(ada, made.painter).pk, by=ada)
        assert Round.objects.count() == 1

    def test_of_playing_a_picture_in_two_games(self) -> None:
        made = party_at(Stage.NAMING, 2)
        again = operations.open_game("Again", by=made.people[0], group=None)
        operations.join(again.code, by=made.people[1])
        operations.begin(again.code, by=made.people[0])
        with pytest.raises(NotPlayable):
            operations.play(again.code, made.on_the_table().submission_id, by=made.on_the_table().author)

    def test_of_naming(self) -> None:
        made = party_at(Stage.NAMING, 3)
        first, second = made.guessers()
        with pytest.raises(OwnPicture):
            operations.name(made.code, "Mine", number=0, by=made.on_the_table().author)
        with pytest.raises(TooAlike):
            operations.name(made.code, f"{made.truth().text.upper()}!", number=0, by=first)
        with pytest.raises(WrongMoment):
            operations.name(made.code, "Of another picture", number=1, by=first)
        operations.name(made.code, "Monday", number=0, by=first)
        with pytest.raises(AlreadyNamed):
            operations.name(made.code, "Tuesday", number=0, by=first)
        with pytest.raises(TooAlike):
            operations.name(made.code, "monday.", number=0, by=second)
        with pytest.raises(NotAPlayer):
            operations.name(made.code, "Hello", number=0, by=farm.user("stranger"))
        assert list(Title.objects.filter(is_true=False).values_list("text", flat=True)) == ["Monday"]

    def test_of_guessing(self) -> None:
        made = party_at(Stage.GUESSING, 3)
        author, (guesser, _) = made.on_the_table().author, made.guessers()
        with pytest.raises(OwnPicture):
            operations.guess(made.code, made.title_of(guesser).pk, by=author)
        with pytest.raises(OwnTitle):
            operations.guess(made.code, made.title_of(guesser).pk, by=guesser)
        with pytest.raises(TitleUnknown):
            operations.guess(made.code, 0, by=guesser)
        assert not Guess.objects.exists()

    def test_of_another_guess_there_is_none_until_the_reveal(self) -> None:
        made = party_at(Stage.GUESSING, 3)
        one, other = made.guessers()
        operations.guess(made.code, made.title_of(other).pk, by=one)
        operations.guess(made.code, made.truth().pk, by=one)
        assert [guess.title for guess in Guess.objects.all()] == [made.truth()]
        operations.guess(made.code, made.truth().pk, by=other)
        with pytest.raises(WrongMoment):
            operations.guess(made.code, made.title_of(other).pk, by=one)

    def test_of_pushing_before_there_is_a_picture(self) -> None:
        made = party_at(Stage.PAINTING, 2)
        with pytest.raises(NothingPlayed):
            made.go_on()
        operations.play(made.code, players.picture(made.people[1], made.painter).pk, by=made.people[1])
        made.go_on()
        assert made.stage() is Stage.NAMING

    def test_of_pushing_by_others_and_of_a_push_that_came_too_late(self) -> None:
        made = party_at(Stage.NAMING, 3)
        with pytest.raises(NotTheHost):
            operations.go_on(made.code, step=made.game.step, by=made.people[1])
        operations.go_on(made.code, step=made.game.step - 1, by=made.people[0])
        assert made.stage() is Stage.NAMING

    @pytest.mark.parametrize("stage", [Stage.LOBBY, Stage.NAMING, Stage.GUESSING, Stage.REVEAL])
    def test_of_playing_at_another_stage(self, stage: Stage) -> None:
        made = party_at(stage, 2)
        with pytest.raises(WrongMoment):
            operations.play(made.code, 1, by=made.people[0])

    @pytest.mark.parametrize("code", ["XXXXX", "", "a\x00b", "ÄÖÜ", "X" * 1000])
    def test_of_games_there_are_not(self, code: str) -> None:
        person = farm.user()
        for refused in (
            lambda: operations.join(code, by=person),
            lambda: operations.play(code, 1, by=person),
            lambda: operations.again(code, by=person),
        ):
            with pytest.raises(GameUnknown):
                refused()

    @pytest.mark.parametrize("theme", ["", "   ", "x" * 61, "a\x00b", "bell\x07"])
    def test_of_a_theme_that_is_none(self, theme: str) -> None:
        with pytest.raises(ImageGameError, match="A theme has 1 to 60"):
            operations.open_game(theme, by=farm.user(), group=None)


def _page(code: str, *, of: User) -> str:
    browser = Client()
    browser.force_login(of)
    return browser.get(f"/game/{code}/").content.decode()
