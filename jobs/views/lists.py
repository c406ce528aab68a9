"""Lists of jobs."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from core import people
from jobs.queries import bulks, reads
from jobs.views import access
from jobs.views.filtering import BulkActionForm, FilterForm


@login_required
@require_safe
@never_cache
def jobs(request: HttpRequest) -> HttpResponse:
    """The jobs that this person may see, newest first, live; the filters stand in the address."""
    user = people.person(request)
    form = FilterForm(request.GET, user=user)
    context = {
        "form": form,
        "shown": form.shown(),
        "kept": form.filters().as_dict(),
        "actions": BulkActionForm(),
        "reaches_all": bulks.reaches_all(user),
        "viewer": access.viewer(user),
        "is_operator": reads.is_operator(user),
    }
    return render(request, "jobs/list.html", context, status=200 if form.is_valid() else 422)
