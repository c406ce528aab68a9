"""Reads and single statements of accounts."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.contrib.auth.models import Group, Permission, User
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from accounts.models import ApiToken, OneTimeLink

USE_NOTED_EVERY = timedelta(
    minutes=1
)  # a page that says "a minute ago" is served; a write for each call is not


def live_token(key_hash: str) -> tuple[ApiToken, bool] | None:
    """The token with this hash and its user, and whether its last use was noted within the last minute.

    None if it was revoked or its user may not log in.
    """
    noted = ExpressionWrapper(Q(last_used_at__gt=Now() - USE_NOTED_EVERY), output_field=BooleanField())
    tokens = ApiToken.objects.select_related("user").annotate(is_noted=noted)
    token = tokens.filter(key_hash=key_hash, revoked_at=None, user__is_active=True).first()
    return (token, token.is_noted is True) if token else None


def note_use(token: ApiToken) -> None:
    """Remember that the token was used just now; of many who call at once, one writes."""
    unnoted = Q(last_used_at=None) | Q(last_used_at__lte=Now() - USE_NOTED_EVERY)
    ApiToken.objects.filter(unnoted, pk=token.pk).update(last_used_at=Now())


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The tokens of a person that still open something, newest first."""
    return ApiToken.objects.filter(user=user, revoked_at=None)


def revoke(token_id: int, *, owner: User | None) -> int | None:
    """Revoke a token (if an owner is named, only theirs). The id of its user, or None if there was none."""
    tokens = ApiToken.objects.filter(pk=token_id, **({"user": owner} if owner else {}))
    if not tokens.filter(revoked_at=None).update(revoked_at=Now()):
        return None
    return tokens.values_list("user_id", flat=True).get()


def spend(token_hash: str, *, now: datetime) -> OneTimeLink | None:
    """Use a one-time link up and give it back, or None when there was nothing to use.

    The conditions are columns of the row itself, never of a join: of two who come at once, the second waits
    for the first and then looks at the row anew; a subquery would be looked at with old eyes and let both in.
    """
    usable = OneTimeLink.objects.filter(token_hash=token_hash, used_at=None, expires_at__gt=now)
    if not usable.update(used_at=now):
        return None
    return OneTimeLink.objects.select_related("user").get(token_hash=token_hash)


def is_usable(token_hash: str, *, now: datetime) -> bool:
    """Whether a one-time link would log somebody in."""
    links = OneTimeLink.objects.filter(token_hash=token_hash, used_at=None, expires_at__gt=now)
    return links.filter(user__is_active=True).exists()


def forget_links(user: User, *, before: datetime) -> None:
    """Delete a person's links that ran out before this moment."""
    OneTimeLink.objects.filter(user=user, expires_at__lt=before).delete()


def person(username: str) -> User | None:
    """Who has this name."""
    return User.objects.filter(username=username).first()


def administrator() -> User | None:
    """The oldest superuser who may log in."""
    return User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()


def people_in(groups: Iterable[Group | int]) -> list[int]:
    """Ids of everybody in any of these groups."""
    return list(User.objects.filter(groups__in=groups).values_list("pk", flat=True).distinct())


def people_with(permission: Permission) -> list[int]:
    """Ids of everybody who has this permission, by themselves or through a group."""
    holds = Q(user_permissions=permission) | Q(groups__permissions=permission)
    return list(User.objects.filter(holds).values_list("pk", flat=True).distinct())
