"""Pages of workers: who works here, what they ran of late, new ones, their keys, and how they are started elsewhere."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.debug import sensitive_variables

from accounts import http as accounts_http, operations as accounts
from core import people
from core.values import words
from jobs import operations
from jobs.domain import kinds, labels
from jobs.errors import InvalidValue, QuotaReached, UnknownWorker, WorkerNotYours
from jobs.live_queries.farm import TIMELINE_MINUTES, WORKER_STATUSES
from jobs.models import Worker
from jobs.operations.queues import ANY_QUEUE
from jobs.queries import fleet, reads
from jobs.queries.fleet import WorkerRow
from jobs.views import access
from postgres import clock

_COMING_ALONG: Final = ("chat", "image", "openai")  # handlers of jobfarm_worker, named like their kinds and queues
_LEGEND: Final = (
    ("in_progress", "in progress"),
    ("success", "success"),
    ("failed", "failed, lost or timed out"),
    ("canceled", "canceled or given back"),
)


class QueueNames(forms.CharField):
    def __init__(self, *, may_be_any: bool = False, **kwargs: Any) -> None:
        super().__init__(max_length=2000, **kwargs)
        self._may_be_any = may_be_any

    def clean(self, value: Any) -> list[str]:
        """The names, each once, in their order."""
        names = list(dict.fromkeys(str(super().clean(value)).replace(",", " ").split()))
        for name in names:
            if not (kinds.NAME.fullmatch(name) or (self._may_be_any and name == ANY_QUEUE)):
                raise forms.ValidationError(f"A queue is named by a-z 0-9 _ . - (at most 100), not “{name}”.")
        return names


class WorkerForm(forms.Form):
    name = forms.CharField(
        max_length=100, widget=forms.TextInput(attrs={"placeholder": "the GPU under my desk", "autocomplete": "off"})
    )
    queues = QueueNames(initial="chat image", help_text="Queues that it serves, in this order.")
    steals = QueueNames(
        required=False,
        may_be_any=True,
        label="Steals from",
        help_text="Queues it takes from when it is idle; * means every other queue.",
    )
    scope = forms.ChoiceField(
        choices=[("everybody", "Everybody"), ("own", "Me and my groups")],
        label="Serves",
        help_text="Whose jobs it runs.",
    )

    def __init__(self, data: Mapping[str, Any] | None, *, user: User, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, auto_id="worker-%s", initial=dict(initial or {}))
        self._user = user
        if not reads.runs_farm(user):  # a member's worker serves that member
            del self.fields["scope"]

    def create(self) -> tuple[Any, str] | None:
        """Make the worker: it and its key; None when it was refused, and then the form says why."""
        values = self.cleaned_data
        owner = None if values.get("scope") == "everybody" else self._user
        try:
            return operations.create_worker(
                values["name"], queues=values["queues"], steals=values["steals"], owner=owner, by=self._user
            )
        except (InvalidValue, QuotaReached) as refusal:
            field = refusal.field if isinstance(refusal, InvalidValue) else None
            self.add_error(field if field in self.fields else None, refusal.message)
            return None


class WorkerFilterForm(forms.Form):
    text = forms.CharField(max_length=100, required=False, widget=forms.TextInput({"type": "search"}))
    status = forms.ChoiceField(
        required=False, choices=[("", "Any"), *((each, each.replace("_", " ")) for each in WORKER_STATUSES)]
    )
    sort = forms.ChoiceField(
        required=False,
        choices=[
            ("", "Seen last first"), ("name", "By name"), ("jobs", "Most jobs first"), ("failed", "Most failed first"),
            ("run", "Longest runs first"),
        ],
    )  # fmt: skip


@access.page
def workers(request: HttpRequest) -> HttpResponse:
    user = people.person(request)
    form = WorkerFilterForm(request.GET)
    form.is_valid()
    shown = {name: form.cleaned_data.get(name) or "" for name in form.fields}
    context = {"viewer": access.viewer(user), "is_operator": reads.is_operator(user), "form": form, "shown": shown}
    return render(request, "jobs/workers.html", context)


@access.page_with_form
@sensitive_variables("made")
def connect(request: HttpRequest) -> HttpResponse:
    """A form for a new worker of the queues of `?queue=`; the answer to the POST has its key, how to start it, and
    whether it has called. Guests read what it takes."""
    user = people.person(request)
    if accounts.is_guest(user):
        is_post = request.method == "POST"
        return accounts_http.for_members(request) if is_post else render(request, "jobs/connect_guest.html")
    initial = {"queues": " ".join(request.GET.getlist("queue")[:20]) or "chat image"}
    form = WorkerForm(request.POST if request.method == "POST" else None, user=user, initial=initial)
    if form.is_bound and form.is_valid() and (made := form.create()) is not None:
        return _shown_once(request, *made)
    context = {"form": form, "queues": fleet.known_queues()[:100]}
    return render(request, "jobs/connect.html", context, status=422 if form.is_bound else 200)


@access.page
def worker(request: HttpRequest, worker_id: int) -> HttpResponse:
    """One worker, live, and what can be done with its key."""
    row = _worker(request, worker_id, fleet.visible_worker)
    context = {
        "row": row,
        "worker": row.worker,
        "may_manage": fleet.may_manage(request.user, row.worker),
        "may_label": reads.runs_farm(request.user),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(row.worker.labels.items())),
    }
    return render(request, "jobs/worker.html", context)


@access.button
def rotate(request: HttpRequest, worker_id: int) -> HttpResponse:
    """Give the worker a new key and show it, this once; the old one is worthless from here on."""
    worker = _worker(request, worker_id).worker
    return _shown_once(request, worker, operations.rotate_key(worker, by=people.person(request)))


@access.action("jobs:worker")
def label(request: HttpRequest, worker_id: int) -> str:
    """Set the labels that win over what the worker announces."""
    worker = _worker(request, worker_id, partial(fleet.manageable_worker, by_staff=True)).worker
    named = labels.read_pairs(words(request.POST.get("labels", "")), field="labels")
    operations.set_labels(worker, named, by=people.person(request))
    return "Its labels are set: jobs that require others do not go to it any more."


def _manageable(request: HttpRequest, worker_id: int) -> Worker:
    return _worker(request, worker_id).worker


_ACTING: Final = partial(access.acting, "jobs:worker", of=_manageable)
revoke = _ACTING(operations.revoke, "Its key is revoked. Its job is lost when the lease ends.")
drain = _ACTING(operations.drain, "It is drained: it finishes what it holds, and is given no more jobs.")
undrain = _ACTING(operations.undrain, "It is given jobs again.")


@access.page
def timeline(request: HttpRequest) -> HttpResponse:
    """Workers as lanes, attempts as bars, over the last minutes (`?minutes=` 5, 15 or 60), live. For operators."""
    if not reads.is_operator(people.person(request)):
        raise PermissionDenied
    wanted = {str(minutes): minutes for minutes in TIMELINE_MINUTES}
    minutes = wanted.get(request.GET.get("minutes", ""), 15)
    context = {"minutes": minutes, "choices": TIMELINE_MINUTES, "legend": _LEGEND}
    return render(request, "jobs/timeline.html", context)


@sensitive_variables("key")
def _shown_once(request: HttpRequest, worker: Worker, key: str) -> HttpResponse:
    served = {*worker.queues, *worker.steals}
    handlers = [name for name in _COMING_ALONG if name in served or "*" in served]
    options = " ".join(f"--handler {handler}" for handler in handlers or ["KIND=MODULE:FUNCTION"])
    farm = request.build_absolute_uri("/").rstrip("/")
    context = {
        "worker": worker,
        "key": key,
        "commands": commands(farm, key=key, options=options),
        "is_own_handler": not handlers,
        "since_ms": int(clock.now().timestamp() * 1000),
    }
    return render(request, "jobs/worker_key.html", context)


def _worker(
    request: HttpRequest, worker_id: int, find: Callable[..., WorkerRow] = fleet.manageable_worker
) -> WorkerRow:
    try:
        return find(worker_id, user=people.person(request))
    except UnknownWorker as error:
        raise Http404(error.message) from None
    except WorkerNotYours as error:
        raise PermissionDenied(error.message) from None


_WHEEL: Final = "jobfarm-0.1.0-py3-none-any.whl"


class Way(NamedTuple):
    """One way to start it: an id for the page, a title, what is needed before, and the text to copy."""

    id: str
    title: str
    needs: str
    text: str


def commands(farm: str, *, key: str, options: str) -> list[Way]:
    """Every way, the shortest first. The key stands in the environment, where process lists do not show it."""
    run = f"-m jobfarm_worker --url {farm} {options}"
    return [
        Way(
            "command", "With pip",
            "In an environment of its own, with Python 3.11 and the farm's wheel: in its source, "
            "pip wheel --no-deps -w dist . makes it.",
            f"pip install '{_WHEEL}[demo,openai]'\nJOBFARM_KEY={key} python {run}",
        ),
        Way(
            "checkout", "From a checkout",
            "In the folder of the farm's source.",
            f"pip install '.[demo,openai]'\nJOBFARM_KEY={key} python {run}",
        ),
        Way(
            "docker", "With Docker",
            "In the folder of the farm's source: its image has the worker too.",
            f"docker build -t jobfarm .\n"
            f"docker run -d --restart unless-stopped -e JOBFARM_KEY={key} --entrypoint python jobfarm {run}",
        ),
        Way(
            "systemd", "With systemd",
            "As /etc/systemd/system/jobfarm-worker.service; then systemctl enable --now jobfarm-worker. "
            "WorkingDirectory is where the environment lies.",
            _UNIT.format(key=key, run=run),
        ),
    ]  # fmt: skip


_UNIT: Final = """[Unit]
Description=A worker of the job farm
After=network-online.target
Wants=network-online.target

[Service]
DynamicUser=yes
WorkingDirectory=/opt/jobfarm-worker
Environment=JOBFARM_KEY={key}
ExecStart=/opt/jobfarm-worker/.venv/bin/python {run}
Restart=always
TimeoutStopSec=30

[Install]
WantedBy=multi-user.target
"""
