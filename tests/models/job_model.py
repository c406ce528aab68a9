"""What a job should be, in a few lines: the other side of tests/models/test_jobs.py."""

from dataclasses import dataclass, field

from jobs import operations
from jobs.domain.leases import Lease
from jobs.domain.states import ENDED, MOVES
from jobs.models import Worker

ATTEMPTS = 3
FREE_RELEASES = 3
MOST_UNCONFIRMED = 5


@dataclass
class Model:
    """One job. `leases` are all that were ever given for it, with the worker who got each."""

    kind: str
    status: str = "pending"
    claims: int = 0
    confirmed_no: int = 0
    failures: int = 0
    attempt: int = 0
    releases: int = 0
    unconfirmed: int = 0  # leases in a row that no call named
    waits: bool = False  # for its backoff
    hidden_from: set[int] = field(default_factory=set)  # workers that failed or lost it
    silent: bool = False  # its lease ran out, and nobody has looked
    request: object = None  # which call of its worker claimed it
    text: str = ""
    checkpoint: object = None
    leases: list[tuple[Worker, operations.ClaimedJob]] = field(default_factory=list)
    answers: dict[tuple[int, Lease], str] = field(default_factory=dict)  # of finishes, by worker and lease
    released: set[tuple[int, Lease]] = field(default_factory=set)

    def move(self, status: str) -> None:
        """One line of the table of moves."""
        assert (self.status, status) in {(move.source, move.target) for move in MOVES}
        self.status, self.silent, self.waits = status, False, False

    def claim(self, who: Worker, lease: operations.ClaimedJob, *, request: object) -> None:
        """A worker has it, and has not said so yet."""
        self.move("in_progress")
        self.claims, self.text, self.request, self.attempt = self.claims + 1, "", request, self.failures + 1
        self.leases.append((who, lease))
        assert (lease.attempt, lease.lease.fence) == (self.attempt, self.claims)
        assert lease.checkpoint == self.checkpoint

    def confirm(self) -> None:
        """A call named its lease: the lease holds anew."""
        self.confirmed_no, self.silent = self.claims, False

    def succeed(self) -> None:
        self.confirm()
        self.move("success")
        self.releases = self.unconfirmed = 0

    def fail(self, end: str, *, retryable: bool, waits: bool) -> None:
        """An attempt ended without success: another one, if there may be one, else this end."""
        self.confirm()
        self.unconfirmed = 0
        self.failures += 1
        again = retryable and self.failures < ATTEMPTS
        self.move("pending" if again else end)
        self.attempt, self.waits, self.releases = self.failures, again and waits, 0
        self.hidden_from.add(self.leases[-1][0].pk)

    def release(self) -> None:
        self.confirm()
        self.move("pending")
        self.attempt, self.releases, self.unconfirmed = self.failures, self.releases + 1, 0
        self.waits = self.releases > FREE_RELEASES

    def cancel(self) -> str:
        """What a cancel comes to; it has happened then."""
        if self.status in ENDED:
            return "too_late"
        runs, ran_before = self.status == "in_progress", self.confirmed_no > 0
        if runs:
            self.confirmed_no, self.releases, self.unconfirmed = self.claims, 0, 0
        self.move("canceled")
        return "canceled_while_running" if runs else "canceled_before_retry" if ran_before else "canceled_before_start"

    def be_taken_back(self) -> None:
        """The janitor saw that its lease ran out."""
        if self.confirmed_no == self.claims:
            self.fail("timed_out", retryable=self.kind == "again", waits=False)
            return
        count = self.unconfirmed + 1
        if count >= MOST_UNCONFIRMED:
            self.fail("timed_out", retryable=self.kind == "again", waits=True)
        else:
            self.move("pending")
            self.attempt, self.waits = self.failures, count > 1
            if count > 1:
                self.hidden_from.add(self.leases[-1][0].pk)
        self.unconfirmed = count

    def accepts(self, who: Worker, lease: operations.ClaimedJob) -> bool:
        """Whether a call of `who` with this lease may change anything."""
        holder, last = self.leases[-1]
        return self.status == "in_progress" and lease is last and holder is who

    def why_lost(self, lease: operations.ClaimedJob) -> dict[str, str]:
        """What a refusal has to say of a lease that does not hold the job."""
        number = lease.lease.fence
        if number > self.claims or (number == self.claims and self.status == "in_progress"):
            return {"reason": "unknown"}
        if self.status == "canceled":
            return {"reason": "canceled"}
        if self.status in ENDED:
            return {"reason": "ended", "job_status": self.status}
        return {"reason": "taken_over" if self.status == "in_progress" else "taken_back"}

    def stands_unconfirmed(self, who: Worker, request: object) -> bool:
        """Whether this call of `who` claimed it, its lease stands, and no call has named that."""
        is_unconfirmed = self.status == "in_progress" and self.confirmed_no < self.claims
        return is_unconfirmed and self.request == request and self.leases[-1][0] is who

    def is_for(self, who: Worker) -> bool:
        """Whether a claim of `who` may take it now."""
        return self.status == "pending" and not self.waits and who.pk not in self.hidden_from

    @property
    def row(self) -> tuple[object, ...]:
        """What the tables say of it: releases in a row and silent claims are of a living one alone."""
        in_a_row = (0, 0) if self.status in ENDED else (self.releases, self.unconfirmed)
        return self.status, self.claims, self.confirmed_no, self.attempt, self.failures, *in_a_row, len(self.text)


COLUMNS = ("status", "fence", "confirmed_fence", "attempt", "failures", "releases", "unconfirmed", "next_seq")
