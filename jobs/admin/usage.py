"""What the jobs of each person have, and may have; the largest first, all jobs together before. Health scores."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.safestring import SafeString

from core import administration
from jobs import operations
from jobs.domain.quotas import Quota
from jobs.models import ALL_JOBS, HealthScore, Usage
from jobs.operations import quotas
from jobs.templatetags.farm import amount


def _its_jobs(row: Usage) -> SafeString:
    return administration.listed("jobs_job", "jobs", **{} if row.pk == ALL_JOBS else {"owner": row.pk})


def _amount(title: str, resource: str, field: str) -> Any:
    """A column with how much of this there is, and how much may be."""

    def cell(row: Usage) -> str:
        of = "farm" if row.pk == ALL_JOBS else "owner"
        allowed = quotas.allowed(operations.setting_of(resource, of=of))
        return amount(Quota(resource=resource, of=of, quota=allowed, used=max(0, getattr(row, field))))

    return administration.shown(title, cell, ordering=field)


@admin.register(Usage)
class UsageAdmin(administration.ReadOnly):
    """As it was measured last, some seconds ago. Whose jobs have nothing is not in it."""

    list_display = ["whose", "waiting_jobs", "output", "number_of_files", "size_of_files"]
    search_fields = ["owner__username"]
    search_help_text = "A name"
    ordering = ["-file_bytes", "-output_bytes", "-waiting", "pk"]
    fields = [*list_display, "person", "its_jobs"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """Each with the person's name. The farm's row has none, so a join would lose it."""
        named = User.objects.filter(pk=OuterRef("pk")).values("username")
        rows: QuerySet[Usage] = super().get_queryset(request).annotate(username=Subquery(named))
        return rows

    whose = administration.shown(
        "Owner",
        lambda row: "All jobs" if row.pk == ALL_JOBS else row.username or f"{row.pk}, who is gone",
        ordering="username",
    )
    person = administration.shown(
        "Person",
        lambda row: administration.link("auth_user", row.pk, row.username) if row.username else "nobody's alone",
    )
    waiting_jobs = _amount("Pending jobs", "waiting jobs", "waiting")
    output = _amount("Output", "bytes of output", "output_bytes")
    number_of_files = _amount("Files", "files", "files")
    size_of_files = _amount("Bytes of files", "bytes of files", "file_bytes")
    its_jobs = administration.shown("Jobs", _its_jobs)


@admin.register(HealthScore)
class HealthScoreAdmin(administration.BoundedList):
    list_display = ["day", "subject", "name", "score", "ended", "latency_p50_s", "latency_p95_s", "backlog"]
    list_filter = ["subject", administration.by_day("day")]
    search_fields = ["name"]
