"""Pictures as they are, for who may look at them."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from core import people
from examples.imagegame.queries import pictures
from jobs import http as jobs_http
from jobs import operations as jobs
from jobs.errors import NotFound


@login_required
@require_safe
def picture(request: HttpRequest, submission_id: int) -> HttpResponseBase:
    """A finished picture: for its owner, and for the players of a game once it is on the table."""
    submission = pictures.visible(people.person(request), submission_id)
    if submission is None:
        raise Http404("There is no such picture.")
    try:
        stored = jobs.result_file(submission.job_id, name=submission.file, attempt=submission.attempt or 0)
        return jobs_http.sent(request, stored)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
