"""The administration as a whole: its sidebar, its first page, and the two groups of people who run a farm with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from core.administration import registered
from examples import config as examples
from jobs.domain.rollups import PERIODS
from jobs.queries import pages, reads
from scheduling.cluster import django_q2

READERS: Final = "operators (read only)"
OPERATORS: Final = "operators"

# What an operator may do beyond looking. Not here: changing people, groups and rights, by which anybody in the group
# could make themselves a superuser (docs/adr/0031-lists-are-bounded.md).
ACTIONS: Final = frozenset(
    {
        "jobs.operate_job", "jobs.add_kind", "jobs.change_kind", "jobs.delete_worker", "jobs.add_weight",
        "jobs.change_weight", "jobs.delete_weight", "jobs.add_pausedowner", "jobs.delete_pausedowner",
        "jobs.add_flowtemplate", "jobs.change_flowtemplate", "jobs.delete_flowtemplate",
        "scheduling.operate_scheduledfunction", "scheduling.add_cron", "scheduling.change_cron",
        "outbox.operate_endpoint", "webhooks.operate_delivery", "webhooks.add_rule", "webhooks.change_rule",
        "webhooks.delete_rule", "alerts.add_rule", "alerts.change_rule", "alerts.delete_rule", "metering.add_budget",
        "metering.change_budget", "metering.delete_budget", "metering.add_model", "metering.change_model",
        "metering.delete_model", "ratelimits.delete_bucket", "ratelimits.add_limit", "ratelimits.change_limit",
        "accounts.delete_apitoken",
    }
    | {permission for example in examples.installed() for permission in example.operator_permissions}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What `grant` found and did to one group: the rights that were missing, and those that are not the farm's."""

    name: str
    is_new: bool
    missing: tuple[str, ...]
    further: tuple[str, ...]


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The pages in the order in which an operator thinks of them; only what this person may view is shown."""
    resources = [(table._meta.label, "category") for table in _resources()]
    of_django_q2 = [_OF_DJANGO_Q2] if django_q2.is_used() else []
    sections = [*_SECTIONS, *of_django_q2, ("Reported by adapters", True, resources)]
    overview = {"title": "Dashboard", "icon": "monitoring", "link": reverse("admin:index")}
    return [
        {"title": "", "items": [overview]},
        *(
            {"title": title, "collapsible": is_folded, "items": [_item(request, *each) for each in tables]}
            for title, is_folded, tables in sections
        ),
    ]


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """What the first page shows beside the list of tables: the farm as on its overview, for who may see all jobs."""
    return {
        **context,
        "title": "The farm",
        "is_operator": reads.is_operator(request.user),
        "everybody": pages.EVERYBODY,
        "period": PERIODS.get(request.GET.get("period", ""), PERIODS["hour"]),
        "periods": list(PERIODS.values()),
    }


@transaction.atomic
def grant(*, reset: bool) -> list[Granted]:
    """Make the two groups if they are not there; with `reset`, give those that are exactly the rights of new ones.
    Returns for each what there was to do. Rights that somebody took from a group, or added, stay so without `reset`."""
    return [_grant(name, permissions, reset=reset) for name, permissions in _rights().items()]


def unchanged_groups() -> list[str]:
    """The groups that have just the rights of new ones, of those rights that the database knows by now: nobody added
    one or took one away. Asked before a migration, whose new rights `extend` gives them afterwards."""
    if Group._meta.db_table not in connection.introspection.table_names():
        return []
    wanted = _rights() if Group.objects.filter(name__in=(READERS, OPERATORS)).exists() else {}
    groups = {group.name: group for group in Group.objects.filter(name__in=wanted)}
    return [name for name, group in groups.items() if _named(_here(group)) == _named(wanted[name])]


def extend(names: Iterable[str]) -> None:
    for name in names:
        _grant(name, _rights()[name], reset=True)


def _rights() -> Mapping[str, "QuerySet[Permission]"]:
    tables = [(table._meta.app_label, table._meta.model_name) for table in _browsable()]
    viewing = Q()
    for app, table in tables:
        viewing |= Q(content_type__app_label=app, codename=f"view_{table}")
    acting = Q()
    for permission in sorted(ACTIONS):
        app, _, codename = permission.partition(".")
        acting |= Q(content_type__app_label=app, codename=codename)
    return {READERS: Permission.objects.filter(viewing), OPERATORS: Permission.objects.filter(viewing | acting)}


def _grant(name: str, permissions: "QuerySet[Permission]", *, reset: bool) -> Granted:
    group, is_new = Group.objects.get_or_create(name=name)
    has, should = _named(_here(group)), _named(permissions)
    if is_new or reset:
        group.permissions.remove(*_here(group).difference(permissions))
        group.permissions.add(*permissions)
    return Granted(name=name, is_new=is_new, missing=tuple(sorted(should - has)), further=tuple(sorted(has - should)))


def _here(group: Group) -> "QuerySet[Permission]":
    """What it may in the apps of this process: in a second terminal `make run` has more of them (JOBFARM_APPS)."""
    return group.permissions.filter(content_type__app_label__in=apps.app_configs)


def _named(permissions: "QuerySet[Permission]") -> set[str]:
    return {f"{app}.{code}" for app, code in permissions.values_list("content_type__app_label", "codename")}


def _browsable() -> Iterable[Any]:
    """Every table that has pages here, and those that are shown as parts of them: Django asks for a right for each."""
    listed = registered()
    parts = {inline.model for page in listed.values() for inline in page.inlines}
    return sorted({*listed, *parts}, key=lambda table: str(table._meta.label))


def _resources() -> list[Any]:
    """The domain tables of webhooks: those with pages that no other section names."""
    named = {label for _, _, tables in _SECTIONS for label, _ in tables}
    tables = apps.get_app_config("webhooks").get_models()
    return [table for table in tables if table in registered() and table._meta.label not in named]


def _item(request: HttpRequest, label: str, icon: str) -> dict[str, Any]:
    options = apps.get_model(label)._meta
    app, table = options.app_label, options.model_name
    may_view = any(request.user.has_perm(f"{app}.{permission}_{table}") for permission in ("view", "change"))
    return {
        "title": str(options.verbose_name_plural).capitalize(),
        "icon": icon,
        "link": reverse(f"admin:{app}_{table}_changelist"),
        "permission": lambda _: may_view,
    }


_SECTIONS: Final[list[tuple[str, bool, list[tuple[str, str]]]]] = [
    ("Work", False, [
        ("jobs.Job", "work"), ("jobs.Attempt", "replay"), ("jobs.Bulk", "checklist"), ("jobs.Queue", "queue"),
        ("jobs.ConcurrencyKey", "vpn_key"), ("jobs.Weight", "balance"), ("jobs.FlowTemplate", "account_tree"),
        ("jobs.Kind", "label"), ("jobs.Worker", "precision_manufacturing"), ("jobs.HealthScore", "ecg_heart"),
    ]),
    ("Scheduler", False, [
        ("scheduling.ScheduledFunction", "schedule"), ("scheduling.Cron", "event_repeat"),
        ("scheduling.Cluster", "dns"),
    ]),
    ("Webhooks", False, [
        ("webhooks.Delivery", "inbox"), ("webhooks.Rule", "rule"), ("webhooks.JobStart", "start"),
        ("webhooks.Activity", "timeline"), ("webhooks.Refusal", "block"),
        ("webhooks.Secret", "key"), ("webhooks.SandboxToken", "vpn_key"), ("webhooks.ModelServer", "smart_toy"),
    ]),
    ("Outbox", False, [("outbox.Endpoint", "outbox"), ("outbox.Message", "outgoing_mail")]),
    ("OpenAI's API", False, [
        ("openai_api.Alias", "alt_route"), ("openai_api.CallRule", "rule"),
        ("openai_api.Batch", "stacks"), ("openai_api.File", "description"),
    ]),
    ("Alerts", False, [("alerts.Rule", "notifications"), ("alerts.Notification", "outgoing_mail")]),
    ("Usage", False, [("metering.Budget", "savings"), ("metering.Model", "payments"), ("metering.Day", "data_usage")]),
    ("Limits", False, [("ratelimits.Limit", "tune"), ("ratelimits.Bucket", "speed"), ("jobs.Usage", "data_usage")]),
    ("People", False, [
        ("auth.User", "person"), ("auth.Group", "group"), ("jobs.PausedOwner", "pause"),
        ("accounts.ApiToken", "password"), ("accounts.AuditLine", "history"),
    ]),
    ("Examples", True, [table for example in examples.installed() for table in example.tables]),
]  # fmt: skip

# In a farm whose people use it past the scheduler.
_OF_DJANGO_Q2: Final[tuple[str, bool, list[tuple[str, str]]]] = ("django-q2", True, [
    ("django_q.Schedule", "schedule"), ("django_q.Success", "check_circle"), ("django_q.Failure", "error"),
])  # fmt: skip
