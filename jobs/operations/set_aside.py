"""Work done for many rows, of which one may fail again and again: it is put aside with its reason, the rest goes on."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from django.db import DatabaseError, connection, transaction

from jobs.queries import moves
from observing import fields
from postgres import transactions
from scheduling.operations import in_batches, is_away, reason_of

BATCH: Final = 200  # rows in one transaction: worth its commit, and nobody waits long for a lock
FOR_S: Final = 60.0  # then it is tried again
LOCKED_S: Final = 10.0  # the same, of one that needs what somebody has locked
_WAITS: Final = 6  # for locks, until a batch is one job and beyond: each takes as long as the process waits for one
log = logging.getLogger(__name__)

Locked = Sequence[Any]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class SetAside:
    """Jobs for which this process could not do what it had to, and until when they are left alone. The reason is in the
    log, for operators; a job's page says that it is so."""

    _until_s: dict[int, float] = field(default_factory=dict)

    def ids(self) -> list[int]:
        now_s = time.monotonic()
        self._until_s = {job_id: until_s for job_id, until_s in list(self._until_s.items()) if until_s > now_s}
        return list(self._until_s)

    def put(self, row: Any, error: Exception) -> None:
        """Leave this locked job alone for a while."""
        is_passing = transactions.is_passing(error)
        self._until_s[row.id] = time.monotonic() + (LOCKED_S if is_passing else FOR_S)
        if is_passing:
            log.warning("The job %d is put aside for a moment: %s", row.id, reason_of(error))
            return
        with fields.about(job_id=row.id, kind=row.kind):
            log.error("The job %d is put aside: %s", row.id, reason_of(error), exc_info=error)
        with contextlib.suppress(DatabaseError), transaction.atomic():
            moves.note_detail(row.id, "The farm could not end this attempt, and tries again each minute")

    def forget(self) -> None:
        """Leave nothing alone: for tests that begin anew."""
        self._until_s.clear()

    def for_each(
        self,
        lock: Callable[[int, Sequence[int]], Locked],
        act: Callable[[Locked], None],
        *,
        between: Callable[[], None] = lambda: None,
    ) -> int:
        """Lock what is due (so many at most, but for those ids) and act on it, each batch in a transaction, until
        nothing is left; how many that were. A batch that fails is taken in smaller ones, and who fails alone is put
        aside.

        Raises what says nothing about one: that the database is away, or the lock failed; and what somebody else has
        locked that they need, once that was waited for a few times.
        """
        rows: list[Any] = []
        waits = iter(range(_WAITS))

        def is_of_all(error: Exception) -> bool:
            if not rows or is_away(error) or transactions.collided(error):
                return True
            return transactions.is_passing(error) and next(waits, None) is None

        def step(limit: int) -> int:
            rows.clear()
            _batch(lambda: lock(limit, self.ids()), act, rows)
            between()
            return len(rows)

        return in_batches(step, lambda error: self.put(rows[0], error), size=BATCH, is_of_all=is_of_all)


def by_halves(act: Callable[[Sequence[T]], R], those: Sequence[T], *, failed: R) -> Iterator[R]:
    """What acting on these jobs gave, in the caller's transaction. Where it fails they are taken by halves; `failed`,
    and a line in the log, for one that fails alone.

    Raises what says nothing about one: that the database is away, or a collision.
    """
    try:
        with transaction.atomic():
            done = act(those)
            connection.check_constraints()  # of what a COMMIT would refuse it says no more whose fault it is
    except Exception as error:
        if not those or is_away(error) or transactions.is_passing(error):
            raise
        half = len(those) // 2
        if half:
            yield from by_halves(act, those[:half], failed=failed)
            yield from by_halves(act, those[half:], failed=failed)
        else:
            log.exception("The job %s failed, and is left out", getattr(those[0], "job_id", those[0]))
            yield failed
    else:
        yield done


ASIDE: Final = SetAside()


@transactions.retried
def _batch(lock: Callable[[], Locked], act: Callable[[Locked], None], rows: list[Any]) -> None:
    rows[:] = lock()
    act(rows)
