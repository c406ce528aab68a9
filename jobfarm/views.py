"""Pages that span the whole farm."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.queries import pages, reads


@login_required
@require_safe
@never_cache
def overview(request: HttpRequest) -> HttpResponse:
    """What the farm does at this moment: of everybody for operators, of their own for everybody else."""
    is_operator = reads.is_operator(request.user)
    viewer = pages.EVERYBODY if is_operator else request.user.pk
    return render(request, "jobfarm/overview.html", {"viewer": viewer, "is_operator": is_operator})
