"""Filters of the list of jobs that a person keeps under names."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from jobs.queries import saved_filters
from jobs.views import access
from jobs.views.lists import FilterForm


class SaveForm(forms.Form):
    name = forms.CharField(max_length=60, label="Name", widget=forms.TextInput({"autocomplete": "off"}))

    def __init__(self, data: Any = None, *, user: User) -> None:
        super().__init__(data, auto_id="save-%s")
        self._user = user

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if saved_filters.is_full(self._user, name=name):
            raise forms.ValidationError(f"You have {saved_filters.MOST} saved filters, which is all you can have.")
        return name


@access.button
def save(request: HttpRequest) -> HttpResponse:
    """Keep the filters of the list that the form stands on."""
    user = people.person(request)
    narrowed, form = FilterForm(request.POST, user=user), SaveForm(request.POST, user=user)
    query = narrowed.query()
    if query and form.is_valid():
        saved_filters.save(user, name=form.cleaned_data["name"], query=query)
        messages.success(request, f"Saved as “{form.cleaned_data['name']}”.")
    else:
        errors = [str(error) for error in form.errors.get("name", ())]
        messages.error(request, " ".join(errors) or "There is no filter to save.")
    return HttpResponseRedirect(f"{reverse('jobs:list')}?{urlencode(query)}")


@access.button
def forget(request: HttpRequest, filter_id: int) -> HttpResponse:
    if not saved_filters.forget(people.person(request), filter_id):
        raise Http404("There is no such saved filter.")
    return HttpResponseRedirect(reverse("jobs:list"))
