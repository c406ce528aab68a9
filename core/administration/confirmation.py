"""A question before an action: what it affects, and one button that does it."""

from collections.abc import Sequence

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin

_CARRIED = ("action", "select_across", "index", ACTION_CHECKBOX_NAME)


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the question was answered with yes."""
    return request.method == "POST" and "confirmed" in request.POST


def question(
    admin: ModelAdmin, request: HttpRequest, *, title: str, lines: Sequence[str], button: str
) -> TemplateResponse:
    """Ask before it is done. The answer comes as the same request with `confirmed` in it."""
    context = {
        **admin.admin_site.each_context(request),
        "title": title,
        "opts": admin.opts,
        "lines": lines,
        "button": button,
        "carried": [(name, str(value)) for name in _CARRIED for value in request.POST.getlist(name)],
    }
    return TemplateResponse(request, "admin/question.html", context)


def carry_out(
    admin: ModelAdmin, request: HttpRequest, *, title: str, lines: Sequence[str], button: str
) -> HttpResponse | None:
    """The question to answer with, or None when it was answered with yes: then do it."""
    if is_confirmed(request):
        return None
    return question(admin, request, title=title, lines=lines, button=button)
