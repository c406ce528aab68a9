"""Lists of jobs, narrowed by a form that people keep under names, bulk actions on what they show, and as files: CSV for
spreadsheets, JSON lines for programs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from core.pages import export as file_of
from core.values import moment, row_id
from jobs.domain import records
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import DESCRIBED, Filter, Filters, ids_of
from jobs.models import Job
from jobs.queries import bulks, fleet, lists, pages, reads
from jobs.views import access, queues

_ANY: Final = [("", "Any")]
_WIDGETS: Final = {"search": forms.TextInput({"type": "search", "placeholder": "Text, #7, seed:7"})}


class FilterForm(forms.Form):
    """What a list of jobs is filtered by; comes from the address."""

    before = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput, label="Page"
    )

    sort = forms.ChoiceField(required=False, choices=[("", "Newest first"), *lists.ORDERS.items()])

    def __init__(self, data: Mapping[str, Any], *, user: User) -> None:
        super().__init__(data, auto_id="filter-%s")
        self.fields |= {name: _field(described) for name, described in DESCRIBED.items()}
        if not reads.is_operator(user):  # others see few owners: what they ask is which jobs are their own
            self.fields["owner"] = forms.CharField(required=False, widget=_Mine(user.get_username()))

    def shown(self) -> dict[str, Any]:
        """The arguments of the live query. A filter that makes no sense is left out, and its error shown."""
        filters = asdict(self.filters())
        return {**filters, "before": self.cleaned_data.get("before") or 0, "sort": self.cleaned_data.get("sort") or ""}

    def filters(self) -> Filters:
        self.is_valid()
        return Filters(**{name: self.cleaned_data.get(name) or "" for name in DESCRIBED})

    def query(self) -> dict[str, str]:
        """What the address says of it: the filters that make sense, and the order."""
        query = self.filters().as_dict()
        sort = self.cleaned_data.get("sort")
        return query | {"sort": sort} if sort else query

    def place(self) -> dict[str, str]:
        query, before = self.query(), self.cleaned_data.get("before")
        return query | {"before": str(before)} if before else query

    def address(self) -> str:
        place = urlencode(self.place())
        return f"{reverse('jobs:list')}?{place}" if place else reverse("jobs:list")

    def is_further(self) -> bool:
        """Whether a filter is set, or wrong, that stands folded away."""
        return any(self.data.get(name) for name, described in DESCRIBED.items() if described.is_further)


class _Mine(forms.CheckboxInput):
    """A box whose value, when it is ticked, is the person's own name."""

    def __init__(self, name: str) -> None:
        super().__init__(attrs={"value": name}, check_test=lambda value: value == name)

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> Any:  # noqa: ARG002
        """The name, or nothing; Django's own box knows only true and false."""
        return data.get(name, "")


class BulkActionForm(forms.Form):
    action = forms.ChoiceField(
        choices=[(action.value, action.replace("_", " ")) for action in BulkAction if action is not BulkAction.UNDO],
        error_messages={"required": "Choose an action."},
    )
    new_queue = forms.ChoiceField(required=False)
    new_priority = forms.IntegerField(required=False, min_value=-100, max_value=100)

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, auto_id="action-%s")
        queue = self.fields["new_queue"]
        assert isinstance(queue, forms.ChoiceField)
        queue.choices = [(name, name) for name in fleet.known_queues()]

    def clean(self) -> dict[str, Any]:
        """With `value`: the new queue or priority, where the action has one."""
        values: dict[str, Any] = super().clean() or {}
        field = {BulkAction.QUEUE: "new_queue", BulkAction.PRIORITY: "new_priority"}.get(values.get("action", ""))
        value = values.get(field) if field else ""
        if field and value in (None, "") and field not in self.errors:
            self.add_error(field, "Enter the new value.")
        return {**values, "value": "" if value is None else str(value)}


class SaveForm(forms.Form):
    name = forms.CharField(max_length=60, label="Name", widget=forms.TextInput({"autocomplete": "off"}))

    def __init__(self, data: Any = None, *, user: User) -> None:
        super().__init__(data, auto_id="save-%s")
        self._user = user

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if lists.is_full_of_filters(self._user, name=name):
            raise forms.ValidationError(f"You have {lists.MOST_SAVED} saved filters, which is all you can have.")
        return name


@access.page
def jobs(request: HttpRequest) -> HttpResponse:
    """The jobs that this person may see, newest first, live; the filters stand in the address.

    The number of a job as text leads to its page.
    """
    user = people.person(request)
    form = FilterForm(request.GET, user=user)
    job_id = row_id(form.filters().text)
    if job_id is not None and reads.visible_to(user).filter(pk=job_id).exists():
        return HttpResponseRedirect(reverse("jobs:job", args=[job_id]))
    context = {
        "form": form,
        "shown": form.shown(),
        "counted": asdict(form.filters()),
        "kept": form.place(),
        "actions": BulkActionForm(),
        "saved": lists.saved_filters(user),
        "query": form.query(),
        "listed_ids": ids_of(form.filters().ids),
        "reaches_all": bulks.reaches_all(user),
        "viewer": access.viewer(user),
        "is_operator": reads.is_operator(user),
        "paused": queues.pause_of_list(user, owner=form.filters().owner),
    }
    return render(request, "jobs/list.html", context, status=200 if form.is_valid() else 422)


@access.button
def save_filter(request: HttpRequest) -> HttpResponse:
    """Keep the filters of the list that the form stands on."""
    user = people.person(request)
    narrowed, form = FilterForm(request.POST, user=user), SaveForm(request.POST, user=user)
    query = narrowed.query()
    if query and form.is_valid():
        lists.save_filter(user, name=form.cleaned_data["name"], query=query)
        messages.success(request, f"Saved as “{form.cleaned_data['name']}”.")
    else:
        errors = [str(error) for error in form.errors.get("name", ())]
        messages.error(request, " ".join(errors) or "There is no filter to save.")
    return HttpResponseRedirect(f"{reverse('jobs:list')}?{urlencode(query)}")


@access.button
def forget_filter(request: HttpRequest, filter_id: int) -> HttpResponse:
    if not lists.forget_filter(people.person(request), filter_id):
        raise Http404("There is no such saved filter.")
    return HttpResponseRedirect(reverse("jobs:list"))


def _text(is_good: Callable[[str], bool], message: str, **options: Any) -> forms.Field:
    """A field for a text of a certain form."""

    def check(text: str) -> None:
        if not is_good(text):
            raise forms.ValidationError(message)

    return forms.CharField(validators=[check], **options)


def _field(described: Filter) -> forms.Field:
    common: dict[str, Any] = {"required": False, "label": described.label}
    match described.type:
        case "choice":
            return forms.ChoiceField(choices=[*_ANY, *described.choices], **common)
        case "kinds" | "queues":
            names = pages.known_kinds() if described.type == "kinds" else fleet.known_queues()
            return forms.ChoiceField(choices=[*_ANY, *((name, name) for name in names)], **common)
        case "moment":
            message = "Enter a date and a time, like 2026-09-30T14:05."
            widget = forms.DateTimeInput(attrs={"type": "datetime-local"})
            return _text(lambda text: moment(text) is not None, message, widget=widget, **common)
        case "tags":
            message = "Enter up to 10 tags with commas between them, like nightly,tenant:7."
            return _text(records.is_tags, message, max_length=described.longest, **common)
        case "ids":
            message = "Enter ids of jobs with commas between them, like 7,9."
            common |= {"widget": forms.HiddenInput, "max_length": described.longest}
            return _text(lambda text: len(ids_of(text)) == text.count(",") + 1, message, **common)
    return forms.CharField(max_length=described.longest, widget=_WIDGETS.get(described.type), **common)


MOST_EXPORTED: Final = 10_000  # jobs in a file; some 2 MB
AT_A_TIME: Final = 1_000
COLUMNS: Final = (
    "id", "kind", "queue", "status", "priority", "owner", "group", "worker", "flow", "attempt", "failures", "about",
    "error", "created_at", "run_at", "claimed_at", "ended_at",
)  # fmt: skip
_HEADINGS: Final = {"id": "Job", "created_at": "Submitted", "run_at": "Not before"}  # of the others, the name


@access.page
def export(request: HttpRequest, kind: str) -> HttpResponse:
    """The newest jobs that the list would show, so many at most. `before` stands in the Link to the next file."""
    user = people.person(request)
    form = FilterForm(request.GET, user=user)
    if not form.is_valid():
        return HttpResponse(form.errors.as_text(), status=422, content_type="text/plain; charset=utf-8")
    jobs, older = _jobs(access.viewer(user), form.filters(), form.cleaned_data.get("before"))
    headings = [_HEADINGS.get(name, name.removesuffix("_at").capitalize()) for name in COLUMNS]
    return file_of(request, kind, headings, map(_row, jobs), name="jobs", older=older)


def _jobs(viewer: int, filters: Filters, before: int | None) -> tuple[list[Job], int | None]:
    """Pages of the list, until there are enough or none are left; a page that only looked and met none ends it too."""
    jobs: list[Job] = []
    while True:
        page = lists.page(viewer=viewer, filters=filters, before=before, limit=AT_A_TIME)
        jobs += page.jobs
        before = page.older
        if before is None or len(jobs) >= MOST_EXPORTED or len(page.jobs) < AT_A_TIME:
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
