"""What jobs are made from: kinds that people make, and flow templates, started with values for their placeholders."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from core import audit, people
from core.backoff import Backoff
from core.json_fields import StrictJSON
from jobs import http, operations
from jobs.errors import InvalidValue, JobsError
from jobs.kinds import DECLARED, check_limit
from jobs.models import FlowTemplate, Job, Kind
from jobs.operations.from_crons import start_flow, submit_job
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimitsError
from scheduling import registry


class KindForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """What a kind's jobs have in common. The rules are `jobs.domain.kinds.Kind`'s, which is built here."""

    limit = forms.ChoiceField(required=False, help_text="The rate limit that each of its jobs takes tokens from.")

    class Meta:
        model = Kind
        fields = (
            "name", "queue", "priority", "max_attempts", "backoff_first_s", "backoff_base", "backoff_cap_s",
            "timeout_s", "expires_s", "retry_when_lost", "retry_on_timeout", "requires", "limit", "limit_count",
            "limit_key", "concurrency", "concurrency_key", "on_overflow", "keep_content", "redact",
        )  # fmt: skip
        field_classes = {"requires": StrictJSON}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        limit = self.fields["limit"]
        assert isinstance(limit, forms.ChoiceField)
        limit.choices = [("", "None"), *((name, name) for name in ratelimits.everything())]

    def clean_limit(self) -> str | None:
        """No limit is None, and not a name that is empty."""
        return self.cleaned_data["limit"] or None

    def _post_clean(self) -> None:
        """What its rules say of the whole, once every field is good by itself: Django looks at those here."""
        super()._post_clean()  # type: ignore[misc]  # the stubs leave Django's hook out
        if self.errors:
            return
        name = self.cleaned_data.get("name", self.instance.name)
        if name in DECLARED:
            self.add_error("name", f"The kind {name} is declared in code and cannot be changed here.")
            return
        try:
            self.kind = _kind(name, self.cleaned_data)
            check_limit(self.kind, find=ratelimits.config_of)
        except (ValueError, InvalidValue) as error:
            self.add_error(None, str(error))


class Named(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Rows that jobs, crons, rules and callers know by their name, so the name stays."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:  # noqa: ARG002  # the admin's
        return ["name"] if obj else []


def new_cron(function: Any, args: Mapping[str, Any]) -> HttpResponse:
    """The form of a new cron that calls this with these arguments."""
    begin = {"function": registry.dotted_name(function), "arguments_text": json.dumps(args, indent=2)}
    return HttpResponseRedirect(f"{reverse('scheduling:new_cron')}?{urlencode(begin)}")


@admin.register(Kind)
class KindAdmin(Named):
    """Kinds for those who only write workers; kinds declared in code are not here."""

    form = KindForm
    list_display = [
        "name", "queue", "priority", "max_attempts", "timeout_s", "expires_s", "retry_when_lost", "retry_on_timeout",
        "limit",
    ]  # fmt: skip
    search_fields = ["name", "queue"]
    actions_detail = ["by_cron"]

    @action(description="Submit by a cron…", url_path="by-cron")  # type: ignore[untyped-decorator]
    def by_cron(self, request: HttpRequest, object_id: str) -> HttpResponse:  # noqa: ARG002  # the admin's
        """The form of a new cron that submits jobs of this kind."""
        return new_cron(submit_job, {"kind": object_id, "payload": {}, "unique_key": f"cron {object_id}"})

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never: waiting jobs would lose their rules."""
        return False

    def save_model(self, request: HttpRequest, obj: Kind, form: KindForm, change: bool) -> None:  # noqa: ARG002
        operations.create_kind(form.kind)


def _kind(name: str, values: dict[str, Any]) -> operations.Kind:
    fields = operations.Kind.__dataclass_fields__
    own = {field: value for field, value in values.items() if field in fields and field not in {"name", "requires"}}
    backoff = Backoff(first_s=values["backoff_first_s"], base=values["backoff_base"], cap_s=values["backoff_cap_s"])
    return operations.Kind(name=name, backoff=backoff, requires=values["requires"] or {}, **own)


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
