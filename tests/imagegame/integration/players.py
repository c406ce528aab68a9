"""Small words for tests of the image game: people who paint, a painter who does as told, a game up to some stage."""

import io
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.files.base import ContentFile
from django.db.models.functions import Now
from PIL import Image

from examples.imagegame import operations
from examples.imagegame.domain.stages import Stage
from examples.imagegame.models import Game, Round, Submission, Title
from jobs import operations as jobs
from jobs.models import Worker
from tests import farm

PROMPTS = ("a fox who delivers the mail", "a castle of cheese", "rain that falls upwards", "an owl in a phone box",
           "a snail in a hurry", "the moon as a lemon", "seven wet dogs", "a train made of bread")  # fmt: skip
TITLES = ("Monday", "My uncle's holiday", "Nothing to see here", "Portrait of a sandwich", "What the cat dreamt",
          "A very long queue", "Budget cuts at the zoo", "Left behind")  # fmt: skip


def png(colour: str = "teal") -> bytes:
    """A small picture of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG")
    return file.getvalue()


def painter(name: str = "painter", **options: Any) -> Worker:
    """A worker that takes jobs of the kind image."""
    jobs.sync()
    return farm.worker(name, "image", **options)


def paint(by: Worker, claimed: jobs.ClaimedJob, *, name: str = "picture.png", data: bytes | None = None) -> None:
    """Hand in a picture."""
    content = ContentFile(data or png(), name=name)
    jobs.put_file(by, claimed.id, claimed.lease, name=name, content=content)


def finish(by: Worker, claimed: jobs.ClaimedJob, **result: Any) -> Any:
    """Hand in a picture and the success."""
    paint(by, claimed)
    return farm.succeed(by, claimed, {"file": "picture.png", **result})


def picture(of: User, by: Worker, prompt: str = PROMPTS[0]) -> Submission:
    """A finished picture of this person's."""
    submission = operations.start(prompt, by=of)
    finish(by, farm.claim_one(by))
    submission.refresh_from_db()
    return submission


def time_is_up(game: Game) -> None:
    """Let the time of the game's stage pass: its deadline lies behind, and the scheduler's call for it has come."""
    game.refresh_from_db()
    Game.objects.filter(pk=game.pk).update(deadline_at=Now())
    operations.deadline(game_id=game.pk, step=game.step)
    game.refresh_from_db()


@dataclass(slots=True, kw_only=True)
class Party:
    """A game and who plays in it; the first of them is the host."""

    game: Game
    people: list[User]
    painter: Worker

    @property
    def code(self) -> str:
        """The game's code."""
        return self.game.code

    def stage(self) -> Stage:
        """Where the game stands, as stored."""
        self.game.refresh_from_db()
        return Stage(self.game.stage)

    def on_the_table(self) -> Round:
        """The picture on the table."""
        self.game.refresh_from_db()
        return Round.objects.select_related("author").get(game=self.game, number=self.game.round)

    def guessers(self) -> list[User]:
        """Everybody but whose picture it is."""
        author = self.on_the_table().author
        return [person for person in self.people if person != author]

    def truth(self) -> Title:
        """The true title of the picture on the table."""
        return Title.objects.get(round=self.on_the_table(), is_true=True)

    def title_of(self, person: User) -> Title:
        """What this person made up for the picture on the table."""
        return Title.objects.get(round=self.on_the_table(), author=person, is_true=False)

    def begin(self) -> None:
        """To painting."""
        operations.begin(self.code, by=self.people[0])

    def play_all(self) -> None:
        """Everybody plays a picture: to naming."""
        for person, prompt in zip(self.people, PROMPTS, strict=False):
            operations.play(self.code, picture(person, self.painter, prompt).pk, by=person)

    def name_all(self) -> None:
        """Everybody else makes up a title: to guessing."""
        number = self.on_the_table().number
        for person, title in zip(self.guessers(), TITLES, strict=False):
            operations.name(self.code, title, number=number, by=person)

    def guess_all(self) -> None:
        """Everybody else finds the truth: to the reveal."""
        for person in self.guessers():
            operations.guess(self.code, self.truth().pk, by=person)

    def go_on(self) -> None:
        """The host waits for nobody."""
        self.game.refresh_from_db()
        operations.go_on(self.code, step=self.game.step, by=self.people[0])


def party(players: int = 3, *, group: Group | None = None, theme: str = "Animals with odd jobs") -> Party:
    """A game in the lobby with so many players."""
    people = [farm.user(f"player{n}", groups=[group] if group else []) for n in range(players)]
    game = operations.open_game(theme, by=people[0], group=group)
    for person in people[1:]:
        operations.join(game.code, by=person)
    return Party(game=game, people=people, painter=painter())


def party_at(stage: Stage, players: int = 3) -> Party:
    """A game at this stage, its first picture on the table."""
    made = party(players)
    steps = {Stage.PAINTING: made.begin, Stage.NAMING: made.play_all, Stage.GUESSING: made.name_all,
             Stage.REVEAL: made.guess_all}  # fmt: skip
    for reached, step in steps.items():
        if made.stage() == stage:
            break
        step()
        assert made.stage() == reached
    return made
