"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class ImageGameError(Refusal):
    """The request cannot be carried out."""


class PromptRefused(ImageGameError):
    """{why}"""

    code = "prompt_refused"
    http_status = 422


class StillPainting(ImageGameError):
    """One of your pictures is still being painted: wait for it, or change it before its painting begins."""

    code = "still_painting"
    http_status = 409


class TooLateToChange(ImageGameError):
    """It is too late to change it: its painting has begun."""

    code = "too_late"
    http_status = 409


class SubmissionUnknown(ImageGameError):
    """You have no such picture."""

    code = "not_found"
    http_status = 404


class NotPlayable(ImageGameError):
    """Only a finished picture of your own can be played, and only once."""

    code = "not_playable"
    http_status = 409


class GameUnknown(ImageGameError):
    """There is no game with this code."""

    code = "not_found"
    http_status = 404


class InvalidTheme(ImageGameError):
    """A theme has 1 to {limit} printable characters."""

    code = "invalid_theme"
    http_status = 422


class NotAMember(ImageGameError):
    """This game is for the members of its group."""

    code = "not_a_member"
    http_status = 403


class GameFull(ImageGameError):
    """This game is full: it already has {limit} players."""

    code = "game_full"
    http_status = 409


class GameBegan(ImageGameError):
    """This game has already begun: join the next one."""

    code = "game_began"
    http_status = 409


class NotAPlayer(ImageGameError):
    """You are not in this game."""

    code = "not_a_player"
    http_status = 403


class NotTheHost(ImageGameError):
    """Only the host of the game can do that."""

    code = "not_the_host"
    http_status = 403


class TooFewPlayers(ImageGameError):
    """It takes {least} people to play."""

    code = "too_few_players"
    http_status = 409


class WrongMoment(ImageGameError):
    """It is too late or too early for that: the game is at another stage."""

    code = "wrong_moment"
    http_status = 409


class NothingPlayed(ImageGameError):
    """Nobody has played a picture yet: without one, the game would be over."""

    code = "nothing_played"
    http_status = 409


class AlreadyPlayed(ImageGameError):
    """You have already played your picture in this game."""

    code = "already_played"
    http_status = 409


class OwnPicture(ImageGameError):
    """This is your own picture: it is for the others to answer."""

    code = "own_picture"
    http_status = 403


class AlreadyNamed(ImageGameError):
    """You have already given this picture a title."""

    code = "already_named"
    http_status = 409


class TooAlike(ImageGameError):
    """That is too much like another title of this picture: think of something else."""

    code = "too_alike"
    http_status = 422


class TitleUnknown(ImageGameError):
    """There is no such title."""

    code = "title_unknown"
    http_status = 404


class OwnTitle(ImageGameError):
    """That is your own title: choose another."""

    code = "own_title"
    http_status = 403
