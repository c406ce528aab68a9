"""The button that starts it."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.http import limit_key, members_only
from core import people
from examples.translation import limits
from examples.translation.handlers import JOBS
from jobs import operations as jobs
from jobs.errors import JobsError
from jobs.http import once
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited


@members_only
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Submit it as the person's own, and go to the page where it is watched."""
    person = people.person(request)
    try:
        flow_id = once(request, person, lambda: _started(request, person))
    except (JobsError, RateLimited) as refusal:
        messages.error(request, refusal.message)
        return HttpResponseRedirect(reverse("overview"))
    return HttpResponseRedirect(reverse("jobs:flow", args=[flow_id]))


def _started(request: HttpRequest, person: User) -> int:
    ratelimits.limit(limits.START, key=limit_key(request), throws=True)
    return jobs.submit_flow(JOBS, by=person, owner=person, document=request.POST.get("document", "")).id
