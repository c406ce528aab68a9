"""How often people may submit and workers may ask in vain. Kinds may have limits of their own (`Kind.limit`)."""

from datetime import timedelta

from django.conf import settings

from ratelimits.operations import TokenBucket, declare

_MINUTE = timedelta(minutes=1)
_PER_MINUTE: float = settings.JOBFARM["SUBMIT_PER_MINUTE"]
_BURST: float = settings.JOBFARM["SUBMIT_BURST"]

# Jobs, not calls: a bulk counts each of its own. A person may have twice of what one token may, so that a program
# that runs wild leaves its owner room for the others and for the browser.
SUBMIT_TOKEN = declare("submit/token", TokenBucket(_PER_MINUTE, _MINUTE, capacity=_BURST))
SUBMIT_USER = declare("submit/user", TokenBucket(2 * _PER_MINUTE, _MINUTE, capacity=2 * _BURST))
# Claims over HTTP that would not wait and found nothing. A worker that waits, or has a socket, never comes near it.
EMPTY_CLAIMS = declare("empty-claims", TokenBucket(60, _MINUTE, capacity=120))
