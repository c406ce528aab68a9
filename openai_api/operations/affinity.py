"""The worker that has the beginning of a call, which gets it first (docs/adr/0141)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, Subquery
from django.db.models.functions import Now

from jobs import operations as jobs
from openai_api.domain import Call, affinity
from openai_api.models import KnownBeginning

KEPT: Final = timedelta(hours=1)
MOST: Final = 100_000  # rows; those used last stay, when retention has run
FULL: Final = 0.9  # of a cache that running calls hold: what is in it besides soon gives way, and calls wait for room


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The `worker` that a call prefers, if any; else whether it prefers those that have its model loaded. `stored`:
    what it is known by when its conversation goes on."""

    worker: int | None = None
    is_for_loaded: bool = True
    stored: UUID | None = None

    def keep(self, job_id: int) -> None:
        """Let the next call of its conversation find the worker of this job."""
        if self.stored is not None:
            row = KnownBeginning(key=self.stored, job_id=job_id, expires_at=Now() + KEPT)
            KnownBeginning.objects.bulk_create(
                [row], update_conflicts=True, unique_fields=["key"], update_fields=["job_id", "expires_at"]
            )


def preference(call: Call, workers: Mapping[int, jobs.Offering], *, user: User) -> Preference:
    """Which of the workers that offer its model this call prefers. Where one worker does, nothing is read."""
    if len(workers) < 2:
        return Preference()
    secret = hashlib.sha256(f"{settings.SECRET_KEY} {user.pk}".encode()).digest()
    keys = affinity.keys(call, secret=secret) if call.previous is None else affinity.CallKeys()
    job_ids = _jobs(keys.lookup) if call.previous is None else [call.previous]
    served = jobs.workers_of(job_ids) if job_ids else {}
    worker = next((served[job_id] for job_id in job_ids if served.get(job_id) in workers), None)
    if worker is None:
        return Preference(stored=keys.stored)
    held, slots = jobs.held_by(workers), {one: each.slots for one, each in workers.items()}
    full = {one for one, each in workers.items() if (each.cache_used or 0) >= FULL}
    if worker not in full and not affinity.is_too_busy(worker, jobs=held, slots=slots):
        return Preference(worker=worker, stored=keys.stored)
    # Where no other has the model loaded, preferring that would be to wait for this one in any case.
    others = [one for one, each in workers.items() if each.is_loaded and one not in full | {worker}]
    is_for_loaded = any(affinity.has_room(one, jobs=held, slots=slots) for one in others)
    return Preference(is_for_loaded=is_for_loaded, stored=keys.stored)


def _jobs(keys: Sequence[UUID]) -> list[int]:
    """The last jobs that left these keys, in their order."""
    rows = KnownBeginning.objects.filter(pk__in=keys, expires_at__gt=Now())
    by_key = dict(rows.values_list("key", "job_id")) if keys else {}
    return [by_key[key] for key in keys if key in by_key]


def forget(limit: int, skip: int) -> int:
    """Delete so many of the beginnings that were not used for KEPT, and of the oldest of more than MOST; how many."""
    newest = KnownBeginning.objects.order_by("-expires_at").values("expires_at")
    is_old = Q(expires_at__lt=Now()) | Q(expires_at__lte=Subquery(newest[MOST : MOST + 1]))
    old = KnownBeginning.objects.filter(is_old).order_by("expires_at", "pk").values_list("pk", flat=True)
    return KnownBeginning.objects.filter(pk__in=list(old[skip : skip + limit])).delete()[0]
