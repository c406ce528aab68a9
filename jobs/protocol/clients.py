"""A client's calls and their answers: about jobs, about flows as a whole, about tokens for others."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import BaseModel, Field, create_model, model_validator

from core.refusal import CancelVerdict
from core.values import BIGINT, Body, Moment, Name, Number, Text, Whole, without_empty
from jobs import models
from jobs.domain.files import MOST_INPUTS
from jobs.domain.filters import DESCRIBED
from jobs.domain.flows import LONGEST_NAME, MOST_INTO, Condition
from jobs.domain.labels import MOST_CHOICES, MOST_CONDITIONS
from jobs.domain.records import LONGEST_TAG, MOST_TAGS, OnConflict
from jobs.domain.states import Status
from jobs.protocol.jobs import Job, JobId, JobInList, RequestId
from jobs.queries.flows import Seen
from postgres.statements import Row

MOST_SUBMITTED = 1000
MOST_LISTED = 200
MOST_STEPS: Final = 2_000  # of a flow, in one answer
AfterId = Annotated[Whole, Field(ge=1, le=BIGINT)]
_Tag = Annotated[Text, Field(min_length=1, max_length=LONGEST_TAG)]
_Condition = Text | Number | Annotated[list[Text | Number], Field(max_length=MOST_CHOICES)]
Conditions = Annotated[dict[Text, _Condition], Field(max_length=MOST_CONDITIONS)]


class Debounce(Body):
    """When a job runs that newer ones replace while it waits."""

    quiet: Number = Field(description="Once no further one came for so many seconds.", examples=[10])
    at_most: Number = Field(description="At the latest so many seconds after the first.", examples=[120])


class NewWork(Body):
    kind: Name = Field(examples=["chat"])
    payload: Any = Field(
        description="Any JSON up to 50 MB and 100 levels of arrays and objects. Of more than a megabyte the job has "
        "what is long as `inputs` with `at`, where `payload` has placeholders.",
        examples=[{"prompt": "Why is the sky blue?"}],
    )
    queue: Name | None = Field(
        None, description="The kind's own queue if absent. Another one takes the right to choose queues."
    )
    priority: Annotated[Whole, Field(ge=-100, le=100)] | None = Field(
        None, description="Higher goes first. Above the kind's own, and above 0, it takes the right to raise it."
    )
    run_at: Moment | None = Field(None, description="Not before this moment.", examples=["2030-01-31T12:00:00Z"])
    concurrency_key: Annotated[Text, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="So many jobs with one key run at a time as its kind, or its queue, says. Absent: what the "
        "kind makes of the payload.",
    )
    requires: Conditions | None = Field(
        None,
        description="Conditions on its worker's labels: equal, one of a list, `>=` or `<=` a number. No other worker "
        "gets it.",
        examples=[{"vram": ">=16", "region": ["home", "lab"]}],
    )
    prefers: Conditions | None = Field(
        None, description="The same, of the workers that get it first, for a moment.", examples=[{"loaded": "llama3.2"}]
    )
    tags: Annotated[list[_Tag], Field(max_length=MOST_TAGS)] | None = Field(
        None,
        description="Words that it is found by: letters and digits of any language and `. : / @ + # = _ -`.",
        examples=[["nightly", "tenant:7"]],
    )


class NewJob(NewWork):
    unique_key: Annotated[Text, Field(min_length=1, max_length=200)] | None = Field(
        None, description="One job of yours of the same kind and key lives at a time: see `on_conflict`."
    )
    on_conflict: OnConflict | None = Field(
        None,
        description="While another has the `unique_key`: `refuse` this one, `replace` the other while no worker has "
        "begun it, or run `after` it, in the place of one that does already.",
        examples=[None],
    )
    debounce: Debounce | None = Field(
        None, description="`after`, for one that runs once no further one came for a while.", examples=[None]
    )
    group: Name | None = Field(None, description="Name of a group of yours that may see the job and work on it.")
    files: Annotated[dict[Text, Text], Field(max_length=MOST_INPUTS)] | None = Field(
        None,
        description="Input files: the ids of uploads, by the names that the worker asks for. Yours, or those of a job "
        "that you may see.",
        examples=[None],
    )
    name: Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        None,
        description="What it is called within its flow: others of the same call may be `after` it.",
        examples=[None],
    )
    after: Annotated[list[AfterId | Text], Field(max_length=MOST_INTO)] | None = Field(
        None,
        description="Jobs that it starts after, by id or by the `name` of one of the same call; its worker gets their "
        "results.",
        examples=[None],
    )
    when: Condition | None = Field(
        None,
        description="Those of `after` have to end in `success` (else it is canceled), or just to have `ended`.",
        examples=[None],
    )
    callback_url: Annotated[Text, Field(min_length=1, max_length=2000)] | None = Field(
        None, description="Gets the job's events, signed, if the farm allows its host (OUTBOX_CALLBACK_HOSTS)."
    )
    may_wait: bool = Field(
        default=False,
        alias="wait",
        description="Where a budget has no room for it now: wait for the budget's next window, as with X-Wait: 1.",
    )


class NewPriority(Body):
    priority: Annotated[Whole, Field(ge=-100, le=100)] = Field(
        description="Higher goes first. Above the kind's own, and above 0, it takes the right to raise it."
    )


class NewSignal(Body):
    name: Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME)] = Field(examples=["approved"])
    data: Any = Field(None, description="Any JSON up to 64 kB.", examples=[{"by": "ada"}])
    id: RequestId | None = Field(None, description="Your name for it: the same again for this job is one signal.")


class SentSignal(BaseModel):
    is_new: bool = Field(description="False: one with this id had come before, and this one is nothing.")


class NewJobs(Body):
    """Many jobs to submit at once: all are stored but those that have a twin, or none."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=MOST_SUBMITTED)]


class Upload(BaseModel):
    id: UUID
    name: str = Field(examples=["sound.ogg"])
    size: int = Field(description="Bytes.")
    sha256: str
    expires_at: datetime | None = Field(
        description="When it is deleted, unless a job comes to use it; null while one does: then it stays as long."
    )

    @classmethod
    def of(cls, kept: models.Upload, *, expires_at: datetime | None) -> Self:
        return cls(id=kept.pk, name=kept.name, size=kept.size, sha256=kept.sha256, expires_at=expires_at)


class DeletedUpload(BaseModel):
    id: UUID
    deleted: bool = True


_TYPES: Final[dict[str, Any]] = {"choice": Status, "kinds": Name, "queues": Name}
_FIELDS: Final[dict[str, Any]] = {
    name: (_TYPES.get(described.type, Text) | None, Field(None, description=described.about))
    for name, described in DESCRIBED.items()
    if described.about
}


class Filters(create_model("Described", **_FIELDS)):  # type: ignore[misc]  # those of jobs.domain.filters
    """Which jobs to list. Several filters must all fit; one that is empty is none."""

    _without_empty = model_validator(mode="before")(without_empty)

    retry_of: Annotated[int, Field(ge=1, le=BIGINT)] | None = None
    cursor: Annotated[int, Field(ge=1, le=BIGINT)] | None = Field(
        None, description="`next` of the page before this one."
    )
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 50


class Page(BaseModel):
    jobs: list[JobInList]
    next: int | None = Field(description="Ask for the next page with `cursor=` this; null: there is none.")


class SkippedJob(BaseModel):
    """An entry of a bulk without a job of its own: its twin has not ended, or, in a repeat, it was deleted since."""

    error: str = Field(examples=["not_unique"])
    message: str
    job: int | None = Field(description="The twin's id, or that of the deleted job.")


class Submitted(BaseModel):
    """An answer for each job, in order."""

    jobs: list[Job | SkippedJob]


class Piece(BaseModel):
    seq: int
    text: str


class OutputPage(BaseModel):
    fence: int = Field(description="Of which attempt; 0: nobody had the job yet.")
    chunks: list[Piece]
    next_seq: int = Field(description="What comes next has this number: ask with `after=` one less.")


class Canceled(BaseModel):
    verdict: CancelVerdict
    status: Status = Field(description="The job's status after it; for too_late, how it had ended.")


class Remedy(BaseModel):
    """What would change it. With `method` and `path`: a call that the caller may make."""

    code: str = Field(examples=["run_now"])
    label: str = Field(examples=["Run it now"])
    method: str | None = Field(None, examples=["POST"])
    path: str | None = Field(None, examples=["/api/v1/jobs/7/run_now"])


class Reason(BaseModel):
    """One reason why a job does not run; its numbers stand beside these."""

    model_config = {"extra": "allow"}

    code: str = Field(examples=["not_due"])
    sentence: str
    remedies: list[Remedy] = Field(description="The surest first.")


class Reasons(BaseModel):
    """Why a job does not run, the one that matters most first."""

    reasons: list[Reason]


class Step(BaseModel):
    """One place of a flow, with the job that has it now."""

    id: int
    name: str = Field(description="Empty where it was given none.")
    kind: str
    status: Status
    after: list[int] = Field(description="The jobs that it comes after.")
    depth: int = Field(description="How many jobs come one after another before it.")
    progress: float | None
    canceled_for: int | None
    retry_of: int | None
    claimed_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, place: Row, seen: Seen) -> Self:
        return cls(
            id=place.id, name=place.name, kind=place.kind, status=Status(place.status), after=[*seen.after[place.id]],
            depth=seen.depths[place.id], progress=place.progress,
            canceled_for=place.canceled_for_id, retry_of=place.retry_of_id,
            claimed_at=place.claimed_at, ended_at=place.ended_at,
        )  # fmt: skip


class FlowUsage(BaseModel):
    """What the ended attempts of a flow's jobs used together, those of jobs that were tried again among them."""

    attempts: int
    seconds: float
    tokens_in: int
    tokens_out: int
    cost: float
    is_estimated: bool = Field(description="Whether the tokens of an attempt are estimated from what it wrote.")


class Flow(BaseModel):
    id: int
    created_at: datetime
    counts: Mapping[str, int] = Field(
        description="How many places stand so, of those that you may see.", examples=[{"success": 9_412, "failed": 3}]
    )
    usage: FlowUsage | None = Field(description="Null while no attempt has ended, and where nothing is metered.")
    jobs: list[Step] = Field(description=f"By depth, {MOST_STEPS:,} at most.")


class CanceledFlow(BaseModel):
    canceled: int = Field(description="How many jobs had not ended.")


class NewFlow(Body):
    template: Name = Field(examples=["translate"], description="The name of a flow template.")
    values: dict[Name, Any] = Field(
        default_factory=dict, description="By its placeholders; what is not named has its default.",
        examples=[{"document": "https://example.com/a.txt"}],
    )  # fmt: skip


class RetryFlow(Body):
    from_: JobId | None = Field(
        None, alias="from", description="This ended job and all that came after it; if absent, what failed."
    )


class RetriedFlow(BaseModel):
    jobs: list[int]


LONGEST_VIEW_S: Final = 86_400
USUAL_VIEW_S: Final = 900


class NewViewToken(Body):
    """For one job, or for one tag."""

    job: JobId | None = Field(None, examples=[7])
    tag: Annotated[Text, Field(min_length=1, max_length=LONGEST_TAG)] | None = Field(None, examples=[None])
    expires_in_s: Annotated[Whole, Field(ge=1, le=LONGEST_VIEW_S)] = USUAL_VIEW_S

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.job is None) == (self.tag is None):
            raise ValueError("a job or a tag is wanted, not both")
        return self


class ViewToken(BaseModel):
    """A view token, with the key that is in this answer alone."""

    id: int
    token: str = Field(examples=["jfv_..."])
    expires_at: datetime


class RevokedViewToken(BaseModel):
    """A view token that opens nothing any more."""

    id: int
    revoked: bool = True
