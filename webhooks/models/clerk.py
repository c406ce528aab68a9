"""Clerk: people, the organizations they are in, and their log-ins."""

from django.db import models

from webhooks.models.resources import Resource, indexes_by, member_of, moment, short


class ClerkUser(Resource):
    """A person who can log in."""

    email = short()
    username = short()
    first_name = short()
    last_name = short()
    banned = models.BooleanField(default=False)
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Clerk user"

    def __str__(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.username or self.email or self.external_id


class ClerkOrganization(Resource):
    """A group of people."""

    name = short()
    slug = short()
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Clerk organization"

    def __str__(self) -> str:
        return self.name or self.external_id


class ClerkMembership(Resource):
    """Who is in an organization, as what."""

    organization = member_of("ClerkOrganization", related_name="memberships")
    user = member_of("ClerkUser", related_name="memberships")
    role = short()
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Clerk membership"
        indexes = indexes_by("organization", "user")


class ClerkSession(Resource):
    """A log-in on one device."""

    user = member_of("ClerkUser", related_name="sessions")
    status = short()
    last_active_at = moment()
    expires_at = moment()
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Clerk session"
        indexes = indexes_by("user")
