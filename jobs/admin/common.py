"""What the administration's pages share: lists that never count a whole table, questions before deeds."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.forms import Script
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin

COUNTED: Final = (
    10_000  # rows of a list that are counted and paged through; filters and the search reach the others
)


class Counted(Paginator):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """Pages over the first COUNTED rows: a count(*) of ten million, or an OFFSET into them, takes seconds."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most COUNTED."""
        return int(self.object_list.order_by().values("pk")[:COUNTED].count())  # type: ignore[attr-defined]  # a queryset


class ReadOnly(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """A table to look at: rows come from elsewhere and are never edited here."""

    paginator = Counted
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False


class LiveMedia:
    """What a page with live parts loads."""

    css = {"all": ["jobs/admin.css"]}  # the form of Django's Media
    js = (Script("live/live.js", defer=True), Script("jobs/jobs.js", defer=True))


def person(request: HttpRequest) -> User:
    """Who is logged in."""
    assert isinstance(request.user, User)  # the admin lets nobody else in
    return request.user


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
        "carried": _carried(request),
    }
    return TemplateResponse(request, "admin/jobs/question.html", context)


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the question was answered with yes."""
    return request.method == "POST" and "confirmed" in request.POST


def key_page(admin: ModelAdmin, request: HttpRequest, *, worker: Any, key: str) -> TemplateResponse:
    """A worker's key, shown in this answer and never again."""
    farm = request.build_absolute_uri("/").rstrip("/")
    context = {
        **admin.admin_site.each_context(request),
        "title": f"The key of {worker}",
        "opts": admin.opts,
        "worker": worker,
        "key": key,
        "command": f"python -m jobfarm_worker --url {farm} --key {key} --handler chat",
    }
    return TemplateResponse(request, "admin/jobs/key.html", context)


def _carried(request: HttpRequest) -> list[tuple[str, str]]:
    """What an action of a list needs to be run once more: which action, and on which rows."""
    names = ("action", "select_across", "index", ACTION_CHECKBOX_NAME)
    return [(name, str(value)) for name in names for value in request.POST.getlist(name)]
