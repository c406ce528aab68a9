"""Whether a worker is there: one rule for pages, administration, API and commands."""

from datetime import UTC, datetime, timedelta

from jobs.domain.workers import Presence, presence
from tests.looped import looped

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@looped(
    ("seen_ago_s", "is_revoked", "expected"),
    [
        (None, False, Presence.NEVER_CONNECTED),
        (0, False, Presence.LIVE),
        (89, False, Presence.LIVE),
        (90, False, Presence.AWAY),
        (10**6, False, Presence.AWAY),
        (0, True, Presence.REVOKED),
        (None, True, Presence.REVOKED),
    ],
)
def test_is_judged_by_when_a_worker_was_seen(seen_ago_s: int | None, is_revoked: bool, expected: Presence) -> None:
    seen = None if seen_ago_s is None else NOW - timedelta(seconds=seen_ago_s)
    assert presence(revoked_at=NOW if is_revoked else None, last_seen_at=seen, now=NOW, alive_s=90) is expected
