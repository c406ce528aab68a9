"""`{% load quotas %}{% usage user %}`: what a person's jobs have, and may have."""

from typing import Any, Final

from django import template
from django.contrib.auth.models import User
from django.template.defaultfilters import filesizeformat

from jobs import operations
from jobs.domain.quotas import Quota

register = template.Library()
_LABELS: Final = {
    "waiting jobs": "Pending jobs", "bytes of output": "Output", "files": "Files", "bytes of files": "Bytes of files"
}  # fmt: skip


@register.inclusion_tag("jobs/parts/usage.html")
def usage(user: User) -> dict[str, Any]:
    return {"rows": [(_LABELS[quota.resource], amount(quota)) for quota in operations.used(user.pk)]}


def amount(quota: Quota) -> str:
    """What is used, and of how much: "3 of 100,000"; without a quota what is used."""
    write = filesizeformat if quota.resource.startswith("bytes") else "{:,}".format
    return f"{write(quota.used)} of {write(quota.quota)}" if quota.quota else str(write(quota.used))
