"""Guests: people whom a captcha let in for one session, and what becomes of them and of sessions when that is over."""

import secrets
from datetime import timedelta
from random import SystemRandom

from captcha.models import CaptchaStore
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import IntegrityError, connection, transaction

from accounts import domain, handlers, limits, queries
from accounts.errors import CaptchaFailed, GuestsClosed
from accounts.models import Guest
from accounts.operations import groups
from postgres import clock
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from scheduling.operations import Json

GUEST_LIFE = timedelta(days=domain.GUEST_DAYS)
# In one transaction, which holds locks on each; where there are more, another one follows at once.
RETIRED_AT_ONCE = 20
ENDED_AT_ONCE = 200
_RNG = SystemRandom()  # nobody can work out the next picture from those before


def new_captcha(*, address: str) -> str:
    """The key of a new picture with letters, good for one answer within ten minutes. Raises RateLimited."""
    ratelimits.limit(limits.CAPTCHA_PICTURE, key=address, throws=True)
    letters = domain.captcha_text(rng=_RNG)
    key: str = CaptchaStore.generate_key(lambda: (letters, letters.lower()))
    return key


def enter_as_guest(*, captcha: str, letters: str, address: str) -> User:
    """A new guest, for whoever read the letters of a picture; the caller binds the account to a session.

    They have a made-up name and no password: when the session ends nobody can be them again. A picture is good for one
    answer, right or wrong, and answers count by the address (a key) they come from. Raises GuestsClosed where the farm
    lets none in, CaptchaFailed, RateLimited (also when the whole farm has too many new guests).
    """
    if not settings.JOBFARM["GUESTS"]:
        raise GuestsClosed
    ratelimits.limit(limits.CAPTCHA, key=address, throws=True)
    if not queries.solve_captcha(captcha, "".join(letters.split()).lower(), now=clock.now()):
        raise CaptchaFailed
    with transaction.atomic():
        ratelimits.limit(limits.GUESTS, throws=True)
        user = _new_user()
        Guest.objects.create(
            user=user, session_id=secrets.token_hex(domain.SESSION_ID_LENGTH // 2), expires_at=clock.now() + GUEST_LIFE
        )
    return user


def is_guest(user: object) -> bool:
    """Whether this is a guest: what they may do is for each app to decide. Anonymous visitors are none."""
    return isinstance(user, User) and queries.guest(user) is not None


def end_guest(user: User) -> bool:
    """A guest logs out, for good: there is no way back in, so the account may go with the next cleaning. Whether this
    was one."""
    return bool(Guest.objects.filter(pk=user.pk, retired_at=None).update(expires_at=clock.now()))


def _new_user() -> User:
    for digits in (4, 4, 6, 8):
        try:
            with transaction.atomic():
                return User.objects.create_user(f"{domain.GUEST_PREFIX}{secrets.token_hex(digits // 2)}")
        except IntegrityError:  # somebody has that name
            continue
    raise IntegrityError("no free name for a guest")


@scheduling.mutation
def retire_guests() -> dict[str, Json]:
    """See guests off whose time is over: out of their groups, and deleted unless something of theirs is still there.
    What others see (a message, a picture, a job) stays, under the made-up name, of an account that nobody gets into."""
    over = Guest.objects.filter(retired_at=None, expires_at__lte=clock.now()).order_by("expires_at", "pk")
    ids = list(over.values_list("pk", flat=True)[:RETIRED_AT_ONCE])
    failures = scheduling.Failures()
    deleted = [_retire(guest, failures) for pk in ids if (guest := queries.lock_guest(pk))]
    if len(ids) == RETIRED_AT_ONCE:
        scheduling.run_after(timedelta(0), retire_guests)
    counts: dict[str, Json] = {"deleted": deleted.count(True), "kept": deleted.count(False)}
    return counts | ({"failed": dict(failures.reasons)} if failures.reasons else {})


@scheduling.mutation
def end_sessions() -> int:
    """Delete the sessions that ran out, so that the pages that they opened end too; how many."""
    over = Session.objects.filter(expire_date__lte=clock.now()).order_by("expire_date")[:ENDED_AT_ONCE]
    ended = [session.delete() for session in over]  # each by itself: whose it was is heard of by a signal
    if len(ended) == ENDED_AT_ONCE:
        scheduling.run_after(timedelta(0), end_sessions)
    return len(ended)


def _retire(guest: Guest, failures: scheduling.Failures) -> bool:
    """Whether the account could be deleted. One whose deletion fails stays as well, and is not tried again."""
    user = guest.user
    with failures.aside(user.get_username()):
        for group in user.groups.filter(by_members__isnull=False).order_by("pk"):
            groups.leave(group, by=user)
        if not queries.owns_something(user):
            User.objects.filter(pk=user.pk).delete()
            connection.check_constraints()  # now, and not at the commit, where it would be the fault of all
            return True
    User.objects.filter(pk=user.pk).update(is_active=False)  # no signal: that a guest is over is nothing to audit
    handlers.touch([user.pk])
    guest.retired_at = clock.now()
    guest.save(update_fields=["retired_at"])
    return False
