"""Views and routes under limits, beside the site's own addresses."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View
from ninja import NinjaAPI

from jobfarm.urls import urlpatterns as of_the_farm
from ratelimits import operations
from ratelimits.http import address, rate_limited
from ratelimits.operations import FixedWindow, TokenBucket

LONG = timedelta(days=1000)
operations.declare("test/two", TokenBucket(2, LONG))
operations.declare("test/hourly", FixedWindow(5, timedelta(hours=1)))


@rate_limited("test/two")
def plain(request: HttpRequest) -> HttpResponse:
    """A view like any other."""
    return HttpResponse("done")


@rate_limited("test/two", key=lambda request: f"async {request.GET.get('who')}")
async def asynchronous(request: HttpRequest) -> HttpResponse:
    """An async view."""
    return HttpResponse("done")


@rate_limited(
    TokenBucket(1.5, timedelta(milliseconds=100), capacity=3), count=lambda request: float(request.GET["count"])
)
@rate_limited("test/hourly", key=address)
def heavy(request: HttpRequest) -> HttpResponse:
    """Two limits on one view, one of them with a configuration of its own."""
    return HttpResponse("done")


@method_decorator(rate_limited("test/two", key=lambda _: "class"), name="dispatch")
class AsClass(View):
    """A class of a view."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Whatever."""
        return HttpResponse("done")


api = NinjaAPI(urls_namespace="limited", docs_url=None, openapi_url=None)


@api.get("/decorated")
@rate_limited("test/two", key=lambda _: "decorated")
def decorated(request: HttpRequest, n: int = 0) -> dict[str, int]:
    """A decorated route."""
    return {"n": n}


@api.get("/decorated-async")
@rate_limited("test/two", key=lambda _: "decorated async")
async def decorated_async(request: HttpRequest) -> dict[str, str]:
    """A decorated async route."""
    return {"answer": "done"}


urlpatterns = [
    path("t/plain", plain),
    path("t/async", asynchronous),
    path("t/heavy", heavy),
    path("t/class", AsClass.as_view()),
    path("t/api/", api.urls),
    path("limits/", include("ratelimits.urls")),
    *of_the_farm,
]
