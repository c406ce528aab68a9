"""Clerk: people, organizations, memberships and log-ins.

A state is as new as the resource's `updated_at` in milliseconds; where there is none, as its event. Ids are never given
again, so what was deleted stays so.
"""

from datetime import datetime

from webhooks.domain.payloads import clerk
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models import ClerkMembership, ClerkOrganization, ClerkSession, ClerkUser
from webhooks.queries.upserts import tombstone, upsert

_RANKS = {"created": 0, "updated": 1}  # what else there is ends something
_SESSIONS = {"created": "logged in", "ended": "logged out", "removed": "logged out", "revoked": "was logged out"}


@handles("clerk", "user.created", "user.updated")
def user(event: Event) -> None:
    """Somebody signed up, or changed."""
    payload = event.read(clerk.Envelope[clerk.User])
    person = payload.data
    upsert(
        ClerkUser,
        person.id,
        _version(event, payload.timestamp, person.updated_at),
        email=person.email if person.has_primary_email else ABSENT,
        **person.columns("username", "first_name", "last_name", "banned", "created_at"),
    )
    if event.type == "user.created":  # changes emit nothing: every log-in is one
        at = payload.timestamp or person.updated_at
        emit(
            event,
            ActivityEntry(actor=person.name, verb="signed up", object="", at=at, kind="clerkuser", resource=person.id),
        )


@handles("clerk", "organization.created", "organization.updated")
def organization(event: Event) -> None:
    """An organization was made, or changed."""
    payload = event.read(clerk.Envelope[clerk.Organization])
    version = event.version(payload.data.updated_at, payload.timestamp, rank=1 + _rank(event))
    _upsert_organization(payload.data, version)
    emit(event, _about_organization(payload.data, event.action, at=payload.timestamp or payload.data.updated_at))


@handles("clerk", "user.deleted", "organization.deleted", "organizationMembership.deleted")
def deleted(event: Event) -> None:
    """Something is gone. Of people and organizations the body gives the id alone."""
    payload = event.read(clerk.Envelope[clerk.Gone])
    at = payload.timestamp or event.occurred_at
    if event.type == "organizationMembership.deleted":
        _leave(event)
        tombstone(ClerkMembership, payload.data.id, at=at)
        return
    table = ClerkUser if event.type == "user.deleted" else ClerkOrganization
    tombstone(table, payload.data.id, at=at)
    label = "account" if table is ClerkUser else "organization"
    entry = ActivityEntry(
        verb="deleted",
        object=f"{label} {payload.data.id}",
        at=at,
        kind=table.__name__.lower(),
        resource=payload.data.id,
    )
    emit(event, entry)


@handles("clerk", "organizationMembership.created", "organizationMembership.updated")
def membership(event: Event) -> None:
    """Somebody came into an organization, or has another role in it."""
    payload = event.read(clerk.Envelope[clerk.Membership])
    _upsert_membership(event, payload)
    verb = "joined" if event.type.endswith("created") else f"became {payload.data.role or 'another'} of"
    emit(event, _about_membership(payload, verb))


@handles("clerk", *(f"organizationInvitation.{action}" for action in ("created", "accepted", "revoked")))
def invitation(event: Event) -> None:
    """Somebody is asked into an organization, and says yes, or is asked no more. Nothing is kept of it."""
    payload = event.read(clerk.Envelope[clerk.Invitation])
    organization_id = payload.data.organization_id or ""
    verb = {"created": "was invited to", "accepted": "accepted the invitation to"}.get(
        event.action, "lost the invitation to"
    )
    entry = ActivityEntry(
        actor=payload.data.email_address,
        verb=verb,
        object=f"organization {organization_id}" if organization_id else "an organization",
        at=payload.timestamp,
        kind="clerkorganization" if organization_id else "",
        resource=organization_id,
    )
    emit(event, entry)


@handles("clerk", "session.created", "session.ended", "session.removed", "session.revoked")
def session(event: Event) -> None:
    """Somebody logged in or out."""
    payload = event.read(clerk.Envelope[clerk.Session])
    log_in = payload.data
    upsert(
        ClerkSession,
        log_in.id,
        _version(event, payload.timestamp, log_in.updated_at),
        **log_in.columns("status", "last_active_at", "created_at", parent="user_id", expires_at="expire_at"),
    )
    entry = ActivityEntry(
        actor=log_in.user_id or "somebody",
        verb=_SESSIONS[event.action],
        object="",
        at=payload.timestamp or log_in.updated_at,
        kind="clerkuser" if log_in.user_id else "",
        resource=log_in.user_id or "",
    )
    emit(event, entry)


def _upsert_organization(payload: clerk.Organization, version: Version) -> None:
    upsert(ClerkOrganization, payload.id, version, **payload.columns("name", "slug", "created_at"))


def _upsert_membership(event: Event, payload: clerk.Envelope[clerk.Membership]) -> None:
    """Its organization comes along, so that a membership shows a name although organization.created was lost."""
    organization, user = payload.data.organization, payload.data.public_user_data
    if organization:  # its own events know best: rank 0
        _upsert_organization(organization, event.version(organization.updated_at, payload.timestamp))
    upsert(
        ClerkMembership,
        payload.data.id,
        _version(event, payload.timestamp, payload.data.updated_at),
        parent=organization.id if organization else ABSENT,
        user_id=user.user_id if user else ABSENT,
        **payload.data.columns("role", "created_at"),
    )


def _leave(event: Event) -> None:
    """The body is the whole membership as it last was, without a word that it is gone."""
    payload = event.read(clerk.Envelope[clerk.Membership])
    _upsert_membership(event, payload)
    emit(event, _about_membership(payload, "left"))


def _about_organization(payload: clerk.Organization, verb: str, *, at: datetime | None) -> ActivityEntry:
    return ActivityEntry(
        verb=verb, object=f"organization {payload.label}", at=at, kind="clerkorganization", resource=payload.id
    )


def _about_membership(payload: clerk.Envelope[clerk.Membership], verb: str) -> ActivityEntry:
    organization, user = payload.data.organization, payload.data.public_user_data
    return ActivityEntry(
        actor=user.name if user else "somebody",
        verb=verb,
        object=f"organization {organization.label}" if organization else "an organization",
        at=payload.timestamp or payload.data.updated_at,
        kind="clerkorganization" if organization else "",
        resource=organization.id if organization else "",
    )


def _version(event: Event, timestamp: datetime | None, updated_at: datetime | None) -> Version:
    return event.version(updated_at, timestamp, rank=_rank(event))


def _rank(event: Event) -> int:
    return _RANKS.get(event.action, 2)
