"""Clerk: people, organizations, memberships and log-ins.

A state is as new as the thing's `updated_at` in milliseconds; where there is none, as its event. Ids are never given
again, so what was deleted stays so.
"""

from datetime import datetime

from webhooks.domain.payloads import clerk
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.handlers.dating import dated
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell
from webhooks.models import ClerkMembership, ClerkOrganization, ClerkSession, ClerkUser
from webhooks.queries.keeping import bury, keep

_RANKS = {"created": 0, "updated": 1}  # what else there is ends something
_SESSIONS = {
    "created": "logged in",
    "ended": "logged out",
    "removed": "logged out",
    "revoked": "was logged out",
}


@handles("clerk", "user.created", "user.updated")
def user(event: Event) -> None:
    """Somebody signed up, or changed."""
    told = event.read(clerk.Envelope[clerk.User])
    person = told.data
    keep(
        ClerkUser,
        person.id,
        _version(event, told.timestamp, person.updated_at),
        email=person.email if person.says_email else ABSENT,
        username=person.sent("username"),
        first_name=person.sent("first_name"),
        last_name=person.sent("last_name"),
        banned=person.sent("banned"),
        created_at=person.sent("created_at"),
    )
    if event.type == "user.created":  # changes are not told: every log-in is one
        at = told.timestamp or person.updated_at
        tell(
            event,
            Line(actor=person.name, verb="signed up", object="", at=at, kind="clerkuser", thing=person.id),
        )


@handles("clerk", "organization.created", "organization.updated")
def organization(event: Event) -> None:
    """An organization was made, or changed."""
    told = event.read(clerk.Envelope[clerk.Organization])
    version = dated(event, told.data.updated_at, told.timestamp, rank=1 + _rank(event))
    _keep_organization(told.data, version)
    tell(event, _about_organization(told.data, _action(event), at=told.timestamp or told.data.updated_at))


@handles("clerk", "user.deleted", "organization.deleted", "organizationMembership.deleted")
def deleted(event: Event) -> None:
    """Something is gone. Of people and organizations the body gives the id alone."""
    told = event.read(clerk.Envelope[clerk.Gone])
    at = told.timestamp or event.occurred_at
    if event.type == "organizationMembership.deleted":
        _leave(event)
        bury(ClerkMembership, told.data.id, at=at)
        return
    table = ClerkUser if event.type == "user.deleted" else ClerkOrganization
    bury(table, told.data.id, at=at)
    what = "account" if table is ClerkUser else "organization"
    line = Line(
        verb="deleted",
        object=f"{what} {told.data.id}",
        at=at,
        kind=table.__name__.lower(),
        thing=told.data.id,
    )
    tell(event, line)


@handles("clerk", "organizationMembership.created", "organizationMembership.updated")
def membership(event: Event) -> None:
    """Somebody came into an organization, or has another role in it."""
    told = event.read(clerk.Envelope[clerk.Membership])
    _keep_membership(event, told)
    verb = "joined" if event.type.endswith("created") else f"became {told.data.role or 'another'} of"
    tell(event, _about_membership(told, verb))


@handles("clerk", *(f"organizationInvitation.{action}" for action in ("created", "accepted", "revoked")))
def invitation(event: Event) -> None:
    """Somebody is asked into an organization, and says yes, or is asked no more. Nothing is kept of it."""
    told = event.read(clerk.Envelope[clerk.Invitation])
    organization_id = told.data.organization_id or ""
    verb = {"created": "was invited to", "accepted": "accepted the invitation to"}.get(
        _action(event), "lost the invitation to"
    )
    line = Line(
        actor=told.data.email_address,
        verb=verb,
        object=f"organization {organization_id}" if organization_id else "an organization",
        at=told.timestamp,
        kind="clerkorganization" if organization_id else "",
        thing=organization_id,
    )
    tell(event, line)


@handles("clerk", "session.created", "session.ended", "session.removed", "session.revoked")
def session(event: Event) -> None:
    """Somebody logged in or out."""
    told = event.read(clerk.Envelope[clerk.Session])
    log_in = told.data
    keep(
        ClerkSession,
        log_in.id,
        _version(event, told.timestamp, log_in.updated_at),
        user_id=log_in.sent("user_id"),
        status=log_in.sent("status"),
        last_active_at=log_in.sent("last_active_at"),
        expires_at=log_in.sent("expire_at"),
        created_at=log_in.sent("created_at"),
    )
    line = Line(
        actor=log_in.user_id or "somebody",
        verb=_SESSIONS[_action(event)],
        object="",
        at=told.timestamp or log_in.updated_at,
        kind="clerkuser" if log_in.user_id else "",
        thing=log_in.user_id or "",
    )
    tell(event, line)


def _keep_organization(told: clerk.Organization, version: Version) -> None:
    keep(
        ClerkOrganization,
        told.id,
        version,
        name=told.sent("name"),
        slug=told.sent("slug"),
        created_at=told.sent("created_at"),
    )


def _keep_membership(event: Event, told: clerk.Envelope[clerk.Membership]) -> None:
    """Its organization comes along, so that a membership shows a name although organization.created was lost."""
    organization, user = told.data.organization, told.data.public_user_data
    if organization:  # its own events know best: rank 0
        _keep_organization(organization, dated(event, organization.updated_at, told.timestamp))
    keep(
        ClerkMembership,
        told.data.id,
        _version(event, told.timestamp, told.data.updated_at),
        organization_id=organization.id if organization else ABSENT,
        user_id=user.user_id if user else ABSENT,
        role=told.data.sent("role"),
        created_at=told.data.sent("created_at"),
    )


def _leave(event: Event) -> None:
    """The body is the whole membership as it last was, without a word that it is gone."""
    told = event.read(clerk.Envelope[clerk.Membership])
    _keep_membership(event, told)
    tell(event, _about_membership(told, "left"))


def _about_organization(told: clerk.Organization, verb: str, *, at: datetime | None) -> Line:
    return Line(
        verb=verb, object=f"organization {told.label}", at=at, kind="clerkorganization", thing=told.id
    )


def _about_membership(told: clerk.Envelope[clerk.Membership], verb: str) -> Line:
    organization, user = told.data.organization, told.data.public_user_data
    return Line(
        actor=user.name if user else "somebody",
        verb=verb,
        object=f"organization {organization.label}" if organization else "an organization",
        at=told.timestamp or told.data.updated_at,
        kind="clerkorganization" if organization else "",
        thing=organization.id if organization else "",
    )


def _version(event: Event, timestamp: datetime | None, updated_at: datetime | None) -> Version:
    return dated(event, updated_at, timestamp, rank=_rank(event))


def _rank(event: Event) -> int:
    return _RANKS.get(_action(event), 2)


def _action(event: Event) -> str:
    return event.type.rpartition(".")[2]
