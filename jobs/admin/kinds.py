"""Kinds of jobs that people make."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.decorators import action

from core.backoff import Backoff
from core.json_fields import StrictJSON
from jobs import operations
from jobs.errors import InvalidValue
from jobs.kinds import DECLARED, check_limit
from jobs.models import Kind
from jobs.operations.from_crons import submit_job
from ratelimits import operations as ratelimits
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
