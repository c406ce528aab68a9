"""What earlier calls do for a new one: the worker that has its beginning gets it first (docs/adr/0141), and who asks
for that gets the answer of the same call (docs/adr/0139)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F, Q, Subquery
from django.db.models.functions import Now

from jobs import operations as jobs
from openai_api.domain import Call, affinity
from openai_api.models import CachedCall, KnownBeginning
from openai_api.operations import names
from postgres import clock

KEPT: Final = timedelta(hours=1)
MOST: Final = 100_000  # rows; those used last stay, when retention has run
FULL: Final = 0.9  # of a cache that running calls hold: what is in it besides soon gives way, and calls wait for room
_WITHOUT_CHANCE: Final = frozenset({"embeddings", "rerank"})


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


def forget(limit: int, skip: int) -> int:
    """Delete so many of the beginnings that were not used for KEPT, and of the oldest of more than MOST; how many."""
    newest = KnownBeginning.objects.order_by("-expires_at").values("expires_at")
    is_old = Q(expires_at__lt=Now()) | Q(expires_at__lte=Subquery(newest[MOST : MOST + 1]))
    old = KnownBeginning.objects.filter(is_old).order_by("expires_at", "pk").values_list("pk", flat=True)
    return KnownBeginning.objects.filter(pk__in=list(old[skip : skip + limit])).delete()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What the cache has for a call: the job that answered it, if one did. `status` is in the word of an answer's
    header, empty where nobody asked. Without a key the call is not for the cache."""

    status: str = "bypass"
    key: str = ""
    job_id: int | None = None

    def keep(self, job_id: int) -> None:
        """Have this job answer the same call from its success on."""
        if self.key:
            expires_at = clock.now() + timedelta(seconds=settings.OPENAI["CACHE_S"])
            values = {"job_id": job_id, "hits": 0, "expires_at": expires_at}
            CachedCall.objects.update_or_create(key=self.key, defaults=values)


def look(call: Call, *, user: User, token_id: int | None, labels: Mapping[str, Any], is_kept: bool) -> Lookup:
    """Look for an answer that this person got to the same call, and count that it is given again; for none where what
    calls are given and give is not `is_kept`. Raises UnknownModel where they may not make the call by now."""
    if not (is_kept and _is_cacheable(call)):
        return Lookup()
    model = names.find(call.model, user=user, token_id=token_id).model
    decisive = [user.pk, call.path, model, call.body, dict(call.headers), labels]
    key = jobs.repeatable(user, None, decisive).key
    rows = CachedCall.objects.filter(pk=key, expires_at__gt=Now())
    job_id = rows.values_list("job_id", flat=True).first()
    if job_id is None or jobs.statuses([job_id]).get(job_id) != "success":
        return Lookup(status="miss", key=key)
    rows.update(hits=F("hits") + 1)
    return Lookup(status="hit", key=key, job_id=job_id)


def hits(job_id: int) -> int:
    """How often the answer of this job was given again."""
    return sum(CachedCall.objects.filter(job_id=job_id).values_list("hits", flat=True))


def _jobs(keys: Sequence[UUID]) -> list[int]:
    """The last jobs that left these keys, in their order."""
    rows = KnownBeginning.objects.filter(pk__in=keys, expires_at__gt=Now())
    by_key = dict(rows.values_list("key", "job_id")) if keys else {}
    return [by_key[key] for key in keys if key in by_key]


def _is_cacheable(call: Call) -> bool:
    """Whether the same call is answered the same, and nobody comes back for its job: by a key, or later."""
    temperature = call.body.get("temperature")
    is_certain = call.path in _WITHOUT_CHANCE or (temperature == 0 and not isinstance(temperature, bool))
    return is_certain and call.file is None and not call.is_kept
