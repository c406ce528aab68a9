"""Links that show a job without a log-in."""

import secrets

from django.contrib.auth.models import User

from core import audit
from jobs.models import Share
from jobs.queries import reads
from live import operations as live
from postgres import transactions


@transactions.retried
def share(job_id: int, *, by: User) -> Share:
    """The link that shows this job without a log-in, made at the first call. Raises NotFound, NotAllowed."""
    job = reads.operable(job_id, by=by)
    share, is_new = Share.objects.get_or_create(
        job_id=job.pk, defaults={"token": secrets.token_urlsafe(32), "created_by": by}
    )
    if is_new:
        audit.record(by, job, "shared by a link")
    return share


@transactions.retried
def move_link(token: str, job_id: int) -> None:
    """Have a link of the site's own, with this token, show this job from now on, and no other."""
    earlier = Share.objects.filter(token=token)
    moved = [*earlier.values_list("job_id", flat=True), job_id]
    earlier.delete()
    Share.objects.create(job_id=job_id, token=token)
    live.touch(*(f"share:{each}" for each in moved), f"link:{token}")


@transactions.retried
def unshare(job_id: int, *, by: User) -> None:
    """Make the job's link worthless. Raises NotFound, NotAllowed."""
    job = reads.operable(job_id, by=by)
    if Share.objects.filter(job_id=job.pk).delete()[0]:
        audit.record(by, job, "link withdrawn")
    live.touch(f"share:{job.pk}")
