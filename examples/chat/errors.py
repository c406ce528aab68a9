"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class ChatError(Refusal):
    """That cannot be done here."""


class NoSuchRoom(ChatError):
    """There is no such room, or you are not in its group."""

    code = "not_found"
    http_status = 404


class NoSuchMessage(ChatError):
    """This message is no longer in this room."""

    code = "no_such_message"
    http_status = 404


class InvalidText(ChatError):
    """A message has 1 to {limit} characters that can be stored."""

    code = "invalid_text"
    http_status = 422


class InstructionsTooLong(ChatError):
    """The instructions have at most {limit} characters that can be stored."""

    code = "instructions_too_long"
    http_status = 422


class Unanswered(ChatError):
    """Your last question has not been answered yet. Wait for the answer or cancel it before you ask again."""

    code = "unanswered"
    http_status = 409


class NotYours(ChatError):
    """Only the author of the message can do that."""

    code = "not_yours"
    http_status = 403


class NotYourInstructions(ChatError):
    """Only their author and the owner of the group can change the instructions."""

    code = "not_your_instructions"
    http_status = 403


class NothingToAskAgain(ChatError):
    """This question is being answered, or has a newer answer."""

    code = "nothing_to_ask_again"
    http_status = 409


class TooOld(ChatError):
    """This question is no longer stored: ask it again."""

    code = "too_old"
    http_status = 410
