"""Whether the outbox does its work: the facts for `manage.py doctor` and `/metrics`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from outbox import queries
from outbox.domain.states import EndpointStatus
from outbox.models import Endpoint
from outbox.operations import secrets

FAILING_S: Final = 600.0  # a receiver that is restarted is back by then, and the third attempt has been made
MOST_FAILING: Final = 100
_CHECKED: Final = 200  # endpoints whose secrets are opened: each takes 0.1 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The facts as they are now.

    `waiting` and `dead` messages are counted up to ten thousand. `oldest_due_s`: for how long the message is due that
    could have been sent longest ago; 0: none is. `paused` endpoints were paused by the farm, because every attempt
    failed; `failing_s`: for how long every attempt to another one has. `failing` ones are active, and no attempt has
    succeeded for ten minutes: up to a hundred, those that fail longest first. `unreadable` ones, of the 200 made last,
    have no secret that SECRET_KEY opens, so nothing is sent to them.
    """

    waiting: int
    dead: int
    oldest_due_s: float
    paused: int
    failing_s: float
    failing: Sequence[Endpoint]
    unreadable: int


def health() -> Health:
    facts = queries.health()
    newest = Endpoint.objects.exclude(status=EndpointStatus.DISABLED).order_by("-pk").values_list("pk", flat=True)
    opened = secrets.of(list(newest[:_CHECKED]))
    unreadable = sum(not one for one in opened.values())
    failing = queries.failing(for_s=FAILING_S, limit=MOST_FAILING)
    return Health(**facts._asdict(), failing=failing, unreadable=unreadable)
