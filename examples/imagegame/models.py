"""The tables of the game. What must hold of a row is a constraint whose name is the sentence."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from examples.imagegame.domain import prompts, stages
from examples.imagegame.domain.painting import State
from examples.imagegame.domain.stages import Stage

CODE_LENGTH = 5
THEME_LIMIT = 60
# Plain texts: what a migration says must stay when a name in the domain changes.
_PAINTING, _SAVED, _FAILED = State.PAINTING.value, State.SAVED.value, State.FAILED.value
_IS_OVER = Q(stage__in=sorted(stage.value for stage in stages.ENDED))


class Submission(models.Model):
    """A prompt that a job paints, and what became of it. Its state moves with the job's, in one transaction."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    prompt = models.CharField(max_length=prompts.LONGEST)
    job_id = models.BigIntegerField(unique=True, help_text="The job that paints it.")
    state = models.CharField(
        max_length=8, choices=[(state.value, state.value) for state in State], default=State.PAINTING.value
    )
    reason = models.CharField(max_length=300, blank=True, help_text="The reason why there is no picture.")
    file = models.CharField(max_length=100, blank=True, help_text="The picture, among the files of the job.")
    attempt = models.BigIntegerField(null=True, blank=True, help_text="The attempt of the job that stored it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="submission_has_an_end_exactly_when_it_is_not_painted_any_more",
                condition=Q(state=_PAINTING, ended_at__isnull=True)
                | Q(state__in=[_SAVED, _FAILED, State.CANCELED.value], ended_at__isnull=False),
            ),
            models.CheckConstraint(
                name="submission_has_a_file_exactly_when_it_is_saved",
                condition=Q(state=_SAVED, attempt__isnull=False) & ~Q(file="")
                | ~Q(state=_SAVED) & Q(file="", attempt__isnull=True),
            ),
            models.UniqueConstraint(
                name="one_picture_in_the_making_for_each_person", fields=["owner"], condition=Q(state=_PAINTING)
            ),
        ]
        indexes = [
            models.Index("owner", F("id").desc(), name="imagegame_pictures_of_owner"),
            models.Index(
                F("ended_at").desc(), name="imagegame_ended_pictures", condition=Q(state__in=[_SAVED, _FAILED])
            ),
        ]

    def __str__(self) -> str:
        return self.prompt


class Game(models.Model):
    """A game. `step` counts its changes of stage: what was meant for an earlier one does nothing.

    Whoever changes anything of a game locks this row first and raises `version`; see operations.progress.
    """

    code = models.CharField(max_length=CODE_LENGTH, unique=True, editable=False)
    host = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    group = models.ForeignKey(
        Group, models.CASCADE, null=True, blank=True, related_name="+", help_text="Empty: everybody can join."
    )
    theme = models.CharField(max_length=THEME_LIMIT)
    stage_began_at = models.DateTimeField(null=True, blank=True, editable=False)
    stage = models.CharField(
        max_length=9, choices=[(stage.value, stage.value) for stage in Stage], default=Stage.LOBBY.value
    )
    step = models.PositiveIntegerField(default=0)
    round = models.PositiveSmallIntegerField(default=0, help_text="The number of the picture on the table, from 0.")
    version = models.PositiveIntegerField(default=0, editable=False)
    deadline_at = models.DateTimeField(null=True, blank=True, help_text="When its stage ends automatically.")
    next_game = models.OneToOneField("self", models.SET_NULL, null=True, blank=True, related_name="previous_game")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="game_stage_is_known", condition=Q(stage__in=sorted(stage.value for stage in Stage))
            ),
            models.CheckConstraint(
                name="game_has_a_deadline_until_it_has_an_end",
                condition=_IS_OVER & Q(ended_at__isnull=False, deadline_at__isnull=True)
                | ~_IS_OVER & Q(ended_at__isnull=True, deadline_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index("group", F("id").desc(), name="imagegame_live_games", condition=~_IS_OVER),
            models.Index("ended_at", name="imagegame_ended_games", condition=Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.code}: {self.theme}"


class Player(models.Model):
    """Who plays in a game."""

    game = models.ForeignKey(Game, models.CASCADE, related_name="players")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    joined_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["game", "user"], name="a_person_plays_once_in_a_game")]

    def __str__(self) -> str:
        return f"{self.user} in {self.game_id}"


class Round(models.Model):
    """A picture that a player put on the table. Rounds are numbered from 0 in the order of playing."""

    game = models.ForeignKey(Game, models.CASCADE, related_name="rounds")
    number = models.PositiveSmallIntegerField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    submission = models.OneToOneField(Submission, models.CASCADE, related_name="round")

    class Meta:
        ordering = ["game", "number"]
        constraints = [
            models.UniqueConstraint(fields=["game", "number"], name="rounds_are_numbered"),
            models.UniqueConstraint(fields=["game", "author"], name="a_player_plays_one_picture_in_a_game"),
        ]

    def __str__(self) -> str:
        return f"picture {self.number} of {self.game_id}"


class Title(models.Model):
    """What a picture may be called: its prompt, what players think of, what the game makes up (no author)."""

    round = models.ForeignKey(Round, models.CASCADE, related_name="titles")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    text = models.CharField(max_length=prompts.LONGEST)
    is_true = models.BooleanField(default=False)
    place = models.PositiveSmallIntegerField(null=True, help_text="Its place among the choices, at random.")

    class Meta:
        ordering = ["round", "place", "id"]
        constraints = [
            models.UniqueConstraint(fields=["round", "author"], name="a_player_names_a_picture_once"),
            models.UniqueConstraint(fields=["round"], condition=Q(is_true=True), name="a_picture_has_one_true_title"),
        ]

    def __str__(self) -> str:
        return self.text


class Guess(models.Model):
    """The title that a player took for the true one; another choice takes its place until the reveal."""

    round = models.ForeignKey(Round, models.CASCADE, related_name="guesses")
    player = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    title = models.ForeignKey(Title, models.CASCADE, related_name="guesses")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["round", "player"], name="a_player_guesses_once_for_a_picture")]

    def __str__(self) -> str:
        return f"{self.player_id} chose {self.title_id}"
