"""Coming in: log-ins that are counted, links that log in once, the first administrator; who is new, an account that
somebody signs up for or a guest's that becomes theirs; and whom an OpenID provider or a proxy names, whose claims are
followed at each log-in."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.urls import reverse

from accounts import domain, handlers, limits, queries
from accounts.errors import InactiveUser, LinkSpent, SignUpClosed, UsernameTaken
from accounts.models import OneTimeLink
from accounts.operations import tokens
from core.sealing import Sealer
from postgres import clock
from ratelimits import operations as ratelimits
from ratelimits.operations import LimitRequest

DAY_MIN = 24 * 60
SEALER: Final = Sealer(b"accounts.second_factor")  # of the secrets of second factors
STAFF: Final = "staff"
SUPERUSER: Final = "superuser"


def begin_log_in(username: str, *, address: str) -> None:
    """Count a log-in as failed, by the name that is tried and by the address (a key) it comes from.

    To be called before the password is checked, so that of any number who guess at once no more are checked than the
    limits have. A name counts whether or not somebody has it, so a refusal reveals no account. Raises RateLimited.
    """
    asks = [LimitRequest(name=name, key=key) for name, key in _counted(username, address)]
    ratelimits.limit_all(asks, throws=True)


def end_log_in(username: str, user: User | None, *, address: str) -> None:
    """The password was right: forget the failures of this name at this address, and give back what this log-in took.

    Not more than that: whoever has one account could otherwise guess at all others without end. Where it was not (None)
    that is audited, without a name that nobody has: it may be a password, in the wrong field.
    """
    if user is None:
        tried = queries.person(username)
        handlers.audit("log_in_failed", tried, "password", about="" if tried else "a name that nobody has")
        return
    (here, key), *wider = _counted(username, address)
    for name, wider_key in wider:
        ratelimits.give_back(name, key=wider_key)
    ratelimits.reset(here, key=key)


def _counted(username: str, address: str) -> list[tuple[str, str]]:
    """What a log-in counts against, the narrowest first: limits and their keys."""
    name = f"user:{username}"
    return [(limits.LOG_IN, f"{name} {address}"), (limits.LOG_IN_ADDRESS, address), (limits.LOG_IN_NAME, name)]


def must_have_second_factor(user: User) -> bool:
    """Whether this farm lets this person in with a second factor alone (MFA_REQUIRED). Programs come with tokens."""
    return settings.MFA_REQUIRED == "all" or (settings.MFA_REQUIRED == "staff" and user.is_staff)


def second_factors(user: User) -> QuerySet[Authenticator]:
    """Their authenticator app and their keys; recovery codes, which stand in for these, are none."""
    factors: QuerySet[Authenticator] = Authenticator.objects.filter(user=user)
    return factors.exclude(type=Authenticator.Type.RECOVERY_CODES)


def unreadable_second_factors(*, limit: int = 200) -> list[str]:
    """Whose authenticator app or recovery codes SECRET_KEY does not open, of so many that were set up last."""
    sealed = Q(data__has_key="secret") | Q(data__has_key="seed")
    rows = Authenticator.objects.filter(sealed).select_related("user").order_by("-pk")[:limit]
    secrets = ((row.user.get_username(), row.data.get("secret") or row.data["seed"]) for row in rows)
    return sorted({name for name, secret in secrets if not SEALER.opens(secret.encode())})


def forget_second_factors(user: User, *, why: str = "of a lost device") -> int:
    """Take them all away, recovery codes too. How many these were."""
    count, _ = Authenticator.objects.filter(user=user).delete()
    if count:
        handlers.audit("second_factor_removed", user, f"all, {why}")
    return int(count)


@transaction.atomic
def close_other_ways_in(user: User, address: str) -> None:
    """Leave one way into an account whose address a provider has just proved, unless it was proved here before: who
    wrote it into the account may have done so as a trap. Password and sessions, other addresses, accounts at providers,
    second factors, API tokens and one-time links go, and its workers, endpoints and view tokens end."""
    if EmailAddress.objects.filter(user=user, email__iexact=address, verified=True).exists():
        return
    why = "of an address that nobody had proved"
    forget_second_factors(user, why=why)
    if SocialAccount.objects.filter(user=user).delete()[0]:
        handlers.audit("account_removed", user, f"all, {why}")
    OneTimeLink.objects.filter(user=user, used_at=None).delete()
    EmailAddress.objects.filter(user=user).delete()
    EmailAddress.objects.create(user=user, email=address.lower(), verified=True, primary=True)
    user.email = address
    user.set_unusable_password()  # another one each time: with it go the sessions
    user.save(update_fields=["email", "password"])
    for token in queries.tokens_of(user):
        tokens.revoke_token(token.pk, by=None)
    for end in handlers.handed_over:
        end(user)


def one_time_link(user: User, *, minutes: float = DAY_MIN) -> str:
    """A path below the site that logs this person in: once, within so many minutes. Links made before stay good until
    they run out: a link that a second window printed must not kill the first. Raises InactiveUser."""
    if not user.is_active:
        raise InactiveUser(username=user.get_username())
    now = clock.now()
    token = secrets.token_urlsafe(32)
    OneTimeLink.objects.filter(user=user, expires_at__lt=now).delete()
    OneTimeLink.objects.create(user=user, token_hash=domain.hashed(token), expires_at=now + timedelta(minutes=minutes))
    handlers.audit("link_created", user, f"good for {minutes:g} minutes")
    return reverse("accounts:one_time_link", args=[token])


def is_usable(token: str, *, now: datetime) -> bool:
    """Whether this one-time link would still log somebody in. Changes nothing."""
    return _usable(token, now).filter(user__is_active=True).exists()


def redeem(token: str, *, now: datetime, address: str) -> User:
    """Use a one-time link up; returns whom it logs in. Of any number who try at once, one gets in.

    Raises LinkSpent for all others, and for a person who may not log in (the link is then not used up:
    whoever switches the account on again need not make another). Those count against the address (a key) they
    come from; raises RateLimited when there were too many.
    """
    ratelimits.limit(limits.LINK, key=address, throws=True)
    with transaction.atomic():
        is_spent = _usable(token, now).update(used_at=now)
        link = OneTimeLink.objects.select_related("user").filter(token_hash=domain.hashed(token)).first()
        if not is_spent or link is None or not link.user.is_active:
            raise LinkSpent
    ratelimits.give_back(limits.LINK, key=address)
    return link.user


def _usable(token: str, now: datetime) -> QuerySet[OneTimeLink]:
    """The link, where it is good. The conditions are columns of the row itself, never of a join: of two who spend it at
    once, the second waits for the first and then reads the row anew; a subquery would read the old snapshot."""
    return OneTimeLink.objects.filter(token_hash=domain.hashed(token), used_at=None, expires_at__gt=now)


def ensure_administrator() -> tuple[User, bool]:
    """A superuser who may log in, and whether this call made them.

    A new one is called `admin`, or `admin-2` and so on where that name is taken: nobody becomes a superuser
    by having chosen a name. The password is unusable until they set one; they come in by a one-time link.
    """
    for attempt in range(1, 100):
        if existing := User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first():
            return existing, False
        try:
            with transaction.atomic():
                name = "admin" if attempt == 1 else f"admin-{attempt}"
                return User.objects.create_superuser(name), True
        except IntegrityError:  # the name is taken: by somebody else, or by a twin of this process a moment ago
            continue
    raise IntegrityError("no free name for an administrator among admin, admin-2 to admin-99")


def sign_up(user: User, *, guest: User | None = None) -> User:
    """Store somebody new, whose name and password were found good.

    A `guest` becomes that person, with all that is theirs. Accounts count for the whole farm. Raises SignUpClosed,
    UsernameTaken, RateLimited.
    """
    if not settings.JOBFARM["SIGN_UP"]:
        raise SignUpClosed
    try:
        with transaction.atomic():
            # Its one row is locked to the end: of two names that differ in capitals alone the second sees the first.
            ratelimits.limit(limits.SIGN_UP, throws=True)
            if queries.called(user.username):
                raise UsernameTaken(username=user.username)
            row = queries.lock_guest(guest.pk) if guest else None
            if row:  # else nobody, or a guest who signed up in another window or was seen off: a new account
                user.pk, user.date_joined = row.pk, row.user.date_joined
                row.delete()
            user.save()
    except IntegrityError as error:
        raise UsernameTaken(username=user.username) from error
    return user


@transaction.atomic
def person_of_proxy(name: str, *, email: str, groups: Iterable[str] | None) -> User:
    """Whom a proxy in front of this farm names, made if they are new; these groups of theirs are followed (None: it
    does not say). Raises InactiveUser."""
    new = {"email": User.objects.normalize_email(email), "password": make_password(None)}
    user = queries.called(name) or User.objects.get_or_create(username=name, defaults=new)[0]  # two windows at once
    if not user.is_active:
        raise InactiveUser(username=name)
    if groups is not None:
        follow_claims(user, groups)
    return user


@transaction.atomic
def follow_claims(user: User, claimed: Iterable[str]) -> None:
    """Put somebody into the groups that OIDC_GROUP_MAP names for these of the provider, and take them out of the others
    that it names. `staff` and `superuser` in it are no groups, but what they say.

    Groups that members made are left alone: nobody gets rights by having made up a name.
    """
    mapped: list[tuple[str, str]] = settings.OIDC_GROUP_MAP
    named = {str(group) for group in claimed}
    granted = {here for there, here in mapped if there in named}
    governed = {here for _, here in mapped}
    for name in sorted(governed - {STAFF, SUPERUSER}):
        group, _ = Group.objects.get_or_create(name=name)
        if queries.member_group(group.pk) is None and queries.is_member(user, group) != (name in granted):
            (user.groups.add if name in granted else user.groups.remove)(group)
    if STAFF in governed or SUPERUSER in governed:
        user.is_superuser = SUPERUSER in granted if SUPERUSER in governed else user.is_superuser
        user.is_staff = bool(granted & {STAFF, SUPERUSER})
        user.save(update_fields=["is_superuser", "is_staff"])
