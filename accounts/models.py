"""The tables of accounts. People and groups are Django's own: `auth.User`, `auth.Group`, `user.groups`."""

from django.conf import settings
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
        max_length=domain.HINT_LENGTH, editable=False, help_text="How its key begins."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Exact to a minute, so that calls need not write."
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "API token"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.key_hint}…)"


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
