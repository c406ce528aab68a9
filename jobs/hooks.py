"""What jobs take from other apps."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models.signals import post_save, pre_delete
from django.dispatch import receiver

from jobs.models import Share
from jobs.operations import waits
from live import operations as live
from outbox import operations as outbox


@receiver(post_save, sender=User)
def _person_saved(instance: User, **_: Any) -> None:
    """Pages that are open by their share links ask again whether these still show anything."""
    if not instance.is_active:
        live.touch(*(f"share:{job_id}" for job_id in _shared_by(instance)))


@receiver(pre_delete, sender=User)
def _person_deleted(instance: User, **_: Any) -> None:
    """Their share links go with them: without a maker they would pass for the site's own."""
    live.touch(*(f"share:{job_id}" for job_id in _shared_by(instance)))
    Share.objects.filter(created_by=instance).delete()


def _shared_by(person: User) -> list[int]:
    return list(Share.objects.filter(created_by=person).values_list("job_id", flat=True))


outbox.register_scheme(waits.SCHEME, check=waits.check_address, take=waits.take_event)
