"""Endpoints: who may see and change them, their secrets, which are shown once and rotated with an overlap in which both
sign, mail to the owner of one that takes nothing any more, and whether the outbox does its work.
"""

import secrets as rng
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from core import audit
from core.refusal import existing
from core.sealing import CannotUnseal, Sealer
from live import operations as live
from outbox import queries
from outbox.domain import addresses
from outbox.domain.messages import CALLBACK, CALLBACK_EVENTS, FIELDS, TEST, EndpointStatus, Wanted, key_of, secret_of
from outbox.errors import BadEndpoint, CallbacksNotAllowed, NotAllowed, NotFound, TooManyEndpoints
from outbox.models import Attempt, Callback, Endpoint, Message
from outbox.operations.record import NewEvent, record_all, wake
from postgres import clock, transactions
from scheduling.operations import Retry, action

OVERLAP: Final = timedelta(hours=24)
_SECRET_BYTES: Final = 32  # of a new one
MOST_SECRETS: Final = 5  # of an endpoint sign at once: each is in the headers of every message
_OF_OPERATORS: Final = 50  # times as many endpoints: each costs each event a microsecond
_SEALER: Final = Sealer(b"jobfarm outbox secrets v1")


def add_secret(endpoint: Endpoint, secret: str | None = None) -> str:
    """Let an endpoint's messages be signed with one more secret; the secret, a random one if it is None. In the
    caller's transaction. Raises BadEndpoint."""
    plaintext = secret_of(rng.token_bytes(_SECRET_BYTES)) if secret is None else secret
    try:
        key_of(plaintext)
    except ValueError as error:
        raise BadEndpoint(field="secret", reason=str(error)) from None
    endpoint.secrets.create(sealed=_SEALER.seal(plaintext), fingerprint=_SEALER.fingerprint(plaintext))
    return plaintext


def rotate_secret(endpoint: Endpoint, secret: str | None = None, *, overlap: timedelta = OVERLAP) -> str:
    """Add a secret; those that lived before sign along for so long, and no more: of many the newest alone. As `add`."""
    now = clock.now()
    queries.retire_secrets(endpoint.pk, at=now + overlap)
    queries.retire_secrets(endpoint.pk, at=now, but=MOST_SECRETS - 1)
    return add_secret(endpoint, secret)


def secrets_of(endpoint_ids: Collection[int]) -> dict[int, list[str]]:
    """What messages to these endpoints are signed with now, the newest first. One that nobody can open is left out."""
    opened: dict[int, list[str]] = {pk: [] for pk in endpoint_ids}
    for row in queries.live_secrets(endpoint_ids):
        with suppress(CannotUnseal):
            opened[row.endpoint_id].append(_SEALER.unseal(row.sealed))
    return opened


OPERATE = "outbox.operate_endpoint"
VIEW = "outbox.view_endpoint"


def is_operator(user: User | AnonymousUser | AbstractBaseUser) -> bool:
    return isinstance(user, User) and user.is_active and user.is_staff and user.has_perm(OPERATE)


def sees_all(user: User | AnonymousUser | AbstractBaseUser) -> bool:
    return isinstance(user, User) and user.is_active and user.is_staff and user.has_perm(VIEW)


def visible_to(user: User | AnonymousUser | AbstractBaseUser) -> QuerySet[Endpoint]:
    """The endpoints that `user` may look at: their own; all of them for staff with the right."""
    if sees_all(user):
        return Endpoint.objects.all()
    if not isinstance(user, User) or not user.is_active:
        return Endpoint.objects.none()
    return Endpoint.objects.filter(owner=user)


def messages_visible_to(user: User | AnonymousUser | AbstractBaseUser) -> QuerySet[Message]:
    messages = Message.objects.select_related("event", "endpoint")
    return messages if sees_all(user) else messages.filter(endpoint__in=visible_to(user).values("pk"))


def find(endpoint_id: int, *, by: User) -> Endpoint:
    """The endpoint, for `by` to look at. Raises NotFound."""
    row = visible_to(by).select_related("owner").filter(pk=endpoint_id).first()
    return existing(row, NotFound(resource="endpoint"))


def find_message(message_id: int, *, by: User, lock: bool = False) -> Message:
    """The message with its event and endpoint, for `by` to look at. Raises NotFound."""
    rows = messages_visible_to(by).filter(pk=message_id)
    return existing((rows.select_for_update(of=("self",)) if lock else rows).first(), NotFound(resource="message"))


def operable(endpoint_id: int, *, by: User, lock: bool = False) -> Endpoint:
    """The endpoint, for `by` to change: its owner, and operators. Raises NotFound, also for one that `by` may not see,
    and NotAllowed for one that `by` may only look at."""
    rows = visible_to(by).filter(pk=endpoint_id)
    row = existing((rows.select_for_update(of=("self",)) if lock else rows).first(), NotFound(resource="endpoint"))
    if not may_operate(by, row):
        raise NotAllowed
    return row


def may_operate(user: User, endpoint: Endpoint) -> bool:
    return endpoint.owner_id == user.pk or is_operator(user)


@transactions.retried
def create(wanted: Wanted, *, by: User, for_farm: bool = False) -> tuple[Endpoint, str]:
    """Make an endpoint of `by`, or of the whole farm; with its secret, which is shown this once.

    Raises TooManyEndpoints, BadEndpoint for events that members do not get, and NotFound for one of the whole farm by
    who is no operator.
    """
    if for_farm and not is_operator(by):
        raise NotFound(resource="endpoint")
    if not for_farm:
        wanted.for_member()
        _check_room(by)
    row = Endpoint.objects.create(owner=None if for_farm else by, **_columns(wanted))
    secret = add_secret(row)
    audit.record(by, row, f"Made the endpoint {row} for {', '.join(row.events)}")
    _touch(row)
    return row, secret


@transactions.retried
def change(endpoint_id: int, wanted: Wanted, *, by: User) -> Endpoint:
    """Let an endpoint be so from now on; what was written for it before goes to its new address, and to that, or by
    another limit, at once. Raises NotFound, BadEndpoint."""
    row = operable(endpoint_id, by=by, lock=True)
    if row.owner_id is not None:
        wanted.for_member()
    columns = _columns(wanted)
    changed = [name for name in FIELDS if getattr(row, name) != columns[name]]
    for name in changed:
        setattr(row, name, columns[name])
    try:
        with transaction.atomic():
            row.save(update_fields=changed)
    except IntegrityError:
        raise BadEndpoint(field="url", reason="another callback goes there") from None
    if {"url", "per_minute"} & set(changed):
        queries.hasten(row.pk)
        wake()
    audit.record(by, row, f"Changed {', '.join(changed) or 'nothing'} of the endpoint")
    _touch(row)
    return row


@transactions.retried
def pause(endpoint_id: int, *, by: User) -> Endpoint:
    """Send nothing to it; what happens is kept for it. Raises NotFound."""
    return _set_status(endpoint_id, EndpointStatus.PAUSED, by=by, note=f"Paused by {by.get_username()}.")


@transactions.retried
def disable(endpoint_id: int, *, by: User) -> Endpoint:
    """Keep nothing for it any more; what waits for it is dead, and can be replayed. Raises NotFound."""
    row = _set_status(endpoint_id, EndpointStatus.DISABLED, by=by, note=f"Disabled by {by.get_username()}.")
    queries.end_waiting(row.pk, note=row.note)
    return row


def disable_all_of(owner: User) -> None:
    for endpoint in Endpoint.objects.filter(owner=owner).exclude(status=EndpointStatus.DISABLED).order_by("pk"):
        disable(endpoint.pk, by=owner)


@transactions.retried
def resume(endpoint_id: int, *, by: User) -> Endpoint:
    """Send to it again, what was kept for it first. Raises NotFound."""
    row = _set_status(endpoint_id, EndpointStatus.ACTIVE, by=by, note="")
    queries.hasten(row.pk)
    wake()
    return row


@transactions.retried
def delete(endpoint_id: int, *, by: User) -> None:
    """Delete an endpoint with its messages and secrets. Raises NotFound."""
    row = operable(endpoint_id, by=by, lock=True)
    audit.record(by, row, f"Deleted the endpoint {row}")
    _touch(row)
    messages = Message.objects.filter(endpoint=row)
    Attempt.objects.filter(message__in=messages).delete()
    messages._raw_delete(messages.db)  # noqa: SLF001 (a cascade would read them all, and delete a hundred at a time)
    Callback.objects.filter(endpoint=row).delete()
    row.delete()


@transactions.retried
def rotate(endpoint_id: int, *, by: User, secret: str | None = None, overlap: timedelta = OVERLAP) -> str:
    """Give an endpoint another secret; the one before signs along until `overlap` is over. The new one, shown this
    once. Raises NotFound, BadEndpoint."""
    row = operable(endpoint_id, by=by, lock=True)
    plaintext = rotate_secret(row, secret, overlap=overlap)
    audit.record(by, row, f"Rotated the secret of the endpoint; the one before signs along for {overlap}")
    _touch(row)
    return plaintext


@transactions.retried
def send_test(endpoint_id: int, *, by: User) -> int:
    """Send a test event to an endpoint, whatever it asks for; how many messages that were: none to one that is
    disabled. Raises NotFound."""
    row = operable(endpoint_id, by=by)
    data = {"message": "A test event, sent by hand.", "endpoint": row.name}
    audit.record(by, row, "Sent a test event")
    event = NewEvent(type=TEST, subject=f"endpoint/{row.pk}", data=data)
    return record_all([event], only=row.pk)


def callback(url: str, *, owner: User | None) -> int:
    """The id of the endpoint of an address that a submit names for the events of its job; made, with a secret, when
    there is none of the owner's with that address. It stays for as long as the caller's transaction lasts.

    Raises BadUrl, CallbacksNotAllowed for a host that OUTBOX_CALLBACK_HOSTS does not name, TooManyEndpoints.
    """
    host = addresses.host_of(url)
    if not addresses.is_named_by(host, settings.OUTBOX["CALLBACK_HOSTS"]):
        raise CallbacksNotAllowed(host=host)
    known = queries.find_callback(url, owner_id=None if owner is None else owner.pk)
    if known is not None:
        return known
    _check_room(owner)
    defaults = {"name": f"{CALLBACK} {host}"[:100], "events": [*CALLBACK_EVENTS]}
    row, is_new = Endpoint.objects.get_or_create(owner=owner, url=url, is_callback=True, defaults=defaults)
    if not is_new:  # it was made at this moment, and is not held yet
        return callback(url, owner=owner)
    add_secret(row)
    return row.pk


def call_back(job_ids: list[int], endpoint_id: int) -> None:
    """Let an endpoint get the events of these jobs, in the transaction that submits them."""
    rows = [Callback(job_id=pk, endpoint_id=endpoint_id) for pk in job_ids]
    Callback.objects.bulk_create(rows, ignore_conflicts=True)


def forget_callbacks(job_ids: Sequence[int]) -> None:
    """Let no address that came with one of these jobs get their events."""
    Callback.objects.filter(job_id__in=job_ids).delete()


def _set_status(endpoint_id: int, status: EndpointStatus, *, by: User, note: str) -> Endpoint:
    row = operable(endpoint_id, by=by, lock=True)
    # One that still fails is paused by the farm alone.
    row.status, row.note, row.failing_since, row.last_failure = status, note, None, ""
    row.save(update_fields=["status", "note", "failing_since", "last_failure"])
    audit.record(by, row, f"The endpoint is {status}")
    _touch(row)
    return row


def _check_room(owner: User | None) -> None:
    limit = settings.OUTBOX["ENDPOINTS_PER_OWNER"] * (_OF_OPERATORS if owner is None or is_operator(owner) else 1)
    if Endpoint.objects.filter(owner=owner).count() >= limit:
        raise TooManyEndpoints(limit=limit)


def _columns(wanted: Wanted) -> dict[str, Any]:
    columns = asdict(wanted)
    return columns | {"events": list(wanted.events), "kinds": list(wanted.kinds), "name": wanted.name.strip()}


def _touch(row: Endpoint) -> None:
    live.touch("outbox", f"endpoint:{row.pk}")


@action(timeout=60, retry=Retry(max_attempts=5))
def mail_owner(*, endpoint: int) -> bool:
    """Mail the owner, if there is one with an address and the farm has mail; whether that was so."""
    row = Endpoint.objects.select_related("owner").filter(pk=endpoint).first()
    if row is None or row.owner is None or not row.owner.email or not settings.HAS_MAIL_SERVER:
        return False
    subject = f"jobfarm: the endpoint {' '.join(row.name.split())} is {row.status}"
    where = f": {settings.JOBFARM_URL}/outbox/{row.pk}/" if settings.JOBFARM_URL else " on its page."
    text = f"{row.note}\n\nNo event goes to it until you change that{where}"
    return send_mail(subject, text, None, [row.owner.email]) > 0


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
    opened = secrets_of(list(newest[:_CHECKED]))
    unreadable = sum(not one for one in opened.values())
    failing = queries.failing(for_s=FAILING_S, limit=MOST_FAILING)
    return Health(**facts._asdict(), failing=failing, unreadable=unreadable)
