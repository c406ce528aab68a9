"""Forgetting what ended long ago. What failed, died or waits is kept until a person has seen to it."""

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from postgres import clock
from scheduling import operations as scheduling
from webhooks.domain.names import Source
from webhooks.operations import activity
from webhooks.queries import inbox

BATCH: Final = 500
# Bodies of these carry code, prompts and whatever tools printed.
_SANDBOX: Final = (Source.SANDBOX_HOOKS, Source.SANDBOX_TELEMETRY)


@scheduling.mutation
def forget_batch(*, sources: list[str], days: float) -> int:
    """Forget one batch; how many deliveries that were."""
    with transaction.atomic():
        return inbox.forget(
            older_than=timedelta(days=days), sources=[Source(name) for name in sources], limit=BATCH
        )


@scheduling.mutation
def forget_refusals(*, days: float) -> int:
    """Forget counters of refusals; how many that were."""
    return inbox.forget_refusals(older_than=timedelta(days=days))


@scheduling.action(timeout=600, idempotent=True)
def retain() -> int:
    """Forget deliveries that ended well longer ago than WEBHOOKS["RETENTION_DAYS"], of sandboxes than
    ["SANDBOX_RETENTION_DAYS"], with counters of refusals, activity and telemetry as old; how many deliveries that were.

    The days are more than any sender resends for: a delivery that was forgotten would count as new.
    """
    others = [source.value for source in Source if source not in _SANDBOX]
    done = _all(others, days=settings.WEBHOOKS["RETENTION_DAYS"])
    done += _all([source.value for source in _SANDBOX], days=settings.WEBHOOKS["SANDBOX_RETENTION_DAYS"])
    forget_refusals(days=settings.WEBHOOKS["RETENTION_DAYS"])
    now = clock.now()
    activity.prune(
        activity_before=(now - timedelta(days=settings.WEBHOOKS["RETENTION_DAYS"])).isoformat(),
        telemetry_before=(now - timedelta(days=settings.WEBHOOKS["SANDBOX_RETENTION_DAYS"])).isoformat(),
    )
    return done


def _all(sources: list[str], *, days: float) -> int:
    done = 0
    while batch := forget_batch(sources=sources, days=days):
        done += batch
    return done
