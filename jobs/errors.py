"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from collections.abc import Mapping
from typing import Any, ClassVar

from core.refusal import Refusal


class JobsError(Refusal):
    """The request cannot be carried out."""


class LeaseLost(JobsError, code="lease_lost", http_status=409):
    """This lease is not, or is no longer, valid for the job.

    `reason` says which: "canceled", "ended" (`job_status` says how), "timed_out" (it ran longer than its timeout and is
    tried again), "taken_over" (another claim has the job), "taken_back" (the lease ran out, or was given back, and the
    job waits again), or "unknown".
    """

    SENTENCES: ClassVar[dict[str, str]] = {
        "canceled": "Somebody canceled this job.",
        "ended": "This job has ended: it is {job_status}.",
        "timed_out": "This attempt ran longer than its timeout.",
        "taken_over": "This lease is over, and another claim has the job.",
        "taken_back": "This lease is over, and the job waits to be claimed again.",
        "unknown": "This is not a lease of this job.",
    }

    def __init__(self, *, reason: str = "unknown", **numbers: Any) -> None:
        super().__init__(reason=reason, **numbers)

    @property
    def message(self) -> str:
        job_status = str(self.numbers.get("job_status", "")).replace("_", " ")
        return self.SENTENCES[self.numbers["reason"]].format(job_status=job_status)


class OutputGap(JobsError, code="output_gap", http_status=409):
    """Output must be sent in order: the next piece of this attempt is number {next_seq}."""


class InvalidViewToken(JobsError, code="invalid_view_token", http_status=401):
    """This token to look at jobs has expired, was revoked, or never was one."""


class UnknownKind(JobsError, code="unknown_kind", http_status=422):
    """No kind of job is called {kind!r}: declare it in code, or create it with the command `create_kind`."""


class BrokenKind(UnknownKind):
    """The kind {kind} is broken: {why}."""


class UnknownJob(JobsError, code="unknown_job", http_status=422):
    """There is no job {job} to come after, or you may not see it."""


class JobHasEnded(JobsError, code="job_has_ended", http_status=409):
    """The job has ended: it waits for no signal any more."""


class WaitsForSignal(JobsError, code="waits_for_signal", http_status=409):
    """The job waits for the signal {signal!r}: it may start when that has come, or its time has run out."""


class ChildDiffers(JobsError, code="child_differs", http_status=409):
    """At position {position} this job has submitted job {job}, of another kind or with another payload.

    A handler submits the same jobs in the same order again, from its last checkpoint on.
    """


class NotAChild(JobsError, code="not_a_child", http_status=422):
    """Job {job} waits for jobs of which it has not submitted all."""


class UnknownTemplate(JobsError, code="unknown_template", http_status=422):
    """There is no flow template {template!r}."""


class UnknownQueue(JobsError, code="unknown_queue", http_status=422):
    """There is no queue {queue!r}: a queue exists once a kind or a worker names it."""


class NothingToPause(JobsError, code="not_found", http_status=404):
    """There is no such person, queue or concurrency key."""


class NotYoursToPause(JobsError, code="forbidden", http_status=403):
    """Only those who run the farm may pause jobs, and resume them."""


class UnknownWorker(JobsError, code="not_found", http_status=404):
    """There is no such worker, or you may not see it."""


class WorkerNotYours(JobsError, code="forbidden", http_status=403):
    """Only its owner and operators may do that with a worker, or look at its jobs."""


class QueueNotAllowed(JobsError, code="queue_not_allowed", http_status=403):
    """This worker may not take jobs from the queue {queue!r}."""


class InvalidJson(JobsError, code="invalid_json", http_status=422):
    """The {what} cannot be stored: {why}."""


class PayloadTooLarge(JobsError, code="too_large", http_status=413):
    """The {what} has {size} bytes; at most {limit} are allowed."""


class QuotaReached(JobsError, code="quota_reached", http_status=413):
    """What is handed in has no room: `of` says whose quota it is ("attempt", "job", "owner", "farm")."""

    @property
    def resource(self) -> str:
        return "{what}"

    @property
    def message(self) -> str:
        whose = "the whole farm" if self.numbers["of"] == "farm" else "one {of}"
        sentence = f"Quota of {whose}, {self.resource}: {{quota}} allowed, {{used}} used, {{more}} more requested."
        return sentence.format(**self.numbers)


class TooManyWaiting(QuotaReached, http_status=429):
    """No more jobs may wait, of one owner or in all; `retry_after` is in seconds."""

    resource = "jobs waiting"


class TooManyRequirements(QuotaReached, http_status=429):
    """No more different sets of conditions on labels; `retry_after` is in seconds."""

    resource = "different sets of conditions on labels that waiting or running jobs have"


class TooManyOpen(QuotaReached, http_status=429):
    """No more requests of one caller wait in one process; `retry_after` is in seconds."""

    @property
    def resource(self) -> str:
        return f"{'event streams open' if self.numbers['of'] == 'owner' else 'claims that wait'} at one web process"


class InvalidValue(JobsError, code="invalid", http_status=422):
    """{field}: {why}."""


class NotUnique(JobsError, code="not_unique", http_status=409):
    """A job of the same owner and kind with the same unique key has not ended yet."""


class WaitsBehind(JobsError, code="waits_behind", http_status=409):
    """The job waits for job {job}, which has its unique key or comes before it: it may start when that has ended."""


class KeyIsFull(JobsError, code="key_full", http_status=409):
    """Of the concurrency key "{key}" of the kind {kind} at most {most} may live at a time, and {living} do."""


class RowLocked(JobsError, code="unavailable", http_status=503):
    """Another session keeps a row locked that this has to change: send it again. Nothing was changed."""


class SomeLocked(RowLocked, code="some_locked", http_status=409):
    """Another session keeps the row of one of these jobs locked: hand them in one by one. Nothing was changed."""


class IdempotencyKeyReused(JobsError, code="idempotency_key_reused", http_status=422):
    """This Idempotency-Key came with another request within the last 24 hours: each request needs one of its own."""


class IdempotencyKeyInUse(JobsError, code="idempotency_key_in_use", http_status=409):
    """The first request with this Idempotency-Key is still being carried out: send it again in {retry_after} s."""


class JobDeleted(JobsError, code="job_deleted", http_status=410):
    """What this request submitted was job {job}, which has ended and was deleted since."""


class NotFound(JobsError, code="not_found", http_status=404):
    """There is no such job."""


class AlreadyRetried(JobsError, code="already_retried", http_status=409):
    """Job {job} retries it already; retry that one, once it has ended."""


class NotEnded(JobsError, code="not_ended", http_status=409):
    """The job has not ended yet, so it cannot be retried as a new one."""


class ContentNotKept(JobsError, code="content_not_kept", http_status=410):
    """What job {job} was given and gave is not kept as it was: it was deleted, or redacted, after its end."""


class StepNotEnded(NotEnded):
    """Job {job}, which comes after that one, has not ended: cancel it or wait for its end, then retry from there."""


class NotWaiting(JobsError, code="not_waiting", http_status=409):
    """The job is no longer pending: it is in progress, has ended, or expired before it was begun."""


class WaitsForLimit(JobsError, code="waits_for_limit", http_status=409):
    """The job is waiting for the limit {limit}: it may start when its tokens are available."""


class WaitsForBudget(JobsError, code="waits_for_budget", http_status=409):
    """The job is waiting for {budget}: it may start when that has room."""


class NotAllowed(JobsError, code="forbidden", http_status=403):
    """You may look at this job, but only its owner or an operator may do that."""


class OperatorsOnly(JobsError, code="forbidden", http_status=403):
    """These numbers cover everybody's jobs, so only operators may see them."""


class PriorityNotAllowed(JobsError, code="forbidden", http_status=403):
    """The priority {priority} requires the permission {right}: without it, {what} may have {highest} at most."""


class QueueChoiceNotAllowed(JobsError, code="forbidden", http_status=403):
    """The queue {queue} requires the permission {right}: without it, {what} goes into {allowed}."""


class NotAMember(JobsError, code="not_a_member", http_status=422):
    """You are not a member of this group, so your jobs cannot be shared with it."""


class InvalidKey(JobsError, code="unauthorized", http_status=401):
    """This worker key is not known, or was revoked."""


class InvalidName(JobsError, code="invalid_name", http_status=422):
    """{name!r} cannot name a file: letters, digits, dots, dashes and underscores, at most 100, no leading dot."""


class NoSuchFile(JobsError, code="not_found", http_status=404):
    """There is no such file."""


class UnknownFile(JobsError, code="unknown_file", http_status=422):
    """There is no upload {file!r}, or it is not yours: upload the file first, and name its id."""


class FileInUse(JobsError, code="file_in_use", http_status=409):
    """A job that has not ended uses this file: cancel it first, or wait for its end."""


class NoSuchRange(JobsError, code="no_such_range", http_status=416):
    """The file has {size} bytes: what is asked for lies behind its end."""

    @property
    def headers(self) -> Mapping[str, str]:
        """With the size, as RFC 9110 (15.5.17) has it."""
        return {"Content-Range": f"bytes */{self.numbers['size']}"}


class LinkRanOut(JobsError, code="link_ran_out", http_status=410):
    """This link has expired: it was valid for a few minutes. Whoever sent it can create another."""
