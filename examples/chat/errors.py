"""Refusals of the app. A class's docstring is its message, `code` is the machine's word for it."""

from typing import Any, ClassVar


class ChatError(Exception):
    """That cannot be done here."""

    code: ClassVar[str] = "refused"

    def __init__(self, **numbers: Any) -> None:
        self.numbers = numbers
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence for people: the class's docstring, with this refusal's numbers filled in."""
        return (type(self).__doc__ or "").strip().format(**self.numbers)


class NoSuchRoom(ChatError):
    """There is no such room, or you are not in its group."""

    code = "not_found"


class NoSuchMessage(ChatError):
    """There is no such message in this room any more."""

    code = "no_such_message"


class InvalidText(ChatError):
    """A message has 1 to {limit} characters that can be stored."""

    code = "invalid_text"


class InstructionsTooLong(ChatError):
    """The instructions have at most {limit} characters that can be stored."""

    code = "instructions_too_long"


class Unanswered(ChatError):
    """Your last question is not answered yet. Wait for it, or cancel it, before you ask again."""

    code = "unanswered"


class NotYours(ChatError):
    """That is for who wrote the message alone."""

    code = "not_yours"


class NotYourInstructions(ChatError):
    """The instructions are for who wrote them, and for who keeps the group."""

    code = "not_your_instructions"


class NothingToAskAgain(ChatError):
    """This question is being answered, or has been."""

    code = "nothing_to_ask_again"


class TooOld(ChatError):
    """The farm has forgotten this question: write it once more."""

    code = "too_old"
