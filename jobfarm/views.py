"""Pages that span the whole farm."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobfarm import readiness
from jobs.domain.tallies import PERIODS
from jobs.queries import pages, reads


@require_safe
@never_cache
def live(_: HttpRequest) -> HttpResponse:
    """This process answers; nothing else is looked at. For what restarts it when it does not."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def ready(_: HttpRequest) -> HttpResponse:
    """Whether this server can serve, and how the farm around it stands: 200 or 503. For load balancers, so without
    a log-in and without anything secret."""
    found = readiness.look()
    word = "ready" if found.is_ready else "not ready"
    return JsonResponse({"status": word, "checks": found.checks}, status=200 if found.is_ready else 503)


@login_required
@require_safe
@never_cache
def overview(request: HttpRequest) -> HttpResponse:
    """What the farm does at this moment: of everybody for operators, of their own for everybody else."""
    is_operator = reads.is_operator(request.user)
    viewer = pages.EVERYBODY if is_operator else request.user.pk
    context = {
        "viewer": viewer,
        "is_operator": is_operator,
        "period": PERIODS.get(request.GET.get("period", ""), PERIODS["hour"]),
        "periods": list(PERIODS.values()),
    }
    return render(request, "jobfarm/overview.html", context)
