"""Whether the inbox does its work: the facts for `manage.py doctor` and the health pages."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from postgres import statements
from webhooks.domain.names import Source
from webhooks.errors import CannotOpen
from webhooks.operations.secrets import live_secrets, unseal
from webhooks.queries import inbox

REFUSALS_SINCE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The facts as they are now.

    `ready` has a live secret, `needs_secret` has none and refuses all, `unreadable` has one that SECRET_KEY does not
    open. `late` deliveries should have been processed a minute ago and were not. `rejected` were so by
    their handler, and `refused` is by source, both of a day. `unstarted` jobs of rules were not started
    within a day, counted up to ten thousand.
    """

    ready: tuple[Source, ...]
    needs_secret: tuple[Source, ...]
    unreadable: tuple[Source, ...]
    waiting: int
    late: int
    failed: int
    dead: int
    rejected: int
    refused: Mapping[str, int]
    unstarted: int


def health() -> Health:
    [numbers] = statements.load("webhooks", "health").run({"since_s": REFUSALS_SINCE.total_seconds()})
    live, unreadable = _secrets()
    refused: Counter[str] = Counter()
    for refusal in inbox.refusals(since=REFUSALS_SINCE):
        refused[refusal.source] += refusal.count
    return Health(
        ready=tuple(source for source in Source if source in live),
        needs_secret=tuple(source for source in Source if source not in live | unreadable),
        unreadable=tuple(source for source in Source if source in unreadable),
        refused=dict(refused),  # a template asks a Counter for its key "items", and has 0
        **numbers._asdict(),
    )


def _secrets() -> tuple[set[str], set[str]]:
    live: set[str] = set()
    unreadable: set[str] = set()
    for row in live_secrets():
        try:
            unseal(row.sealed, source=row.source)
        except CannotOpen:
            unreadable.add(row.source)
        else:
            live.add(row.source)
    return live, unreadable
