"""A filtered list of jobs as a file: CSV for spreadsheets, JSON lines for programs."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse

from core import pages, people
from jobs.domain.filters import Filters
from jobs.models import Job
from jobs.queries import lists
from jobs.views import access
from jobs.views.lists import FilterForm

MOST: Final = 10_000  # jobs in a file; some 2 MB
AT_A_TIME: Final = 1_000
COLUMNS: Final = (
    "id", "kind", "queue", "status", "priority", "owner", "group", "worker", "flow", "attempt", "failures", "about",
    "error", "created_at", "run_at", "claimed_at", "ended_at",
)  # fmt: skip
_HEADINGS: Final = {"id": "Job", "created_at": "Submitted", "run_at": "Not before"}  # of the others, the name


@access.page
def export(request: HttpRequest, kind: str) -> HttpResponse:
    """The jobs that the list would show, newest first, MOST at most. `before` stands in the Link to the next file."""
    user = people.person(request)
    form = FilterForm(request.GET, user=user)
    if not form.is_valid():
        return HttpResponse(form.errors.as_text(), status=422, content_type="text/plain; charset=utf-8")
    jobs, older = _jobs(access.viewer(user), form.filters(), form.cleaned_data.get("before"))
    headings = [_HEADINGS.get(name, name.removesuffix("_at").capitalize()) for name in COLUMNS]
    return pages.export(request, kind, headings, map(_row, jobs), name="jobs", older=older)


def _jobs(viewer: int, filters: Filters, before: int | None) -> tuple[list[Job], int | None]:
    """Pages of the list, until there are MOST or none are left; a page that only looked and met none ends it too."""
    jobs: list[Job] = []
    while True:
        page = lists.page(viewer=viewer, filters=filters, before=before, limit=AT_A_TIME)
        jobs += page.jobs
        before = page.older
        if before is None or len(jobs) >= MOST or len(page.jobs) < AT_A_TIME:
            return jobs, before


def _row(job: Job) -> dict[str, Any]:
    dressed: Any = job  # with what `lists.dressed` adds
    return {
        **{name: getattr(job, name) for name in ("id", "kind", "queue", "status", "priority")},
        "owner": job.owner.get_username() if job.owner else None,
        "group": job.group.name if job.group else None,
        "worker": job.worker_name,
        "flow": job.flow_id,
        "attempt": job.attempt,
        "failures": job.failures,
        "about": dressed.excerpt,
        "error": _whole_lines(dressed.last_error) or None,
        **{name: at and at.isoformat() for name in COLUMNS if name.endswith("_at") for at in [getattr(job, name)]},
        **({"run_at": None} if job.is_behind else {}),
    }


def _whole_lines(error: str) -> str:
    """The end of an error, from the first line of which nothing is missing."""
    return (error.partition("\n")[2] or error) if len(error) >= lists.ERROR_END else error
