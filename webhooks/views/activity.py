"""The activity feed."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from core import people
from webhooks.errors import NotFound
from webhooks.operations import activity as feed
from webhooks.queries import pages
from webhooks.views import access
from webhooks.views.forms import ActivityForm


@require_safe
@access.viewers_only
def activity(request: HttpRequest) -> HttpResponse:
    """What happened, newest first, live; the filters stand in the address."""
    form = ActivityForm(request.GET)
    shown = form.shown()
    if "before" in shown:
        _check(shown["before"])
    resource = pages.find_resource(shown["kind"], shown["resource"]) if {"kind", "resource"} <= shown.keys() else None
    context = {
        "form": form,
        "shown": shown,
        "resource": resource,
        "admin_url": _admin_url(people.person(request), resource) if resource else "",
    }
    return render(request, "webhooks/activity.html", context, status=200 if form.is_valid() else 422)


def _check(before: str) -> None:
    """404 for a page that there is not; the live query would show nothing at all."""
    try:
        feed.feed(limit=1, before=before)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal


def _admin_url(user: User, resource: Mapping[str, Any]) -> str:
    """Its row in the administration, for whoever may look there."""
    if not (user.is_staff and user.has_perm(f"webhooks.view_{resource['kind']}")):
        return ""
    try:
        return reverse(f"admin:webhooks_{resource['kind']}_change", args=[resource["pk"]])
    except NoReverseMatch:
        return ""
