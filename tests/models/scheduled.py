"""The model of a scheduled function, and what is looked up about all of them."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db import connection

from scheduling.domain.calls import Kind, Status
from scheduling.queries.functions import Holder
from tests.models import sample
from tests.scheduling.moves import moves

ATTEMPTS = sample.LATER.max_attempts


@dataclass
class Model:
    """What a scheduled function should be."""

    function: Any
    kind: Kind
    number: int
    status: Status = Status.PENDING
    attempt: int = 1
    parent: int | None = None
    retry_of: int | None = None
    waits: bool = False  # it is due later
    deaths: int = 0
    by: Holder | None = None  # who runs it

    def move(self, status: Status) -> None:
        """One line of the documented table of moves."""
        assert (self.status, status) in moves(self.kind)
        self.status = status
        if status is not Status.IN_PROGRESS:
            self.by = None

    @property
    def is_tried_again(self) -> bool:
        """Whether its end has to schedule another try."""
        sure = self.status is Status.FAILED and self.function is not sample.once
        unsure = self.status is Status.UNKNOWN and self.function is sample.tried_again_anyhow
        return self.kind is Kind.ACTION and (sure or unsure) and self.attempt < ATTEMPTS


def marks() -> Counter[int]:
    """How often each number was left behind."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM model_mark")
        return Counter(number for (number,) in cursor.fetchall())


def is_old_enough() -> bool:
    """A database that came up just now calls no cluster silent (lost_clusters.sql)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp() - pg_postmaster_start_time() > interval '11 s'")
        return bool(cursor.fetchone()[0])
