"""Answers of earlier calls for who makes the same call once more and asks for that (docs/adr/0139)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F
from django.db.models.functions import Now

from jobs import operations as jobs
from openai_api.domain import Call
from openai_api.models import CachedCall
from openai_api.operations import names
from postgres import clock

_WITHOUT_CHANCE: Final = frozenset({"embeddings", "rerank"})


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
    key = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    rows = CachedCall.objects.filter(pk=key, expires_at__gt=Now())
    job_id = rows.values_list("job_id", flat=True).first()
    if job_id is None or jobs.statuses([job_id]).get(job_id) != "success":
        return Lookup(status="miss", key=key)
    rows.update(hits=F("hits") + 1)
    return Lookup(status="hit", key=key, job_id=job_id)


def hits(job_id: int) -> int:
    """How often the answer of this job was given again."""
    return sum(CachedCall.objects.filter(job_id=job_id).values_list("hits", flat=True))


def _is_cacheable(call: Call) -> bool:
    """Whether the same call is answered the same, and nobody comes back for its job: by a key, or later."""
    temperature = call.body.get("temperature")
    is_certain = call.path in _WITHOUT_CHANCE or (temperature == 0 and not isinstance(temperature, bool))
    return is_certain and call.file is None and not call.is_kept
