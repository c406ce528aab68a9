"""Flow templates: kept by people, and started with values for their placeholders."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from core import audit, people
from core.json_fields import StrictJSON
from jobs import http, operations
from jobs.admin.kinds import Named, new_cron
from jobs.errors import JobsError
from jobs.models import FlowTemplate, Job
from jobs.operations.from_crons import start_flow
from ratelimits.errors import RateLimitsError


class FlowTemplateForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """A template that could be started: `operations.check_template` says so."""

    class Meta:
        model = FlowTemplate
        fields = ("name", "description", "placeholders", "jobs")
        field_classes = {"placeholders": StrictJSON, "jobs": StrictJSON}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, rows in (("placeholders", 4), ("jobs", 24)):
            if name in self.fields:  # who may only look has none
                attrs = {"rows": rows, "style": "font-family: monospace", "spellcheck": "false"}
                self.fields[name].widget.attrs |= attrs

    def clean_placeholders(self) -> Any:
        return self.cleaned_data["placeholders"] or {}

    def _post_clean(self) -> None:
        """What is to be said of the whole, once every field is good by itself: Django looks at those here."""
        super()._post_clean()  # type: ignore[misc]  # the stubs leave Django's hook out
        if self.errors:
            return
        try:
            operations.check_template(self.cleaned_data["jobs"], self.cleaned_data["placeholders"])
        except JobsError as refusal:
            field = refusal.numbers.get("field")
            self.add_error(field if field in self.fields else "jobs", refusal.message)


class StartForm(forms.Form):
    """A field for each placeholder: text where its default is a text or none, else JSON."""

    def __init__(self, template: FlowTemplate, *args: Any) -> None:
        super().__init__(*args)
        for name, default in template.placeholders.items():
            is_text = default is None or isinstance(default, str)
            field: Any = forms.CharField if is_text else StrictJSON
            self.fields[name] = field(label=name, initial=default, required=False, widget=UnfoldAdminTextInputWidget)

    @property
    def values(self) -> dict[str, Any]:
        """What was typed; what was left empty has its default."""
        return {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}


@admin.register(FlowTemplate)
class FlowTemplateAdmin(Named):
    """Flows that are started by people, crons, rules and the API."""

    form = FlowTemplateForm
    fields = ["name", "description", "placeholders", "jobs"]
    list_display = ["name", "description", "created_at"]
    search_fields = ["name", "description"]
    actions_detail = ["start", "by_cron"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[FlowTemplate]:
        """The list reads no jobs: one whose jobs cannot be read is its own fault alone."""
        return super().get_queryset(request).defer("placeholders", "jobs")  # type: ignore[no-any-return]

    @action(description="Start…", url_path="start", permissions=["view"])  # type: ignore[untyped-decorator]
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Start it as the person who asks, with the values of a form."""
        template = self.get_object(request, object_id)
        if template is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        form = StartForm(template, request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                return _started(request, template, form.values)
            except (JobsError, RateLimitsError) as refusal:
                form.add_error(None, refusal.message)
        context = {
            **self.admin_site.each_context(request), "title": f"Start {template}", "opts": self.opts,
            "template": template, "form": form,
        }  # fmt: skip
        return TemplateResponse(request, "admin/jobs/start_flow.html", context)

    @action(description="Start by a cron…", url_path="by-cron", permissions=["view"])  # type: ignore[untyped-decorator]
    def by_cron(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The form of a new cron that starts it."""
        template = self.get_object(request, object_id)
        return new_cron(start_flow, {"template": object_id, "values": template.placeholders if template else {}})


def _started(request: HttpRequest, template: FlowTemplate, values: dict[str, Any]) -> HttpResponse:
    """Start it, once for each form that was shown and values in it, and go to its page."""
    person = people.person(request)
    [first, *_] = operations.once(
        http.of_form(request, person),
        count=lambda: None,
        submit=lambda: operations.store_flow(template.pk, values, by=person, owner=person),
    )
    if isinstance(first, operations.Stored):
        flow_id = first.record.flow_id
        audit.record(person, template, f"started as flow {flow_id}")
        messages.success(request, f"Started as flow {flow_id}.")
    else:
        flow_id = get_object_or_404(Job, pk=first).flow_id
        messages.warning(request, f"It was started already, as flow {flow_id}, and is not a second time.")
    return HttpResponseRedirect(reverse("jobs:flow", args=[flow_id]))
