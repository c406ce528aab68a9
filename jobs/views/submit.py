"""The page that submits a job."""

from dataclasses import dataclass
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from accounts.http import members_only
from core import people
from core.pages import FORM, guarded
from jobs import operations
from jobs.domain.filters import ids_of
from jobs.errors import ContentNotKept
from jobs.models import Job
from jobs.views import access
from jobs.views.forms import ChatForm, ImageForm, OtherForm, SubmitForm
from observing import fields
from ratelimits.errors import RateLimited


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One of the forms to choose from: its word in the address, its title, its button."""

    code: str
    title: str
    button: str
    form: type[SubmitForm]


TABS: Final = (
    Tab(code="chat", title="Chat", button="Ask", form=ChatForm),
    Tab(code="image", title="Image", button="Paint", form=ImageForm),
    Tab(code="other", title="Any kind", button="Submit the job", form=OtherForm),
)


@guarded(members_only, FORM)
def new(request: HttpRequest) -> HttpResponse:
    """A form for the kind of job that `?kind=` says; a good one leads to the job's page."""
    tab = next((tab for tab in TABS if tab.code == request.GET.get("kind")), TABS[0])
    user = people.person(request)
    data = request.POST if request.method == "POST" else None
    try:
        like = _like(request) if tab.form is OtherForm else None
    except ContentNotKept as gone:
        url = reverse("jobs:job", args=[gone.job])
        return access.respond(request, gone.message, level=messages.ERROR, url=url)
    form = tab.form(data, request.FILES or None, user=user, **({"like": like} if like else {}))
    refusal: RateLimited | None = None
    try:
        if form.is_bound and form.is_valid() and (job_id := form.submit(request)) is not None:
            fields.note(job_id=job_id)
            return HttpResponseRedirect(reverse("jobs:job", args=[job_id]))
    except RateLimited as too_many:
        refusal = too_many
        form.add_error(None, too_many.message)
    return _page(request, form, tab, refusal, like)


def _like(request: HttpRequest) -> Job | None:
    """The job that `?like=` names, to be copied. 404 if this person may not see it; raises ContentNotKept, but not for
    a form that is sent: it has what was typed meanwhile."""
    number = request.GET.get("like", "")
    job = access.visible(request, ids_of(number)[0]) if ids_of(number) else None
    if job is not None and request.method != "POST":
        operations.check_content(job)
    return job


def _page(
    request: HttpRequest, form: SubmitForm, tab: Tab, refusal: RateLimited | None, like: Job | None
) -> HttpResponse:
    context = {"form": form, "tab": tab, "tabs": TABS, "like": like}
    status = 429 if refusal else 422 if form.is_bound else 200
    response = render(request, "jobs/new.html", context, status=status)
    for field, value in (refusal.headers if refusal else {}).items():
        response.headers[field] = value
    return response
