"""The pages of batches: all of a person's, and one with its lines and its files."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from accounts.http import members_only
from core import pages, people
from jobs import http as jobs_http, operations as jobs
from openai_api import live_queries
from openai_api.errors import BatchEnded
from openai_api.operations import batches as operations


@pages.guarded(members_only)
def batches(request: HttpRequest) -> HttpResponse:
    person = people.person(request)
    whose = live_queries.EVERYBODY if jobs.sees_all(person) else person.pk
    return render(request, "openai_api/batches.html", {"whose": whose})


@pages.guarded(members_only)
def batch(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    row = operations.visible(batch_id, viewer=people.person(request))
    text = request.GET.get("page", "0")
    page = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    context = {
        "batch": row, "page": page, "newer": page - 1 if page else None, "has_newer": page > 0,
        "older": page + 1 if (page + 1) * live_queries.LINES < row.submitted else None,
        "may_cancel": operations.may_cancel(row, by=people.person(request)),
    }  # fmt: skip
    return render(request, "openai_api/batch.html", context)


@pages.guarded(members_only, pages.POST)
def cancel(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    row = operations.visible(batch_id, viewer=people.person(request))
    if not operations.may_cancel(row, by=people.person(request)):
        messages.error(request, "You may look at this batch, but not cancel it.")
        return redirect(row)
    try:
        operations.cancel(row.pk, by=people.person(request))
    except BatchEnded as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, "It is being canceled. What a worker has may still end.")
    return redirect(row)


@pages.guarded(members_only)
def file(request: HttpRequest, batch_id: UUID, which: str) -> HttpResponseBase:
    """One of its files: the input, the output, or the errors."""
    row = operations.visible(batch_id, viewer=people.person(request))
    stored = {"input": row.input_file, "output": row.output_file, "errors": row.error_file}.get(which)
    if stored is None:
        raise Http404("There is no such file.")
    return jobs_http.sent(request, stored)
