"""Rooms in the administration: messages and how answers came about, to read and to delete."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.decorators import display

from core import administration
from examples.chat import operations
from examples.chat.domain.answers import State
from examples.chat.models import Message

COLOURS: Final = {
    State.WAITING: "default",
    State.WRITING: "info",
    State.RETRYING: "warning",
    State.FINISHED: "success",
    State.FAILED: "danger",
    State.TIMED_OUT: "warning",
    State.CANCELED: "default",
}


@admin.register(Message)
class MessageAdmin(administration.BoundedList):
    """Messages. With a question goes its answer; a job that writes it is canceled."""

    list_display = ("id", "group", "role", "author", "beginning", "state", "job", "created_at")
    list_filter = ("role", "answer__state", administration.by_day("created_at"))
    list_select_related = ("group", "author", "answer")
    search_fields = ("text", "author__username", "group__name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Who may delete messages."""
        return bool(request.user.has_perm("chat.delete_message"))

    @display(description="Text")  # type: ignore[untyped-decorator]
    def beginning(self, message: Message) -> str:
        """As much as a row holds."""
        return Truncator(message.text).chars(100)

    @display(description="Answer", label=COLOURS)  # type: ignore[untyped-decorator]
    def state(self, message: Message) -> tuple[str, str]:
        """How the answer stands."""
        if message.role != "assistant":
            return "", "–"
        return message.answer.state, message.answer.get_state_display()

    @display(description="Job")  # type: ignore[untyped-decorator]
    def job(self, message: Message) -> SafeString | str:
        """Which job writes the answer."""
        pk = message.answer.job_id if message.role == "assistant" else None
        return administration.link("jobs_job", pk, f"#{pk}")

    def delete_model(self, request: HttpRequest, obj: Message) -> None:  # noqa: ARG002
        """As its author would."""
        operations.discard([obj.pk])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> None:  # noqa: ARG002
        """As their authors would."""
        operations.discard(list(queryset.values_list("pk", flat=True)))
