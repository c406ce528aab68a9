"""What the administration's pages share: tables to look at, that are never counted whole; a question before a deed."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.admin import ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.forms import Script
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin, TabularInline

OPERATE: Final = "webhooks.operate_delivery"
COUNTED: Final = (
    10_000  # rows of a list that are counted and paged through; filters and the search reach the others
)


class Counted(Paginator):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """Pages over the first COUNTED rows: counting millions takes seconds."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most COUNTED."""
        return int(self.object_list.order_by().values("pk")[:COUNTED].count())  # type: ignore[attr-defined]  # a queryset


class _Untouched:
    """Nothing is added, changed or deleted here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False


class ReadOnly(_Untouched, ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """A table to look at: rows come from the senders and are never edited here."""

    paginator = Counted
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002
        """Who may replay and change secrets."""
        return request.user.has_perm(OPERATE)


class Part(_Untouched, TabularInline):  # type: ignore[misc]
    """Rows that belong to another, to look at."""

    extra = 0
    can_delete = False
    show_change_link = False


class LiveMedia:
    """What a page with live parts loads."""

    css = {"all": ["jobs/admin.css"]}  # the form of Django's Media
    js = (Script("live/live.js", defer=True),)


def person(request: HttpRequest) -> User:
    """Who is logged in."""
    assert isinstance(request.user, User)  # the admin lets nobody else in
    return request.user


def question(
    admin: ModelAdmin, request: HttpRequest, *, title: str, lines: Sequence[str], button: str
) -> TemplateResponse:
    """Ask before it is done. The answer comes as the same request with `confirmed` in it."""
    names = ("action", "select_across", "index", ACTION_CHECKBOX_NAME)
    context = {
        **admin.admin_site.each_context(request),
        "title": title,
        "opts": admin.opts,
        "lines": lines,
        "button": button,
        "carried": [(name, str(value)) for name in names for value in request.POST.getlist(name)],
    }
    return TemplateResponse(request, "admin/webhooks/question.html", context)


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the question was answered with yes."""
    return request.method == "POST" and "confirmed" in request.POST
