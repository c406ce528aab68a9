"""What a share link shows, to whoever has it: one job, to look at."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.models import Job
from jobs.queries import inputs, reads
from jobs.views import files


@require_safe
@never_cache
def job(request: HttpRequest, token: str) -> HttpResponse:
    """The job, live, without a log-in and without anything that says who owns or runs it."""
    row = _shared(token)
    context = {"job": row, "live_ticket": token, "inputs": inputs.shown(row)}
    response = render(request, "jobs/shared.html", context)
    # The address is the key: it must not travel to other sites in a Referer, nor into a search engine.
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def _shared(token: str) -> Job:
    row = reads.shared(token) if "\x00" not in token else None
    if row is None:
        raise Http404("This link no longer works.")
    return row


file, input_file, output = files.views(lambda _, token: _shared(token), "token")
