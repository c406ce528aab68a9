"""The sources' resources, each in its newest state: to browse, to search, and to follow from one to the next."""

from datetime import datetime
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from core import administration
from webhooks.models import Resource, resources as models

_recent = cache(administration.recent)  # one class for a column: Django compares them


@cache
def _field(name: str) -> Any:

    def value(row: Resource) -> Any:
        field = row.document.get(name)
        if name.endswith("_at") and isinstance(field, str):
            return datetime.fromisoformat(field)
        return ", ".join(map(str, field)) if isinstance(field, list) else field

    value.short_description = name.replace("_", " ")  # type: ignore[attr-defined]
    value.__name__ = name
    if models.is_flag(name):
        value.boolean = True  # type: ignore[attr-defined]
    return value


@cache
def _filter(name: str) -> Any:
    column, title = f"document__{name}", name.removeprefix("is_").replace("_", " ")
    return administration.by_flag(column, title) if models.is_flag(name) else _recent(column, title)


@cache
def _parent(label: str) -> Any:
    """A column with the name of what a resource belongs to, or its id where that never came; it leads to all of it."""

    def name(row: Any) -> str:
        if not row.parent:
            return ""
        page = reverse(f"admin:webhooks_{row.type}_changelist", query={"parent": row.parent})
        return format_html('<a href="{}">{}</a>', page, row.belongs_to.get(row.parent, row.parent))

    name.short_description = label  # type: ignore[attr-defined]
    return name


class _List(administration.BoundedChangeList):
    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        """With what the rows of this page belong to: one statement more."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        names = _names_of_parents(self.model, self.result_list)
        for row in self.result_list:
            row.belongs_to = names


def _names_of_parents(model: type[Resource], rows: list[Any]) -> dict[str, str]:
    if not model.shape.parent_type:
        return {}
    parents = apps.get_model("webhooks", model.shape.parent_type)
    rows_of_parents = parents._default_manager.filter(external_id__in={row.parent for row in rows if row.parent})
    return {parent.external_id: str(parent) for parent in rows_of_parents}


class ResourceAdmin(administration.BoundedList):
    model: type[Resource]
    led_lookups = frozenset({"parent"})  # the index of resources by parent

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[_List]:  # noqa: ARG002  # the admin's
        return _List

    def get_list_display(self, request: HttpRequest) -> list[Any]:  # noqa: ARG002
        return ["__str__", *self._parents(), *map(_field, self.model.shape.columns), "state_at", "deleted_at"]

    def get_list_filter(self, request: HttpRequest) -> list[Any]:  # noqa: ARG002
        filters = map(_filter, self.model.shape.filters)
        return [*filters, administration.by_day("state_at"), ("deleted_at", admin.EmptyFieldListFilter)]

    def get_search_fields(self, request: HttpRequest) -> list[str]:  # noqa: ARG002
        """The sender's ids whole, the others in part."""
        searches = self.model.shape.searches
        fields = [f"=document__{name[1:]}" for name in searches if name.startswith("=")]
        fields += [f"document__{name}" for name in searches if not name.startswith("=")]
        return ["=external_id", *(["=parent"] if self.model.shape.parent else []), *fields]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:  # noqa: ARG002
        names = sorted(obj.document.keys() - {"parent"}) if obj else []
        return ["external_id", *self._parents(), *map(_field, names), "state_at", "deleted_at"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_fields(request, obj)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            row.belongs_to = _names_of_parents(self.model, [row])
        return row

    def _parents(self) -> list[Any]:
        shape = self.model.shape
        return [_parent(shape.parent)] if shape.parent else []


admin.site.register(models.TYPES, ResourceAdmin)


@admin.register(models.SandboxSession)
class SandboxSessionAdmin(administration.BoundedList):
    list_display = ["external_id", "sandbox", "phase", "model", "first_seen_at", "last_seen_at"]
    list_filter = ["phase", _recent("model"), administration.by_day("first_seen_at")]
    search_fields = ["=external_id", "sandbox", "folder"]


@admin.register(models.SandboxTelemetry)
class SandboxTelemetryAdmin(administration.BoundedList):
    list_display = ["at", "script", "kind", "subject", "status", "outcome", "cpu_s", "wall_s", "errors"]
    list_filter = [*map(_recent, ("outcome", "kind", "script")), administration.by_day("at")]
    search_fields = ["=external_id", "subject", "error"]


@admin.register(models.Activity)
class ActivityAdmin(administration.BoundedList):
    list_display = ["at", "source", "actor", "verb", "object", "delivery_link"]
    list_display_links = ["at"]
    list_filter = ["source", _recent("kind"), administration.by_day("at")]
    search_fields = ["actor", "verb", "object", "=resource"]
    exclude = ["delivery"]
    readonly_fields = ["delivery_link"]

    delivery_link = administration.shown(
        "Delivery", lambda entry: administration.link("webhooks_delivery", entry.delivery_id)
    )


class CatalogModelInline(administration.Part):
    model = models.CatalogModel
    fields = ["name", "owned_by", "first_seen_at", "last_seen_at", "gone_at"]


@admin.register(models.ModelServer)
class ModelServerAdmin(administration.ReadOnly):
    list_display = ["url", "polled_at", "answered_at", "error"]
    inlines = [CatalogModelInline]
