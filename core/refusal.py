"""What is refused, and how every app says it: a code for programs, a sentence for people, an HTTP status. And what a
cancel comes to.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")

log = logging.getLogger(__name__)
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="jobfarm"'}


class Refusal(Exception):
    """The request cannot be carried out."""

    # A subclass states its facts where it is defined: `class Gone(Refusal, code="gone", http_status=410)`. Its
    # docstring is the sentence for people, with the numbers in braces. 500 is a fault of ours: callers are told
    # nothing of it, and it is logged as any other error.
    code: ClassVar[str] = "refused"
    http_status: ClassVar[int] = 500
    retry_after_s: int | None = None  # whole seconds; None where coming again is of no use

    def __init_subclass__(cls, *, code: str | None = None, http_status: int | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if http_status is not None:
            cls.http_status = http_status

    def __init__(self, sentence: str = "", /, **numbers: Any) -> None:
        """`numbers` are part of the answer and attributes; `sentence` stands in place of the class's own."""
        self.numbers = numbers
        self._sentence = sentence
        self.retry_after_s = numbers.get("retry_after", self.retry_after_s)
        super().__init__(self.message)

    def of_entry(self, name: str, index: int) -> None:
        """Say of which entry of several this is (`name` is what they are called)."""
        self._sentence = f"{name}[{index}]: {self.message}"
        self.numbers = {**self.numbers, "index": index}

    @property
    def message(self) -> str:
        """The sentence for people, with this refusal's numbers filled in."""
        return self._sentence or sentence_of(type(self)).format(**self.numbers)

    @property
    def body(self) -> Mapping[str, Any]:
        return {**self.numbers, "error": self.code, "message": self.message}

    @property
    def headers(self) -> Mapping[str, str]:
        if self.retry_after_s is not None:
            return {"Retry-After": str(self.retry_after_s), "Cache-Control": "no-store"}
        return CHALLENGE if self.http_status == 401 else {}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["numbers"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:  # as it is, whatever its class's __init__ takes
        return _restored, (type(self), self.args, self.__dict__)


def sentence_of(kind: type[Refusal]) -> str:
    """The sentence of a class of refusals, in one line, its numbers still in braces."""
    return " ".join((kind.__doc__ or "").split())


def sentence_for_people(refusal: Refusal) -> str:
    """Its sentence, for who shows it in place of raising it: a fault of ours has its line in the log all the same."""
    if refusal.http_status == 500:
        log.error("What a person did was refused", exc_info=refusal)
    return refusal.message


def existing(row: T | None, otherwise: Exception) -> T:
    """The row, if there is one. Raises `otherwise` if there is none."""
    if row is None:
        raise otherwise
    return row


def value_or_refusal(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | Refusal:
    """What `function` returns, or the Refusal that it raises: of several that are asked together, each has its own."""
    try:
        return function(*args, **kwargs)
    except Refusal as refusal:
        return refusal


def raised(answer: T | Refusal) -> T:
    """The answer, if it is none. Raises the refusal that it is."""
    if isinstance(answer, Refusal):
        raise answer
    return answer


def in_place(checked: Sequence[T | Refusal], answers: Iterable[U]) -> list[U | Refusal]:
    """These answers in the places of those that were not refused, in order; the refusals stay where they are."""
    following = iter(answers)
    return [one if isinstance(one, Refusal) else next(following) for one in checked]


def _restored(kind: type[Refusal], args: tuple[Any, ...], facts: Mapping[str, Any]) -> Refusal:
    refusal = kind.__new__(kind, *args)
    refusal.__dict__.update(facts)
    return refusal


class CancelVerdict(StrEnum):
    """What a cancel came to."""

    BEFORE_START = "canceled_before_start"
    BEFORE_RETRY = "canceled_before_retry"
    WHILE_SUSPENDED = "canceled_while_suspended"
    WHILE_RUNNING = "canceled_while_running"
    TOO_LATE = "too_late"
