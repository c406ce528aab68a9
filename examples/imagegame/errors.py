"""Refusals of the app. A class's docstring is its message, `code` is the machine's word for it."""

from typing import Any, ClassVar


class ImageGameError(Exception):
    """The request cannot be carried out."""

    code: ClassVar[str] = "refused"

    def __init__(self, **numbers: Any) -> None:
        self.numbers = numbers
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence for people: the class's docstring, with this refusal's numbers filled in."""
        return (type(self).__doc__ or "").strip().format(**self.numbers)


class PromptRefused(ImageGameError):
    """{why}"""

    code = "prompt_refused"


class StillPainting(ImageGameError):
    """You have a picture in the making: wait for it, or change it before its painting begins."""

    code = "still_painting"


class TooLateToChange(ImageGameError):
    """Too late to change it: its painting has begun."""

    code = "too_late"


class SubmissionUnknown(ImageGameError):
    """There is no such picture of yours."""

    code = "not_found"


class NotPlayable(ImageGameError):
    """Only a finished picture of your own can be played, and only once."""

    code = "not_playable"


class GameUnknown(ImageGameError):
    """There is no game with this code."""

    code = "not_found"


class InvalidTheme(ImageGameError):
    """A theme has 1 to {limit} printable characters."""

    code = "invalid_theme"


class NotAMember(ImageGameError):
    """This game is for the members of its group."""

    code = "not_a_member"


class GameFull(ImageGameError):
    """This game is full: {limit} people play already."""

    code = "game_full"


class GameBegan(ImageGameError):
    """This game has begun already: join the next one."""

    code = "game_began"


class NotAPlayer(ImageGameError):
    """You do not play in this game."""

    code = "not_a_player"


class NotTheHost(ImageGameError):
    """Only who opened the game can do that."""

    code = "not_the_host"


class TooFewPlayers(ImageGameError):
    """It takes {least} people to play."""

    code = "too_few_players"


class WrongMoment(ImageGameError):
    """The game has moved on: it is too late for that, or too early."""

    code = "wrong_moment"


class NothingPlayed(ImageGameError):
    """Nobody has played a picture yet: without one the game would be over."""

    code = "nothing_played"


class AlreadyPlayed(ImageGameError):
    """You have played your picture in this game."""

    code = "already_played"


class OwnPicture(ImageGameError):
    """It is your own picture: the others are asked."""

    code = "own_picture"


class AlreadyNamed(ImageGameError):
    """You have given this picture its title."""

    code = "already_named"


class TooAlike(ImageGameError):
    """That is too much like another title of this picture: think of something else."""

    code = "too_alike"


class TitleUnknown(ImageGameError):
    """There is no such title to choose."""

    code = "title_unknown"


class OwnTitle(ImageGameError):
    """That is your own title: choose another."""

    code = "own_title"
