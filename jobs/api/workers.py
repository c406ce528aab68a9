"""What workers call. Each call is one verb of `jobs.protocol.verbs`."""

from typing import Annotated, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Status
from ninja.params import functions as parameters

from core.api import Calls, Sample
from jobs import http, operations
from jobs.domain.leases import Lease
from jobs.models import Worker
from jobs.protocol import answers, verbs
from jobs.protocol import hello as introductions
from jobs.protocol import jobs as protocol
from observing import fields

router = Calls(auth=http.WorkerKey(), tags=["Workers"])
HeldLease = Annotated[str, parameters.Query(..., description="The lease of the job.")]
_RECOGNIZED: Final = http.WorkerKey(recognizes=True)


def _worker(request: HttpRequest) -> Worker:
    worker: Worker = request.auth  # type: ignore[attr-defined]  # set by ninja
    return worker


@router.call("post", "/claim", auth=_RECOGNIZED, answer=answers.Claimed, sample=Sample(body={"limit": 1, "wait": 30}))
def claim(request: HttpRequest, body: verbs.Claim) -> HttpResponse:
    """Claim jobs.

    Take up to `limit` pending jobs. With `wait`, the answer comes as soon as there is a job, or empty after
    that many seconds; so ask again and again, and never pause in between. Without `wait`, a worker that finds nothing
    more than 60 times a minute gets 429 `rate_limited`.

    Each job comes with a `lease`. It is the right to speak for the job: send it with every later call. The first of
    them confirms it, so send a heartbeat on receipt: unconfirmed for `heartbeat_every` seconds, the job goes back, and
    no attempt is counted; again and again, with a delay and for another worker, and from the fifth time in a row as a
    lost attempt. Then it runs out at `lease_expires_at` unless you send a heartbeat (or output) at
    least every `heartbeat_every` seconds; the attempt is lost, and another worker gets the job.

    If the answer does not arrive, send the same call with the same `request_id` again: it is answered with what it
    claimed the first time, as far as those leases still stand.

    409 `lease_lost` from any call means: this job is not yours, drop it. `reason` says why: `canceled`, `ended`
    (`job_status`: how), `timed_out` (it ran too long), `taken_over`, `taken_back` or `unknown`. `traceparent` is the
    trace that the job was submitted in, from the header of that name; null if in none.

    `files`, of a job that has some: name, size, SHA-256 and type of what it was given, to be fetched from
    `inputs/{name}`. One with `at` is JSON that belongs at these places of `payload`, which is too long to come along:
    put it there, those with shorter paths first.

    `drained` true: people have this worker finish what it holds and take nothing more, until they end that. A claim
    with `wait` then waits its time out and brings nothing, unless that ends; give back what you have not begun
    (`unclaim`).
    """
    claimed = verbs.claim(_worker(request), body)
    if not claimed.jobs and not body.wait:
        http.count_empty_claim(_worker(request))
    if len(claimed.jobs) == 1:
        fields.note(job_id=claimed.jobs[0].id)
    interest = verbs.interest(_worker(request), body.queues)
    waits = http.Waits(interest=interest, worker_id=_worker(request).pk, wait_s=body.wait)
    return http.answered(claimed, note=claimed if claimed.jobs else waits)


@router.call("post", "/hello", sample=Sample(body={"host": "gpu-3", "handlers": ["chat"], "concurrency": 2}))
def hello(request: HttpRequest, body: introductions.Hello) -> introductions.Welcome:
    """Say what you are.

    Says what this worker is, for the pages that people look at: nothing rests on it, and every field may be left out,
    the call too. Make it when you start, and again when something changed; the same again costs the farm nothing.
    """
    return introductions.hello(_worker(request), body)


@router.call(
    "post",
    "/jobs/{jobid:job_id}/heartbeat",
    auth=_RECOGNIZED,
    sample=Sample(body={"lease": "$LEASE", "progress": 0.4, "detail": "Painting"}),
)
def heartbeat(request: HttpRequest, job_id: int, body: verbs.Heartbeat) -> answers.Renewed:
    """Say that you are alive, and how far you are.

    Renews the lease; `progress` and `detail` are shown to people and kept until you say something else.
    """
    return verbs.heartbeat(_worker(request), job_id, body)


@router.call(
    "post",
    "/heartbeat",
    auth=_RECOGNIZED,
    sample=Sample(body={"jobs": [{"id": "$JOB", "lease": "$LEASE", "progress": 0.4}]}),
)
def heartbeat_many(request: HttpRequest, body: verbs.Heartbeats) -> answers.RenewedMany:
    """Say that you are alive, of all jobs that you hold.

    The answer has an entry for each, in order: `lease_expires_at`, or `"error": "lease_lost"` with its `reason`.
    """
    return verbs.heartbeat_many(_worker(request), body)


@router.call(
    "post",
    "/jobs/{jobid:job_id}/checkpoint",
    auth=_RECOGNIZED,
    sample=Sample(body={"lease": "$LEASE", "value": {"pages_done": 40}}),
)
def checkpoint(request: HttpRequest, job_id: int, body: verbs.Checkpoint) -> answers.Renewed:
    """Keep how far the job is.

    Keeps any JSON up to 64 kB, in place of the last: however this attempt ends (lost, failed, given back), the next
    claim of the job brings it as `checkpoint`, and its worker goes on from there. Null: nothing is kept. Renews the
    lease as well.
    """
    return verbs.checkpoint(_worker(request), job_id, body)


@router.call(
    "post",
    "/jobs/{jobid:job_id}/submit",
    auth=_RECOGNIZED,
    sample=Sample(body={"lease": "$LEASE", "position": 0, "kind": "chat", "payload": {"part": 1}}),
)
def submit(request: HttpRequest, job_id: int, body: verbs.Submit) -> answers.SubmittedChild:
    """Submit a job for the one that you hold.

    The new job is of the same owner, group, token, trace and flow, and has the rights of that owner. `position` counts
    what the job submits: the same position again, by whichever attempt, submits nothing and is answered with the same
    id, or with 409 `child_differs` where kind or payload are others. Renews the lease as well.

    To wait for such jobs without holding a worker, `finish` with the outcome `suspended`.
    """
    return verbs.submit(_worker(request), job_id, body)


@router.call(
    "post",
    "/jobs/{jobid:job_id}/output",
    auth=_RECOGNIZED,
    sample=Sample(body={"lease": "$LEASE", "seq": 0, "text": "Once upon a time"}),
)
def write_output(request: HttpRequest, job_id: int, body: verbs.Output) -> answers.Written:
    """Append output.

    Appends a piece of text to the job's output. Pieces are numbered from 0 in each attempt. Sending the same
    number twice stores it once, so after a lost answer just send again; a number too far is refused with 409
    `output_gap` and the `next_seq` expected. Renews the lease as well. An attempt, a job, its owner and the farm have
    quotas: what has no room is refused with 413 `quota_reached`, and nothing changes.
    """
    return verbs.write_output(_worker(request), job_id, body)


@router.call("put", "/jobs/{jobid:job_id}/files/{name}", sample=Sample(query="lease=$LEASE", sends="picture.png"))
def put_file(request: HttpRequest, job_id: int, name: str, lease: HeldLease) -> Status[protocol.ResultFile]:
    """Hand in a result file.

    Keeps the request's body as a file of the job, under a plain name (letters, digits, dots, dashes,
    underscores). The same name again replaces it. Renews the lease as well. Without room in the quotas of the attempt,
    the job, its owner or the farm: 413 `quota_reached`.
    """
    http.refuse_unknown_parameters(request, ["lease"])
    held = Lease.parse(lease)
    with http.received(request) as content:
        stored = operations.put_file(_worker(request), job_id, held, name=name, content=content)
    return Status(201, protocol.file(stored))


@router.call(
    "get", "/jobs/{jobid:job_id}/inputs/{name}", sample=Sample(query="lease=$LEASE", keeps="input.ogg", name="audio")
)
def get_input(request: HttpRequest, job_id: int, name: str, lease: HeldLease) -> HttpResponseBase:
    """Fetch an input file.

    A file that the job was given, for whoever holds its lease; renews the lease as well. A download that was cut goes
    on with `Range` (206): compare `sha256` of the claim at its end. It may be a redirect to where files lie (curl:
    `-L`).
    """
    http.refuse_unknown_parameters(request, ["lease"])
    return http.sent(request, operations.read_input(_worker(request), job_id, Lease.parse(lease), name=name))


@router.call(
    "post",
    "/jobs/{jobid:job_id}/finish",
    auth=_RECOGNIZED,
    answer=answers.Ended,
    sample=Sample(body={"lease": "$LEASE", "outcome": "success", "result": 42}),
)
def finish(request: HttpRequest, job_id: int, body: verbs.Finish) -> HttpResponse:
    """Hand in a job, and take the next.

    Ends the attempt. `success` stores `result`. `failed` stores `error`, and the job is retried later, by
    another worker if there is one, until its attempts are used up or `retryable` is false. With `claim_next`
    the next jobs come with the answer. `suspended` ends it as no attempt, with its checkpoint kept: the job is pending,
    and due again once all that it is to `wait` for is there (jobs that it has not submitted: 422 `not_a_child`); its
    next claim brings their results as `after`. The same finish again, since its answer was lost, is answered as the
    first time, with those of the next jobs whose leases still stand and that no call has named.
    """
    return http.answered(verbs.finish(_worker(request), job_id, body))


@router.call("post", "/jobs/{jobid:job_id}/release", sample=Sample(body={"lease": "$LEASE"}))
def release(request: HttpRequest, job_id: int, body: verbs.Release) -> answers.Released:
    """Give a job back.

    Gives the job back: it waits again at once, and this does not count as an attempt. For a worker that shuts
    down. From the fourth time in a row on the job waits a while.
    """
    return verbs.release(_worker(request), job_id, body)


@router.call("post", "/unclaim", sample=Sample(body={"jobs": [{"id": "$JOB", "lease": "$LEASE"}]}))
def unclaim(request: HttpRequest, body: verbs.Unclaim) -> answers.Unclaimed:
    """Give back jobs that were not begun.

    Gives back jobs that were not begun: those whose leases no call has named since they came wait again at once, as if
    they had not been claimed. Others are left alone. For a worker that took several at a time; may be sent again.
    """
    return verbs.unclaim(_worker(request), body)


@router.call(
    "post",
    "/finish",
    auth=_RECOGNIZED,
    answer=answers.EndedMany,
    sample=Sample(body={"finished": [{"id": "$JOB", "lease": "$LEASE", "outcome": "success"}], "claim_next": 1}),
)
def finish_many(request: HttpRequest, body: verbs.FinishMany) -> HttpResponse:
    """Hand in several jobs, and take the next.

    Ends several attempts in one transaction. The answer has an entry for each, in order: its new `status`, or `"error":
    "lease_lost"` with its `reason`. May be repeated as `finish` may. A result that cannot be stored is refused alone:
    `"error": "invalid_json"` or `"too_large"` with why, and its lease holds on.
    """
    return http.answered(verbs.finish_many(_worker(request), body))
