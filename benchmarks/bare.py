"""The floor that `benchmarks.webhooks` measures against: one Django view that inserts the same row, and nothing else.

No middleware, no check, no scheduling, no limit: what Django and the database cost under this server.
"""

import hashlib
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

settings.MIDDLEWARE = ["allauth.account.middleware.AccountMiddleware"]  # it does not start without
settings.ROOT_URLCONF = "benchmarks.bare"
application = get_asgi_application()

from webhooks.models import Delivery  # noqa: E402 (Django has to be set up first)


def insert(request: HttpRequest) -> HttpResponse:
    """Insert a delivery."""
    body = request.body
    Delivery.objects.create(
        source="github",
        delivery_id=request.headers["X-GitHub-Delivery"],
        event_type=request.headers["X-GitHub-Event"],
        body=body,
        body_bytes=len(body),
        body_sha256=hashlib.sha256(body).digest(),
        headers=dict(request.headers),
        address=request.META["REMOTE_ADDR"],
    )
    answer = b'{"status": "received"}'
    return HttpResponse(answer, content_type="application/json", headers={"Content-Length": len(answer)})


urlpatterns = [path("api/webhooks/github", insert)]
