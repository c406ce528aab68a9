"""Mail to the owner of an endpoint that takes nothing any more. Its page shows the same in any case."""

from django.conf import settings
from django.core.mail import send_mail

from outbox.models import Endpoint
from scheduling.operations import Retry, action


@action(timeout=60, retry=Retry(max_attempts=5))
def mail_owner(*, endpoint: int) -> bool:
    """Mail the owner, if there is one with an address and the farm has mail; whether that was so."""
    row = Endpoint.objects.select_related("owner").filter(pk=endpoint).first()
    if row is None or row.owner is None or not row.owner.email or not settings.HAS_MAIL_SERVER:
        return False
    subject = f"jobfarm: the endpoint {' '.join(row.name.split())} is {row.status}"
    where = f": {settings.JOBFARM_URL}/outbox/{row.pk}/" if settings.JOBFARM_URL else " on its page."
    text = f"{row.note}\n\nNo event goes to it until you change that{where}"
    return send_mail(subject, text, None, [row.owner.email]) > 0
