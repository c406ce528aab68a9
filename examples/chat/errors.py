"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class ChatError(Refusal):
    """That cannot be done here."""


class NoSuchRoom(ChatError, code="not_found", http_status=404):
    """There is no such room, or you are not in its group."""


class NoSuchMessage(ChatError, code="no_such_message", http_status=404):
    """This message is no longer in this room."""


class InvalidText(ChatError, code="invalid_text", http_status=422):
    """A message has 1 to {limit} characters that can be stored."""


class InstructionsTooLong(ChatError, code="instructions_too_long", http_status=422):
    """The instructions have at most {limit} characters that can be stored."""


class Unanswered(ChatError, code="unanswered", http_status=409):
    """Your last question has not been answered yet. Wait for the answer or cancel it before you ask again."""


class NotYours(ChatError, code="not_yours", http_status=403):
    """Only the author of the message can do that."""


class NotYourInstructions(ChatError, code="not_your_instructions", http_status=403):
    """Only their author and the owner of the group can change the instructions."""


class NothingToAskAgain(ChatError, code="nothing_to_ask_again", http_status=409):
    """This question is being answered, or has a newer answer."""


class TooOld(ChatError, code="too_old", http_status=410):
    """This question is no longer stored: ask it again."""
