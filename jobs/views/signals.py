"""What the form does by which people send the signal that a job waits for."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from core import people
from jobs import operations
from jobs.live_queries.signals import SignalForm, key_of
from jobs.queries import waits as queries
from jobs.views import access


@access.button
def send(request: HttpRequest, job_id: int) -> HttpResponse:
    """Send it, and say what is wrong with it at the job's page."""
    url = reverse("jobs:job", args=[job_id])
    job = access.visible(request, job_id)
    wait = queries.waiting(job_id)
    if wait is None:
        return access.respond(request, "The job waits for no signal any more.", level=messages.WARNING, url=url)
    if request.POST.get("signal-key") != key_of(job.fence):
        late = f"The job waits for another answer by now ({wait.signal}): look at its form again."
        return access.respond(request, late, level=messages.WARNING, url=url)
    form = SignalForm(wait, request.POST)
    if not form.is_valid():
        wrong = "; ".join(f"{form[name].label}: {errors[0]}" for name, errors in form.errors.items())
        return access.respond(request, wrong, level=messages.ERROR, url=url)

    def do() -> str:
        operations.signal(job_id, form.name, form.value, by=people.person(request), key=form.cleaned_data["key"])
        return f"The signal {form.name} was sent."

    return access.done(request, url, do)
