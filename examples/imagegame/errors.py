"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class ImageGameError(Refusal):
    """The request cannot be carried out."""


class PromptRefused(ImageGameError, code="prompt_refused", http_status=422):
    """{why}"""


class StillPainting(ImageGameError, code="still_painting", http_status=409):
    """One of your pictures is still being painted: wait for it, or change it before its painting begins."""


class TooLateToChange(ImageGameError, code="too_late", http_status=409):
    """It is too late to change it: its painting has begun."""


class SubmissionUnknown(ImageGameError, code="not_found", http_status=404):
    """You have no such picture."""


class NotPlayable(ImageGameError, code="not_playable", http_status=409):
    """Only a finished picture of your own can be played, and only once."""


class GameUnknown(ImageGameError, code="not_found", http_status=404):
    """There is no game with this code."""


class InvalidTheme(ImageGameError, code="invalid_theme", http_status=422):
    """A theme has 1 to {limit} printable characters."""


class NotAMember(ImageGameError, code="not_a_member", http_status=403):
    """This game is for the members of its group."""


class GameFull(ImageGameError, code="game_full", http_status=409):
    """This game is full: it already has {limit} players."""


class GameBegan(ImageGameError, code="game_began", http_status=409):
    """This game has already begun: join the next one."""


class NotAPlayer(ImageGameError, code="not_a_player", http_status=403):
    """You are not in this game."""


class NotTheHost(ImageGameError, code="not_the_host", http_status=403):
    """Only the host of the game can do that."""


class TooFewPlayers(ImageGameError, code="too_few_players", http_status=409):
    """It takes {least} people to play."""


class WrongMoment(ImageGameError, code="wrong_moment", http_status=409):
    """It is too late or too early for that: the game is at another stage."""


class NothingPlayed(ImageGameError, code="nothing_played", http_status=409):
    """Nobody has played a picture yet: without one, the game would be over."""


class AlreadyPlayed(ImageGameError, code="already_played", http_status=409):
    """You have already played your picture in this game."""


class OwnPicture(ImageGameError, code="own_picture", http_status=403):
    """This is your own picture: it is for the others to answer."""


class AlreadyNamed(ImageGameError, code="already_named", http_status=409):
    """You have already given this picture a title."""


class TooAlike(ImageGameError, code="too_alike", http_status=422):
    """That is too much like another title of this picture: think of something else."""


class TitleUnknown(ImageGameError, code="title_unknown", http_status=404):
    """There is no such title."""


class OwnTitle(ImageGameError, code="own_title", http_status=403):
    """That is your own title: choose another."""
