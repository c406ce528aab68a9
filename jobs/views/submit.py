"""The page that submits a job, and its forms: one for what all jobs have in common, on it one for each kind of job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from accounts.http import members_only
from core import people
from core.large_json import Path
from core.pages import FORM, guarded
from core.refusal import Refusal
from core.values import loads, words
from jobs import errors, http, operations
from jobs.domain import files, labels
from jobs.domain.filters import ids_of
from jobs.models import Job, Upload
from jobs.queries import pages
from jobs.views import access
from observing import fields
from postgres import clock
from ratelimits.errors import CountExceedsLimit, RateLimited, RateLimitsError, UnknownLimit

LONGEST_DELAY_MIN = 366 * 24 * 60
LONGEST_PROMPT = 100_000
_ANY_ID = UUID(int=0)  # where names alone are checked


class SubmitForm(forms.Form):
    """What all jobs have in common. The form of a kind adds `kind` and `payload` to the cleaned data (`clean`)."""

    group = forms.ModelChoiceField(
        Group.objects.none(), required=False, empty_label="Nobody else", label="Shared with",
        help_text="Everybody in the group sees the job, and workers of its members may take it.",
    )  # fmt: skip
    delay_min = forms.IntegerField(
        required=False, min_value=0, max_value=LONGEST_DELAY_MIN, label="Start in",
        help_text="Minutes from now; empty means at once.",
    )  # fmt: skip
    unique_key = forms.CharField(
        required=False, max_length=200, label="Unique key", help_text="One job of yours of this kind and key at a time."
    )
    on_conflict = forms.ChoiceField(
        required=False,
        label="While another has the key",
        choices=[
            ("", "Refuse this one"),
            ("replace", "Replace it, if nobody has begun it"),
            ("after", "Replace what waits; run after what was begun"),
        ],
    )
    tags = forms.CharField(
        required=False, max_length=700, help_text="Up to 10, with commas between them: the job is found by them."
    )
    advanced: tuple[str, ...] = ("group", "delay_min", "unique_key", "on_conflict", "tags")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user
        group = self.fields["group"]
        assert isinstance(group, forms.ModelChoiceField)
        group.queryset = user.groups.order_by("name")

    @property
    def has_advanced_errors(self) -> bool:
        """Whether a field that is folded away was refused."""
        return any(name in self.errors for name in self.advanced)

    def submit(self, request: HttpRequest) -> int | None:
        """Submit the job that a valid form describes, or find the one that it was when it was sent before: its id. None
        when it was refused: then the form says why.

        Raises RateLimited: the same form is good a little later.
        """
        new: list[Upload] = []
        try:
            files = self.files_of_job(new)
            [job] = operations.once(
                http.of_form(request, self._user, [upload.sha256 for upload in new]),
                count=lambda: http.count_submitted(request, self._user),
                submit=lambda: [self._submitted(files, new)],
            )
            return job if isinstance(job, int) else None
        except (errors.JobsError, RateLimitsError) as refusal:
            if not isinstance(refusal, errors.JobsError | CountExceedsLimit | UnknownLimit):
                raise
            field = self._field_of(refusal)
            is_at_it = field and isinstance(refusal, errors.InvalidValue)  # whose name stands there
            self.add_error(field, refusal.why if is_at_it else refusal.message)
            return None
        finally:
            for upload in new:  # which no job took; a browser sends them again with the form
                operations.delete_upload(upload.pk, by=self._user)

    def _submitted(self, files: Mapping[str, UUID] | None, new: list[Upload]) -> int:
        values, minutes = self.cleaned_data, self.cleaned_data["delay_min"]
        job = operations.submit(
            values["kind"], values["payload"], by=self._user, owner=self._user, group=values["group"],
            unique_key=values["unique_key"] or None, on_conflict=values["on_conflict"] or None,
            run_at=clock.now() + timedelta(minutes=minutes) if minutes else None, files=files,
            places=self.places_of_job(), requires=values.get("requires"), prefers=values.get("prefers"),
            priority=values.get("priority"), tags=words(values["tags"]),
        )  # fmt: skip
        new.clear()
        return job.pk

    def files_of_job(self, new: list[Upload]) -> Mapping[str, UUID] | None:  # noqa: ARG002  # for who has some
        """The input files of the job by name; those that are stored just now are put into `new`."""
        return None

    def places_of_job(self) -> Mapping[str, Sequence[Path]] | None:
        """Where those of the files belong that are parts of the payload."""
        return None

    def _field_of(self, refusal: errors.JobsError | RateLimitsError) -> str | None:
        if isinstance(refusal, errors.InvalidJson | errors.PayloadTooLarge):
            return "payload" if "payload" in self.fields else "prompt"
        if isinstance(refusal, errors.InvalidValue):
            return refusal.field if refusal.field in self.fields else None
        if isinstance(refusal, errors.PriorityNotAllowed):
            return "priority" if "priority" in self.fields else None
        fields: dict[type[Refusal], str] = {
            errors.NotUnique: "unique_key",
            errors.NotAMember: "group",
            errors.UnknownKind: "kind",
        }
        return fields.get(type(refusal))


class ChatForm(SubmitForm):
    """A question or task for a language model."""

    job_kind = "chat"

    prompt = forms.CharField(
        max_length=LONGEST_PROMPT,
        label="What should it answer?",
        widget=forms.Textarea(attrs={"rows": 5, "placeholder": "Why is the sky blue?"}),
    )
    field_order = ("prompt",)

    def clean(self) -> dict[str, Any]:
        return self.cleaned_data | {"kind": self.job_kind, "payload": {"prompt": self.cleaned_data.get("prompt")}}


class ImageForm(ChatForm):
    job_kind = "image"

    prompt = forms.CharField(
        max_length=LONGEST_PROMPT,
        label="What should it paint?",
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "A lighthouse in fog, at dawn"}),
    )


class UploadsField(forms.FileField):
    """Any number of files, in their order."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=_Uploads(attrs={"class": "drop"}), allow_empty_file=True, **kwargs)

    def clean(self, data: Any, initial: Any = None) -> "list[UploadedFile[bytes]]":
        return [super(UploadsField, self).clean(each, initial) for each in data or ()]


class _Uploads(forms.FileInput):
    allow_multiple_selected = True


class Conditions(forms.CharField):
    """Conditions on the labels of a worker, with commas between them."""

    def __init__(self, *, field: str, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=2000, **kwargs)
        self._field = field

    def clean(self, value: Any) -> dict[str, str]:
        try:
            named = labels.read_pairs(words(str(super().clean(value))), field=self._field)
            return labels.conditions(named, field=self._field)
        except errors.InvalidValue as refusal:
            raise forms.ValidationError(refusal.message) from None


class OtherForm(SubmitForm):
    """A job of any kind, with its payload as JSON."""

    kind_name = forms.ChoiceField(label="Kind")
    payload_text = forms.CharField(
        label="Payload",
        initial="{}",
        help_text="Any JSON, up to a megabyte.",
        widget=forms.Textarea(attrs={"rows": 10, "class": "mono", "spellcheck": "false"}),
    )
    kept = forms.MultipleChoiceField(
        required=False, label="Input files of the copy", widget=forms.CheckboxSelectMultiple
    )
    uploads = UploadsField(
        required=False,
        label="Input files",
        help_text="Choose them, or drop them here; the worker fetches them by name.",
    )
    names = forms.CharField(
        required=False,
        max_length=2000,
        label="Their names",
        help_text="What the worker asks for, one for each file, such as <code>audio</code>; empty: "
        "as the files are named.",
    )
    requires = Conditions(
        field="requires",
        label="Requires",
        help_text="Labels of the worker, such as <code>vram&gt;=16, region=home|lab</code>; no other gets it.",
    )
    prefers = Conditions(
        field="prefers", label="Prefers", help_text="The same, of the workers that get it first, for a moment."
    )
    priority = forms.IntegerField(
        required=False, min_value=-100, max_value=100, label="Priority", help_text="Empty: its kind's."
    )
    advanced = (*SubmitForm.advanced, "priority", "requires", "prefers")
    field_order = ("kind_name", "payload_text", "kept", "uploads", "names")

    def __init__(self, *args: Any, like: Job | None = None, **kwargs: Any) -> None:
        """`like`: the job that an edited copy is of."""
        super().__init__(*args, **kwargs)
        kind, kept = self.fields["kind_name"], self.fields["kept"]
        assert isinstance(kind, forms.ChoiceField)
        assert isinstance(kept, forms.MultipleChoiceField)
        kind.choices = [(name, name) for name in pages.known_kinds()]
        self._like = like
        self._inputs = [file for file in (like and like.inputs) or () if "at" not in file]
        kept.choices = [(file["name"], f"{file['name']} ({file['filename']})") for file in self._inputs]
        if not self._inputs:
            del self.fields["kept"]
        if like is not None:
            self.initial.update(_as_of(like, by=self._user))

    def clean_payload_text(self) -> Any:
        try:
            return loads(self.cleaned_data["payload_text"])
        except ValueError as refusal:
            raise forms.ValidationError(str(refusal).replace("The body", "This")) from None

    def clean(self) -> dict[str, Any]:
        """A job of the kind that was chosen, with the value of the text."""
        values = self.cleaned_data
        self._check_names(values)
        return values | {"kind": values.get("kind_name"), "payload": values.get("payload_text")}

    def files_of_job(self, new: list[Upload]) -> Mapping[str, UUID]:
        """Those of the copy that are kept, and those that came with the form."""
        values = self.cleaned_data
        kept = {
            name: upload for name, upload in files.uploads_of(self._inputs).items() if name in values.get("kept", ())
        }
        if places := self.places_of_job():
            kept |= {name: files.uploads_of((self._like and self._like.inputs) or ())[name] for name in places}
        for name, content in zip(self._names(values), values.get("uploads") or (), strict=True):
            new.append(operations.upload(files.plain_name(content.name), content, owner=self._user))
            kept[name] = new[-1].pk
        return kept

    def places_of_job(self) -> Mapping[str, Sequence[Path]]:
        if self._like is None or not self._like.inputs:
            return {}
        return files.kept_places(self._like.inputs, old=self._like.payload, new=self.cleaned_data["payload"])

    def _names(self, values: Mapping[str, Any]) -> list[str]:
        plain = [files.plain_name(content.name) for content in values.get("uploads") or ()]
        return (values.get("names") or "").replace(",", " ").split() or plain

    def _check_names(self, values: Mapping[str, Any]) -> None:
        names = self._names(values)
        all_names = [*names, *values.get("kept", ())]
        if len(names) != len(values.get("uploads") or ()):
            self.add_error("names", "One name for each file, with spaces between them.")
        elif len(set(all_names)) < len(all_names):
            self.add_error("names", "Two files have the same name: each needs one of its own.")
        try:
            files.references(dict.fromkeys(all_names, _ANY_ID))
        except errors.JobsError as refusal:
            self.add_error("names", refusal.message)

    def _field_of(self, refusal: errors.JobsError | RateLimitsError) -> str | None:
        if isinstance(refusal, errors.QuotaReached) or getattr(refusal, "numbers", {}).get("what") == "file":
            return None if isinstance(refusal, errors.TooManyWaiting) else "uploads"
        if isinstance(refusal, errors.InvalidJson | errors.PayloadTooLarge):
            return "payload_text"
        return "kind_name" if isinstance(refusal, errors.UnknownKind) else super()._field_of(refusal)


def _as_of(job: Job, *, by: User) -> dict[str, Any]:
    """What the form of an edited copy of this job begins with: its priority, too, where `by` may give that."""
    try:
        operations.check_submit(job.kind, owner=by, queue=None, priority=job.priority, by=by)
    except errors.JobsError:
        priority = None
    else:
        priority = job.priority
    return {
        "priority": priority,
        "kind_name": job.kind,
        "payload_text": json.dumps(job.payload, indent=2, ensure_ascii=False),
        "group": job.group_id,
        "tags": ", ".join(job.tags or ()),
        "kept": [file["name"] for file in job.inputs or ()],
        "requires": _written(job.requirement.requires) if job.requirement else "",
        "prefers": _written(labels.chosen(job.requirement.prefers)) if job.requirement else "",
    }


def _written(named: labels.Conditions) -> str:
    return ", ".join(labels.pair(key, condition) for key, condition in sorted(named.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One of the forms to choose from: its word in the address, its title, its button."""

    code: str
    title: str
    button: str
    form: type[SubmitForm]


TABS: Final = (
    Tab(code="chat", title="Chat", button="Ask", form=ChatForm),
    Tab(code="image", title="Image", button="Paint", form=ImageForm),
    Tab(code="other", title="Any kind", button="Submit the job", form=OtherForm),
)


@guarded(members_only, FORM)
def new(request: HttpRequest) -> HttpResponse:
    """A form for the kind of job that `?kind=` says; a good one leads to the job's page."""
    tab = next((tab for tab in TABS if tab.code == request.GET.get("kind")), TABS[0])
    user = people.person(request)
    data = request.POST if request.method == "POST" else None
    try:
        like = _like(request) if tab.form is OtherForm else None
    except errors.ContentNotKept as gone:
        url = reverse("jobs:job", args=[gone.job])
        return access.respond(request, gone.message, level=messages.ERROR, url=url)
    form = tab.form(data, request.FILES or None, user=user, **({"like": like} if like else {}))
    refusal: RateLimited | None = None
    try:
        if form.is_bound and form.is_valid() and (job_id := form.submit(request)) is not None:
            fields.note(job_id=job_id)
            return HttpResponseRedirect(reverse("jobs:job", args=[job_id]))
    except RateLimited as too_many:
        refusal = too_many
        form.add_error(None, too_many.message)
    return _page(request, form, tab, refusal, like)


def _like(request: HttpRequest) -> Job | None:
    """The job that `?like=` names, to be copied. 404 if this person may not see it; raises ContentNotKept, but not for
    a form that is sent: it has what was typed meanwhile."""
    number = request.GET.get("like", "")
    job = access.visible(request, ids_of(number)[0]) if ids_of(number) else None
    if job is not None and request.method != "POST":
        operations.check_content(job)
    return job


def _page(
    request: HttpRequest, form: SubmitForm, tab: Tab, refusal: RateLimited | None, like: Job | None
) -> HttpResponse:
    context = {"form": form, "tab": tab, "tabs": TABS, "like": like}
    status = 429 if refusal else 422 if form.is_bound else 200
    response = render(request, "jobs/new.html", context, status=status)
    for field, value in (refusal.headers if refusal else {}).items():
        response.headers[field] = value
    return response
