"""View tokens: another site's page shows one job, or the jobs of one tag, for a while."""

import hashlib
import secrets
from datetime import timedelta
from typing import Final

from django.contrib.auth.models import User

from core import audit
from core.refusal import existing
from jobs.domain import records
from jobs.domain.quotas import Quota
from jobs.errors import InvalidViewToken, NotFound
from jobs.models import ViewToken
from jobs.operations import quotas
from jobs.queries import reads
from live import operations as live
from postgres import clock, transactions

PREFIX: Final = "jfv_"
MOST: Final = 1_000  # of a person that open something


@transactions.retried
def create_view_token(
    *, by: User, expires_in_s: float, job_id: int | None = None, tag: str | None = None
) -> tuple[ViewToken, str]:
    """A token for one job that `by` may share, or for those of a tag: whoever has its key, which is returned beside it
    once, looks at that until then. Raises NotFound, NotAllowed, InvalidValue, QuotaReached."""
    now = clock.now()
    if job_id is not None:
        reads.operable(job_id, by=by)
    if tag is not None:
        records.checked_tags([tag])
    used = ViewToken.objects.filter(by=by, expires_at__gt=now).count()
    quotas.refuse_first([(Quota(resource="view tokens", of="owner", quota=MOST, used=used), 1)])
    key = PREFIX + secrets.token_urlsafe(32)
    expires_at = now + timedelta(seconds=expires_in_s)
    token = ViewToken.objects.create(by=by, key_hash=_hash(key), job_id=job_id, tag=tag, expires_at=expires_at)
    audit.record(by, token, f"{token}, until {expires_at:%Y-%m-%d %H:%M} UTC")
    return token, key


@transactions.retried
def revoke_view_token(token_id: int, *, by: User) -> None:
    """Make a view token of this person's worthless at once, on open streams too. Raises NotFound."""
    token = existing(ViewToken.objects.filter(pk=token_id, by=by).first(), NotFound("There is no such view token."))
    audit.record(by, token, f"{token} revoked")
    token.delete()
    live.touch(f"user:{by.pk}")


def revoke_view_tokens_of(owner: User) -> None:
    """Make all of them worthless, of somebody whose account is another person's now."""
    if ViewToken.objects.filter(by=owner).delete()[0]:
        live.touch(f"user:{owner.pk}")


def view_token(key: str) -> ViewToken:
    """The token with this key, with who made it. Raises InvalidViewToken."""
    tokens = ViewToken.objects.select_related("by").filter(by__is_active=True, expires_at__gt=clock.now())
    return existing(tokens.filter(key_hash=_hash(key)).first(), InvalidViewToken())


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
