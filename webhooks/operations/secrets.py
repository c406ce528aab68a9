"""What requests are known by: secrets of sources, and bearer tokens of sandboxes, whose agents' hooks cannot sign.

Several secrets of a source may live at once, so that a sender is moved from one to the next without a gap. At rest they
are encrypted under a key derived from SECRET_KEY (docs/adr/0020); of tokens the hash is stored.

What one says unless somebody writes it themselves is of its sender's form and harmless: nothing handles its type, so it
ends as ignored, with all of the way behind it.
"""

import json
import secrets as rng
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.domain import hashed
from core import audit
from core.commands import own_url
from core.recent import Recent
from core.refusal import existing
from core.sealing import CannotUnseal, Sealer
from live import operations as live
from postgres import clock
from webhooks.domain.deliveries import Source
from webhooks.errors import BadEnvelope, BadSecret, BadSignature, CannotOpen, NoSecret, NotFound, Undeliverable
from webhooks.models import SandboxToken, Secret
from webhooks.sources import configs
from webhooks.sources.requests import Key

# How long a process believes what it knows. Nothing is accepted on that alone: storing a delivery checks that its
# secret lives (sql/keep.sql), and what no known secret signed is retried with fresh ones.
KEPT_S = 60.0
_SECRET_BYTES = 32
_SEALER: Final = Sealer(b"jobfarm webhooks secrets v1")
USE_NOTED_EVERY = timedelta(minutes=1)  # "a minute ago" is served; a write for each request is not
_LIVE = Q(retired_at=None) | Q(retired_at__gt=Now())
_known: Final[Recent[Mapping[str, Sequence[Key]]]] = Recent(for_s=KEPT_S)
_reading: Final = threading.Lock()


def live_secrets() -> QuerySet[Secret]:
    return Secret.objects.filter(_LIVE).order_by("source", "-id")


def known_keys(source: Source) -> Sequence[Key] | None:
    known = _known.get("")
    return None if known is None else known.get(source, ())


def read_keys(source: Source) -> tuple[Sequence[Key], bool]:
    """The keys of a source as the database has them now, and whether those are all: one that cannot be opened is left
    out, and keeps no other from opening what is its own."""
    with _reading:
        keys: dict[str, list[Key]] = {}
        sealed = set[str]()
        for row in live_secrets():
            try:
                key = Key(id=row.pk, secret=unseal(row.sealed, source=row.source))
                keys.setdefault(row.source, []).append(key)
            except CannotOpen:
                sealed.add(row.source)
        _known.keep("", keys)
        return keys.get(source, ()), source not in sealed


def add(source: Source, secret: str | None = None, *, name: str = "", by: User | None = None) -> tuple[Secret, str]:
    """Let a source sign with one more secret; the row, and the secret itself, which was made up if none was given.
    Raises BadSecret: it is not of the sender's form, or lives already."""
    scheme = configs.CONFIGS[source].scheme
    plaintext = secret if secret is not None else scheme.new_secret(rng.token_bytes(_SECRET_BYTES))
    scheme.check_secret(plaintext, source=source)
    fingerprint = _SEALER.fingerprint(plaintext)
    with transaction.atomic():
        is_known = live_secrets().filter(source=source, fingerprint=fingerprint).exists()
        row, is_new = Secret.objects.get_or_create(
            source=source, fingerprint=fingerprint, retired_at=None,
            defaults={"name": name[:100], "sealed": _SEALER.seal(plaintext)},
        )  # fmt: skip
        if is_known or not is_new:
            raise BadSecret(source=source, reason="the source has it already")
        audit.record(by, row, f"Added the secret {fingerprint} of {source}")
        _touch(source)
    return row, plaintext


def retire(secret: int, *, grace: timedelta = timedelta(0), by: User | None = None) -> Secret:
    """Let a secret open nothing any more, at once or after a while. Raises NotFound."""
    with transaction.atomic():
        row = existing(Secret.objects.select_for_update().filter(pk=secret).first(), NotFound(resource="secret"))
        _retire([secret], at=clock.now() + grace)
        audit.record(by, row, f"Retired the secret {row.fingerprint} of {row.source}{_after(grace)}")
        _touch(row.source)
    row.refresh_from_db()
    return row


def rotate(
    source: Source, secret: str | None = None, *, grace: timedelta = timedelta(hours=24), name: str = "",
    by: User | None = None,
) -> tuple[Secret, str]:  # fmt: skip
    """Add a secret, and retire those that lived before after a while. As `add`; Stripe's own grace is up to a day."""
    with transaction.atomic():
        before = [row.pk for row in live_secrets().filter(source=source)]
        row, plaintext = add(source, secret, name=name, by=by)
        _retire(before, at=clock.now() + grace)
        if before:
            audit.record(by, row, f"Retired {len(before)} earlier secrets of {source}{_after(grace)}")
    return row, plaintext


def newest(source: Source) -> str:
    """The secret to sign a test delivery with. Raises NoSecret, CannotOpen."""
    row = existing(live_secrets().filter(source=source).first(), NoSecret(source=source))
    return unseal(row.sealed, source=source)


def note_use(table: type[Secret | SandboxToken], ids: Sequence[int]) -> None:
    """Remember that these were used; of many who say so within a minute, one writes."""
    unnoted = Q(last_used_at=None) | Q(last_used_at__lte=Now() - USE_NOTED_EVERY)
    table.objects.filter(unnoted, pk__in=ids).update(last_used_at=Now())


def _retire(secrets: Sequence[int], *, at: datetime) -> None:
    """Let these open nothing from a moment on; one that was set is only ever brought forward."""
    later = Q(retired_at=None) | Q(retired_at__gt=at)
    Secret.objects.filter(later, pk__in=secrets).update(retired_at=at)


def _touch(source: str) -> None:
    live.touch("webhook-secrets", f"webhook-source:{source}")


def _after(grace: timedelta) -> str:
    return f", after {grace}" if grace else ""


def unseal(sealed: bytes | memoryview, *, source: str) -> str:
    """Decrypt under SECRET_KEY or one of SECRET_KEY_FALLBACKS. Raises CannotOpen."""
    try:
        return _SEALER.unseal(sealed)
    except CannotUnseal:
        raise CannotOpen(source=source) from None


PREFIX = "sbx_"
_LONGEST = 200


def create_token(sandbox: str, *, expires_at: datetime | None = None) -> tuple[SandboxToken, str]:
    """A new token of a sandbox: its row, and the token itself."""
    token = f"{PREFIX}{rng.token_urlsafe(32)}"
    return SandboxToken.objects.create(sandbox=sandbox[:100], token_hash=hashed(token), expires_at=expires_at), token


def revoke_tokens(sandbox: str) -> int:
    """Let all tokens of a sandbox open nothing any more; how many that were."""
    return SandboxToken.objects.filter(sandbox=sandbox, revoked_at=None).update(revoked_at=Now())


def sandbox_of(token: str) -> str:
    """The sandbox whose token this is. Raises BadSignature."""
    unexpired = Q(expires_at=None) | Q(expires_at__gt=Now())
    rows = SandboxToken.objects.filter(unexpired, token_hash=hashed(token), revoked_at=None)
    row = existing(rows.first() if len(token) <= _LONGEST else None, BadSignature(reason="bad_token"))
    note_use(SandboxToken, [row.pk])
    return row.sandbox


_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    status: int
    answer: str
    delivery_id: str


def send(
    source: Source, body: bytes, *, event_type: str = "", delivery_id: str | None = None, base_url: str | None = None
) -> Sent:
    """Sign these bytes as the sender would and post them to the source's address; what that answered.

    `event_type` matters where the sender names it outside of the body: GitHub in a header, Confluence in the address.
    `base_url` is where the farm answers (JOBFARM_URL, else where it listens). Raises NoSecret, CannotOpen,
    BadEnvelope (no header holds the type), and Undeliverable when nothing answers there.
    """
    import httpx  # noqa: PLC0415 (0.1 s, which no process need spend when it starts)

    secret = newest(source)
    message_id = delivery_id or f"msg_{rng.token_hex(12)}"
    headers = signed_headers(
        source, body, secret=secret, event_type=event_type, delivery_id=message_id, now=clock.now()
    )
    url = f"{base_url or settings.JOBFARM_URL or own_url()}".rstrip("/") + configs.CONFIGS[source].path
    params = {"event": event_type} if source is Source.CONFLUENCE and event_type else None
    try:
        answer = httpx.post(url, content=body, headers=headers, params=params, timeout=_TIMEOUT_S, trust_env=False)
    except UnicodeEncodeError:
        raise BadEnvelope(reason="a type that stands in a header is of ASCII") from None
    except httpx.HTTPError as error:
        raise Undeliverable(url=url, reason=str(error) or type(error).__name__) from None
    return Sent(status=answer.status_code, answer=answer.text[:2000], delivery_id=message_id)


def signed_headers(
    source: Source, body: bytes, *, secret: str, event_type: str, delivery_id: str, now: datetime
) -> dict[str, str]:
    signed = configs.CONFIGS[source].sign(body, secret=secret, event_type=event_type, delivery_id=delivery_id, now=now)
    return {"Content-Type": "application/json", **signed}


TYPE: Final = "jobfarm.test"


def sample(source: Source, *, now: datetime, token: str) -> tuple[str, str]:
    """A type and a body. `token` makes it another one than the last, which would be a repeat of the same."""
    at_ms = int(now.timestamp() * 1000)
    data = {"message": "A test delivery, sent by hand.", "test": token}
    bodies: dict[Source, Any] = {
        Source.CLERK: {"type": TYPE, "object": "event", "timestamp": at_ms, "data": data},
        Source.GITHUB: {"zen": "Half measures are as bad as nothing at all.", **data},
        Source.JIRA: {"webhookEvent": TYPE, "timestamp": at_ms, **data},
        Source.CONFLUENCE: {"event": TYPE, "timestamp": at_ms, **data},
        Source.STRIPE: {
            "id": f"evt_test_{token}", "object": "event", "type": TYPE, "created": at_ms // 1000, "livemode": False,
            "data": {"object": data},
        },
        Source.SANDBOX_HOOKS: {"hook_event_name": TYPE, "session_id": f"test-{token}", **data},
        Source.SANDBOX_COMPLETION: {"type": TYPE, "timestamp": now.isoformat(), "data": data},
        Source.SANDBOX_TELEMETRY: [],
    }  # fmt: skip
    # Telemetry is always a batch; GitHub's types have a part after a full stop only where the body has an action.
    event_type = {Source.GITHUB: "jobfarm_test", Source.SANDBOX_TELEMETRY: "batch"}.get(source, TYPE)
    return event_type, json.dumps(bodies[source], indent=2)
