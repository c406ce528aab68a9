"""Guests: people whom a captcha let in for one session."""

import secrets
from datetime import timedelta
from random import SystemRandom

from captcha.models import CaptchaStore
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from accounts import domain, limits, queries
from accounts.errors import CaptchaFailed, GuestsClosed
from accounts.models import Guest
from postgres import clock
from ratelimits import operations as ratelimits

GUEST_LIFE = timedelta(days=domain.GUEST_DAYS)
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


def limit_key(user: User) -> str:
    """Whose tokens somebody takes: "user:<id>", and of a guest "session:<session id>", which the captcha authorized."""
    guest = queries.guest(user)
    return f"session:{guest.session_id}" if guest else f"user:{user.pk}"


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
