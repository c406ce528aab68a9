"""Clerk: people, organizations, memberships and log-ins.

A state is as new as the thing's `updated_at` in milliseconds; where there is none, as its event. Ids are never given
again, so what was deleted stays so.
"""

from datetime import datetime

from webhooks.domain.payloads import clerk
from webhooks.domain.payloads.base import read
from webhooks.domain.staleness import Version
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
    told = read(clerk.Envelope[clerk.User], event.body)
    person = told.data
    keep(
        ClerkUser,
        person.id,
        _version(event, told.timestamp, person.updated_at),
        email=person.email,
        username=person.username,
        first_name=person.first_name,
        last_name=person.last_name,
        banned=person.banned,
        created_at=person.created_at,
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
    told = read(clerk.Envelope[clerk.Organization], event.body)
    at = told.data.updated_at or told.timestamp or event.occurred_at
    _keep_organization(told.data, Version(at=at, rank=1 + _rank(event)))
    tell(event, _about_organization(told.data, _action(event), at=told.timestamp or told.data.updated_at))


@handles("clerk", "user.deleted", "organization.deleted", "organizationMembership.deleted")
def deleted(event: Event) -> None:
    """Something is gone. Of people and organizations the body gives the id alone."""
    told = read(clerk.Envelope[clerk.Gone], event.body)
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
    told = read(clerk.Envelope[clerk.Membership], event.body)
    _keep_membership(event, told)
    verb = "joined" if event.type.endswith("created") else f"became {told.data.role} of"
    tell(event, _about_membership(told, verb))


@handles("clerk", "organizationInvitation.*")
def invitation(event: Event) -> None:
    """Somebody is asked into an organization, and says yes, or is asked no more. Nothing is kept of it."""
    told = read(clerk.Envelope[clerk.Invitation], event.body)
    verb = {"created": "was invited to", "accepted": "accepted the invitation to"}.get(
        _action(event), "lost the invitation to"
    )
    line = Line(
        actor=told.data.email_address,
        verb=verb,
        object=f"organization {told.data.organization_id}",
        at=told.timestamp,
        kind="clerkorganization",
        thing=told.data.organization_id,
    )
    tell(event, line)


@handles("clerk", "session.created", "session.ended", "session.removed", "session.revoked")
def session(event: Event) -> None:
    """Somebody logged in or out."""
    told = read(clerk.Envelope[clerk.Session], event.body)
    log_in = told.data
    keep(
        ClerkSession,
        log_in.id,
        _version(event, told.timestamp, log_in.updated_at),
        user_id=log_in.user_id,
        status=log_in.status,
        last_active_at=log_in.last_active_at,
        expires_at=log_in.expire_at,
        created_at=log_in.created_at,
    )
    line = Line(
        actor=log_in.user_id,
        verb=_SESSIONS[_action(event)],
        object="",
        at=told.timestamp or log_in.updated_at,
        kind="clerkuser",
        thing=log_in.user_id,
    )
    tell(event, line)


def _keep_organization(told: clerk.Organization, version: Version) -> None:
    keep(
        ClerkOrganization,
        told.id,
        version,
        name=told.name,
        slug=told.slug,
        created_at=told.created_at,
    )


def _keep_membership(event: Event, told: clerk.Envelope[clerk.Membership]) -> None:
    """Its organization comes along, so that a membership shows a name although organization.created was lost."""
    organization = told.data.organization
    at = organization.updated_at or told.timestamp or event.occurred_at
    _keep_organization(organization, Version(at=at, rank=0))  # its own events know best
    keep(
        ClerkMembership,
        told.data.id,
        _version(event, told.timestamp, told.data.updated_at),
        organization_id=told.data.organization.id,
        user_id=told.data.public_user_data.user_id,
        role=told.data.role,
        created_at=told.data.created_at,
    )


def _leave(event: Event) -> None:
    """The body is the whole membership as it last was, without a word that it is gone."""
    told = read(clerk.Envelope[clerk.Membership], event.body)
    _keep_membership(event, told)
    tell(event, _about_membership(told, "left"))


def _about_organization(told: clerk.Organization, verb: str, *, at: datetime | None) -> Line:
    return Line(verb=verb, object=f"organization {told.name}", at=at, kind="clerkorganization", thing=told.id)


def _about_membership(told: clerk.Envelope[clerk.Membership], verb: str) -> Line:
    return Line(
        actor=told.data.public_user_data.name,
        verb=verb,
        object=f"organization {told.data.organization.name}",
        at=told.timestamp or told.data.updated_at,
        kind="clerkorganization",
        thing=told.data.organization.id,
    )


def _version(event: Event, timestamp: datetime | None, updated_at: datetime | None) -> Version:
    return Version(at=updated_at or timestamp or event.occurred_at, rank=_rank(event))


def _rank(event: Event) -> int:
    return _RANKS.get(_action(event), 2)


def _action(event: Event) -> str:
    return event.type.rpartition(".")[2]
