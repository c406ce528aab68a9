"""A question before an action: what it affects, and one button that does it."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import actions
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin

_CARRIED = ("action", "select_across", "index", ACTION_CHECKBOX_NAME)


def is_confirmed(request: HttpRequest) -> bool:
    return request.method == "POST" and "confirmed" in request.POST


def question(
    page: ModelAdmin, request: HttpRequest, *, title: str, lines: Sequence[str], button: str
) -> TemplateResponse:
    """Ask before it is done. The answer comes as the same request with `confirmed` in it."""
    context = {
        **page.admin_site.each_context(request),
        "title": title,
        "opts": page.opts,
        "lines": lines,
        "button": button,
        "carried": [(name, str(value)) for name in _CARRIED for value in request.POST.getlist(name)],
    }
    return TemplateResponse(request, "admin/question.html", context)


def carry_out(
    page: ModelAdmin, request: HttpRequest, *, title: str, lines: Sequence[str], button: str
) -> HttpResponse | None:
    """The question to answer with, or None when it was answered with yes: then do it."""
    if is_confirmed(request):
        return None
    return question(page, request, title=title, lines=lines, button=button)


@admin.action(permissions=["delete"], description=actions.delete_selected.short_description)  # type: ignore[attr-defined]
def delete_selected(page: ModelAdmin, request: HttpRequest, queryset: "QuerySet[Any]") -> HttpResponse | None:
    """Django's own, which says nothing where all that was chosen is gone: to who presses twice, say."""
    if not queryset.exists():
        page.message_user(request, "Nothing was deleted: what you chose is not there any more.", messages.WARNING)
        return None
    return actions.delete_selected(page, request, queryset)


admin.site.add_action(delete_selected)
