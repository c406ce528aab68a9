"""Statements about secrets and the tokens of sandboxes."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from webhooks.domain.names import Source
from webhooks.models import SandboxToken, Secret

USE_NOTED_EVERY = timedelta(minutes=1)  # "a minute ago" is served; a write for each request is not
_LIVE = Q(retired_at=None) | Q(retired_at__gt=Now())


def live() -> QuerySet[Secret]:
    """The secrets that open something now, the newest of each source first."""
    return Secret.objects.filter(_LIVE).order_by("source", "-id")


def add(source: Source, *, name: str, sealed: bytes, fingerprint: str) -> Secret:
    return Secret.objects.create(source=source, name=name, sealed=sealed, fingerprint=fingerprint)


def is_live(source: Source, *, fingerprint: str) -> bool:
    return Secret.objects.filter(_LIVE, source=source, fingerprint=fingerprint).exists()


def lock(secret: int) -> Secret | None:
    return Secret.objects.select_for_update().filter(pk=secret).first()


def retire(secrets: Sequence[int], *, at: datetime) -> int:
    """Let these open nothing from a moment on; how many changed. A moment that was set is only ever brought forward."""
    later = Q(retired_at=None) | Q(retired_at__gt=at)
    return Secret.objects.filter(later, pk__in=secrets).update(retired_at=at)


def note_use(table: type[Secret | SandboxToken], ids: Sequence[int]) -> None:
    """Remember that these were used; of many who say so within a minute, one writes."""
    unnoted = Q(last_used_at=None) | Q(last_used_at__lte=Now() - USE_NOTED_EVERY)
    table.objects.filter(unnoted, pk__in=ids).update(last_used_at=Now())


def add_token(sandbox: str, *, token_hash: str, expires_at: datetime | None) -> SandboxToken:
    return SandboxToken.objects.create(sandbox=sandbox, token_hash=token_hash, expires_at=expires_at)


def live_token(token_hash: str) -> SandboxToken | None:
    """The token with this hash, if it opens something now."""
    unexpired = Q(expires_at=None) | Q(expires_at__gt=Now())
    return SandboxToken.objects.filter(unexpired, token_hash=token_hash, revoked_at=None).first()


def revoke_tokens(sandbox: str) -> int:
    """Let all tokens of a sandbox open nothing any more; how many that were."""
    return SandboxToken.objects.filter(sandbox=sandbox, revoked_at=None).update(revoked_at=Now())
