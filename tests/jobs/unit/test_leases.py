"""The lease as text: what `str` wrote is read back, and nothing else is a lease. And why one is lost."""

from uuid import UUID

import pytest

from jobs.domain import leases
from jobs.domain.leases import Lease
from jobs.domain.states import AttemptOutcome, Status
from jobs.errors import LeaseLost
from tests.looped import looped

SECRET = UUID("0123456789abcdef0123456789abcdef")


class TestParsing:
    @pytest.mark.parametrize("fence", [1, 7, 10**17])
    def test_gives_back_what_was_written(self, fence: int) -> None:
        lease = Lease(fence=fence, secret=SECRET)
        assert Lease.parse(str(lease)) == lease

    @looped(
        "text",
        [
            "",
            "1",
            "1-",
            f"-{SECRET.hex}",
            SECRET.hex,
            f"0-{SECRET.hex}",
            f"-1-{SECRET.hex}",
            f"01-{SECRET.hex}",
            f"+1-{SECRET.hex}",
            f"1.0-{SECRET.hex}",
            f"1_0-{SECRET.hex}",
            f"1-{SECRET}",
            f"1-{SECRET.hex.upper()}",
            f"1-{SECRET.hex[:-1]}",
            f"1-{SECRET.hex}0",
            f"1-{SECRET.hex}\n",
            f" 1-{SECRET.hex}",
            f"1 -{SECRET.hex}",
            f"1-{'g' * 32}",
            f"1-{SECRET.hex}-1",
            f"{'9' * 19}-{SECRET.hex}",  # more than a bigint holds
            f"\u0661-{SECRET.hex}",  # a digit, but not one of ours
            f"1-{SECRET.hex[:-1]}\x00",
            "'; DROP TABLE jobs_job; --",
            "1" * 100_000,
        ],
    )
    def test_refuses_every_other_text(self, text: str) -> None:
        with pytest.raises(LeaseLost):
            Lease.parse(text)


class TestWhyALeaseIsLost:
    """Of the third claim of a job, or of another one."""

    @looped(
        ("lease_no", "status", "outcome", "why"),
        [
            (3, Status.CANCELED, AttemptOutcome.CANCELED, {"reason": "canceled"}),
            (2, Status.CANCELED, AttemptOutcome.FAILED, {"reason": "canceled"}),
            (3, Status.SUCCESS, None, {"reason": "ended", "job_status": "success"}),
            (2, Status.TIMED_OUT, AttemptOutcome.LOST, {"reason": "ended", "job_status": "timed_out"}),
            (2, Status.IN_PROGRESS, AttemptOutcome.LOST, {"reason": "taken_over"}),
            (2, Status.IN_PROGRESS, None, {"reason": "taken_over"}),
            (3, Status.PENDING, AttemptOutcome.LOST, {"reason": "taken_back"}),
            (3, Status.PENDING, None, {"reason": "taken_back"}),
            (3, Status.IN_PROGRESS, None, {"reason": "unknown"}),
            (4, Status.PENDING, None, {"reason": "unknown"}),
            (4, Status.CANCELED, None, {"reason": "unknown"}),
        ],
    )
    def test_is_said(self, lease_no: int, status: Status, outcome: AttemptOutcome | None, why: dict[str, str]) -> None:
        assert leases.why_lost(lease_no, fence=3, status=status, outcome=outcome) == why
