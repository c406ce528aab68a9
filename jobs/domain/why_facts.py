"""What one look at the database says about a job that waits, of which `jobs.domain.reasons` makes sentences.

And what is said of a queue whose jobs no worker is given, by `why`, the doctor, the overview and the queue's page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from jobs.domain.hooks import Hold
from jobs.domain.labels import Conditions, Values
from jobs.domain.states import Status

NAMED: Final = 3  # drained workers that a sentence names


class Named(NamedTuple):
    """A worker, to name it and to lead to its page."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A queue without a live worker that is given its jobs: the drained ones, and which of all was heard of last."""

    queue: str
    drained: Sequence[Named] = ()
    last_worker: str | None = None
    last_seen_at: datetime | None = None

    @property
    def sentence(self) -> str:
        """Who would have to do something, by name."""
        if self.drained:
            return self._all_drained()
        known = self.last_worker is not None and self.last_seen_at is not None
        last = f"; the last was {self.last_worker}, until {utc(self.last_seen_at)}" if known else ""  # type: ignore[arg-type]
        return f"No live worker serves the queue {self.queue}{last}."

    def _all_drained(self) -> str:
        names = [worker.name for worker in self.drained]
        if len(names) == 1:
            return (
                f"The only live worker of the queue {self.queue} that could take it, {names[0]}, is drained: "
                "it is given no jobs until that ends."
            )
        named = f"{', '.join(names[:NAMED])}{' and more' if len(names) > NAMED else ''}"
        return (
            f"All {len(names)} live workers of the queue {self.queue} that could take it are drained ({named}): "
            "they are given no jobs until that ends."
        )


def utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """When a fair queue comes to a job, if nothing ends until then: after about so many `jobs`, `own_jobs` of them of
    its own share, which runs so many (`running`); the rest are of `sharers` other shares (the first: `names`),
    or more urgent."""

    fair: str
    running: int
    own_jobs: int
    sharers: int
    jobs: int
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one look at the database says about a job. `ahead` was counted up to `ahead_limit`; times in seconds.

    `hold`: what its meter makes it wait for.
    `behind`: the job of its unique_key that has to end first. `after`: the first of the `after_count` living ones that
    it comes after (None: it waits for none); `canceled_for`: the one for whose sake it was canceled, or with which, its
    `parent`.
    `limit` is what its kind's limit is called; it waits for that for `limit_in_s` more, until `limit_until`.
    Live workers whose key allows the queue: `servers`; of those the job is in the scope of `in_scope`, of those
    `workers` ask for the queue, and of those `excluded_alive` failed it. Of the rest `home_workers` serve the queue
    first; the others steal from it when idle, `busy_stealers` hold a job, `stealers_at_home` have jobs of their own
    queues to take; `drained` more could take it if they were not drained. Where nobody serves it, `last_worker` did
    until `last_seen_at`. `ahead` jobs of the queue, and something in
    the queues `first`, are taken before it by the worker that is nearest to it.
    Of what it `requires` of labels no worker has enough where `lacking` holds the labels of those that could take it
    otherwise, by their names. `at_once` of the workers need not leave it to one with what it `prefers`, which they
    do for `head_start_in_s` more.
    `preferred_worker` gets it first for so long, whatever the others may.
    `is_free`: a worker that may take it holds no job. `is_unconfirmed`: it is in progress, and its worker has not named
    its lease yet; so many before in a row (`unconfirmed`) nobody named at all.
    """

    status: Status
    queue: str
    run_at: datetime
    due_in_s: float
    expired: bool
    expires_at: datetime | None
    excluded_until: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    ceiling: int | None
    running: Sequence[int]
    servers: int
    in_scope: int
    workers: int
    excluded_alive: int
    home_workers: int
    busy_stealers: int
    stealers_at_home: int
    is_free: bool
    ahead: int
    ahead_limit: int
    owner: str | None = None  # where their jobs are paused
    owner_paused_at: datetime | None = None
    owner_paused_by: str | None = None
    counts_as: int | None = None  # the priority that it has risen to by waiting
    turn: Turn | None = None  # where the queue is a fair one
    key: str | None = None
    key_bound: int | None = None
    key_paused_at: datetime | None = None
    key_paused_by: str | None = None
    key_running: Sequence[int] = ()
    first: Sequence[str] = ()
    limit: str | None = None
    limit_until: datetime | None = None
    limit_in_s: float = 0.0
    is_unconfirmed: bool = False
    unconfirmed: int = 0
    drained: Sequence[Named] = ()
    last_worker: str | None = None
    last_seen_at: datetime | None = None
    expires_in_s: float | None = None
    requires: Conditions = field(default_factory=dict)
    prefers: Conditions = field(default_factory=dict)
    lacking: Mapping[str, Values] = field(default_factory=dict)
    at_once: int = 1
    head_start_in_s: float = 0.0
    preferred_worker: str | None = None
    hold: Hold | None = None
    behind: int | None = None
    after: Sequence[int] = ()
    after_count: int | None = None
    canceled_for: int | None = None
    parent: int | None = None
    signal: str | None = None  # that it is suspended for
    signal_key: str | None = None
    wait_until: datetime | None = None
