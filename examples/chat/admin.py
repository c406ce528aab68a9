"""Rooms in the administration: what was said and how answers came about, to look at and to delete."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from examples.chat import operations
from examples.chat.models import Message


@admin.register(Message)
class MessageAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """What was said. With a question goes its answer; a job that writes it is canceled."""

    show_full_result_count = False
    list_per_page = 50
    list_display = ("id", "group", "role", "author", "text", "state", "job", "created_at")
    list_filter = ("role", "answer__state")
    list_select_related = ("group", "author", "answer")
    search_fields = ("text", "author__username", "group__name")

    @admin.display(description="answer", ordering="answer__state")
    def state(self, message: Message) -> str:
        """How the answer stands."""
        return message.answer.get_state_display() if message.role == "assistant" else ""

    @admin.display(description="job", ordering="answer__job_id")
    def job(self, message: Message) -> int | None:
        """Which job writes the answer."""
        return message.answer.job_id if message.role == "assistant" else None

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Never: what is said comes from rooms."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def delete_model(self, request: HttpRequest, obj: Message) -> None:  # noqa: ARG002
        """As its author would."""
        operations.discard([obj.pk])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> None:  # noqa: ARG002
        """As their authors would."""
        operations.discard(list(queryset.values_list("pk", flat=True)))
