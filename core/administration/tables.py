"""Lists that never count a whole table, rows that nobody edits, what their columns and fields show; and actions, which
ask first: what is affected, and one button that does it; then what it came to."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.contrib.admin import ShowFacets, actions
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import NestedObjects, flatten_fieldsets, quote, unquote
from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import display
from unfold.views import ChangeList

from core.refusal import Refusal, sentence_for_people

COUNTED: Final = 10_000  # rows of a list that are counted and paged through; filters and the search reach the others
MAX_SCANNED: Final = 100_000  # rows that one page of a narrowed list scans at most (docs/adr/0031)
BEFORE: Final = "before"
NOTHING: Final = "–"
AT_ONCE: Final = 1000  # rows that one action touches
_CARRIED = ("action", "select_across", "index", ACTION_CHECKBOX_NAME)


class Counted(Paginator):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """Pages over the first COUNTED rows: a count(*) of ten million, or an OFFSET into them, takes seconds."""

    template_name = "admin/counted.html"

    @cached_property
    def count(self) -> int:
        return int(self.object_list.order_by().values("pk")[:COUNTED].count())  # type: ignore[attr-defined]  # a queryset

    @property
    def has_more(self) -> bool:
        return self.count >= COUNTED


class Untouched:
    """Nothing is added, changed or deleted here, so all that a page names in `fields` or `fieldsets` is to read."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:  # noqa: ARG002  # the admin's
        page: Any = self
        return flatten_fieldsets(page.fieldsets or [(None, {"fields": page.fields or page.readonly_fields})])

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False


class Paged:
    """A list whose first COUNTED rows alone are counted, and its filters' choices not at all."""

    paginator = Counted
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50


class ReadOnly(Untouched, Paged, ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """A table to read: rows come from elsewhere and are never edited here."""


class OnSite:
    """Rows whose page is the site's, which shows and does all there is, live, to the same people."""

    page: ClassVar[str]
    page_right: ClassVar[str] = ""  # that this page takes, where the right to see such rows does not suffice

    def leads(self, request: HttpRequest) -> bool:
        return not self.page_right or bool(request.user.has_perm(self.page_right))

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> Any:
        """None for whom that page is not there."""
        return super().get_list_display_links(request, list_display) if self.leads(request) else None  # type: ignore[misc]

    def change_view(self: Any, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        """Lead to that page; nothing is edited here."""
        if request.method == "POST" or not (self.has_view_permission(request) and self.leads(request)):
            raise PermissionDenied
        try:
            return redirect(self.page, unquote(object_id))
        except NoReverseMatch:  # for what cannot be an id
            raise Http404 from None


class Part(Untouched, TabularInline):  # type: ignore[misc]
    """Rows that belong to another, to read."""

    extra = 0
    can_delete = False
    show_change_link = False


class BoundedChangeList(ChangeList):  # type: ignore[misc]
    """A list, newest first, that scans MAX_SCANNED rows at most; "older" goes on where a page stopped.

    What an index leads to (a filter that says `leads`, a lookup in `led_lookups`) is scanned no matter how old it
    is: the rows that are counted as scanned are then those of the index.
    """

    floor: int | None = None

    def get_filters_params(self, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What narrows the list: not where a page begins."""
        narrows: dict[str, Any] = super().get_filters_params(params)
        narrows.pop(BEFORE, None)
        return narrows

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str] | None = None) -> QuerySet[Any]:
        rows: QuerySet[Any] = _before(super().get_queryset(request, exclude_parameters), self._before)
        if not self._is_narrowed or self.model_admin.finds_exactly(self.query):
            return rows
        scanned = _before(self._led(request), self._before).order_by("-pk").values_list("pk", flat=True)
        self.floor = next(iter(scanned[MAX_SCANNED - 1 : MAX_SCANNED]), None)
        return rows if self.floor is None else rows.filter(pk__gte=self.floor)

    @property
    def older_url(self) -> str | None:
        """Where the list goes on; None where all was scanned."""
        if self.floor is None:
            return None
        url: str = self.get_query_string({BEFORE: self.floor}, [PAGE_VAR])
        return url

    @property
    def newest_url(self) -> str | None:
        """Where the list begins; None for its beginning."""
        return None if self._before is None else self.get_query_string(remove=[BEFORE, PAGE_VAR])

    @cached_property
    def _before(self) -> int | None:
        value = self.params.get(BEFORE, "")
        return min(int(value), 2**63 - 1) if value.isascii() and value.isdigit() and len(value) < 20 else None

    @property
    def _is_narrowed(self) -> bool:
        return bool(set(self.params) - {PAGE_VAR, ORDER_VAR, BEFORE})

    def _led(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model_admin.model.objects.all()
        for spec in self.filter_specs:
            if getattr(spec, "leads", False):
                rows = spec.queryset(request, rows)
        led = self.model_admin.led_lookups
        return rows.filter(**{name: value for name, value in self.params.items() if name in led})


class BoundedList(ReadOnly):
    """A table that may hold millions of rows, newest first; sorted by nothing else, for that would read all of it."""

    list_after_template = "admin/older.html"
    ordering = ["-pk"]
    sortable_by: Any = ()
    led_lookups: frozenset[str] = frozenset()

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[BoundedChangeList]:  # noqa: ARG002
        return BoundedChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By `search(rows, term)` where the list has one; else by its `search_fields`, as Django does."""
        term, search = search_term.strip(), getattr(self, "search", None)
        if term and search:
            return search(queryset, term), False
        return super().get_search_results(request, queryset, term)  # type: ignore[no-any-return]  # unfold ships no types

    def finds_exactly(self, term: str) -> bool:  # noqa: ARG002  # for those who do
        """Whether an index leads to all that a search finds, so that it need not be bounded."""
        return False


@cache  # to look through all apps takes milliseconds, and the sidebar of each page asks for each table
def registered() -> Mapping[type[Model], ModelAdmin]:
    """Every table that has pages, with what makes them. A process that shows none finds them here first."""
    admin.autodiscover()
    return admin.site._registry  # noqa: SLF001 (there is no other list of it)


def _before(rows: QuerySet[Any], pk: int | None) -> QuerySet[Any]:
    return rows if pk is None else rows.filter(pk__lt=pk)


def shown(
    title: str, value: Callable[[Any], Any], *, ordering: str | None = None, label: Mapping[str, str] | None = None
) -> Callable[[Any, Any], Any]:
    """A column or a field that shows what `value` makes of a row: computed once, however often the page asks (unfold's
    template does five times), and kept on the row, which lives as long as the request."""

    def cell(_: Any, row: Any) -> Any:
        kept: dict[Any, Any] = row.__dict__.setdefault("_shown", {})
        if value not in kept:
            kept[value] = value(row)
        return kept[value]

    described: Callable[[Any, Any], Any] = display(description=title, ordering=ordering, label=label)(cell)
    return described


def link(page: str, pk: object, text: object = None) -> SafeString | str:
    """A link to a row's page, by its number unless `text` says otherwise; `page` is like `jobs_job`. A dash where there
    is no row."""
    if pk is None:
        return NOTHING
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[pk]), text or f"#{pk}")


def listed(page: str, text: str, **narrowed: object) -> SafeString:
    """A link to the list of such rows, narrowed so; `page` is like `jobs_job`."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_changelist", query=narrowed), text)


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


class _Bounded(NestedObjects):
    """What goes along with rows that are deleted: of each table so many as a page can list."""

    def related_objects(self, *wanted: Any) -> "QuerySet[Any]":
        rows: QuerySet[Any] = super().related_objects(*wanted)
        return rows[:AT_ONCE]


def deleted_objects(objs: Any, request: HttpRequest) -> tuple[list[Any], dict[str, str], set[str], list[Any]]:
    """What a page says that goes along with these rows, as Django's own function, but so much of it as a page can
    list: nested lines, how many of each table, of which the person may delete none, and what stands against it."""
    collector = _Bounded(using=DEFAULT_DB_ALIAS, origin=objs)
    collector.collect(objs)
    tables: Any = collector.model_objs  # which the stubs take for texts
    counts, forbidden = {}, set()
    for model, rows in tables.items():
        count = str(len(rows)) if len(rows) < AT_ONCE else f"{AT_ONCE:,} or more"
        counts[str(model._meta.verbose_name_plural)] = count
        page: Any = admin.site.get_model_admin(model) if admin.site.is_registered(model) else None
        if page and not all(page.has_delete_permission(request, row) for row in rows):
            forbidden.add(str(model._meta.verbose_name))
    return collector.nested(_gone), counts, forbidden, [*map(_gone, collector.protected)]


def _gone(row: Any) -> SafeString:
    has_page = admin.site.is_registered(type(row))
    text = link(f"{row._meta.app_label}_{row._meta.model_name}", quote(row.pk), row) if has_page else row
    return format_html("{}: {}", capfirst(row._meta.verbose_name), text)


@admin.action(permissions=["delete"], description=actions.delete_selected.short_description)  # type: ignore[attr-defined]
def delete_selected(page: ModelAdmin, request: HttpRequest, queryset: "QuerySet[Any]") -> HttpResponse | None:
    """Django's own, which says nothing where all that was chosen is gone: to who presses twice, say."""
    if not queryset.exists():
        page.message_user(request, "Nothing was deleted: what you chose is not there any more.", messages.WARNING)
        return None
    return actions.delete_selected(page, request, queryset)


admin.site.add_action(delete_selected)
