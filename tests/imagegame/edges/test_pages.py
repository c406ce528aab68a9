"""The pages of the game and their forms: whose they are, what they refuse, and how that is told."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.test import Client
from pytest_django import Settings

from examples.imagegame import live_queries, operations
from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Game, Guess, Round, Submission, Title
from live.registry import Viewer
from tests import farm
from tests.accounts.integration import people
from tests.imagegame.integration import players
from tests.imagegame.integration.players import Party, party, party_at

pytestmark = pytest.mark.django_db

WRONG_MOMENT = "It is too late or too early for that: the game is at another stage."
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _files(settings: Settings, tmp_path: Path) -> None:
    """A place of its own for files."""
    settings.MEDIA_ROOT = tmp_path


def _as(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def _document(client: Client, path: str, **fields: object) -> str:
    """Send a form, go where it leads, and read what the page says first."""
    answer = client.post(path, fields, follow=True)
    assert answer.redirect_chain, answer.status_code
    notices = re.findall(r'<li class="notice[^>]*>(.*?)</li>', answer.content.decode())
    return unescape(notices[0]) if notices else ""


def _shown(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(unescape(answer.content.decode()).split())


class TestVisitors:
    @pytest.mark.parametrize("path", ["", "gallery/", "pictures/1/", "XXXXX/"])
    def test_log_in_first(self, path: str) -> None:
        assert Client().get(f"/game/{path}").headers["Location"] == f"/accounts/login/?next=/game/{path}"

    @pytest.mark.parametrize("path", ["open/", "join/", "paint/", "pictures/1/withdraw/", "XXXXX/guess/"])
    def test_send_nothing(self, path: str) -> None:
        assert Client().post(f"/game/{path}").headers["Location"].startswith("/accounts/login/")

    def test_who_came_as_guests_may_play(self) -> None:
        guest = people.guest()
        assert "Open a game" in _shown(_as(guest).get("/game/"))
        _as(guest).post("/game/open/", {"theme": "Weather"})
        assert Game.objects.get().host == guest

    def test_forms_need_their_token(self) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(farm.user())
        assert client.post("/game/open/", {"theme": "Weather"}).status_code == 403
        assert not Game.objects.exists()


class TestTheLobby:
    def test_shows_the_games_of_everybody_and_of_ones_groups(self) -> None:
        group, other = (Group.objects.create(name=name) for name in ("studio", "others"))
        ada = farm.user("ada", groups=[group])
        bob = farm.user("bob", groups=[other])
        operations.open_game("For all", by=bob, group=None)
        operations.open_game("For the others", by=bob, group=other)
        operations.open_game("For the studio", by=ada, group=group)
        page = _shown(_as(ada).get("/game/"))
        assert ["For all" in page, "For the others" in page, "For the studio" in page] == [True, False, True]

    def test_opens_a_game_for_a_group_one_is_in(self) -> None:
        group, other = (Group.objects.create(name=name) for name in ("studio", "others"))
        client = _as(farm.user("ada", groups=[group]))
        refused = _document(client, "/game/open/", theme="Ours", group=other.pk)
        assert refused == "This game is for the members of its group."
        client.post("/game/open/", {"theme": "Ours", "group": group.pk})
        assert Game.objects.values_list("theme", "group").get() == ("Ours", group.pk)

    def test_takes_a_code_as_people_type_it(self) -> None:
        made, bob = party(1), farm.user("bob")
        answer = _as(bob).post("/game/join/", {"code": f" {made.code.lower()} "})
        assert answer.headers["Location"] == f"/game/{made.code}/"

    def test_says_how_painting_goes(self) -> None:
        ada = farm.user()
        assert "nothing has been painted yet" in _shown(_as(ada).get("/game/"))
        players.picture(ada, players.painter())
        assert "1 of 1 succeeded" in _shown(_as(ada).get("/game/"))

    def test_limits_how_many_games_one_person_opens(self) -> None:
        client = _as(farm.user())
        for _ in range(3):
            assert _document(client, "/game/open/", theme="Again") == ""
        assert "try again in" in _document(client, "/game/open/", theme="Again")
        assert Game.objects.count() == 3


class TestAGamesPage:
    def test_is_a_door_for_who_may_join(self) -> None:
        made, bob = party(2), farm.user("bob")
        page = _shown(_as(bob).get(f"/game/{made.code}/"))
        assert "Join the game" in page
        made.begin()
        page = _shown(_as(bob).get(f"/game/{made.code}/"))
        assert "It has already begun" in page
        assert "data-live" not in page

    def test_is_nobody_elses(self) -> None:
        made = party(1, group=Group.objects.create(name="studio"))
        stranger = _as(farm.user("stranger"))
        assert stranger.get(f"/game/{made.code}/").status_code == 404

    def test_of_a_code_that_opens_none_the_lobby_says_so(self) -> None:
        made = party(1, group=Group.objects.create(name="studio"))
        for code in (made.code, "NOGAM"):
            assert _document(_as(farm.user(code)), "/game/join/", code=code) == "There is no game with this code."

    def test_hides_the_truth_and_who_said_what_until_the_reveal(self) -> None:
        made = party_at(Stage.GUESSING, 3)
        author, (guesser, other) = made.on_the_table().author, made.guessers()
        page = _shown(_as(guesser).get(f"/game/{made.code}/"))
        assert "the truth" not in page
        assert "made up by the game" not in page
        assert f"by {other.username}" not in page
        assert page.count('form="guess"') == 3, "all but one's own title"
        assert "the truth" in _shown(_as(author).get(f"/game/{made.code}/"))
        made.guess_all()
        page = _shown(_as(guesser).get(f"/game/{made.code}/"))
        assert "the truth" in page
        assert f"chosen by {guesser.username}, {other.username}" in page

    def test_shows_no_prompt_before_its_picture_is_revealed(self) -> None:
        made = party_at(Stage.NAMING, 3)
        guesser = made.guessers()[0]
        page = _shown(_as(guesser).get(f"/game/{made.code}/"))
        assert made.truth().text not in page
        assert f"/game/pictures/{made.on_the_table().submission_id}/" in page

    def test_escapes_what_players_write(self) -> None:
        made = party(2, theme=SCRIPT)
        made.begin()
        for person in made.people:
            operations.play(made.code, players.picture(person, made.painter, f"{SCRIPT} {person}").pk, by=person)
        [guesser] = made.guessers()
        operations.name(made.code, f"<img src=x onerror=alert(2)> {guesser}", number=0, by=guesser)
        pages = []
        for _ in range(3):
            pages += [_as(person).get(f"/game/{made.code}/").content.decode() for person in made.people]
            made.go_on()
        pages += [_as(made.people[0]).get(path).content.decode() for path in ("/game/", "/game/gallery/")]
        together = "".join(pages)
        assert SCRIPT not in together
        assert "<img src=x" not in together
        assert "&lt;script&gt;" in together

    def test_works_by_its_forms_alone(self) -> None:
        """What a browser without scripts sends, from one end of a game to the other."""
        ada, bob = farm.user("ada"), farm.user("bob")
        painter = players.painter()
        code = _as(ada).post("/game/open/", {"theme": "Weather"}).headers["Location"].split("/")[2]
        _as(bob).post("/game/join/", {"code": code})
        _as(ada).post(f"/game/{code}/begin/")
        for person, prompt in ((ada, "a warm wind"), (bob, "hail on holiday")):
            _as(person).post("/game/paint/", {"prompt": prompt, "game": code})
            players.finish(painter, farm.claim_one(painter))
            mine = Submission.objects.get(owner=person)
            _as(person).post(f"/game/{code}/play/", {"submission": mine.pk})
        for number, guesser in enumerate((bob, ada)):
            _as(guesser).post(f"/game/{code}/name/", {"title": "Monday", "number": number})
            truth = Title.objects.get(round__number=number, is_true=True)
            _as(guesser).post(f"/game/{code}/guess/", {"title": truth.pk})
            assert Game.objects.get().stage == Stage.REVEAL
            _as(ada).post(f"/game/{code}/on/", {"step": Game.objects.get().step})
        page = _shown(_as(bob).get(f"/game/{code}/"))
        assert "The game is over" in page
        following = _as(bob).post(f"/game/{code}/again/").headers["Location"]
        assert _as(ada).post(f"/game/{code}/again/").headers["Location"] == following


class TestRefusals:
    @pytest.fixture
    def made(self) -> Party:
        """A game in which two of three have to think of a title."""
        return party_at(Stage.NAMING, 3)

    @pytest.mark.parametrize(
        ("act", "fields", "sentence"),
        [
            ("name", {"title": "", "number": "0"}, "A title cannot be empty."),
            ("name", {"title": "x" * 101, "number": "0"}, "A title has at most 100 characters; this one has 101."),
            ("name", {"title": "fine", "number": "7"}, WRONG_MOMENT),
            ("name", {"title": "fine", "number": "x"}, ""),
            ("guess", {"title": "1"}, WRONG_MOMENT),
            ("play", {"submission": "-1"}, WRONG_MOMENT),
            ("on", {"step": "1"}, "Only the host of the game can do that."),
            ("begin", {}, "Only the host of the game can do that."),
            ("leave", {}, WRONG_MOMENT),
            ("again", {}, WRONG_MOMENT),
        ],
    )
    def test_are_told_on_the_games_page(self, made: Party, act: str, fields: dict[str, str], sentence: str) -> None:
        assert _document(_as(made.guessers()[0]), f"/game/{made.code}/{act}/", **fields) == sentence

    def test_of_who_does_not_play_change_nothing(self, made: Party) -> None:
        client = _as(farm.user("stranger"))
        before = list(Game.objects.values())
        for act, fields in (("name", {"title": "mine", "number": 0}), ("guess", {"title": made.truth().pk})):
            assert _document(client, f"/game/{made.code}/{act}/", **fields) == "You are not in this game."
        assert list(Game.objects.values()) == before
        assert not Guess.objects.exists()
        assert Title.objects.count() == 1

    @pytest.mark.parametrize("act", ["guess", "name", "play", "begin", "on", "leave", "again"])
    def test_of_games_there_are_not_are_404(self, act: str) -> None:
        assert _as(farm.user()).post(f"/game/NOGAM/{act}/").status_code == 404

    def test_keep_what_was_written_for_the_easel(self) -> None:
        client = _as(farm.user())
        operations.start("first", by=User.objects.get())
        answer = client.post("/game/paint/", {"prompt": 'a "second" one'}, follow=True)
        assert 'value="a &quot;second&quot; one"' in answer.content.decode()
        assert "One of your pictures is still being painted" in answer.content.decode()

    def test_say_that_too_many_jobs_wait(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 1}
        ada = farm.user()
        farm.kind()
        farm.submit(1, owner=ada)
        answer = _document(_as(ada), "/game/paint/", prompt="a fox")
        assert answer == "Quota of one owner, jobs waiting: 1 allowed, 1 used, 1 more requested."
        assert not Submission.objects.exists()

    @pytest.mark.parametrize("number", ["", "x", "-1", "9" * 30, "\u0661"])
    def test_of_numbers_that_are_none_name_nothing(self, number: str) -> None:
        made = party_at(Stage.PAINTING, 2)
        answer = _document(_as(made.people[0]), f"/game/{made.code}/play/", submission=number)
        assert answer == "Only a finished picture of your own can be played, and only once."
        assert not Round.objects.exists()


class TestTheEasel:
    def test_replaces_a_picture_that_waits_and_takes_one_back(self) -> None:
        ada = farm.user()
        client = _as(ada)
        client.post("/game/paint/", {"prompt": "a fox"})
        page = client.get("/game/gallery/").content.decode()
        [waiting] = re.findall(r'name="instead_of" value="(\d+)"', page)
        client.post("/game/paint/", {"prompt": "a hen", "instead_of": waiting})
        assert dict(Submission.objects.values_list("prompt", "state")) == {"a fox": "canceled", "a hen": "painting"}
        client.post(f"/game/pictures/{Submission.objects.get(prompt='a hen').pk}/withdraw/")
        assert set(Submission.objects.values_list("state", flat=True)) == {"canceled"}
        assert client.post(f"/game/pictures/{waiting}/withdraw/").headers["Location"] == "/game/gallery/"

    def test_goes_back_to_a_game_and_nowhere_else(self) -> None:
        client = _as(farm.user())
        for code, back in (("ABCDE", "/game/ABCDE/"), ("//evil.example", "/game/gallery/"), ("", "/game/gallery/")):
            answer = client.post("/game/paint/", {"prompt": "", "game": code})
            assert answer.headers["Location"] == back

    def test_is_nobody_elses(self) -> None:
        submission = operations.start("a fox", by=farm.user())
        bob = _as(farm.user("bob"))
        assert bob.post(f"/game/pictures/{submission.pk}/withdraw/").status_code == 404
        assert bob.post("/game/paint/", {"prompt": "x", "instead_of": submission.pk}).status_code == 404
        assert "a fox" not in bob.get("/game/gallery/").content.decode()


class TestLiveRights:
    def test_are_for_who_is_meant(self) -> None:
        group = Group.objects.create(name="studio")
        made = party(2, group=group)
        ada, bob = made.people
        stranger, nobody = farm.user("stranger"), AnonymousUser()
        mine = operations.start("a fox", by=ada)

        def sees(person: Any, query: Any, **arguments: int) -> bool:
            return query.audience(Viewer(user=person), query.checked(arguments)) is not None

        table = {"game_id": made.game.pk, "me": ada.pk}
        painted = {"submission_id": mine.pk, "job_id": mine.job_id}
        calls: list[tuple[Any, dict[str, int], list[bool]]] = [
            (live_queries.table, table, [True, False, False, False]),
            (live_queries.table, table | {"me": bob.pk}, [False, True, False, False]),
            (live_queries.table, table | {"me": stranger.pk}, [False, False, False, False]),
            (live_queries.submission, painted, [True, False, False, False]),
            (live_queries.submission, painted | {"job_id": mine.job_id + 1}, [False, False, False, False]),
            (live_queries.submission, painted | {"in_game": 2}, [False, False, False, False]),
            (live_queries.open_games, {"group": 0}, [True, True, True, False]),
            (live_queries.open_games, {"group": group.pk}, [True, True, False, False]),
            (live_queries.my_games, {"me": ada.pk}, [True, False, False, False]),
            (live_queries.gallery, {"me": ada.pk}, [True, False, False, False]),
            (live_queries.painters_health, {}, [True, True, True, False]),
        ]
        for query, arguments, expected in calls:
            seen = [sees(person, query, **arguments) for person in (ada, bob, stranger, nobody)]
            assert seen == expected, f"{query.name} {json.dumps(arguments)}"

    def test_of_what_is_gone_are_nobodys(self) -> None:
        assert live_queries.table.read(game_id=1, me=1) is None
        assert live_queries.submission.read(submission_id=1, job_id=1, in_game=0) is None


class TestTheAdmin:
    def test_shows_games_and_pictures_and_changes_nothing(self) -> None:
        made = party_at(Stage.NAMING, 2)
        staff = farm.user("staff", is_staff=True, is_superuser=True)
        client = _as(staff)
        for model, row in (("game", made.game), ("submission", made.on_the_table().submission)):
            assert client.get(f"/admin/imagegame/{model}/?q=a").status_code == 200
            assert client.get(f"/admin/imagegame/{model}/{row.pk}/change/").status_code == 200
            assert client.get(f"/admin/imagegame/{model}/add/").status_code == 403
