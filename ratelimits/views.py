"""Pages of limits, for whoever may see them in the admin."""

from functools import partial
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

import live.operations as live
from core import pages
from ratelimits import operations

MAY_SEE = "ratelimits.view_bucket"
MAY_RESET = "ratelimits.delete_bucket"


class SearchForm(forms.Form):
    """What the list is narrowed to. Too long a text is cut: it finds nothing either way."""

    name = forms.ChoiceField(label="Limit", required=False)
    search = forms.CharField(
        label="Search", required=False, widget=forms.TextInput(attrs={"type": "search", "maxlength": 100})
    )

    def __init__(self, data: object) -> None:
        super().__init__(data)  # type: ignore[arg-type]  # a QueryDict
        limits = [(name, name) for name in operations.everything()]  # once: a callable is asked each time
        self.fields["name"].choices = [("", "All"), *limits]  # type: ignore[attr-defined]  # a ChoiceField

    def arguments(self) -> dict[str, str]:
        """What the live query is asked; a field that makes no sense narrows nothing."""
        self.is_valid()
        cleaned = self.cleaned_data
        return {"name": cleaned.get("name", ""), "search": cleaned.get("search", "")[:100].replace("\x00", "")}


_for = partial(pages.for_holders, is_hidden=False)


@_for(MAY_SEE)
def overview(request: HttpRequest) -> HttpResponse:
    form = SearchForm(request.GET)
    return render(request, "ratelimits/list.html", {"form": form, "arguments": form.arguments()})


@_for(MAY_SEE)
def one(request: HttpRequest) -> HttpResponse:
    name, key = _which(request.GET)
    may_reset = request.user.has_perm(MAY_RESET)
    return render(request, "ratelimits/one.html", {"name": name, "key": key, "may_reset": may_reset})


@_for(MAY_RESET, pages.POST)
def reset(request: HttpRequest) -> HttpResponse:
    name, key = _which(request.POST)
    assert isinstance(request.user, User)
    if operations.reset_stored(name, key, by=request.user):
        messages.success(request, "The limit was reset: all its tokens are available.")
    else:
        messages.info(request, "There was nothing to reset: all its tokens are available.")
    return HttpResponseRedirect(f"{reverse('ratelimits:one')}?{urlencode({'name': name, 'key': key})}")


@_for(MAY_SEE)
def refresh(request: HttpRequest) -> HttpResponse:  # noqa: ARG001  # a view's signature
    """Have the gauges read again. A decision tells nobody that it was made, that would cost more than the decision;
    instead a page that is open asks for this every other second, and all that are open get the one answer."""
    live.touch(operations.TOPIC)
    return HttpResponse(status=204)


def _which(params: QueryDict) -> tuple[str, str]:
    values = {field: params.get(field) or "" for field in ("name", "key")}
    return values["name"][:100].replace("\x00", ""), values["key"][:300].replace("\x00", "")
