"""The tables of accounts. People and groups are Django's own: `auth.User`, `auth.Group`, `user.groups`."""

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from accounts import domain


class ApiToken(models.Model):
    """What a person's programs show instead of a password. Only its hash is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=domain.NAME_LIMIT, help_text="What it is for.")
    key_hash = models.CharField(max_length=64, unique=True, editable=False)
    key_hint = models.CharField(
        "key", max_length=domain.HINT_LENGTH, editable=False, help_text="The first characters of its key."
    )
    scopes = models.CharField(
        max_length=100, editable=False, help_text="Its scopes, separated by spaces.",
        db_default="submit read operate",  # of tokens that a farm of the release before makes meanwhile
    )  # fmt: skip
    keep_content = models.BooleanField(
        default=True, db_default=True, editable=False,
        help_text="Whether what its jobs were given and gave is kept for longer than minutes after their end.",
    )  # fmt: skip
    created_at = models.DateTimeField("created", db_default=Now(), editable=False)
    expires_at = models.DateTimeField(
        "expires", null=True, blank=True, editable=False,
        help_text="It is not valid from then on; empty: until it is revoked.",
    )  # fmt: skip
    last_used_at = models.DateTimeField(
        "last used", null=True, blank=True, editable=False, help_text="To the minute, so that not every call writes."
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    addresses = ArrayField(models.CharField(max_length=60), db_default=[], editable=False)
    # Of a token that was read for an earlier call: as which versions of its row and its person's (docs/adr/0115).
    versions: tuple[str, str] | None = None

    class Meta:
        verbose_name = "API token"
        ordering = ["-id"]
        indexes = [  # what the sweep of those that ran out reads: a few rows, however many were revoked
            models.Index(
                fields=["expires_at"],
                condition=Q(revoked_at__isnull=True, expires_at__isnull=False),
                name="accounts_tokens_that_end",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.key_hint}…)"

    def may(self, scope: str) -> bool:
        return scope in self.scopes.split()


class OneTimeLink(models.Model):
    """A link that logs one person in, once, until it runs out. Only the hash of its token is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="one_time_links")
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="one_time_link_is_used_before_it_expires",
                condition=Q(used_at__isnull=True) | Q(used_at__lt=F("expires_at")),
            )
        ]

    def __str__(self) -> str:
        return f"link for {self.user}"


class AuditEvent(models.Model):
    """What happened at the doors of the farm: a line of the audit log that is none of Django's own."""

    id = models.AutoField(primary_key=True)  # of the sequence of Django's log, so that both have one order
    at = models.DateTimeField(db_default=Now(), db_index=True, editable=False)
    event = models.CharField(max_length=30)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    about = models.CharField(max_length=200)
    address = models.CharField(max_length=60, blank=True)
    detail = models.TextField(blank=True)
    # What it is about where that is no person: of the lines that staff left who were deleted. A type may be gone.
    content_type = models.ForeignKey(
        ContentType, models.DO_NOTHING, null=True, related_name="+", db_constraint=False, db_index=False, editable=False
    )
    object_id = models.TextField(null=True, editable=False)

    class Meta:
        verbose_name = "event of people"
        verbose_name_plural = "events of people"


class AuditLine(models.Model):
    """A line of the audit log: an AuditEvent, or one of Django's log of what staff do."""

    COLUMNS: ClassVar = ("id", "at", "event", "by", "about", "object_id", "address", "detail")

    id = models.IntegerField(primary_key=True)
    at = models.DateTimeField()
    event = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.DO_NOTHING, null=True, related_name="+")
    content_type = models.ForeignKey(ContentType, models.DO_NOTHING, null=True, related_name="+")
    object_id = models.TextField()
    about = models.TextField()
    address = models.TextField()
    detail = models.TextField()

    class Meta:
        managed = False
        db_table = "accounts_audit_line"
        verbose_name = "audit log"
        verbose_name_plural = "audit log"

    def __str__(self) -> str:
        return f"{self.event} {self.about}"

    @property
    def row(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.COLUMNS}
        by = self.by.get_username() if self.by else None
        return {**values, "at": self.at.isoformat(), "by": by, "detail": self.summary}

    @property
    def summary(self) -> str:
        """What was done, in words: the administration writes it as JSON."""
        return LogEntry(change_message=self.detail).get_change_message()


class MemberGroup(models.Model):
    """What makes a group one that people made and join by a link. Groups that staff made have no such row. Its members
    are `group.user_set`, as of every group, in the order of their joining; the first of them keeps it."""

    group = models.OneToOneField(Group, models.CASCADE, primary_key=True, related_name="by_members")
    maker = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="groups_made"
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    invitation = models.PositiveIntegerField(
        default=1, editable=False, help_text="The number of its valid invitation; earlier ones are not valid."
    )
    is_inviting = models.BooleanField(default=True, help_text="Whether its invitation is valid.")

    class Meta:
        verbose_name = "group of members"
        verbose_name_plural = "groups of members"
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return str(self.group)


class Guest(models.Model):
    """What makes somebody a guest: let in by a captcha, without name or password, for one session and a month. Who
    signs up in that session keeps the account and loses this row; who does not is retired when it has ended."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="as_guest")
    session_id = models.CharField(
        max_length=domain.SESSION_ID_LENGTH, unique=True, editable=False, help_text="The key of their rate limits."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(db_index=True)
    retired_at = models.DateTimeField(
        null=True, blank=True, editable=False,
        help_text="The account was kept for the rows that refer to it; nobody can log in.",
    )  # fmt: skip

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return str(self.user)
