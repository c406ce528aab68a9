"""A question before an action: what it affects, and one button that does it; then what it came to."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.contrib.admin import actions
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin

from core.refusal import Refusal, sentence_for_people

AT_ONCE: Final = 1000  # rows that one action touches
_CARRIED = ("action", "select_across", "index", ACTION_CHECKBOX_NAME)


def carry_out(
    page: ModelAdmin, request: HttpRequest, *, title: str, lines: Sequence[str], button: str
) -> HttpResponse | None:
    """Ask before it is done: the question to answer with, or None when it was answered with yes, which is the same
    request with `confirmed` in it."""
    if request.method == "POST" and "confirmed" in request.POST:
        return None
    context = {
        **page.admin_site.each_context(request),
        "title": title,
        "opts": page.opts,
        "lines": lines,
        "button": button,
        "carried": [(name, str(value)) for name in _CARRIED for value in request.POST.getlist(name)],
    }
    return TemplateResponse(request, "admin/question.html", context)


class Operated:
    """A table whose actions, on rows that were chosen or on one, are for those who hold the permission `operate`."""

    operate: ClassVar[str]

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002  # the admin's
        return bool(request.user.has_perm(self.operate))


Do = Callable[[HttpRequest, Any], str]  # what an action does to one row, and in a word what that came to; or it refuses
Line = Callable[[Any], str]


def on_each(sentence: str, do: Do, *, line: Line | None = None, by: str = "status") -> Any:
    """An action of an Operated list: `do` to each row that was chosen, once a question was answered with yes.

    The question is the `sentence`, such as "Run {} now", of these rows; below it is a `line` for each, or how many
    have which status (the attribute `by`).
    """

    def act(page: Any, request: HttpRequest, queryset: "QuerySet[Any]") -> HttpResponse | None:
        rows = list(queryset.order_by("pk")[: AT_ONCE + 1])
        title = f"{sentence.format(f'these {page.opts.verbose_name_plural}')}?"
        lines = _lines(rows, line, by)
        question = carry_out(page, request, title=title, lines=lines, button=sentence.format("them"))
        if question is None:
            outcomes = Counter(_outcome(do, request, row) for row in rows[:AT_ONCE])
            summary = "; ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
            messages.success(request, summary or "Nothing was selected.")
        return question

    return admin.action(description=sentence.replace(" {}", ""), permissions=["operate"])(act)


def _lines(rows: Sequence[Any], line: Line | None, by: str) -> list[str]:
    """A line for each row, or how many have each status now."""
    if line is not None:
        lines = list(map(line, rows[:AT_ONCE]))
    else:
        counts = Counter(str(getattr(row, by)).replace("_", " ") for row in rows[:AT_ONCE])
        lines = [f"{count:,} {status}" for status, count in sorted(counts.items())]
    return [*lines, f"and more, which are not changed: {AT_ONCE:,} at a time"] if len(rows) > AT_ONCE else lines


def _outcome(do: Do, request: HttpRequest, row: Any) -> str:
    try:
        return do(request, row)
    except Refusal as refusal:
        return sentence_for_people(refusal)


@admin.action(permissions=["delete"], description=actions.delete_selected.short_description)  # type: ignore[attr-defined]
def delete_selected(page: ModelAdmin, request: HttpRequest, queryset: "QuerySet[Any]") -> HttpResponse | None:
    """Django's own, which says nothing where all that was chosen is gone: to who presses twice, say."""
    if not queryset.exists():
        page.message_user(request, "Nothing was deleted: what you chose is not there any more.", messages.WARNING)
        return None
    return actions.delete_selected(page, request, queryset)


admin.site.add_action(delete_selected)
