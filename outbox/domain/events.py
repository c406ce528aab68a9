"""The types of events, and which of them an endpoint asks for."""

from collections.abc import Mapping
from typing import Final

from accounts.domain import EVENTS

TEST: Final = "outbox.test"
TYPES: Final[Mapping[str, str]] = {
    "job.succeeded": "A job ended in success.",
    "job.failed": "A job failed for good: its attempts are used up, or it must not be retried.",
    "job.canceled": "A job was canceled.",
    "job.timed_out": "A job ran or waited longer than it may.",
    "job.lost": "The lease of an attempt ran out. Another event follows when the job ends.",
    "job.replaced": "A newer submit of its unique_key took the place of what a job that waits was to do.",
    "batch.completed": "All lines of a batch of OpenAI's API have ended.",
    "batch.failed": "The input file of a batch was refused, and nothing of it ran.",
    "batch.expired": "The completion window of a batch ended before its lines.",
    "batch.cancelled": "A batch was cancelled, and what was running of it has ended.",
    "queue.paused": "Nothing of a queue is claimed any more.",
    "queue.resumed": "The jobs of a queue are claimed again.",
    "owner.paused": "None of a person's jobs is claimed any more.",
    "owner.resumed": "The jobs of a person are claimed again.",
    "cron.failed": "A function that a cron had scheduled failed.",
    "delivery.dead": "A webhook that came in failed for the last time.",
    "alert.firing": "An alert began to fire, or still does.",
    "alert.resolved": "An alert stopped firing.",
    **{f"audit.{name}": sentence for name, sentence in EVENTS.items()},
    TEST: "Somebody sent a test event.",
}
FAMILIES: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in TYPES))
ALL: Final = "*"
# What may stand in an endpoint's list: a type, all of a family, or all there are.
PATTERNS: Final = (ALL, *(f"{family}.*" for family in FAMILIES if family != "outbox"), *TYPES)
# What members may ask for: events that are somebody's. A person gets their own, and those of their groups.
OF_PEOPLE: Final = tuple(name for name in PATTERNS if name.partition(".")[0] in {"job", "batch"})


def patterns_of(event_type: str) -> tuple[str, ...]:
    """What an endpoint may ask for to get this one. The audit log says who was where: it is asked for by name alone."""
    family = event_type.partition(".")[0]
    return (event_type, f"{family}.*") if family == "audit" else (event_type, f"{family}.*", ALL)
