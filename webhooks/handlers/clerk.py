"""Clerk: people, organizations, memberships and log-ins.

A state is as new as the resource's `updated_at` in milliseconds; where there is none, as its event. Ids are never given
again, so what was deleted stays so.
"""

from collections.abc import Mapping
from typing import Any

from webhooks.domain.parts import ABSENT, ID, OBJECTS, TEXT, Kind, Part, Version, fields
from webhooks.handlers.activity import Line, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models.resources import ClerkMembership, ClerkOrganization, ClerkSession, ClerkUser
from webhooks.queries.results import tombstone, upsert

_USER = fields(text="username first_name last_name", flag="banned", moment="created_at")
_ORGANIZATION = fields(text="name slug", moment="created_at")
_MEMBERSHIP = fields(text="role", moment="created_at", id="parent=organization.id user_id=public_user_data.user_id")
_SESSION = fields(text="status", id="parent=user_id", moment="last_active_at created_at expires_at=expire_at")
_RANKS = {"created": 0, "updated": 1}  # what else there is ends something
_SESSIONS = {"created": "logged in", "ended": "logged out", "removed": "logged out", "revoked": "was logged out"}
_INVITATIONS = {
    "created": "was invited to",
    "accepted": "accepted the invitation to",
    "revoked": "lost the invitation to",
}


class _Report:
    def __init__(self, event: Event, *, needs_id: bool = True) -> None:
        self.event, self.body = event, event.read()
        self.data = self.body.need_part("data")
        self.id = self.data.need("id", ID) if needs_id else ""
        self.sent_at = self.body.moment("timestamp")
        self.at = self.sent_at or self.data.moment("updated_at")
        self.gone_at = self.sent_at or event.occurred_at

    def version(self, part: Part, rank: int | None = None) -> Version:
        rank = _RANKS.get(self.event.action, 2) if rank is None else rank
        return self.event.version(part.moment("updated_at"), self.sent_at, rank=rank)

    def emit(self, verb: str, target: str = "", **rest: Any) -> None:
        emit(self.event, Line(verb, target, **{"at": self.at, **rest}))


@handles("clerk", "user.created", "user.updated")
def user(event: Event) -> None:
    report = _Report(event)
    person, email = report.data, _email(report.data)
    upsert(ClerkUser, report.id, report.version(person), email=email, **person.document(_USER))
    if event.action == "created":  # changes emit nothing: every log-in is one
        name = _full_name(person) or person.text("username") or (email if isinstance(email, str) else "") or report.id
        report.emit("signed up", actor=name, about=(ClerkUser, report.id))


@handles("clerk", "organization.created", "organization.updated")
def organization(event: Event) -> None:
    report = _Report(event)
    version = report.version(report.data, 1 + _RANKS[event.action])
    upsert(ClerkOrganization, report.id, version, **report.data.document(_ORGANIZATION))
    report.emit(event.action, _organization(report.data), about=(ClerkOrganization, report.id))


@handles("clerk", "user.deleted", "organization.deleted")
def deleted(event: Event) -> None:
    report = _Report(event)
    table, label = (ClerkUser, "account") if event.type == "user.deleted" else (ClerkOrganization, "organization")
    tombstone(table, report.id, at=report.gone_at)
    report.emit("deleted", f"{label} {report.id}", at=report.gone_at, about=(table, report.id))


@handles("clerk", *(f"organizationMembership.{action}" for action in ("created", "updated", "deleted")))
def membership(event: Event) -> None:
    """Somebody came into an organization, has another role in it, or left: then the body is the whole membership as it
    last was. Its organization comes along, so that a membership shows a name although organization.created was lost."""
    report = _Report(event)
    data, organization, person = report.data, report.data.part("organization"), report.data.part("public_user_data")
    organization_id = organization.get("id", ID)
    if organization_id:  # its own events know best: rank 0
        upsert(
            ClerkOrganization, organization_id, report.version(organization, 0), **organization.document(_ORGANIZATION)
        )  # fmt: skip
    upsert(ClerkMembership, report.id, report.version(data), **data.document(_MEMBERSHIP))
    if event.action == "deleted":
        tombstone(ClerkMembership, report.id, at=report.gone_at)
    verbs = {"created": "joined", "deleted": "left"}
    report.emit(
        verbs.get(event.action, f"became {data.text('role') or 'another'} of"),
        _organization(organization),
        actor=_full_name(person) or person.text("identifier") or person.get("user_id", ID) or "somebody",
        about=(ClerkOrganization, organization_id),
    )


@handles("clerk", *(f"organizationInvitation.{action}" for action in _INVITATIONS))
def invitation(event: Event) -> None:
    """Somebody is asked into an organization, and says yes, or is asked no more. Nothing is kept of it."""
    report = _Report(event, needs_id=False)
    organization_id = report.data.get("organization_id", ID)
    target = f"organization {organization_id}" if organization_id else "an organization"
    about = ClerkOrganization, organization_id
    report.emit(
        _INVITATIONS[event.action], target, actor=report.data.text("email_address"), at=report.sent_at, about=about
    )


@handles("clerk", *(f"session.{action}" for action in _SESSIONS))
def session(event: Event) -> None:
    report = _Report(event)
    upsert(ClerkSession, report.id, report.version(report.data), **report.data.document(_SESSION))
    user_id = report.data.get("user_id", ID)
    report.emit(_SESSIONS[event.action], actor=user_id or "somebody", about=(ClerkUser, user_id))


def _full_name(person: Part) -> str:
    return f"{person.text('first_name')} {person.text('last_name')}".strip()


def _organization(part: Part) -> str:
    name = part.text("name") or part.text("slug") or part.get("id", ID)
    return f"organization {name}" if name else "an organization"


def _email(person: Part) -> Any:
    """The primary address, or the first, or "". ABSENT where nobody knows which it is: of several, only their id."""
    primary: Any = person.look("primary_email_address_id", ID)
    addresses = person.look("email_addresses", _ADDRESSES)
    if addresses is ABSENT or (primary is ABSENT and len(addresses) > 1):
        return ABSENT
    return addresses.get(primary) or next(iter(addresses.values()), "")


def _address(item: Mapping[str, Any]) -> str:
    if "email_address" not in item:
        raise ValueError("should have an address")
    return TEXT.read(item["email_address"] or "")


_ADDRESSES = Kind(lambda value: {ID.read(item.get("id")): _address(item) for item in OBJECTS.read(value)}, null={})
