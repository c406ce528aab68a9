"""Work for many in one loop: what fails is put aside with its reason, and the others are done all the same."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count

from django.db import connection, transaction

from core.refusal import Refusal
from postgres import transactions
from scheduling.errors import SomeFailed
from scheduling.operations import endings

log = logging.getLogger(__name__)
_LONGEST_REASON = 300  # characters
_SMALLER = 8  # times, after a batch that failed: one of 500 is found in four


class Failures:
    """What failed of it: the reason by name, in the order in which it failed."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    @contextmanager
    def aside(self, name: str) -> Iterator[None]:
        """Put aside what the block raises, with a line in the log; in a transaction, what the block wrote goes.

        Raised is what says nothing about this one: the database is away or short of something, or the transaction
        collided and is to be run again.
        """
        is_inside = connection.in_atomic_block
        try:
            with transaction.atomic() if is_inside else nullcontext():
                yield
        except Exception as error:
            if endings.is_away(error) or (is_inside and transactions.collided(error)):
                raise
            self._note(name, error)

    def in_batches(self, step: Callable[[int, int], int], *, name: str, size: int, most: int) -> int:
        """`in_batches` of a `step(limit, skip)`, the oldest first, which skips so many that have failed alone."""
        skip = 0

        def put_aside(error: Exception) -> None:
            nonlocal skip
            skip += 1
            self._note(f"{name}, {skip}", error)

        return in_batches(lambda limit: step(limit, skip), put_aside, size=size, most=most)

    def _note(self, name: str, error: Exception) -> None:
        log.error("%s failed, and was put aside", name, exc_info=error)
        self.reasons[name] = reason_of(error)

    def raise_any(self) -> None:
        """Raise SomeFailed if anything did: whoever ran it has failed then, where people look for that."""
        if self.reasons:
            listed = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
            raise SomeFailed(reasons=listed)


def in_batches(
    step: Callable[[int], int], put_aside: Callable[[Exception], None], *, size: int, most: int | None = None,
    is_of_all: Callable[[Exception], bool] = endings.is_away,
) -> int:  # fmt: skip
    """Let `step(limit)` take what is due, `size` at once, until less is left, or `most` times; how many it took.

    A batch that fails is taken in smaller ones. `put_aside` is called for what fails alone, and makes later steps pass
    that over. What `is_of_all` is raised: it says nothing about one.
    """
    done, limit = 0, size
    for _ in count() if most is None else range(most):
        try:
            taken = step(limit)
        except Exception as error:
            if is_of_all(error):
                raise
            if limit == 1:
                put_aside(error)
            limit = max(1, limit // _SMALLER)
            continue
        done += taken
        if taken < limit:
            break
        limit = min(size, limit * _SMALLER)
    return done


def reason_of(error: Exception) -> str:
    """Why something failed, as one short line that PostgreSQL stores; a refusal is a sentence without its class."""
    line = " ".join((endings.failed(error).error or "").split())
    sentence = line.removeprefix(f"{type(error).__name__}: ") if isinstance(error, Refusal) else line
    return sentence[:_LONGEST_REASON]
