"""Files and batches in the administration, to look at."""

from django.contrib import admin

from core import administration
from openai_api.models import Batch, File


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
