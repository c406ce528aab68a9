"""Kinds of jobs that people make."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from core.backoff import Backoff
from jobs import operations
from jobs.errors import InvalidValue
from jobs.kinds import DECLARED, check_limit
from jobs.models import Kind
from ratelimits import limits


class KindForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """What a kind's jobs have in common. The rules are `jobs.domain.kinds.Kind`'s, which is built here."""

    limit = forms.ChoiceField(
        required=False, help_text="The rate limit that each of its jobs takes from, as code declares them."
    )

    class Meta:
        """All of it."""

        model = Kind
        fields = (
            "name", "queue", "priority", "max_attempts", "backoff_first_s", "backoff_base", "backoff_cap_s",
            "timeout_s", "expires_s", "retry_when_lost", "retry_on_timeout", "limit", "limit_count", "limit_key",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        limit = self.fields["limit"]
        assert isinstance(limit, forms.ChoiceField)
        limit.choices = [("", "None"), *((name, name) for name in limits.everything())]

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
            self.add_error("name", f"The kind {name} is declared in code, which wins.")
            return
        try:
            self.kind = _kind(name, self.cleaned_data)
            check_limit(self.kind)
        except (ValueError, InvalidValue) as error:
            self.add_error(None, str(error))


@admin.register(Kind)
class KindAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Kinds for those who only write workers; kinds declared in code are not here."""

    form = KindForm
    list_display = [
        "name",
        "queue",
        "priority",
        "max_attempts",
        "timeout_s",
        "expires_s",
        "retry_when_lost",
        "retry_on_timeout",
        "limit",
    ]
    search_fields = ["name", "queue"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:  # noqa: ARG002  # the admin's
        """Jobs say their kind by name, so the name stays."""
        return ["name"] if obj else []

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never: waiting jobs would lose their rules."""
        return False

    def save_model(self, request: HttpRequest, obj: Kind, form: KindForm, change: bool) -> None:  # noqa: ARG002
        """Keep it, and make its queue."""
        operations.create_kind(form.kind)


def _kind(name: str, values: dict[str, Any]) -> operations.Kind:
    return operations.Kind(
        name=name,
        queue=values["queue"],
        priority=values["priority"],
        max_attempts=values["max_attempts"],
        backoff=Backoff(
            first_s=values["backoff_first_s"], base=values["backoff_base"], cap_s=values["backoff_cap_s"]
        ),
        timeout_s=values["timeout_s"],
        expires_s=values["expires_s"],
        retry_when_lost=values["retry_when_lost"],
        retry_on_timeout=values["retry_on_timeout"],
        limit=values["limit"],
        limit_count=values["limit_count"],
        limit_key=values["limit_key"],
    )
