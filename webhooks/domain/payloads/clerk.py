"""Clerk: an envelope with `data`; times in milliseconds. Needed is the id of what is kept."""

from typing import Generic, TypeVar

from webhooks.domain.payloads.base import Id, Many, Maybe, Millis, Payload

D = TypeVar("D", bound=Payload)


class Gone(Payload):
    """What is left of a deleted thing."""

    id: Id


class EmailAddress(Payload):
    """One of a user's addresses."""

    id: Id
    email_address: Maybe


class User(Payload):
    """A person. The least body there is has an id alone."""

    id: Id
    username: Maybe = ""
    first_name: Maybe = ""
    last_name: Maybe = ""
    email_addresses: Many[EmailAddress] = []
    primary_email_address_id: str | None = None
    banned: bool = False
    created_at: Millis | None = None
    updated_at: Millis | None = None

    @property
    def email(self) -> str:
        """The primary address, or the first, or ""."""
        addresses = {address.id: address.email_address for address in reversed(self.email_addresses)}
        return addresses.get(self.primary_email_address_id or "") or next(reversed(addresses.values()), "")

    @property
    def has_primary_email(self) -> bool:
        """Whether it names the primary address: of several, only by its id."""
        fields = self.model_fields_set
        return "email_addresses" in fields and ("primary_email_address_id" in fields or len(self.email_addresses) < 2)

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.username or self.email or self.id


class Organization(Payload):
    """A group of people. It also comes inside of memberships."""

    id: Id
    name: Maybe = ""
    slug: Maybe = ""
    created_at: Millis | None = None
    updated_at: Millis | None = None

    @property
    def label(self) -> str:
        return self.name or self.slug or self.id


class PublicUser(Payload):
    """What a membership says of its user."""

    user_id: Id
    identifier: Maybe = ""
    first_name: Maybe = ""
    last_name: Maybe = ""

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.identifier or self.user_id


class Membership(Payload):
    """Who is in an organization, as what."""

    id: Id
    role: Maybe = ""
    organization: Organization | None = None
    public_user_data: PublicUser | None = None
    created_at: Millis | None = None
    updated_at: Millis | None = None


class Invitation(Payload):
    """Somebody is asked into an organization."""

    email_address: Maybe = ""
    organization_id: Id | None = None


class Session(Payload):
    """A log-in on one device."""

    id: Id
    user_id: Id | None = None
    status: Maybe = ""
    last_active_at: Millis | None = None
    expire_at: Millis | None = None
    created_at: Millis | None = None
    updated_at: Millis | None = None


class Envelope(Payload, Generic[D]):
    """What every delivery is wrapped in."""

    data: D
    timestamp: Millis | None = None
