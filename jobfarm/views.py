from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from examples import config as examples
from jobfarm import health, live_queries, metrics as numbers
from jobs.domain.rollups import PERIODS
from jobs.queries import pages, reads, rollups


@require_safe
@never_cache
def live(_: HttpRequest) -> HttpResponse:
    """This process answers; nothing else is checked. For what restarts it when it does not."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def ready(_: HttpRequest) -> HttpResponse:
    """Whether this server can serve, and how the farm around it stands: 200 or 503. For load balancers, so without
    a log-in and without anything secret."""
    is_ready, checks = health.check_readiness()
    word = "ready" if is_ready else "not ready"
    return JsonResponse({"status": word, "checks": checks}, status=200 if is_ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """The numbers of this process and of the farm, for Prometheus, which shows the token of the settings as bearer.
    Queues have names, and numbers reveal what goes on: without a token in the settings there is no such page."""
    if not settings.METRICS_TOKEN:
        raise Http404
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not constant_time_compare(token, settings.METRICS_TOKEN):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(numbers.text(), content_type=CONTENT_TYPE_LATEST)


# For a shell: whom the calls are for, a job, and its events until it has ended.
_CURL = """\
farm={farm}api/v1; auth="Authorization: Bearer YOUR_TOKEN"; json="Content-Type: application/json"
curl $farm/jobs -H "$auth" -H "$json" -d '{{"kind": "image", "payload": {{"prompt": "a lighthouse"}}}}'
curl -N $farm/jobs/ID/events -H "$auth"  # ID: from the answer above"""


@require_safe
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """The overview for who is logged in; for everybody else the front page."""
    return overview(request) if request.user.is_authenticated else front(request)


def front(request: HttpRequest) -> HttpResponse:
    """What this is, how it does and what it paints if the settings let everybody know, and the ways in that are open.

    A visit may start a picture (jobfarm.demonstration)."""
    live_queries.visited()
    context = {
        "can_sign_up": settings.JOBFARM["SIGN_UP"],
        "can_be_guest": settings.JOBFARM["GUESTS"],
        "has_numbers": settings.JOBFARM["PUBLIC_NUMBERS"],
        "curl": _CURL.format(farm=request.build_absolute_uri("/")),
    }
    return render(request, "jobfarm/front.html", context)


def overview(request: HttpRequest) -> HttpResponse:
    """What the farm does at this moment: of everybody for operators, of their own for everybody else."""
    is_operator = reads.is_operator(request.user)
    viewer = pages.EVERYBODY if is_operator else request.user.pk
    groups = rollups.groups_for(everybody=is_operator)
    context = {
        "viewer": viewer,
        "is_operator": is_operator,
        "period": PERIODS.get(request.GET.get("period", ""), PERIODS["hour"]),
        "periods": list(PERIODS.values()),
        "tag": request.GET.get("tag", "").strip(),
        "by": by if (by := request.GET.get("by", "")) in groups else "",
        "groups": ["", *groups],
        "example_cards": [example.card for example in examples.installed()],
    }
    return render(request, "jobfarm/overview.html", context)
