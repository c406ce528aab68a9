"""What the pages of accounts have in common."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from ratelimits.errors import RateLimited

BACKEND = "django.contrib.auth.backends.ModelBackend"


def too_often(response: HttpResponse, refusal: RateLimited) -> HttpResponse:
    """The response, as one to somebody who has to wait."""
    response.status_code = 429
    for field, value in refusal.headers.items():
        response.headers[field] = value
    return response


def too_often_page(request: HttpRequest, refusal: RateLimited) -> HttpResponse:
    return too_often(render(request, "429.html", {"refusal": refusal}), refusal)


def ways_in() -> dict[str, bool]:
    """For templates: which doors the operator left open beside the log-in."""
    return {"can_sign_up": settings.JOBFARM["SIGN_UP"], "can_be_guest": settings.JOBFARM["GUESTS"]}
