"""The floor that `benchmarks.network` measures against: a Django view that does one UPDATE by primary key.

No middleware, no key, no lease: what Django and the database cost under this server. `application` is served as ours
is, one hop into a thread for a request (docs/adr/0037), `in_djangos_own` by the handler that Django brings.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

django.setup()  # with what apps want of the middlewares
settings.MIDDLEWARE = []
settings.ROOT_URLCONF = "benchmarks.bare_update"
in_djangos_own = get_asgi_application()

from jobfarm.server import OneHop  # noqa: E402 (Django has to be set up first)
from jobs.models import Live  # noqa: E402

application = OneHop()


def update(request: HttpRequest, job_id: int) -> HttpResponse:
    """Change one row."""
    changed = Live.objects.filter(pk=job_id).update(detail=request.body.decode()[:100])
    answer = b'{"changed": %d}' % changed
    return HttpResponse(answer, content_type="application/json", headers={"Content-Length": len(answer)})


urlpatterns = [path("bare/<int:job_id>", update)]
