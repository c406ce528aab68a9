"""Aliases and rules of calls in the administration, where staff change them, and files and batches to look at."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from core import administration
from openai_api.models import Alias, Batch, CallRule, File
from openai_api.operations import names


class _Decided(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """What staff decide, which this process knows at once; the line in the log is Django's own."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        names.forget()


@admin.register(Alias)
class AliasAdmin(_Decided):
    list_display = ["name", "model", "after_s", "is_only_way"]
    search_fields = ["name", "model"]
    fields = [("name", "model"), ("after_s", "is_only_way")]


@admin.register(CallRule)
class CallRuleAdmin(_Decided):
    list_display = ["__str__", "names", "requests_per_minute", "tokens_per_minute"]
    list_select_related = ["token", "group"]
    search_fields = ["group__name", "token__name"]
    fields = [("group", "token"), "names", ("requests_per_minute", "tokens_per_minute")]
    raw_id_fields = ["group", "token"]


@admin.register(Batch)
class BatchAdmin(administration.ReadOnly):
    list_display = ["public_id", "owner", "status", "endpoint", "total", "completed", "failed", "note", "created_at"]
    list_filter = ["status", "endpoint"]
    list_select_related = ["owner"]
    search_fields = ["id", "owner__username"]
    fieldsets = [
        (None, {"fields": [("status", "ends_as"), "owner", ("endpoint", "completion_window"), "note"]}),
        ("Lines", {"fields": [("total", "submitted", "completed", "failed"), "errors"]}),
        ("Files", {"fields": ["input_file", "output_file", "error_file", "metadata"]}),
        ("Times", {"fields": [
            ("created_at", "in_progress_at", "expires_at"), ("finalizing_at", "cancelling_at", "ended_at"),
        ]}),
        ("Steps", {"fields": [("read_to", "chain", "next_step_at")]}),
    ]  # fmt: skip

    def view_on_site(self, obj: Batch) -> str:
        return obj.get_absolute_url()


@admin.register(File)
class FileAdmin(administration.ReadOnly):
    list_display = ["public_id", "name", "owner", "purpose", "size", "created_at", "expires_at"]
    list_filter = ["purpose"]
    list_select_related = ["owner"]
    search_fields = ["id", "name", "owner__username"]
    fields = ["name", "owner", "purpose", ("size", "sha256"), "stored_as", ("created_at", "expires_at")]
